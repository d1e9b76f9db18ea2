//! One process that an ending has met, what may be done to it, and what a look at all of them finds.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal};

use crate::procfs::StartTime;

/// One process that was found in scope.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) pid: Pid,
    pub(super) start: StartTime,
    /// As it was when the process was first seen.
    pub(super) command: String,
    pub(super) fd: Option<OwnedFd>,
    /// Whether its cgroup was killed while it was there.
    pub(super) doomed: bool,
    /// The last signal that reached it.
    pub(super) sent: Option<Signal>,
    /// Whether it was there at the last look.
    pub(super) alive: bool,
    /// Whether a signal was refused.
    pub(super) refused: bool,
}

/// What a look does to the members it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Nothing.
    Look,
    /// Sends them a signal once, and makes stopped ones go on.
    Ask(Signal),
    /// Forbids them to fork. Without effect on root's processes.
    Starve,
    /// Kills them.
    Kill,
}

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Found {
    /// Members that are alive (or were, when they were looked at).
    pub(super) alive: usize,
    /// How many of them were not known before.
    pub(super) new: usize,
    /// Whether somebody may have been missed.
    pub(super) incomplete: bool,
}

impl Found {
    /// Whether there is certainly nobody.
    pub(super) fn is_empty(self) -> bool {
        self.alive == 0 && !self.incomplete
    }
}
