//! What the zygote does for the supervisors it has forked.
//!
//! The zygote is a child subreaper: what a supervisor leaves behind when it dies is given to the zygote by the kernel, whatever
//! the process has done to its session, group, environment or limits. So each child of the zygote that is not a supervisor is
//! what a dead supervisor left, and is ended. That is why a zygote outlives its engine for as long as it has children.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

use crate::process_tree::walk::children;
use crate::process_tree::{Ending, Scope, Step};

/// The supervisors of a zygote.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    supervisors: HashSet<Pid>,
    /// What dead supervisors left is being ended, and when to go on with that.
    ending: Option<(Ending, Instant)>,
}

impl Keeper {
    /// A supervisor was forked.
    pub(super) fn forked(&mut self, pid: Pid) {
        self.supervisors.insert(pid);
    }

    /// Whether there is nothing to look after.
    pub(super) fn is_idle(&self) -> bool {
        self.supervisors.is_empty() && self.ending.is_none()
    }

    /// When [`step`](Self::step) is to be called, if no child changes before.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.ending.as_ref().map(|(_, at)| *at)
    }

    /// Reaps children that have ended, and makes a supervisor go on that was stopped: a command may do that to its own,
    /// which would then keep no deadline and answer nothing. `signals` tells of changes of children.
    pub(super) fn reap(&mut self, signals: &BorrowedFd<'_>) {
        let mut discarded = [0; 128];
        while rustix::io::read(signals, &mut discarded).is_ok() {}
        let mut may_have_left = false;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if status.stopped() {
                // Our child, not reaped, so the number is its own.
                if self.supervisors.contains(&pid) {
                    let _ = kill_process(pid, Signal::CONT);
                }
            } else {
                // One that goes by itself has ended what it had, and there may be thousands of others to look at.
                let went = self.supervisors.remove(&pid) && status.exit_status() == Some(0);
                may_have_left |= !went;
            }
        }
        // The kernel has given away its children before a process can be reaped.
        if may_have_left
            && self.ending.is_none()
            && children().iter().any(|pid| !self.supervisors.contains(pid))
        {
            self.ending =
                Some((Ending::new(Scope::Orphans, Signal::KILL, Duration::ZERO, None), Instant::now()));
        }
    }

    /// Goes on ending what dead supervisors left.
    pub(super) fn step(&mut self, now: Instant) {
        let Some((ending, _)) = &mut self.ending else { return };
        ending.spare(self.supervisors.clone());
        match ending.step(now) {
            Step::Wait { until } => self.ending = self.ending.take().map(|(ending, _)| (ending, until)),
            // What survived SIGKILL, or may not be signalled, is looked at again when a child ends.
            Step::Done(_) => self.ending = None,
        }
    }
}
