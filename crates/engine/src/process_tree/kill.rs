//! [`Ending`]: ends everything in a [`Scope`], step by step, and reports the result.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpriority_process, setpriority_process};

use super::cgroup::{Cgroup, Directory};
use super::member::{ScanAction, ScanResult};
use super::members::Members;
use super::scope::Scope;
use crate::end::KillReceipt;
use crate::procfs::StartTime;

/// Time after SIGKILL at which remaining processes are given up: they are stuck in the kernel.
pub(crate) const FORCE_LIMIT: Duration = Duration::from_secs(10);
/// Time to wait for processes that cannot be signalled and are the only ones left; they may end because of the
/// others.
const REFUSED_WAIT: Duration = Duration::from_millis(500);
/// Maximum duration of a step, so that the caller's loop is not blocked.
const STEP_BUDGET: Duration = Duration::from_millis(3);
/// Interval between scans for processes that a process out of scope may have started.
const OPEN_INTERVAL: Duration = Duration::from_millis(2);
/// Number of rounds of killing with new processes after which forking is prevented.
const STARVE_AFTER: u32 = 16;
/// Number of killed processes for which it waits before the next scan.
const MANY: usize = 64;
/// The priority while killing: processes that fork quickly must not get the processor.
const URGENT: i32 = -19;

/// What an ending needs next.
#[derive(Debug)]
pub(crate) enum Step {
    /// A call when a descriptor of [`Ending::poll_fds`] is readable, or at this time.
    Wait {
        /// The latest time.
        until: Instant,
    },
    /// Nothing more: this is the result. It must not be called again.
    Done(KillReceipt),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The signal was sent; processes have time to end.
    Asking { until: Option<Instant> },
    /// SIGKILL to all processes, until none is left.
    Forcing { since: Instant },
}

/// Ends every process in a scope: first with the requested signal, after the grace period with SIGKILL, repeated
/// until none is left. It never blocks: the caller's loop polls, reaps, and calls [`step`](Self::step).
#[derive(Debug)]
pub(crate) struct Ending {
    members: Members,
    signal: Signal,
    grace: Duration,
    cgroup: Option<Arc<Directory>>,
    phase: Phase,
    /// Time of the next full scan without a known end.
    next_look: Option<Instant>,
    interval: Duration,
    /// Number of rounds of killing that found new processes.
    rounds: u32,
    /// Whether a process out of scope may still start some.
    is_open: bool,
    /// Whether shells with job control are hung up when no other process is left.
    hangs_up: bool,
}

impl Ending {
    /// An ending that begins with the first [`step`](Self::step). Without a grace period, or with SIGKILL, it kills
    /// at once. A cgroup must contain only processes in scope, apart from the shell and other commands of the same
    /// session.
    pub(crate) fn new(scope: Scope, signal: Signal, grace: Duration, cgroup: Option<&Cgroup>) -> Self {
        Self {
            members: Members::new(scope),
            signal,
            grace,
            cgroup: cgroup.and_then(Cgroup::kill_directory),
            phase: Phase::Asking { until: None },
            next_look: None,
            interval: Duration::ZERO,
            rounds: 0,
            is_open: false,
            hangs_up: false,
        }
    }

    /// Also sends SIGHUP to shells with job control as soon as no other process is left: they ignore SIGTERM. Other
    /// processes get their whole grace period first, because a shell that is hung up hangs up its jobs.
    pub(crate) fn hang_up_shells(mut self) -> Self {
        self.hangs_up = true;
        self
    }

    /// Sets whether a process out of scope (a session's shell) may still start processes in scope. The ending is not
    /// complete before.
    pub(crate) fn set_open(&mut self, is_open: bool) {
        self.is_open = is_open;
    }

    /// Sets the shell of the session, which may have another one than at the beginning: it is in no command's scope.
    pub(crate) fn set_shell(&mut self, shell: Pid) {
        self.members.scope_mut().set_shell(shell);
    }

    /// The command has ended by this time: later processes without a tag belong to others, unless their parents are
    /// members.
    pub(crate) fn end_by(&mut self, time: StartTime) {
        self.members.scope_mut().end_by(time);
    }

    /// Whether a process was found in scope, and is alive.
    pub(crate) fn holds(&self, pid: Pid) -> bool {
        self.members.is_living_member(pid)
    }

    /// Sets processes that are excluded, with everything below them.
    pub(crate) fn spare(&mut self, spared: HashSet<Pid>) {
        self.members.spare(spared);
    }

