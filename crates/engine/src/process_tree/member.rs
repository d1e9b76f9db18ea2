//! A process found by an ending, the actions on it, and the result of a scan.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal};

use crate::procfs::StartTime;

/// A process in scope.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) pid: Pid,
    pub(super) start: StartTime,
    /// Its command line when it was first seen.
    pub(super) command: String,
    pub(super) fd: Option<OwnedFd>,
    /// Whether its cgroup was killed while it was in it.
    pub(super) doomed: bool,
    /// The last signal that was delivered to it.
    pub(super) sent: Option<Signal>,
    /// Whether it was alive at the last scan.
    pub(super) alive: bool,
    /// Whether a signal was refused.
    pub(super) refused: bool,
}

/// The action of a scan on the processes it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanAction {
    /// None.
    Look,
    /// Sends them a signal once, and continues stopped ones.
    Ask(Signal),
    /// Prevents them from forking. Has no effect on root's processes.
    Starve,
    /// Kills them.
    Kill,
}

/// Result of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ScanResult {
    /// Number of live members.
    pub(super) alive: usize,
    /// Number of members that were not known before.
    pub(super) new: usize,
    /// Whether a process may have been missed.
    pub(super) incomplete: bool,
}

impl ScanResult {
    /// Whether there is certainly no process.
    pub(super) fn is_empty(self) -> bool {
        self.alive == 0 && !self.incomplete
    }
}
