//! The event loop of one supervisor, from start to exit.
//!
//! It is single-threaded: wait for events, handle them, handle their consequences, wait again. The only timer is the
//! next deadline, so an idle supervisor sleeps.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::{set_child_subreaper, setsid};

use super::context::Context;
use super::core::{Core, Purpose, kill_shell};
use super::job::{Exit, Job, ReadStatus, raw};
use super::leftovers::Leftovers;
use super::link::{Accepted, EngineLink};
use super::ready::Ready;
use super::role::{Housekeeping, Next, Role};
use super::terminal::TerminalIo;
use crate::end::{EndReason, KillReceipt};
use crate::journal::Stream;
use crate::layout::{log_failure, socket_name};
use crate::process_tree::{Nonce, SUPERVISOR, StartTime, Step};
use crate::protocol::{Response, Stage};
use crate::shell::Shell;
use crate::sys;

/// Polling interval if it cannot wait for its descriptors.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Interval at which a supervisor without an engine checks whether an engine can still find it.
const ORPHAN_CHECK: Duration = Duration::from_secs(30);
/// The same if the state directory is temporary.
const TEMPORARY_CHECK: Duration = Duration::from_millis(100);

/// A supervisor: the common state and its role.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(super) core: Core,
    pub(super) role: Role,
    /// Finished jobs that still hold descriptors.
    finished: Vec<Job>,
    signals: OwnedFd,
    /// Time of the next check of the socket, while no engine is connected.
    pub(super) orphan_check: Option<Instant>,
    leaving: bool,
}

/// The source of an event.
#[derive(Debug, Clone, Copy)]
enum Source {
    Listener,
    Engine,
    Signals,
    Lifeline,
    Role,
    Output(u32, Stream),
    Stdin(u32),
    Ending,
    Adopted(u32),
    Leftovers(u32),
}

impl Source {
    /// Whether it can be handled without a known event.
    fn can_be_tried(&self) -> bool {
        !matches!(self, Self::Adopted(_) | Self::Lifeline)
    }
}

/// Writes panics to the log in the state directory.
fn log_panics(context: &Context) {
    let Ok(folder) = context.folders.supervisors.try_clone() else { return };
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        drop(log_failure(&folder, &info.to_string()));
        before(info);
    }));
}

impl Supervisor {
    /// Runs in a process just forked from the zygote, until its work is finished.
    pub(super) fn start(context: Context, nonce: u64, listener: OwnedFd) -> ! {
        let log = context.folders.supervisors.try_clone();
        log_panics(&context);
        match Self::new(context, nonce, listener) {
            Ok(mut supervisor) => {
                while !supervisor.is_over() {
                    supervisor.turn();
                }
                supervisor.leave();
                sys::exit_now(0)
            }
            Err(e) => {
                drop(
                    log.and_then(|log| log_failure(&log, &format!("{nonce:011x}: it could not start: {e}"))),
                );
                sys::exit_now(1)
            }
        }
    }

