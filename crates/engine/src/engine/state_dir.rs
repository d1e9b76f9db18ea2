//! The state directory: its lock, its key, and whether its content is from this boot.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FlockOperation, IFlags, Mode, OFlags, flock, ioctl_getflags, ioctl_setflags, mkdirat, renameat,
    statat, unlinkat,
};

use rustix::process::Pid;

use super::error::OpenError;
use crate::layout::{Folders, JOURNALS, SNAPSHOTS, SUPERVISORS};
use crate::procfs::Stat;
use crate::protocol::Bytes;
use crate::trusted::TrustedDir;

/// The lock file: one engine at a time uses the directory.
const LOCK: &str = "lock";

/// Maximum size of the identification of an instance, in bytes.
const MAX_INSTANCE: u64 = 4096;
/// The file with the key, and the length of the key.
const KEY: &str = "key";
const KEY_BYTES: usize = 32;

/// A state directory that is locked by this engine.
#[derive(Debug)]
pub(super) struct StateDir {
    pub(super) path: PathBuf,
    pub(super) dir: TrustedDir,
    pub(super) folders: Arc<Folders>,
    /// The key that an engine must present to a supervisor.
    pub(super) key: Option<Bytes>,
    /// Whether process ids in it are of this boot and this pid namespace.
    pub(super) same_instance: bool,
    /// Held for the lifetime of the engine.
    _lock: File,
}

impl StateDir {
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let fail = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::StateDir { doing, path, source }
        };
        let dir = TrustedDir::open_private(path)?;
        let path = dir.path().to_owned();
        let lock_path = path.join(LOCK);
        let mut lock = dir.open_file(LOCK, OFlags::RDWR | OFlags::CREATE)?;
        match take_lock(&lock) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(OpenError::InUse { path }),
            Err(e) => return Err(fail("lock", &lock_path)(e.into())),
        }
        make_journals(&dir);
        for name in [JOURNALS, SUPERVISORS, SNAPSHOTS] {
            dir.folder(name)?.check_entries()?;
        }
        let same_instance = check_instance(&mut lock).map_err(fail("update", &lock_path))?;
        let folders = Folders::open(&dir)?;
        let key_path = path.join(KEY);
        let mut file = dir.open_file(KEY, OFlags::RDWR | OFlags::CREATE)?;
        let key = read_key(&mut file).map_err(fail("read", &key_path))?;
        Ok(Self { path, dir, key, folders: Arc::new(folders), same_instance, _lock: lock })
    }
}

/// Reads the key from its file, or creates one. The key never changes, because live supervisors know it. A full disk
/// must not prevent an engine from opening, since the engine can free space. Supervisors then accept every connection
/// of their user, until an engine can store a key.
fn read_key(file: &mut File) -> io::Result<Option<Bytes>> {
    let mut key = Vec::new();
    (&mut *file).take(KEY_BYTES as u64).read_to_end(&mut key)?;
    if key.len() < KEY_BYTES {
        key = crate::id::random::<KEY_BYTES>().to_vec();
        file.rewind()?;
        match file.write_all(&key) {
            Ok(()) => {}
            Err(e) if matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                file.set_len(0)?;
                return Ok(None);
            }
            Err(e) => return Err(e),
        }
    }
    Ok(Some(Bytes(key)))
}

/// Creates the directory of journals, if it does not exist, in a separate part of the disk.
///
/// Ext4 looks for the inode of a new file near its directory, and avoids inodes deleted in the last minutes. Next to
/// files that a compiler created and removed, a new journal costs thirty times as much. In a directory with the
/// `TOPDIR` flag, ext4 places new directories by their name; so this one is created under a random name. Other file
/// systems lack the flag and do not need it. If anything fails here, the directory is created normally.
fn make_journals(dir: &TrustedDir) {
    let mark = |flags| ioctl_setflags(dir, flags | IFlags::TOPDIR);
    let is_there = statat(dir, JOURNALS, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    if is_there || ioctl_getflags(dir).and_then(mark).is_err() {
        return;
    }
    let random = format!("{JOURNALS}.{:016x}", u64::from_ne_bytes(crate::id::random()));
    if mkdirat(dir, &random, Mode::RWXU).is_ok() && renameat(dir, &random, dir, JOURNALS).is_err() {
        let _ = unlinkat(dir, &random, AtFlags::REMOVEDIR);
    }
}

/// Takes the lock. A child that an engine had just forked when it was killed holds the lock until it executes another
/// program. So a refusal is final only if it is repeated.
fn take_lock(lock: &File) -> rustix::io::Result<()> {
    const TRIES: u32 = 20;
    let mut result = flock(lock, FlockOperation::NonBlockingLockExclusive);
    for _ in 1..TRIES {
        if result != Err(rustix::io::Errno::WOULDBLOCK) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        result = flock(lock, FlockOperation::NonBlockingLockExclusive);
    }
    result
}

/// Compares the instance in the lock file with this one, and writes this one.
fn check_instance(lock: &mut File) -> io::Result<bool> {
    // An instance that cannot be read counts as another one.
    let mut before = Vec::new();
    (&mut *lock).take(MAX_INSTANCE).read_to_end(&mut before)?;
    let now = instance();
    if before == now.as_bytes() {
        return Ok(true);
    }
    lock.rewind()?;
    // In place, because on a full disk there may be no block for it after a truncation.
    lock.write_all(now.as_bytes())?;
    lock.set_len(now.len() as u64)?;
    Ok(false)
}

/// Identifies this boot and this pid namespace. A namespace number may be reused after a container restart, so the
/// start time of its first process is included.
fn instance() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::metadata("/proc/self/ns/pid").map(|m| m.ino()).unwrap_or(0);
    let started = Stat::of(Pid::INIT).map_or_else(|| "?".to_owned(), |stat| stat.start.to_string());
    format!("boot {}\npid namespace {namespace}\nstarted {started}\n", boot.trim())
}
