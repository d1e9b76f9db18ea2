//! The ends of jobs: processes are ended, output is drained, leftovers are listed, and the engine is told.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, test_kill_process};

use super::Core;
use crate::command::LeftoverPolicy;
use crate::end::{End, EndReason, Leftover, MAX_LEFTOVERS, Usage};
use crate::process_tree::{Cgroup, Ending, Scope, StartTime, walk};
use crate::procfs::{self, Stat};
use crate::protocol::{Refusal, Response, Stage};
use crate::shell::Driver;
use crate::supervisor::job::{Exit, Job, raw};

/// Grace period between SIGINT and SIGKILL for the processes of a command, with the portable driver.
const PORTABLE_GRACE: Duration = Duration::from_millis(15);

/// Interval and number of checks for the program name of a process that was just forked.
const NAME_INTERVAL: Duration = Duration::from_micros(500);
const NAME_LOOKS: u32 = 60;

/// Why processes are being ended, which decides what follows.
#[derive(Debug, Clone, Copy)]
pub(in crate::supervisor) enum Purpose {
    /// A client requested it; the receipt answers this request.
    Kill { request: u64 },
    /// A deadline expired or a limit was reached.
    Cause,
    /// The command has returned, and its leftovers are ended before it ends.
    Leftovers { slot: u32 },
    /// Everything is ended, then the supervisor exits.
    Quit { request: u64 },
}

/// Processes that are being ended.
#[derive(Debug)]
pub(in crate::supervisor) struct EndingTask {
    pub(in crate::supervisor) ending: Ending,
    pub(in crate::supervisor) purpose: Purpose,
    /// The session's command to which they belong: its shell may start more of them until it has returned.
    pub(in crate::supervisor) command: Option<u32>,
    /// Time of the next step.
    pub(in crate::supervisor) wake_at: Instant,
}

/// Options for ending the processes of a running job.
#[derive(Debug, Clone, Copy)]
pub(in crate::supervisor) struct EndRequest {
    pub(in crate::supervisor) slot: u32,
    pub(in crate::supervisor) reason: EndReason,
    pub(in crate::supervisor) signal: Signal,
    /// Grace period between the signal and SIGKILL.
    pub(in crate::supervisor) grace: Duration,
    pub(in crate::supervisor) purpose: Purpose,
}

/// The processes of a job.
#[derive(Debug, Clone, Copy)]
pub(in crate::supervisor) struct JobProcesses {
    pub(in crate::supervisor) scope: Scope,
    /// The shell that runs it. It is not a leftover when the job has returned.
    pub(in crate::supervisor) shell: Option<Pid>,
    /// The template from which shells are forked.
    pub(in crate::supervisor) template: Option<Pid>,
}

impl Core {
    /// The command could not be started: tells the engine the reason, and records it.
    pub(in crate::supervisor) fn not_started(&mut self, slot: u32, why: Refusal, now: Instant) {
        let code = match why {
            Refusal::BadProgram(libc::ENOENT) => 127,
            _ => 126,
        };
        if let Some(index) = self.jobs.iter().position(|job| job.slot == slot) {
            let mut job = self.jobs.remove(index);
            job.io.close_outputs();
            let exit = Exit { code: Some(code), ..Exit::default() };
            let end = job.end_of(exit, Vec::new(), now);
            for request in job.io.close_stdin() {
                self.link.send(request, &Response::Refused(Refusal::NoSuchExecution));
            }
            job.finish(&End { usage: Usage::default(), ..end });
            self.old_cgroups.extend(job.cgroup.take());
        }
        self.link.send(0, &Response::NotStarted { slot, why });
    }

    /// Ends a command that has no process yet.
    pub(in crate::supervisor) fn end_unstarted(
        &mut self,
        slot: u32,
        reason: EndReason,
        exit: Exit,
        now: Instant,
    ) {
        let Ok(job) = self.job(slot) else { return };
        job.io.close_outputs();
        job.cause = Some((reason, exit.signal.unwrap_or(libc::SIGKILL)));
        job.pending_end = Some(job.end_of(exit, Vec::new(), now));
        self.end_now(slot);
    }

