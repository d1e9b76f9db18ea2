//! The layout of a state directory, shared by the engine and its supervisors.
//!
//! - [`Folders`]: its directories, held open.
//! - [`socket_name`], [`socket_address`]: the socket of a supervisor.
//! - [`SnapshotFile`]: the saved state of a session.
//! - [`ScreenFile`]: the saved screens of a terminal.
//! - [`log_failure`]: the log of failed supervisors.

mod failure_log;
mod screen_file;
mod slot_files;
mod snapshot_file;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::net::SocketAddrUnix;

pub(crate) use failure_log::{FAILURES, count_failures, log_failure};
pub use screen_file::MAX_SAVED_SCREEN_BYTES;
pub(crate) use screen_file::{ScreenFile, ScreenState};
pub(crate) use snapshot_file::SnapshotFile;

use crate::trusted::{TrustError, TrustedDir};

/// The names of the directories.
pub(crate) const JOURNALS: &str = "journals";
pub(crate) const SUPERVISORS: &str = "supervisors";
pub(crate) const SNAPSHOTS: &str = "snapshots";
pub(crate) const SCREENS: &str = "screens";

/// The directories of a state directory, held open so that no path is too long or can be replaced.
#[derive(Debug)]
pub(crate) struct Folders {
    pub(crate) journals: Arc<OwnedFd>,
    pub(crate) supervisors: OwnedFd,
    pub(crate) snapshots: OwnedFd,
    pub(crate) screens: OwnedFd,
}

impl Folders {
    /// Opens them, and creates missing ones. They must not belong to another user.
    pub(crate) fn open(state_dir: &TrustedDir) -> Result<Self, TrustError> {
        Ok(Self {
            journals: Arc::new(state_dir.folder(JOURNALS)?.into()),
            supervisors: state_dir.folder(SUPERVISORS)?.into(),
            snapshots: state_dir.folder(SNAPSHOTS)?.into(),
            screens: state_dir.folder(SCREENS)?.into(),
        })
    }
}

/// The name of a supervisor's socket in its directory. The argument is the supervisor's nonce.
pub(crate) fn socket_name(nonce: u64) -> String {
    format!("{nonce:012x}")
}

/// The address of a supervisor's socket: through the open directory, so that the length of the state directory's path
/// does not matter (an address has at most 108 bytes).
pub(crate) fn socket_address(folder: &OwnedFd, nonce: u64) -> io::Result<SocketAddrUnix> {
    let path = format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), socket_name(nonce));
    Ok(SocketAddrUnix::new(path)?)
}