    fn new(context: Context, nonce: u64, listener: OwnedFd) -> std::io::Result<Self> {
        sys::reset_signals();
        // A command's `kill -1` or a closing terminal must not end the process that records it.
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE, libc::SIGALRM]
            .into_iter()
            .chain([libc::SIGUSR1, libc::SIGUSR2, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU])
            // Neither must a limit that a command sets on it.
            .chain([libc::SIGXCPU, libc::SIGXFSZ])
        {
            sys::ignore_signal(signal);
        }
        let signals = sys::signalfd(&[libc::SIGCHLD])?;
        let _ = setsid();
        set_child_subreaper(Some(rustix::process::getpid()))?;
        let _ = rustix::thread::set_name(SUPERVISOR);
        let nonce = Nonce::from_value(nonce).ok_or(Errno::INVAL)?;
        let core = {
            let link = EngineLink::new(listener, context.key.clone());
            Core::new(context, nonce, link)?
        };
        let role = Role::Ready(Box::new(Ready::new(&core)));
        Ok(Self { core, role, finished: Vec::new(), signals, orphan_check: None, leaving: false })
    }

    /// One iteration of the loop.
    fn turn(&mut self) {
        for source in self.wait() {
            let now = Instant::now();
            match source {
                Source::Listener => {
                    let Accepted { old, new } = self.core.link.accept();
                    old.into_iter().for_each(|incoming| self.handle(incoming));
                    let Some(new) = new else { continue };
                    // The readers of the previous engine, not those that the new one reports.
                    self.detach_readers(now);
                    new.into_iter().for_each(|incoming| self.handle(incoming));
                    if let Role::Ready(ready) = &self.role {
                        ready.engine_connected(&mut self.core);
                    }
                }
                Source::Engine => {
                    for incoming in self.core.link.receive() {
                        self.handle(incoming);
                    }
                }
                Source::Lifeline => {
                    if let Role::Ready(ready) = &mut self.role {
                        ready.engine_ended();
                    }
                }
                Source::Role => self.role.receive_some(&mut self.core, now),
                Source::Output(slot, stream) => self.pump(slot, stream, now),
                Source::Stdin(slot) => self.write_stdin(slot),
                Source::Signals => self.reap(now),
                // Handled by the step that follows every iteration.
                Source::Ending => {}
                Source::Adopted(slot) => self.adopted_ended(slot, now),
                Source::Leftovers(slot) => {
                    if let Some(left) = self.core.closed_leftovers.iter_mut().find(|left| left.slot == slot) {
                        left.look_soon(now);
                    }
                }
            }
        }
        self.follow_up(Instant::now());
    }

    /// Waits until an event or a deadline. Returns events in the order in which they must be handled: requests before
    /// the end of an engine, a shell's report before its death.
    fn wait(&self) -> Vec<Source> {
        let core = &self.core;
        // Most supervisors have fewer.
        let (mut sources, mut fds) = (Vec::with_capacity(8), Vec::with_capacity(8));
        let mut watch = |source, fd, flags: PollFlags| {
            sources.push(source);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        };
        for fd in core.link.expected() {
            watch(Source::Listener, fd, PollFlags::IN);
        }
        if let Some(engine) = core.link.engine() {
            let room = if core.link.is_blocked() { PollFlags::OUT } else { PollFlags::empty() };
            watch(Source::Engine, engine, PollFlags::IN | room);
        }
        for fd in self.role.poll_fds() {
            watch(Source::Role, fd, PollFlags::IN);
        }
        for job in &core.jobs {
            for (stream, fd) in job.io.outputs().filter(|_| job.is_readable()) {
                watch(Source::Output(job.slot, stream), fd, PollFlags::IN);
            }
            if let (Stage::Running, Some(fd)) = (job.stage, &job.adopted) {
                watch(Source::Adopted(job.slot), fd.as_fd(), PollFlags::IN);
            }
            if let Some(fd) = job.io.stdin_to_write() {
                watch(Source::Stdin(job.slot), fd, PollFlags::OUT);
            }
        }
        for fd in core.endings.iter().flat_map(|task| task.ending.poll_fds()) {
            watch(Source::Ending, fd, PollFlags::IN);
        }
        for left in &core.closed_leftovers {
            if let Some(fd) = left.watched() {
                watch(Source::Leftovers(left.slot), fd, PollFlags::IN);
            }
        }
        watch(Source::Signals, self.signals.as_fd(), PollFlags::IN);
        if let Role::Ready(ready) = &self.role
            && ready.watches_lifeline()
        {
            watch(Source::Lifeline, core.context.lifeline.as_fd(), PollFlags::empty());
        }
        let timeout = self.next_deadline().map(|at| {
            let wait = at.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            }
        });
        match poll(&mut fds, timeout.as_ref()) {
            // A command lowered our limit of open files below the number of descriptors.
            Err(Errno::INVAL) if !core.own_limits.restore_needed() => {
                std::thread::sleep(LOOK_INTERVAL);
                return sources.into_iter().filter(Source::can_be_tried).collect();
            }
            // Interrupted or out of memory: treated as a spurious wake-up.
            _ => {}
        }
        let happened = |(source, fd): (Source, PollFd<'_>)| (!fd.revents().is_empty()).then_some(source);
        sources.into_iter().zip(fds).filter_map(happened).collect()
    }

    /// Handles all consequences of events.
    fn follow_up(&mut self, now: Instant) {
        if self.role.shell().and_then(Shell::wake_at).is_some_and(|at| at <= now) {
            self.role.receive(&mut self.core, now);
        }
        if self.core.link.engine().is_none() {
            self.detach_readers(now);
        }
        for job in &mut self.core.jobs {
            job.update_gate(now);
        }
        self.keep_deadlines(now);
        self.step_endings(now);
        self.role.advance(&mut self.core, now);
        self.report_growth();
        self.core.repeat_ends(now);
        self.close_finished(now);
        self.core.check_leftovers(&self.role, now);
        self.check_orphaned(now);
        self.core.link.close_unauthenticated(now);
        self.core.link.flush_due();
        self.tidy_up();
    }

    /// Does work for which no client waits: closes finished jobs, and prepares the next command. In a session this is
    /// done while the shell runs the next command. Done at the end of a command, it would delay the process that
    /// waits for it, because the kernel tends to wake that process on this core.
    fn tidy_up(&mut self) {
        let Housekeeping { close, prepare } = self.role.housekeeping();
        if close {
            self.finished.clear();
        }
        if prepare {
            self.core.supply.prepare();
        }
        self.role.prepare();
    }

    /// Exits if its socket is gone: the state directory was removed, and no engine can find it again.
    fn check_orphaned(&mut self, now: Instant) {
        if self.core.link.engine().is_some() || self.role.is_ready() || self.core.quitting {
            self.orphan_check = None;
            return;
        }
        let interval = if self.core.context.temporary.is_some() { TEMPORARY_CHECK } else { ORPHAN_CHECK };
        let due = *self.orphan_check.get_or_insert(now + interval);
        if due <= now {
            self.orphan_check = Some(now + interval);
            let socket = socket_name(self.core.nonce.value());
            let found = statat(&self.core.context.folders.supervisors, socket, AtFlags::empty());
            if found.is_err_and(|e| e == Errno::NOENT) {
                self.role.end_template();
                self.core.quit(0);
            }
        }
    }

    fn step_endings(&mut self, now: Instant) {
        if !self.core.endings.is_empty() && !self.core.own_limits.can_open_files() {
            self.fail("a command has lowered its limit of open files, so it can end nothing");
        }
        let mut index = 0;
        while index < self.core.endings.len() {
            let task = &mut self.core.endings[index];
            if let (Role::Session(_), Some(shell)) = (&self.role, self.role.shell()) {
                // The shell may have died since the ending began.
                task.ending.set_shell(shell.pid());
            }
            let is_open = task.command.is_some_and(|slot| self.role.is_busy_with(slot));
            task.ending.set_open(is_open);
            if task.command.is_some() && !is_open {
                task.ending.end_by(StartTime::now());
            }
            match task.ending.step(now) {
                Step::Wait { until } => {
                    task.wake_at = until;
                    index += 1;
                }
                Step::Done(receipt) => {
                    let task = self.core.endings.remove(index);
                    self.ending_done(task.purpose, receipt, now);
                }
            }
        }
        if !self.core.endings.is_empty() {
            // Killed processes may already be zombies.
            self.reap(now);
        }
    }

    /// Exits at once after an unrecoverable error. The zygote then ends all its descendants, and the engine ends the
    /// executions as `lost`.
    fn fail(&self, reason: &str) -> ! {
        self.core.log_failure(reason);
        sys::exit_now(1)
    }

    fn ending_done(&mut self, purpose: Purpose, receipt: KillReceipt, now: Instant) {
        match purpose {
            Purpose::Kill { request } => {
                // The end of the leader is found by reaping; it is available together with the receipt.
                self.reap(now);
                // So that the engine first gets reports of executions without leftovers.
                self.core.scan_leftovers_soon(now);
                self.core.check_leftovers(&self.role, now);
                self.core.link.send(request, &Response::Receipt(receipt));
            }
            Purpose::Cause => self.reap(now),
            Purpose::Leftovers { slot } => self.core.end_now(slot),
            Purpose::Quit { request } => {
                self.reap(now);
                let slots: Vec<u32> = self.core.jobs.iter().map(|job| job.slot).collect();
                for slot in slots {
                    self.core.end_with_session(slot, now);
                }
                self.core.link.send(request, &Response::Receipt(receipt));
                self.leaving = true;
            }
        }
    }

    pub(super) fn pump(&mut self, slot: u32, stream: Stream, now: Instant) {
        self.core.own_limits.restore_file_size();
        let Some(job) = self.core.jobs.iter_mut().find(|job| job.slot == slot) else {
            return;
        };
        if job.pump(stream, &mut self.core.buffer, now) == ReadStatus::Limit && job.cause.is_none() {
            self.end_for_cause(slot, EndReason::OutputLimit, now);
        }
    }

    /// Without its engine, a reader counts as detached until the next engine reports otherwise.
    fn detach_readers(&mut self, now: Instant) {
        for job in &mut self.core.jobs {
            job.set_reader(None, now);
            if let Some(terminal) = job.io.terminal_mut() {
                terminal.engine_gone();
            }
        }
    }

    fn report_growth(&mut self) {
        for job in &mut self.core.jobs {
            let unrecorded = job.unrecorded.take_report();
            if let Some(position) = job.take_growth().or(unrecorded.map(|_| job.position())) {
                self.core.link.send(0, &Response::Grew { slot: job.slot, position, unrecorded });
            }
        }
    }

    /// Removes jobs that have ended and cannot write any more.
    fn close_finished(&mut self, now: Instant) {
        let core = &mut self.core;
        let mut index = 0;
        while index < core.jobs.len() {
            let job = &mut core.jobs[index];
            let done = job.stage == Stage::Ended && job.retry_end() && job.is_silent();
            if !done {
                index += 1;
                continue;
            }
            let mut job = core.jobs.remove(index);
            core.link.send(0, &Response::Closed { slot: job.slot, position: job.position() });
            if job.has_left {
                core.closed_leftovers.push(Leftovers::of(&job, now));
            }
            // A cgroup that is not empty yet is removed when a later command ends, or on exit.
            core.old_cgroups.extend(job.cgroup.take());
            core.old_cgroups.retain_mut(|cgroup| cgroup.remove().is_err());
            if core.jobs.is_empty() && core.buffer.capacity() > 4 << 10 {
                core.buffer = Vec::new();
            }
            self.finished.push(job);
        }
    }

    /// Reaps every child that has ended.
    fn reap(&mut self, now: Instant) {
        let mut discarded = [0; 512];
        while rustix::io::read(&self.signals, &mut discarded).is_ok_and(|n| n == discarded.len()) {}
        self.role.before_reaping(&mut self.core, now);
        while let Some(reaped) = sys::reap() {
            self.role.child_ended(&mut self.core, &reaped, now);
        }
    }

    /// An adopted process that is not our child has ended; its exit status is unknown.
    fn adopted_ended(&mut self, slot: u32, now: Instant) {
        // If it is our child after all, reaping provides the status.
        self.reap(now);
        if self.core.find(slot).is_some_and(|job| job.stage == Stage::Running) {
            self.role.complete(&mut self.core, slot, Exit::default(), now);
        }
    }

    fn is_over(&mut self) -> bool {
        if self.leaving {
            return true;
        }
        match self.role.next(&mut self.core) {
            Next::Continue => false,
            Next::End => true,
            Next::Become(ready) => {
                self.role = Role::Ready(ready);
                false
            }
        }
    }

    fn leave(&mut self) {
        self.role.end_template();
        let core = &mut self.core;
        drop(core.link.finish());
        if let Some(shell) = self.role.shell() {
            kill_shell(shell);
            while sys::reap_one(shell.pid()) {}
        }
        let mut cgroups = std::mem::take(&mut core.old_cgroups);
        cgroups.extend(core.jobs.iter_mut().filter_map(|job| job.cgroup.take()));
        cgroups.extend(core.cgroup.take());
        // They are empty when the last process in them has been reaped, or a moment later.
        for _ in 0..100 {
            while sys::reap().is_some() {}
            cgroups.retain_mut(|cgroup| cgroup.remove().is_err());
            if cgroups.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Last, because it tells the engine that nothing must be cleaned up.
        let socket = socket_name(core.nonce.value());
        let _ = unlinkat(&core.context.folders.supervisors, socket, AtFlags::empty());
    }

    /// The reply to a newly connected engine.
    pub(super) fn welcome(&mut self) -> Response {
        self.core.jobs.iter_mut().for_each(|job| job.unrecorded.report_again());
        let held = self.core.jobs.iter().map(|job| crate::protocol::SupervisedExecution {
            slot: job.slot,
            stage: job.stage,
            pid: job.pid.map(raw),
            size: job.io.terminal().map(TerminalIo::size),
        });
        let left = self.core.closed_leftovers.iter().map(|left| left.slot);
        let left = left.map(|slot| crate::protocol::SupervisedExecution {
            slot,
            stage: Stage::Left,
            pid: None,
            size: None,
        });
        Response::Welcome {
            version: crate::protocol::VERSION,
            pid: raw(rustix::process::getpid()),
            role: self.role.to_wire(),
            held: held.chain(left).collect(),
        }
    }
}