    /// Starts to end processes. `is_session` is true for those of a session's command.
    pub(in crate::supervisor) fn begin_ending(
        &mut self,
        request: EndRequest,
        scope: Scope,
        is_session: bool,
        now: Instant,
    ) {
        let EndRequest { slot, reason, signal, grace, purpose } = request;
        let Ok(job) = self.job(slot) else { return };
        job.cause.get_or_insert((reason, signal.as_raw()));
        // An interactive bash continues with the next command unless its child died of SIGINT.
        let ask_first = is_session && self.context.driver == Some(Driver::Portable);
        let (signal, grace) =
            if ask_first && grace.is_zero() { (Signal::INT, PORTABLE_GRACE) } else { (signal, grace) };
        let mut ending = Ending::new(scope, signal, grace, self.cgroup_of(scope));
        if self.find(slot).is_some_and(|job| job.io.terminal().is_some()) {
            ending = ending.hang_up_shells();
        }
        let command = is_session.then_some(slot);
        self.endings.push(EndingTask { ending, purpose, command, wake_at: now });
    }

    /// The cgroup that contains exactly a scope: that of a session contains more than one command.
    fn cgroup_of(&self, scope: Scope) -> Option<&Cgroup> {
        self.cgroup.as_ref().filter(|_| scope == Scope::Tree)
    }

    /// The program has returned. Its output is in the pipes, its leftovers in the tree. Returns whether they are
    /// being killed first.
    pub(in crate::supervisor) fn complete(
        &mut self,
        slot: u32,
        mut exit: Exit,
        processes: JobProcesses,
        now: Instant,
    ) -> bool {
        // A shell that has reported may still exist when its leftovers are ended; its death is not a second end.
        if self.find(slot).is_none_or(|job| job.pending_end.is_some()) {
            return false;
        }
        self.own_limits.restore_file_size();
        let leftovers = self.leftovers(slot, processes, exit.is_childless);
        let around = if exit.is_killed() { self.context.oom_kills() } else { 0 };
        let Some(job) = self.jobs.iter_mut().find(|job| job.slot == slot) else {
            return false;
        };
        exit.out_of_memory = exit.is_killed() && job.ran_out_of_memory(around);
        let limited = job.drain(&mut self.buffer, now);
        if limited {
            job.cause.get_or_insert((EndReason::OutputLimit, libc::SIGKILL));
        }
        job.has_left = !leftovers.is_empty();
        job.until = Some(StartTime::now());
        let end = job.end_of(exit, leftovers, now);
        let is_wanted = limited || job.cause.is_none() && job.command.leftovers == LeftoverPolicy::Kill;
        let kill = is_wanted && !end.leftovers.is_empty();
        job.pending_end = Some(end);
        if kill {
            let cgroup = self.cgroup_of(processes.scope);
            let ending = Ending::new(processes.scope, Signal::KILL, Duration::ZERO, cgroup);
            let purpose = Purpose::Leftovers { slot };
            self.endings.push(EndingTask { ending, purpose, command: None, wake_at: now });
        } else {
            self.end_now(slot);
        }
        kill
    }

    /// Applies the pending end of a job.
    pub(in crate::supervisor) fn end_now(&mut self, slot: u32) {
        let Ok(job) = self.job(slot) else { return };
        let Some(end) = job.pending_end.take() else {
            return;
        };
        let unanswered = job.io.close_stdin();
        job.finish(&end);
        self.tell_end(slot, end);
        for request in unanswered {
            self.link.send(request, &Response::Refused(Refusal::NoSuchExecution));
        }
    }

    /// Reports an end to the engine, which must record it if this process cannot.
    fn tell_end(&mut self, slot: u32, end: End) {
        let has_engine = self.link.engine().is_some();
        let Some(job) = self.jobs.iter_mut().find(|job| job.slot == slot) else { return };
        // Nearly always it is recorded. Once handed over, the engine records it.
        let is_kept =
            job.retry_end() || !job.is_handed_over() && (!has_engine || self.own_limits.restore_file_size());
        let unrecorded = (!is_kept).then(|| job.hand_over_end());
        let (position, stderr_bytes) = (job.position(), Some(job.stderr_bytes()));
        self.link.send(0, &Response::Ended { slot, end, position, unrecorded, stderr_bytes });
    }

