//! One supervisor, from its first to its last breath.
//!
//! Single-threaded: wait for something to happen, deal with it, see what follows from it, wait
//! again. There is no timer but the next deadline, so a supervisor with nothing to do sleeps.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, statat, unlinkat};
use rustix::process::{Signal, WaitId, WaitIdOptions, set_child_subreaper, setsid, waitid};

use super::context::Context;
use super::job::{Exit, Job, Pumped, raw};
use super::link::Link;
use super::run::{AfterPrelude, Departure};
use super::session::Session;
use super::shell_children::ShellChildren;
use super::spin::{FOR_ENGINE, FOR_SHELL, Spin, awake_for};
use super::stdio::Supply;
use super::zygote::SUPERVISOR;
use crate::end::{EndReason, KillReceipt};
use crate::journal::Stream;
use crate::layout::socket_name;
use crate::process_tree::walk::ChildrenFile;
use crate::process_tree::{Cgroup, Ending, Nonce, Scope, Step};
use crate::protocol::{Answer, Role, Stage};
use crate::shell::{Driver, Shell};
use crate::sys;

/// How often an end that the disk had no room for is tried again.
const END_RETRY: Duration = Duration::from_millis(500);

/// How many runs a supervisor is for, one after the other.
const MAX_RUNS: u32 = 200;
/// How often a supervisor without an engine looks whether one can still find it.
const ORPHAN_CHECK: Duration = Duration::from_secs(30);
/// How long what a command started has to die of SIGINT before it is killed, with the portable driver.
const PORTABLE_GRACE: Duration = Duration::from_millis(15);

/// Why processes are being ended, and so what follows when they are gone.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// Somebody asked; the receipt answers this request.
    Kill { request: u64 },
    /// A deadline passed or a limit was reached.
    Cause,
    /// The command has returned, and what it left is to go; then it has ended.
    Leftovers { slot: u32 },
    /// Everything is to go; then the supervisor goes too.
    Quit { request: u64 },
}

/// Processes that are being ended.
#[derive(Debug)]
pub(super) struct EndingTask {
    pub(super) ending: Ending,
    pub(super) purpose: Purpose,
    /// The session's command they belong to: its shell may start more of them until it has come back.
    pub(super) command: Option<u32>,
    /// When it is to be looked at again.
    pub(super) wake_at: Instant,
}

/// A supervisor.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(super) context: Context,
    pub(super) nonce: Nonce,
    pub(super) link: Link,
    pub(super) role: Role,
    pub(super) shell: Option<Shell>,
    pub(super) shell_ready: bool,
    pub(super) session: Option<Session>,
    pub(super) jobs: Vec<Job>,
    /// Those that are over and still hold descriptors.
    finished: Vec<Job>,
    pub(super) endings: Vec<EndingTask>,
    pub(super) cgroup: Option<Cgroup>,
    /// Those of commands that are over, until nothing is left in them.
    pub(super) old_cgroups: Vec<Cgroup>,
    pub(super) buffer: Vec<u8>,
    /// How many commands there were, for their tags.
    pub(super) commands: u64,
    /// What orphans that were reaped here have used.
    pub(super) orphans: Exit,
    pub(super) after_prelude: Option<AfterPrelude>,
    /// The shell is about to end.
    pub(super) departure: Option<Departure>,
    pub(super) quitting: bool,
    /// Nothing was done to it for its run that would show in the next.
    pub(super) reusable: bool,
    pub(super) runs: u32,
    pub(super) children: ChildrenFile,
    pub(super) shell_children: ShellChildren,
    pub(super) supply: Supply,
    /// For the end of a session's command, and for the next one.
    pub(super) for_shell: Spin,
    pub(super) for_engine: Spin,
    signals: OwnedFd,
    /// When to look whether the socket is still there, while no engine is connected.
    orphan_check: Option<Instant>,
    engine_gone: bool,
    leaving: bool,
}