    /// The descriptors that become readable when [`step`](Self::step) should be called before its time. At most one:
    /// with hundreds of processes, a wake-up for each would cost more than ending them.
    pub(crate) fn poll_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.members.watched().into_iter().collect()
    }

    /// Does what can be done now. Children of this process must be reaped between steps.
    pub(crate) fn step(&mut self, now: Instant) -> Step {
        if let Phase::Asking { until } = self.phase {
            let at_once = self.grace.is_zero() || self.signal == Signal::KILL;
            let until = until.unwrap_or(now + self.grace);
            if at_once || now >= until {
                self.phase = Phase::Forcing { since: now };
                self.next_look = None;
                self.interval = Duration::ZERO;
            } else {
                self.phase = Phase::Asking { until: Some(until) };
            }
        }
        // While one of the known processes lives, a full scan can wait.
        if let Some(next) = self.next_look
            && now < next
            && self.members.first_alive().is_some()
        {
            return Step::Wait { until: next };
        }
        match self.phase {
            Phase::Asking { until } => self.ask(now, until.unwrap_or(now)),
            Phase::Forcing { since } => self.kill(since),
        }
    }

    fn done(&mut self) -> Step {
        Step::Done(self.members.receipt())
    }

    /// No process is left.
    fn none_left(&mut self, now: Instant) -> Step {
        if self.is_open {
            self.next_look = None;
            return Step::Wait { until: now + OPEN_INTERVAL };
        }
        self.done()
    }

    /// Waits for the known processes to end, and scans for new ones at growing intervals.
    fn wait(&mut self, now: Instant, first: Duration, longest: Duration, limit: Instant) -> Step {
        self.interval = (self.interval * 2).clamp(first, longest);
        let until = (now + self.interval).min(limit);
        self.next_look = Some(until);
        Step::Wait { until }
    }

    fn ask(&mut self, now: Instant, limit: Instant) -> Step {
        let act = ScanAction::Ask(self.signal);
        // Processes forked during the first scan have not been signalled yet.
        let mut found = self.members.look(act);
        // Processes started from here on may belong to a signal handler. Orphans of a process that died of the signal
        // are signalled.
        self.members.set_all_asked();
        if found.alive == 0 || found.new > 0 {
            found = self.members.look(act);
        }
        if found.is_empty() {
            return self.none_left(now);
        }
        // Not at once: a shell that is handling the first signal may miss the second.
        if self.hangs_up && self.next_look.is_some() && !found.incomplete {
            self.members.hang_up_shells();
        }
        self.wait(now, Duration::from_millis(10), Duration::from_millis(100), limit)
    }

    fn kill(&mut self, since: Instant) -> Step {
        let begun = Instant::now();
        let mut empty = 0;
        let _urgent = RaisedPriority::begin();
        loop {
            let found = self.kill_round();
            let now = Instant::now();
            if found.is_empty() {
                empty += 1;
                if empty == 2 {
                    return self.none_left(now);
                }
                continue;
            }
            empty = 0;
            self.rounds += u32::from(found.new > 0 || found.incomplete);
            if self.is_hopeless(now, since) {
                return self.done();
            }
            let limit = since + FORCE_LIMIT;
            let longest = Duration::from_millis(50);
            if found.new > MANY || found.new == 0 && !found.incomplete {
                return self.wait(now, Duration::from_millis(1), longest, limit);
            }
            if now >= begun + STEP_BUDGET {
                return self.wait(now, Duration::ZERO, Duration::ZERO, limit);
            }
        }
    }

    fn is_hopeless(&self, now: Instant, since: Instant) -> bool {
        let only_refused = || self.members.iter().filter(|member| member.alive).all(|member| member.refused);
        now >= since + FORCE_LIMIT || now >= since + REFUSED_WAIT && only_refused()
    }

    /// Kills all processes, at once if there is a cgroup for it.
    fn kill_round(&mut self) -> ScanResult {
        match self.cgroup.clone() {
            Some(cgroup) if self.members.scope() == Scope::Tree && cgroup.has_kill_file() => {
                // The command lines, while they exist.
                let found = self.members.look(ScanAction::Look);
                if !self.members.any_unharmed() && !found.incomplete {
                    // Killed, but still alive: perhaps no longer in the cgroup.
                    return if found.alive > 0 { self.members.look(ScanAction::Kill) } else { found };
                }
                if !cgroup.holds_me() && cgroup.kill_all().is_ok() {
                    self.members.mark_killed();
                    // All new processes are killed as well: time to wait.
                    return ScanResult { new: 0, incomplete: false, alive: found.alive.max(1) };
                }
                self.members.look(ScanAction::Kill)
            }
            // Freezing takes longer than killing, and helps only against forking.
            Some(cgroup) if self.rounds > 1 && !cgroup.holds_me() && cgroup.freeze().is_ok() => {
                let found = self.members.look(ScanAction::Kill);
                cgroup.thaw();
                found
            }
            Some(cgroup) => {
                let found = self.members.look(ScanAction::Kill);
                if found.alive > 0 && found.new == 0 {
                    // The command may have frozen itself, and frozen processes (v1) do not die.
                    cgroup.thaw();
                }
                found
            }
            None => {
                if self.rounds > STARVE_AFTER {
                    self.members.look(ScanAction::Starve);
                }
                self.members.look(ScanAction::Kill)
            }
        }
    }
}

/// Raises this process's priority, if permitted, until dropped: children that the caller's loop starts in between
/// must not inherit it.
struct RaisedPriority(Option<i32>);

impl RaisedPriority {
    fn begin() -> Self {
        let before = getpriority_process(None).ok();
        Self(before.filter(|_| setpriority_process(None, URGENT).is_ok()))
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            let _ignored = setpriority_process(None, before);
        }
    }
}