    /// Repeats the ends that the engine must record and has not confirmed.
    pub(in crate::supervisor) fn repeat_ends(&mut self, now: Instant) {
        if self.link.engine().is_some() {
            let late: Vec<_> =
                self.jobs.iter().filter(|job| job.is_unconfirmed(now)).map(|job| job.slot).collect();
            late.into_iter().for_each(|slot| self.tell_end_again(slot));
        }
    }

    /// Reports an unrecorded end to an engine again.
    pub(in crate::supervisor) fn tell_end_again(&mut self, slot: u32) {
        if let Some(end) = self.find(slot).and_then(Job::unwritten_end) {
            self.tell_end(slot, end);
        }
    }

    /// The leftovers of a job that has just returned.
    fn leftovers(&mut self, slot: u32, processes: JobProcesses, is_childless: bool) -> Vec<Leftover> {
        let JobProcesses { scope, shell, template } = processes;
        // Everything is being ended, perhaps hundreds of jobs.
        if self.quitting {
            return Vec::new();
        }
        if !self.leftover_probe.any_besides(shell, template, is_childless) {
            return Vec::new();
        }
        let mut members = scope.members();
        // A shell whose only command has ended is about to exit.
        members.retain(|pid| Some(*pid) != shell);
        // Those of a command that is being killed lose their parents meanwhile, and perhaps have no tag.
        let others = self.endings.iter().filter(|task| task.command.is_some_and(|command| command != slot));
        let others: Vec<_> = others.collect();
        members.retain(|pid| !others.iter().any(|task| task.ending.holds(*pid)));
        if self.find(slot).is_some_and(|job| job.cause.is_some()) {
            // The others are being ended by this supervisor.
            members.retain(|pid| test_kill_process(*pid) == Err(Errno::PERM));
        }
        self.wait_for_names(&members);
        members.into_iter().map(|pid| Leftover { pid: raw(pid), command: walk::command_line(pid) }).collect()
    }

    /// Waits briefly until a child that bash has just forked has executed its program: until then it has bash's name,
    /// and the name is recorded. Does not wait for a child that sleeps, which is a subshell.
    fn wait_for_names(&self, pids: &[Pid]) {
        let Some(bash) = self.context.bash.as_ref().and_then(|path| rustix::fs::stat(path).ok()) else {
            return;
        };
        // A process has no arguments during exec.
        let is_unnamed = |pid: &Pid| {
            let program = rustix::fs::stat(format!("/proc/{pid}/exe"));
            let is_bash =
                program.is_ok_and(|program| (program.st_dev, program.st_ino) == (bash.st_dev, bash.st_ino));
            (is_bash || procfs::arguments(*pid).is_empty()) && Stat::of(*pid).is_some_and(|stat| stat.running)
        };
        for _ in 0..NAME_LOOKS {
            if !pids.iter().take(MAX_LEFTOVERS).any(is_unnamed) {
                return;
            }
            std::thread::sleep(NAME_INTERVAL);
        }
    }

    /// Ends a job because its session ends.
    pub(in crate::supervisor) fn end_with_session(&mut self, slot: u32, now: Instant) {
        let Some(job) = self.jobs.iter_mut().find(|job| job.slot == slot) else {
            return;
        };
        let _ = job.drain(&mut self.buffer, now);
        if job.stage != Stage::Ended && job.pending_end.is_none() {
            job.cause = Some((EndReason::SessionEnded, libc::SIGKILL));
            let exit = Exit { signal: Some(libc::SIGKILL), ..Exit::default() };
            job.pending_end = Some(job.end_of(exit, Vec::new(), now));
        }
        self.end_now(slot);
        if let Ok(job) = self.job(slot) {
            job.io.close_outputs();
        }
    }

    /// Ends everything below, then the supervisor itself.
    pub(in crate::supervisor) fn quit(&mut self, request: u64) {
        self.quitting = true;
        for job in self.jobs.iter_mut().filter(|job| job.stage != Stage::Ended) {
            job.cause.get_or_insert((EndReason::SessionEnded, libc::SIGKILL));
        }
        let ending = Ending::new(Scope::Tree, Signal::KILL, Duration::ZERO, self.cgroup.as_ref());
        let purpose = Purpose::Quit { request };
        self.endings.push(EndingTask { ending, purpose, command: None, wake_at: Instant::now() });
    }
}