/// What woke the loop.
#[derive(Debug, Clone, Copy)]
enum Source {
    Listener,
    Engine,
    Signals,
    Lifeline,
    Shell,
    Output(u32, Stream),
    Stdin(u32),
    Ending,
    Adopted(u32),
}

impl Supervisor {
    /// Runs in a process just forked from the zygote, until the work is over.
    pub(super) fn start(context: Context, nonce: u64, listener: OwnedFd) -> ! {
        match Self::new(context, nonce, listener) {
            Ok(mut supervisor) => {
                supervisor.warm_up();
                while !supervisor.is_over() {
                    supervisor.turn();
                }
                supervisor.leave();
                sys::exit_now(0)
            }
            Err(_) => sys::exit_now(1),
        }
    }

    fn new(context: Context, nonce: u64, listener: OwnedFd) -> std::io::Result<Self> {
        sys::reset_signals();
        // A command's `kill -1` or a closing terminal must not end the one who keeps its record.
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE, libc::SIGALRM]
            .into_iter()
            .chain([libc::SIGUSR1, libc::SIGUSR2, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU])
        {
            sys::ignore_signal(signal);
        }
        let signals = sys::signalfd(&[libc::SIGCHLD])?;
        let _ = setsid();
        set_child_subreaper(Some(rustix::process::getpid()))?;
        let _ = rustix::thread::set_name(SUPERVISOR);
        let nonce = Nonce::from_value(nonce).ok_or(rustix::io::Errno::INVAL)?;
        Ok(Self {
            cgroup: None,
            old_cgroups: Vec::new(),
            context,
            nonce,
            link: Link::new(listener),
            role: Role::Ready,
            shell: None,
            shell_ready: false,
            session: None,
            jobs: Vec::new(),
            finished: Vec::new(),
            endings: Vec::new(),
            buffer: Vec::new(),
            commands: 0,
            orphans: Exit::default(),
            after_prelude: None,
            departure: None,
            quitting: false,
            reusable: false,
            runs: 0,
            children: ChildrenFile::open()?,
            shell_children: ShellChildren::default(),
            supply: Supply::open()?,
            for_shell: Spin::new(awake_for(FOR_SHELL)),
            for_engine: Spin::new(awake_for(FOR_ENGINE)),
            signals,
            orphan_check: None,
            engine_gone: false,
            leaving: false,
        })
    }

    /// One turn of the loop.
    fn turn(&mut self) {
        for source in self.wait() {
            let now = Instant::now();
            match source {
                Source::Listener => {
                    for incoming in self.link.accept() {
                        self.handle(incoming);
                    }
                    if self.role == Role::Ready && (self.shell_ready || self.shell.is_none()) {
                        self.tell_ready();
                    }
                }
                Source::Engine => {
                    for incoming in self.link.receive() {
                        self.handle(incoming);
                    }
                }
                Source::Lifeline => self.engine_gone = true,
                Source::Shell => self.hear_shell(now),
                Source::Output(slot, stream) => self.pump(slot, stream, now),
                Source::Stdin(slot) => self.write_stdin(slot),
                Source::Signals => self.reap(now),
                // The step that follows every turn looks at it.
                Source::Ending => {}
                Source::Adopted(slot) => self.adopted_ended(slot, now),
            }
        }
        self.follow_up(Instant::now());
    }

    /// Waits until something happens or a deadline passes. What has to be seen first comes first:
    /// requests before the end of an engine, a shell's report before its death.
    fn wait(&self) -> Vec<Source> {
        let mut sources = vec![Source::Listener];
        let mut fds = vec![PollFd::from_borrowed_fd(self.link.listener(), PollFlags::IN)];
        let mut watch = |source, fd, flags: PollFlags| {
            sources.push(source);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        };
        if let Some(engine) = self.link.engine() {
            let room = if self.link.is_blocked() { PollFlags::OUT } else { PollFlags::empty() };
            watch(Source::Engine, engine, PollFlags::IN | room);
        }
        for fd in self.shell.iter().flat_map(Shell::poll_fds) {
            watch(Source::Shell, fd, PollFlags::IN);
        }
        if let Some(session) = &self.session {
            for fd in session.poll_fds() {
                watch(Source::Shell, fd, PollFlags::IN);
            }
        }
        for job in &self.jobs {
            for (stream, fd) in job.outputs() {
                watch(Source::Output(job.slot, stream), fd, PollFlags::IN);
            }
            if let (Stage::Running, Some(fd)) = (job.stage, &job.adopted) {
                watch(Source::Adopted(job.slot), fd.as_fd(), PollFlags::IN);
            }
            if let Some(fd) = job.stdin_to_write() {
                watch(Source::Stdin(job.slot), fd, PollFlags::OUT);
            }
        }
        for fd in self.endings.iter().flat_map(|task| task.ending.poll_fds()) {
            watch(Source::Ending, fd, PollFlags::IN);
        }
        watch(Source::Signals, self.signals.as_fd(), PollFlags::IN);
        if self.role == Role::Ready && !self.engine_gone {
            watch(Source::Lifeline, self.context.lifeline.as_fd(), PollFlags::empty());
        }
        let timeout = self.next_deadline().map(|at| {
            let wait = at.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            }
        });
        let mut seen = Ok(0);
        while seen == Ok(0) && (self.for_shell.goes_on() || self.for_engine.goes_on()) {
            seen = poll(&mut fds, Some(&Timespec::default()));
            if seen == Ok(0) {
                std::thread::yield_now();
            }
        }
        if seen == Ok(0) {
            // Interrupted or out of memory: as good as a wake-up for nothing.
            let _ = poll(&mut fds, timeout.as_ref());
        }
        let happened = |(source, fd): (Source, PollFd<'_>)| (!fd.revents().is_empty()).then_some(source);
        sources.into_iter().zip(fds).filter_map(happened).collect()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let jobs = self.jobs.iter().filter_map(|job| job.deadline().map(|(at, _)| at));
        let endings = self.endings.iter().map(|task| task.wake_at);
        let session = self.session.as_ref().and_then(Session::wake_at);
        let retry = self.jobs.iter().any(|job| job.has_unwritten_end()).then(|| Instant::now() + END_RETRY);
        let prelude = self.after_prelude.as_ref().map(|after| after.until);
        jobs.chain(endings)
            .chain(prelude)
            .chain(session)
            .chain(retry)
            .chain(self.orphan_check)
            .chain(self.departure.as_ref().map(|departure| departure.at))
            .chain(self.link.wake_at())
            .chain(self.shell.as_ref().and_then(Shell::wake_at))
            .min()
    }

    /// Everything that follows from what has happened.
    fn follow_up(&mut self, now: Instant) {
        if self.shell.as_ref().and_then(Shell::wake_at).is_some_and(|at| at <= now) {
            self.hear_shell(now);
        }
        self.keep_deadlines(now);
        self.step_endings(now);
        if self.session.is_some() {
            self.advance_session(now);
        }
        self.tell_news();
        self.close_finished();
        self.check_orphaned(now);
        self.let_go(now);
        self.link.flush_due();
        self.tidy_up();
    }

    /// Does what nobody waits for: closes what is over, and makes what the next command needs. In a session that is
    /// done while the shell is at the next command. Done when a command is over, it would hold up the one who waits for
    /// it: the kernel likes to wake him on this core.
    fn tidy_up(&mut self) {
        let (now, likely) = match &self.session {
            Some(session) => (!session.is_warm(), session.is_brisk()),
            None => (true, self.role == Role::Ready && self.shell_ready),
        };
        if now {
            self.finished.clear();
        }
        if likely {
            self.supply.prepare();
        }
    }

    /// Without its socket no engine will ever find it again: the state directory was removed, and with it
    /// everybody's interest.
    fn check_orphaned(&mut self, now: Instant) {
        if self.link.engine().is_some() || self.role == Role::Ready || self.quitting {
            self.orphan_check = None;
            return;
        }
        let due = *self.orphan_check.get_or_insert(now + ORPHAN_CHECK);
        if due <= now {
            self.orphan_check = Some(now + ORPHAN_CHECK);
            let socket = socket_name(self.nonce.value());
            let found = statat(&self.context.folders.supervisors, socket, AtFlags::empty());
            if found.is_err_and(|e| e == rustix::io::Errno::NOENT) {
                self.quit(0);
            }
        }
    }

    fn keep_deadlines(&mut self, now: Instant) {
        let passed: Vec<_> = self
            .jobs
            .iter()
            .filter_map(|job| job.deadline().filter(|(at, _)| *at <= now).map(|(_, why)| (job.slot, why)))
            .collect();
        for (slot, reason) in passed {
            self.end_for_cause(slot, reason, now);
        }
        if self.after_prelude.take_if(|after| after.until <= now).is_some() {
            // It does not come to its state; its death is the command's end.
            self.kill_shell();
        }
    }

    /// Ends a running job because of a deadline or a limit.
    pub(super) fn end_for_cause(&mut self, slot: u32, reason: EndReason, now: Instant) {
        let Some(job) = self.jobs.iter().find(|job| job.slot == slot) else {
            return;
        };
        let grace = if reason == EndReason::OutputLimit { Duration::ZERO } else { job.command.timeout_grace };
        let signal = if grace.is_zero() { Signal::KILL } else { Signal::TERM };
        self.end_processes(slot, reason, signal, grace, Purpose::Cause, now);
    }

    /// Starts to end the processes of a running job.
    pub(super) fn end_processes(
        &mut self,
        slot: u32,
        reason: EndReason,
        signal: Signal,
        grace: Duration,
        purpose: Purpose,
        now: Instant,
    ) {
        let Some(job) = self.jobs.iter_mut().find(|job| job.slot == slot) else {
            return;
        };
        job.cause.get_or_insert((reason, signal.as_raw()));
        self.reusable = false;
        let scope = self.scope_of(slot);
        if self.session.is_some() {
            self.interrupt_shell(slot, grace, now);
        }
        // An interactive bash goes on with the next command unless its child died of SIGINT.
        let ask_first = self.session.is_some() && self.context.driver == Some(Driver::Portable);
        let (signal, grace) =
            if ask_first && grace.is_zero() { (Signal::INT, PORTABLE_GRACE) } else { (signal, grace) };
        // A session's cgroup holds more than this command; a run's holds nothing else.
        let cgroup = if scope == Scope::Tree { self.cgroup.as_ref() } else { None };
        let ending = Ending::new(scope, signal, grace, cgroup);
        let command = self.session.as_ref().map(|_| slot);
        self.endings.push(EndingTask { ending, purpose, command, wake_at: now });
    }

    fn step_endings(&mut self, now: Instant) {
        let mut index = 0;
        while index < self.endings.len() {
            let is_open = self.endings[index].command.is_some_and(|slot| self.shell_is_busy_with(slot));
            self.endings[index].ending.set_open(is_open);
            match self.endings[index].ending.step(now) {
                Step::Wait { until } => {
                    self.endings[index].wake_at = until;
                    index += 1;
                }
                Step::Done(receipt) => {
                    let task = self.endings.remove(index);
                    self.ending_done(task.purpose, receipt, now);
                }
            }
        }
        if !self.endings.is_empty() {
            // What was just killed may already be waiting to be reaped.
            self.reap(now);
        }
    }

    fn ending_done(&mut self, purpose: Purpose, receipt: KillReceipt, now: Instant) {
        match purpose {
            Purpose::Kill { request } => {
                // The leader's end is found by reaping; it is there when the receipt is.
                self.reap(now);
                self.link.send(request, &Answer::Receipt(receipt));
            }
            Purpose::Cause => self.reap(now),
            Purpose::Leftovers { slot } => self.end_now(slot),
            Purpose::Quit { request } => {
                self.reap(now);
                self.end_everything(now);
                self.link.send(request, &Answer::Receipt(receipt));
                self.leaving = true;
            }
        }
    }

    fn pump(&mut self, slot: u32, stream: Stream, now: Instant) {
        let Some(job) = self.jobs.iter_mut().find(|job| job.slot == slot) else {
            return;
        };
        if job.pump(stream, &mut self.buffer, now) == Pumped::Limit && job.cause.is_none() {
            self.end_for_cause(slot, EndReason::OutputLimit, now);
        }
    }

    fn tell_news(&mut self) {
        for job in &mut self.jobs {
            if let Some(position) = job.take_news() {
                self.link.send(0, &Answer::Grew { slot: job.slot, position });
            }
        }
    }

    /// Takes out jobs that have ended and of which nothing more will come.
    fn close_finished(&mut self) {
        let mut index = 0;
        while index < self.jobs.len() {
            let job = &mut self.jobs[index];
            let done = job.stage == Stage::Ended && job.retry_end() && job.is_silent();
            if !done {
                index += 1;
                continue;
            }
            let mut job = self.jobs.remove(index);
            self.link.send(0, &Answer::Closed { slot: job.slot, position: job.position() });
            // One that is not empty yet is removed when a later command ends, or at the very end.
            self.old_cgroups.extend(job.cgroup.take());
            self.old_cgroups.retain_mut(|cgroup| cgroup.remove().is_err());
            if self.jobs.is_empty() && self.buffer.capacity() > 4 << 10 {
                self.buffer = Vec::new();
            }
            self.finished.push(job);
        }
    }

    /// Reaps every child that has ended.
    pub(super) fn reap(&mut self, now: Instant) {
        let mut discarded = [0; 512];
        while rustix::io::read(&self.signals, &mut discarded).is_ok_and(|n| n == discarded.len()) {}
        // Its last words come before its death.
        self.hear_shell(now);
        self.continue_stopped_shell();
        while let Some(reaped) = sys::reap() {
            self.child_ended(&reaped, now);
        }
    }

    fn is_over(&mut self) -> bool {
        if self.leaving {
            return true;
        }
        match self.role {
            Role::Ready => (self.engine_gone || self.link.was_connected()) && self.link.engine().is_none(),
            Role::Run => {
                self.jobs.is_empty() && self.endings.is_empty() && no_children() && !self.start_over()
            }
            Role::Session(_) => false,
        }
    }

    /// Whether there is an engine that may want another run of it.
    fn start_over(&mut self) -> bool {
        self.runs += 1;
        let wanted = self.reusable && self.runs < MAX_RUNS && !self.quitting;
        if wanted && self.link.engine().is_some() {
            self.renew();
            return true;
        }
        false
    }

    fn leave(&mut self) {
        drop(self.link.finish());
        if let Some(shell) = &self.shell {
            // Ours and not reaped yet, so the number is still its.
            let _ = rustix::process::kill_process(shell.pid(), rustix::process::Signal::KILL);
            while sys::reap_one(shell.pid()) {}
        }
        let mut cgroups = std::mem::take(&mut self.old_cgroups);
        cgroups.extend(self.jobs.iter_mut().filter_map(|job| job.cgroup.take()));
        cgroups.extend(self.cgroup.take());
        // They are empty when the last process in them has been reaped, or a moment later.
        for _ in 0..100 {
            while sys::reap().is_some() {}
            cgroups.retain_mut(|cgroup| cgroup.remove().is_err());
            if cgroups.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Last: it tells the engine that there is nothing to clean up.
        let _ =
            unlinkat(&self.context.folders.supervisors, socket_name(self.nonce.value()), AtFlags::empty());
    }

    /// What a newly connected engine is told.
    pub(super) fn welcome(&self) -> Answer {
        let held = self.jobs.iter().map(|job| crate::protocol::Held {
            slot: job.slot,
            stage: job.stage,
            pid: job.pid.map(raw),
        });
        Answer::Welcome {
            version: crate::protocol::VERSION,
            pid: raw(rustix::process::getpid()),
            role: self.role,
            held: held.collect(),
        }
    }
}

fn no_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, options), Err(rustix::io::Errno::CHILD))
}
