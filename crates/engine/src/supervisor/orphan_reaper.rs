//! Ends the orphaned processes of dead supervisors, in the zygote.
//!
//! The zygote is a child subreaper: the kernel gives it the processes of a dead supervisor, whatever they have done
//! to their session, group, environment or limits. So each child of the zygote that is not a supervisor is such an
//! orphan, and is ended. Therefore a zygote outlives its engine as long as it has children.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

use crate::process_tree::walk::children;
use crate::process_tree::{Ending, Scope, Step};

/// The supervisors of a zygote.
#[derive(Debug, Default)]
pub(super) struct OrphanReaper {
    supervisors: HashSet<Pid>,
    /// The orphans that are being ended, and the time of the next step.
    ending: Option<(Ending, Instant)>,
}

impl OrphanReaper {
    /// A supervisor was forked.
    pub(super) fn forked(&mut self, pid: Pid) {
        self.supervisors.insert(pid);
    }

    /// Whether it has no children.
    pub(super) fn is_idle(&self) -> bool {
        self.supervisors.is_empty() && self.ending.is_none()
    }

    /// The time for the next [`step`](Self::step), if no child changes before.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.ending.as_ref().map(|(_, at)| *at)
    }

    /// Reaps children, and continues a stopped supervisor: a command may stop its own, which would then neither meet
    /// deadlines nor reply. `signals` reports changes of children.
    pub(super) fn reap(&mut self, signals: &BorrowedFd<'_>) {
        let mut discarded = [0; 128];
        while rustix::io::read(signals, &mut discarded).is_ok() {}
        let mut may_have_left = false;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if status.stopped() {
                // It is our child and not reaped, so the process id is valid.
                if self.supervisors.contains(&pid) {
                    let _ = kill_process(pid, Signal::CONT);
                }
            } else {
                // A supervisor that exits normally has ended its processes, and a scan may have to look at thousands
                // of others.
                let went = self.supervisors.remove(&pid) && status.exit_status() == Some(0);
                may_have_left |= !went;
            }
        }
        // The kernel reassigns the children of a process before it can be reaped.
        if may_have_left
            && self.ending.is_none()
            && children().iter().any(|pid| !self.supervisors.contains(pid))
        {
            self.ending =
                Some((Ending::new(Scope::Orphans, Signal::KILL, Duration::ZERO, None), Instant::now()));
        }
    }

    /// Continues to end orphans.
    pub(super) fn step(&mut self, now: Instant) {
        let Some((ending, _)) = &mut self.ending else { return };
        ending.spare(self.supervisors.clone());
        match ending.step(now) {
            Step::Wait { until } => self.ending = self.ending.take().map(|(ending, _)| (ending, until)),
            // Processes that survived SIGKILL, or cannot be signalled, are handled again when a child ends.
            Step::Done(_) => self.ending = None,
        }
    }
}
