//! The layout of a state directory: what the engine and its supervisors both know of it.
//!
//! - [`Folders`]: its folders, held open.
//! - [`socket_name`], [`socket_address`]: the socket of a supervisor.
//! - [`SnapshotFile`]: the saved state of a session.

mod snapshot_file;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::net::SocketAddrUnix;

pub(crate) use snapshot_file::SnapshotFile;

/// The names of the folders.
pub(crate) const JOURNALS: &str = "journals";
pub(crate) const SUPERVISORS: &str = "supervisors";
pub(crate) const SNAPSHOTS: &str = "snapshots";

/// The folders of a state directory, held open so that no path is ever too long or moved away.
#[derive(Debug)]
pub(crate) struct Folders {
    pub(crate) journals: Arc<OwnedFd>,
    pub(crate) supervisors: OwnedFd,
    pub(crate) snapshots: OwnedFd,
}

impl Folders {
    pub(crate) fn open(state_dir: &Path) -> io::Result<Self> {
        let folder = |name: &str| {
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
            openat(CWD, state_dir.join(name), flags, Mode::empty())
        };
        Ok(Self {
            journals: Arc::new(folder(JOURNALS)?),
            supervisors: folder(SUPERVISORS)?,
            snapshots: folder(SNAPSHOTS)?,
        })
    }
}

/// The name of a supervisor's socket in its folder. The argument is the supervisor's nonce.
pub(crate) fn socket_name(nonce: u64) -> String {
    format!("{nonce:012x}")
}

/// The address of a supervisor's socket: through the open folder, so that the length of the state
/// directory's path does not matter (an address holds 108 bytes).
pub(crate) fn socket_address(folder: &OwnedFd, nonce: u64) -> io::Result<SocketAddrUnix> {
    let path = format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), socket_name(nonce));
    Ok(SocketAddrUnix::new(path)?)
}
