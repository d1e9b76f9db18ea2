//! [`Ending`]: ends everything in a [`Scope`], step by step, and says what it did.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpriority_process, setpriority_process};

use super::cgroup::{Cgroup, Directory};
use super::member::{Act, Found};
use super::members::Members;
use super::scope::Scope;
use crate::end::KillReceipt;

/// How long SIGKILL has before what is still there is given up on: it is stuck in the kernel.
pub(crate) const FORCE_LIMIT: Duration = Duration::from_secs(10);
/// How long to wait for processes that may not be signalled and are the only ones left; they may
/// end because of those that were.
const REFUSED_WAIT: Duration = Duration::from_millis(500);
/// How long a step may go on without giving the caller's loop a turn.
const STEP_BUDGET: Duration = Duration::from_millis(3);
/// How long to wait before looking for what somebody out of scope may have started.
const OPEN_INTERVAL: Duration = Duration::from_millis(2);
/// How many rounds of killing find new processes before forking is forbidden to what is there.
const STARVE_AFTER: u32 = 16;
/// How many processes, killed at once, are worth waiting for before looking again.
const MANY: usize = 64;
/// The priority while killing: whoever forks faster than he is killed must not get the processor.
const URGENT: i32 = -19;

/// What an ending wants next.
#[derive(Debug)]
pub(crate) enum Step {
    /// To be called again when a descriptor of [`Ending::poll_fds`] is readable, or at this time.
    Wait {
        /// The latest time.
        until: Instant,
    },
    /// Nothing more: this is what was done. Not to be called again.
    Done(KillReceipt),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The signal was sent; processes have time to end.
    Asking { until: Option<Instant> },
    /// SIGKILL to all that is there, until nothing is.
    Forcing { since: Instant },
}

/// Ends every process in a scope: first with the signal asked for, after the grace period with SIGKILL,
/// again until nothing is left. It never blocks: the caller's loop polls, reaps, and calls
/// [`step`](Self::step).
#[derive(Debug)]
pub(crate) struct Ending {
    members: Members,
    signal: Signal,
    grace: Duration,
    cgroup: Option<Arc<Directory>>,
    phase: Phase,
    /// When to look at everything again although nothing is known to have ended.
    next_look: Option<Instant>,
    interval: Duration,
    /// Rounds of killing that found new processes.
    rounds: u32,
    /// Somebody out of scope may still start some.
    is_open: bool,
}

impl Ending {
    /// An ending that begins with the first [`step`](Self::step). Without grace, or with SIGKILL, it
    /// kills at once. A cgroup must hold nothing but what is in scope, the shell and other commands of the
    /// same session excepted.
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
        }
    }

    /// Says whether somebody out of scope (a session's shell) may still start processes that are in scope. As
    /// long as it may, the ending is not over.
    pub(crate) fn set_open(&mut self, is_open: bool) {
        self.is_open = is_open;
    }

    /// Says which processes are not meant, and what is below them neither.
    pub(crate) fn spare(&mut self, spared: HashSet<Pid>) {
        self.members.spare(spared);
    }

    /// The descriptors that become readable when it is worth calling [`step`](Self::step) before the
    /// time it named. One at most: with hundreds of processes a wake-up for each would cost more
    /// than ending them.
    pub(crate) fn poll_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.members.watched().into_iter().collect()
    }

    /// Does what can be done now. Children of this process are to be reaped between steps.
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
        // While one of those that were found is still there, a look at all of them can wait.
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

    /// Nobody is there.
    fn nobody(&mut self, now: Instant) -> Step {
        if self.is_open {
            self.next_look = None;
            return Step::Wait { until: now + OPEN_INTERVAL };
        }
        self.done()
    }

    /// Waits for the end of those found, looking again at growing intervals for new ones.
    fn wait(&mut self, now: Instant, first: Duration, longest: Duration, limit: Instant) -> Step {
        self.interval = (self.interval * 2).clamp(first, longest);
        let until = (now + self.interval).min(limit);
        self.next_look = Some(until);
        Step::Wait { until }
    }

    fn ask(&mut self, now: Instant, limit: Instant) -> Step {
        let act = Act::Ask(self.signal);
        // What was forked during the first look was not asked yet.
        let mut found = self.members.look(act);
        // What a process starts from here on may be its handler's. The orphans of one that died of the signal are asked.
        self.members.set_all_asked();
        if found.alive == 0 || found.new > 0 {
            found = self.members.look(act);
        }
        if found.is_empty() {
            return self.nobody(now);
        }
        self.wait(now, Duration::from_millis(10), Duration::from_millis(100), limit)
    }

    fn kill(&mut self, since: Instant) -> Step {
        let begun = Instant::now();
        let mut empty = 0;
        let _urgent = Urgent::begin();
        loop {
            let found = self.kill_round();
            let now = Instant::now();
            if found.is_empty() {
                empty += 1;
                if empty == 2 {
                    return self.nobody(now);
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

    /// Kills everything that is there, in one stroke where there is a cgroup for it.
    fn kill_round(&mut self) -> Found {
        match self.cgroup.clone() {
            Some(cgroup) if self.members.scope() == Scope::Tree && cgroup.has_kill_file() => {
                // The command lines, while there are some.
                let found = self.members.look(Act::Look);
                if !self.members.any_unharmed() && !found.incomplete {
                    // Doomed, but still there: outside of the cgroup by now, perhaps.
                    return if found.alive > 0 { self.members.look(Act::Kill) } else { found };
                }
                if !cgroup.holds_me() && cgroup.kill_all().is_ok() {
                    self.members.mark_killed();
                    // All that is new is doomed as well: time to wait.
                    return Found { new: 0, incomplete: false, alive: found.alive.max(1) };
                }
                self.members.look(Act::Kill)
            }
            // Freezing takes longer than killing, and helps against what forks only.
            Some(cgroup) if self.rounds > 1 && !cgroup.holds_me() && cgroup.freeze().is_ok() => {
                let found = self.members.look(Act::Kill);
                cgroup.thaw();
                found
            }
            Some(cgroup) => {
                let found = self.members.look(Act::Kill);
                if found.alive > 0 && found.new == 0 {
                    // The command may have frozen itself, and what is frozen (v1) does not die.
                    cgroup.thaw();
                }
                found
            }
            None => {
                if self.rounds > STARVE_AFTER {
                    self.members.look(Act::Starve);
                }
                self.members.look(Act::Kill)
            }
        }
    }
}

/// Raises this process's priority, if that is permitted, until dropped: what the caller's loop
/// starts in between must not inherit it.
struct Urgent(Option<i32>);

impl Urgent {
    fn begin() -> Self {
        let before = getpriority_process(None).ok();
        Self(before.filter(|_| setpriority_process(None, URGENT).is_ok()))
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            let _ignored = setpriority_process(None, before);
        }
    }
}
