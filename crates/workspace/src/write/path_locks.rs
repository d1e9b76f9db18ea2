//! [`PathLocks`]: operations of this process on one path, one after the other.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of locks. Two paths may share one.
const LOCKS: usize = 64;

/// Locks for paths. A thread must not hold two of one set.
#[derive(Debug)]
pub(crate) struct PathLocks([Mutex<()>; LOCKS]);

impl PathLocks {
    pub(crate) const fn new() -> Self {
        Self([const { Mutex::new(()) }; LOCKS])
    }

    /// Waits for operations on the same path. It must have no symbolic links.
    pub(crate) fn lock(&self, path: &Path) -> MutexGuard<'_, ()> {
        let bytes = path.as_os_str().as_bytes();
        let hash =
            bytes.iter().fold(7_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add((*byte).into()));
        self.0[hash % LOCKS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
