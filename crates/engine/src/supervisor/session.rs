//! A supervisor as the owner of a session: one shell, one command at a time, and the means to bring
//! the shell back.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::event_loop::Supervisor;
use super::job::{Exit, Job, null, raw};
use super::run::{Start, check_folder, is_root, path_of, shell_env};
use super::setup::{looks_fatal, setup_text};
use super::snapshot_file::SnapshotFile;
use crate::command::Limits;
use crate::end::EndReason;
use crate::process_tree::{StartTime, limits};
use crate::protocol::{
    Answer, Bytes, Command, Inspection, OpenSession, Refusal, Role, Variable, WireProgram,
};
use crate::shell::{self, Done, Driver, How, Report, Shell, ShellUsage, Snapshot};

/// The most commands that wait for their turn.
const MAX_QUEUE: usize = 1000;
/// How long a session is idle before its state is saved.
const SNAPSHOT_DELAY: Duration = Duration::from_millis(10);
/// How long a shell has to come back after it was interrupted and its children are gone.
const SHELL_PATIENCE: Duration = Duration::from_secs(2);
/// How often a shell that is to unwind is reminded.
const INTERRUPT_AGAIN: Duration = Duration::from_millis(5);
/// How long after a deadline the command is over, even if the shell has not come back yet.
const DEADLINE_SLACK: Duration = Duration::from_millis(30);
/// How long a shell has for bringing its state up, or giving it.
const STATE_PATIENCE: Duration = Duration::from_secs(20);
/// How often in a row a shell may die while it comes up.
const MAX_FAILED_STARTS: u32 = 3;

/// What the shell is doing.
#[derive(Debug, Clone, Copy)]
enum Activity {
    /// Waiting for a command.
    Idle,
    /// Running a command.
    Command {
        slot: u32,
        unwinding: Option<Unwinding>,
    },
    /// Running a text of ours: first its state, then perhaps changes to its environment.
    State {
        until: Instant,
    },
    Env {
        request: u64,
        until: Instant,
    },
    /// The command is over, but the shell has not come back yet.
    Recovering {
        again: Instant,
        until: Instant,
    },
    /// Giving its state, and nothing else meanwhile (portable driver).
    Snapshot {
        until: Instant,
    },
    /// On its way out; the next one starts when it has been reaped.
    Dying,
    /// Gone, but its last state is still being written by a child of it.
    LastWords {
        until: Instant,
    },
    /// There is no shell.
    Down,
}

/// A command that is being interrupted.
#[derive(Debug, Clone, Copy)]
struct Unwinding {
    /// When to interrupt again: a signal can come just before the shell begins to wait.
    again: Instant,
    /// When the command is over, whether or not the shell has come back.
    over_by: Instant,
    /// When the shell has had its time to come back.
    patience: Instant,
}

/// What waits for its turn.
#[derive(Debug)]
enum Queued {
    Command(u32),
    Env { request: u64, text: Vec<u8> },
    Snapshot { request: u64 },
}

/// A shell's state, as text that brings it back.
#[derive(Debug)]
struct State {
    snapshot: Snapshot,
    taken: Instant,
}

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    env: Vec<Variable>,
    cwd: Option<Bytes>,
    activity: Activity,
    queue: VecDeque<Queued>,
    state: Option<State>,
    file: SnapshotFile,
    /// Commands have run since the state was taken.
    dirty: bool,
    snapshot_due: Option<Instant>,
    /// A snapshot was asked for and has not arrived; when it was asked for.
    pending: Option<Instant>,
    /// Requests that are answered by the next snapshot.
    wanted: Vec<u64>,
    /// The request that is answered when the shell is up.
    opening: Option<u64>,
    /// A shell that is gone while its last snapshot is not here yet.
    last: Option<Shell>,
    restarts: u32,
    failed_starts: u32,
    /// How old the state was that the shell was brought back to, for the next command to say.
    restored: Option<Duration>,
    /// A reset that waits: the request, and whether to keep the state.
    reset: Option<(u64, bool)>,
}

impl Session {
    pub(super) fn poll_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.last.iter().flat_map(Shell::poll_fds)
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        let activity = match self.activity {
            Activity::Idle => self.snapshot_due.filter(|_| self.pending.is_none()),
            Activity::Command { unwinding, .. } => unwinding.map(|u| u.again.min(u.over_by)),
            Activity::State { until }
            | Activity::Env { until, .. }
            | Activity::Snapshot { until }
            | Activity::LastWords { until } => Some(until),
            Activity::Recovering { again, until } => Some(again.min(until)),
            Activity::Dying | Activity::Down => None,
        };
        let pending = self.pending.map(|asked| asked + STATE_PATIENCE);
        [activity, pending].into_iter().flatten().min()
    }

    pub(super) fn describe(&self, inspection: &mut Inspection) {
        inspection.queued = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        inspection.restarts = self.restarts;
        inspection.busy = matches!(self.activity, Activity::Command { .. });
    }

    fn current(&self) -> Option<u32> {
        match self.activity {
            Activity::Command { slot, .. } => Some(slot),
            _ => None,
        }
    }
}

impl Supervisor {
    pub(super) fn current_slot(&self) -> Option<u32> {
        self.session.as_ref().and_then(Session::current)
    }

    pub(super) fn open_session(&mut self, request: u64, open: OpenSession, now: Instant) -> Option<Answer> {
        if self.role != Role::Ready {
            return Some(Answer::Refused(Refusal::NotASession));
        }
        if self.context.driver.is_none() {
            return Some(Answer::Refused(Refusal::NoShell("a session needs bash; install it".into())));
        }
        if let Err(why) = check_folder(open.cwd.as_ref()) {
            return Some(Answer::Refused(why));
        }
        self.role = Role::Session(open.slot);
        let age = open.snapshot_age.unwrap_or_default();
        let taken = now.checked_sub(age).unwrap_or(now);
        self.session = Some(Session {
            env: open.env,
            cwd: open.cwd,
            activity: Activity::Down,
            queue: VecDeque::new(),
            restored: open.snapshot.as_ref().and(open.snapshot_age),
            state: open
                .snapshot
                .and_then(|text| Snapshot::from_bytes(text.0).ok())
                .map(|snapshot| State { snapshot, taken }),
            file: SnapshotFile::new(open.slot),
            dirty: false,
            snapshot_due: None,
            pending: None,
            wanted: Vec::new(),
            opening: Some(request),
            last: None,
            restarts: 0,
            failed_starts: 0,
            reset: None,
        });
        self.bring_up(now);
        None
    }

    pub(super) fn queue_command(&mut self, command: Command, now: Instant) -> Answer {
        let Some(session) = &self.session else {
            return Answer::Refused(Refusal::NotASession);
        };
        if session.queue.len() >= MAX_QUEUE {
            return Answer::Refused(Refusal::QueueFull);
        }
        let slot = command.slot;
        match self.new_job(command, now) {
            Ok(job) => {
                self.jobs.push(job);
                self.enqueue(Queued::Command(slot));
                Answer::Accepted
            }
            Err(why) => Answer::Refused(why),
        }
    }

    fn enqueue(&mut self, item: Queued) {
        if let Some(session) = &mut self.session {
            session.queue.push_back(item);
        }
    }

    pub(super) fn queue_snapshot(&mut self, request: u64) -> Option<Answer> {
        if self.session.is_none() {
            return Some(Answer::Refused(Refusal::NotASession));
        }
        self.enqueue(Queued::Snapshot { request });
        None
    }

    pub(super) fn queue_env(&mut self, request: u64, changes: &[Variable]) -> Option<Answer> {
        if self.session.is_none() {
            return Some(Answer::Refused(Refusal::NotASession));
        }
        self.enqueue(Queued::Env { request, text: setup_text(changes, None) });
        None
    }

    pub(super) fn reset_session(&mut self, request: u64, restore: bool, now: Instant) -> Option<Answer> {
        let Some(session) = &mut self.session else {
            return Some(Answer::Refused(Refusal::NotASession));
        };
        if session.reset.is_some() {
            return Some(Answer::Refused(Refusal::QueueFull));
        }
        session.reset = Some((request, restore));
        if let Some(slot) = session.current() {
            self.end_processes(
                slot,
                EndReason::SessionEnded,
                rustix::process::Signal::KILL,
                Duration::ZERO,
                super::event_loop::Purpose::Cause,
                now,
            );
        }
        None
    }

    /// Goes on with whatever is next, if the shell is free or has taken too long.
    pub(super) fn advance_session(&mut self, now: Instant) {
        if self.quitting {
            return;
        }
        let Some(session) = &mut self.session else {
            return;
        };
        if session.pending.is_some_and(|asked| asked + STATE_PATIENCE <= now) {
            self.snapshot_arrived(None, now);
        }
        let Some(session) = &mut self.session else {
            return;
        };
        match session.activity {
            Activity::Idle => self.next_in_queue(now),
            Activity::Command { slot, unwinding: Some(mut unwinding) } => {
                if unwinding.over_by <= now {
                    let Unwinding { again, patience: until, .. } = unwinding;
                    session.activity = Activity::Recovering { again, until };
                    self.complete_command(slot, Exit::default(), now);
                } else if unwinding.again <= now {
                    unwinding.again = now + INTERRUPT_AGAIN;
                    session.activity = Activity::Command { slot, unwinding: Some(unwinding) };
                    self.interrupt_once();
                }
            }
            Activity::Recovering { again, until } if again <= now && now < until => {
                session.activity = Activity::Recovering { again: now + INTERRUPT_AGAIN, until };
                self.interrupt_once();
            }
            Activity::Recovering { until, .. }
            | Activity::State { until }
            | Activity::Env { until, .. }
            | Activity::Snapshot { until }
                if until <= now =>
            {
                self.kill_shell();
            }
            Activity::LastWords { until } if until <= now => {
                session.last = None;
                session.pending = None;
                self.bring_up(now);
            }
            _ => {}
        }
    }

    fn next_in_queue(&mut self, now: Instant) {
        while let Some(session) = &mut self.session
            && matches!(session.activity, Activity::Idle)
        {
            if let Some((_, restore)) = session.reset {
                if restore && session.dirty && session.pending.is_none() {
                    self.take_snapshot(now);
                } else if session.pending.is_none() {
                    if !restore {
                        session.state = None;
                    }
                    session.activity = Activity::Dying;
                    self.kill_shell();
                }
                return;
            }
            match session.queue.front() {
                None => {
                    if session.snapshot_due.is_some_and(|due| due <= now) && session.pending.is_none() {
                        self.take_snapshot(now);
                    }
                    return;
                }
                Some(Queued::Snapshot { request }) => {
                    session.wanted.push(*request);
                    session.queue.pop_front();
                    if session.dirty || session.state.is_none() {
                        if session.pending.is_none() {
                            self.take_snapshot(now);
                        }
                    } else {
                        self.answer_wanted();
                    }
                }
                Some(Queued::Env { .. }) => {
                    if let Some(Queued::Env { request, text }) = session.queue.pop_front() {
                        let until = now + STATE_PATIENCE;
                        self.run_hidden(&text, Activity::Env { request, until });
                    }
                }
                Some(Queued::Command(slot)) => {
                    let slot = *slot;
                    let Some(job) = self.jobs.iter().find(|job| job.slot == slot) else {
                        session.queue.pop_front();
                        continue;
                    };
                    // The state after the last command must be safe before this one can end the shell.
                    if session.dirty && session.pending.is_none() && may_end_shell(job) {
                        self.take_snapshot(now);
                        continue;
                    }
                    session.queue.pop_front();
                    if let Err(why) = self.run_command(slot, now) {
                        self.not_started(slot, why, now);
                    }
                }
            }
        }
    }

    fn run_command(&mut self, slot: u32, now: Instant) -> Result<(), Refusal> {
        let index = self.jobs.iter().position(|job| job.slot == slot).ok_or(Refusal::NoSuchExecution)?;
        let job = &mut self.jobs[index];
        check_folder(job.command.cwd.as_ref())?;
        let plan = limits::plan(&job.command.limits, &self.context.cgroups, is_root())
            .map_err(|e| Refusal::Limit(e.to_string()))?;
        let in_cgroup = Limits { output_bytes: job.command.limits.output_bytes, ..plan.in_cgroup };
        if in_cgroup != job.command.limits {
            return Err(Refusal::Limit(
                "a single command of a session can be limited in memory and processes, where there is a cgroup \
                 for it, and in output; for other limits run it without a session, or use ulimit in the session"
                    .into(),
            ));
        }
        let shell = self.shell.as_mut().ok_or_else(|| Refusal::NoShell("it has gone".into()))?;
        let pid = shell.pid();
        let session = self.session.as_mut().ok_or(Refusal::NotASession)?;
        if in_cgroup.any_kernel_limit() {
            let name = format!("-{}", self.commands);
            let made = self.context.cgroups.create(self.nonce, &name, &in_cgroup);
            let cgroup = made.map_err(|e| Refusal::os(&e, "make a cgroup for the limits"))?;
            cgroup.add(pid).map_err(|e| Refusal::os(&e, "apply the limits"))?;
            job.oom_kills = cgroup.oom_kills();
            job.cgroup = Some(cgroup);
        }
        let stdio = job.open_stdio().map_err(|e| Refusal::os(&e.into(), "make pipes"))?;
        // Without a tag, ancestry and time still tell most of what belongs to the command.
        drop(job.tag.set_on(pid));
        job.since = Some(StartTime::now());
        let text = match &job.command.program {
            WireProgram::Shell(text) => text.0.clone(),
            WireProgram::Argv(argv) => super::setup::quoted(argv),
        };
        let env = shell_env(&job.command.env);
        let cwd = job.command.cwd.clone().map(path_of);
        let given = shell.run(shell::Job {
            text: &text,
            stdin: stdio.stdin.as_fd(),
            stdout: stdio.stdout.as_fd(),
            stderr: stdio.stderr.as_fd(),
            env: &env,
            cwd: cwd.as_deref(),
            once: false,
        });
        given.map_err(|e| Refusal::os(&e, "hand the command to the shell"))?;
        session.activity = Activity::Command { slot, unwinding: None };
        session.dirty = true;
        session.snapshot_due = None;
        job.restored = session.restored.take();
        job.hold(stdio);
        job.started(pid, now);
        self.link.send(0, &Answer::Started { slot, pid: raw(pid) });
        Ok(())
    }

    /// Runs a text of ours that nobody sees.
    fn run_hidden(&mut self, text: &[u8], activity: Activity) {
        let (Some(session), Some(shell)) = (&mut self.session, &mut self.shell) else {
            return;
        };
        session.activity = activity;
        let given = null().map_err(Into::into).and_then(|null| {
            let null = null.as_fd();
            let (stdin, stdout, stderr) = (null, null, null);
            shell.run(shell::Job { text, stdin, stdout, stderr, env: &[], cwd: None, once: false })
        });
        if given.is_err() {
            self.kill_shell();
        }
    }

    fn take_snapshot(&mut self, now: Instant) {
        let (Some(session), Some(shell)) = (&mut self.session, &mut self.shell) else {
            return;
        };
        session.snapshot_due = None;
        if shell.snapshot().is_err() {
            // Not this time; the one before it stands.
            session.dirty = false;
            self.answer_wanted();
            return;
        }
        session.dirty = false;
        session.pending = Some(now);
        if self.context.driver == Some(Driver::Portable) {
            session.activity = Activity::Snapshot { until: now + STATE_PATIENCE };
        }
    }

    /// Everything a shell has to say: the present one, and one whose last words are awaited.
    pub(super) fn hear_shell(&mut self, now: Instant) {
        loop {
            let last = self.session.as_mut().and_then(|session| session.last.as_mut());
            let reports = last.and_then(|shell| shell.receive().ok().flatten());
            let report = match reports {
                Some(report) => Some(report),
                None => self.shell.as_mut().and_then(|shell| shell.receive().ok().flatten()),
            };
            match report {
                None => return,
                Some(Report::Ready) if self.role == Role::Ready => self.link.send(0, &Answer::Ready),
                Some(Report::Ready) => {}
                Some(Report::Done(_)) if self.session.is_none() => self.prelude_done(),
                Some(Report::Done(done)) => self.shell_done(&done, now),
                Some(Report::Snapshot(taken)) => self.snapshot_arrived(taken.ok(), now),
            }
        }
    }

    fn shell_done(&mut self, done: &Done, now: Instant) {
        let Some(session) = &mut self.session else {
            return;
        };
        let activity = std::mem::replace(&mut session.activity, Activity::Idle);
        match activity {
            Activity::Command { slot, .. } => {
                session.snapshot_due = Some(now + SNAPSHOT_DELAY);
                let shell_ended = done.how == How::Exit;
                if shell_ended {
                    session.activity = Activity::Dying;
                }
                let signal = (done.how == How::Signal).then_some(done.status - 128);
                let used = done.usage.unwrap_or(ShellUsage {
                    user: Duration::ZERO,
                    system: Duration::ZERO,
                    max_rss_bytes: 0,
                });
                let exit = Exit {
                    code: Some(done.status),
                    signal,
                    user: used.user,
                    system: used.system,
                    max_rss_bytes: used.max_rss_bytes,
                    shell_ended,
                };
                self.complete_command(slot, exit, now);
                if shell_ended {
                    self.kill_shell();
                }
            }
            Activity::Recovering { .. } => session.snapshot_due = Some(now + SNAPSHOT_DELAY),
            Activity::State { .. } => {
                session.failed_starts = 0;
                self.shell_up();
            }
            Activity::Env { request, .. } => {
                session.dirty = true;
                session.snapshot_due = Some(now + SNAPSHOT_DELAY);
                self.link.send(request, &Answer::Done);
            }
            Activity::Dying => session.activity = Activity::Dying,
            Activity::Idle | Activity::Snapshot { .. } | Activity::LastWords { .. } | Activity::Down => {}
        }
    }

    fn complete_command(&mut self, slot: u32, mut exit: Exit, now: Instant) {
        if let Ok(job) = self.job(slot)
            && let Some((_, signal)) = job.cause
        {
            // The shell says 130 whatever it was asked with.
            exit.code = Some(128 + signal);
        }
        self.leave_limits(slot);
        self.complete(slot, exit, now);
    }

    /// Takes the shell out of a cgroup that was for one command.
    fn leave_limits(&mut self, slot: u32) {
        let Some(shell) = &self.shell else { return };
        let limited = self.jobs.iter().any(|job| job.slot == slot && job.cgroup.is_some());
        if limited {
            drop(self.cgroup.as_ref().map(|cgroup| cgroup.add(shell.pid())));
        }
    }

    fn snapshot_arrived(&mut self, snapshot: Option<Snapshot>, now: Instant) {
        let Some(session) = &mut self.session else {
            return;
        };
        let taken = session.pending.take().unwrap_or(now);
        match snapshot {
            Some(snapshot) => {
                // In memory it serves this supervisor; on disk, the engine should we be killed.
                drop(session.file.write(&self.context.folders.snapshots, snapshot.as_bytes()));
                session.state = Some(State { snapshot, taken });
            }
            None => session.dirty = session.dirty || session.state.is_none(),
        }
        if let Activity::Snapshot { .. } = session.activity {
            session.activity = Activity::Idle;
        }
        let last_words = matches!(session.activity, Activity::LastWords { .. });
        self.answer_wanted();
        if last_words {
            if let Some(session) = &mut self.session {
                session.last = None;
            }
            self.bring_up(now);
        }
    }

    fn answer_wanted(&mut self) {
        let Some(session) = &mut self.session else {
            return;
        };
        let text = session.state.as_ref().map(|state| Bytes(state.snapshot.as_bytes().to_vec()));
        for request in std::mem::take(&mut session.wanted) {
            self.link.send(request, &Answer::Snapshot(text.clone()));
        }
    }

    /// Unwinds the running command; the shell stays.
    pub(super) fn interrupt_shell(&mut self, slot: u32, grace: Duration, now: Instant) {
        let (Some(session), Some(shell)) = (&mut self.session, &mut self.shell) else {
            return;
        };
        if session.current() != Some(slot) {
            return;
        }
        drop(shell.interrupt());
        let unwinding = Unwinding {
            again: now + INTERRUPT_AGAIN,
            over_by: now + grace + DEADLINE_SLACK,
            patience: now + grace + SHELL_PATIENCE,
        };
        session.activity = Activity::Command { slot, unwinding: Some(unwinding) };
    }

    fn interrupt_once(&mut self) {
        if let Some(shell) = &mut self.shell {
            // If it is gone, reaping tells.
            drop(shell.interrupt());
        }
    }

    pub(super) fn kill_shell(&mut self) {
        if let Some(shell) = &self.shell {
            // Our child, not reaped yet, so the number is its own.
            let _ = rustix::process::kill_process(shell.pid(), rustix::process::Signal::KILL);
        }
    }

    /// A shell that stops itself would never answer again.
    pub(super) fn continue_stopped_shell(&mut self) {
        let (Some(_), Some(shell)) = (&self.session, &self.shell) else {
            return;
        };
        let options = rustix::process::WaitIdOptions::STOPPED | rustix::process::WaitIdOptions::NOHANG;
        let id = rustix::process::WaitId::Pid(shell.pid());
        if let Ok(Some(status)) = rustix::process::waitid(id, options)
            && status.stopped()
        {
            let _ = rustix::process::kill_process(shell.pid(), rustix::process::Signal::CONT);
        }
    }

    /// The shell has died, of whatever.
    pub(super) fn shell_ended(&mut self, exit: Exit, now: Instant) {
        let shell = self.shell.take();
        let Some(session) = &mut self.session else {
            return;
        };
        let activity = std::mem::replace(&mut session.activity, Activity::Down);
        match activity {
            Activity::Command { slot, .. } => {
                self.complete_command(slot, Exit { shell_ended: true, ..exit }, now);
            }
            Activity::State { .. } => {
                session.failed_starts += 1;
                // A state that cannot be brought back must not keep the session from coming back.
                session.state = None;
            }
            Activity::Env { request, .. } => {
                let why = Refusal::NoShell("it ended while its environment was changed".into());
                self.link.send(request, &Answer::Refused(why));
            }
            _ => {}
        }
        if self.quitting {
            return;
        }
        let Some(session) = &mut self.session else {
            return;
        };
        if session.pending.is_some() && !matches!(activity, Activity::Snapshot { .. }) {
            session.last = shell;
            session.activity = Activity::LastWords { until: now + STATE_PATIENCE };
            return;
        }
        session.pending = None;
        self.bring_up(now);
    }

    /// Starts a shell if there is none, and gives it the session's state.
    fn bring_up(&mut self, now: Instant) {
        let Some(session) = &mut self.session else {
            return;
        };
        if session.failed_starts >= MAX_FAILED_STARTS {
            self.give_up(now);
            return;
        }
        let first = session.opening.is_some() && session.failed_starts == 0;
        let start = if session.state.is_some() { Start::Empty } else { Start::Fresh };
        if start == Start::Empty && self.shell.is_some() {
            // One that was kept ready has the sandbox's environment already.
            self.drop_ready_shell();
        }
        if self.shell.is_none() {
            match self.start_shell(start) {
                Ok(shell) => self.shell = Some(shell),
                Err(_) => {
                    self.give_up(now);
                    return;
                }
            }
        }
        let Some(session) = &mut self.session else {
            return;
        };
        if !first {
            session.restarts += 1;
            let age = session.state.as_ref().map(|state| now.saturating_duration_since(state.taken));
            if session.reset.is_none() {
                session.restored = Some(age.unwrap_or_default());
            }
            self.link.send(0, &Answer::Restarted(session.restarts));
        }
        session.dirty = false;
        session.snapshot_due = None;
        let until = now + STATE_PATIENCE;
        if let (Some(state), Some(shell)) = (&session.state, &mut self.shell) {
            session.activity = Activity::State { until };
            if shell.restore(&state.snapshot).is_err() {
                self.kill_shell();
            }
            return;
        }
        let text = setup_text(&session.env, session.cwd.as_ref());
        if text.is_empty() {
            session.activity = Activity::Idle;
            self.shell_up();
        } else {
            self.run_hidden(&text, Activity::State { until });
        }
    }

    /// The shell is up and has its state.
    fn shell_up(&mut self) {
        let Some(session) = &mut self.session else {
            return;
        };
        session.activity = Activity::Idle;
        let reset = session.reset.take().map(|(request, _)| request);
        for request in session.opening.take().into_iter().chain(reset) {
            self.link.send(request, &Answer::Done);
        }
    }

    /// No shell can be had: everything that waits for one is told, the next request tries again.
    fn give_up(&mut self, now: Instant) {
        let Some(session) = &mut self.session else {
            return;
        };
        session.activity = Activity::Down;
        session.failed_starts = 0;
        let why = || Refusal::NoShell("bash could not be started; is the machine out of processes?".into());
        let mut requests: Vec<u64> = session.opening.take().into_iter().collect();
        requests.extend(session.reset.take().map(|(request, _)| request));
        requests.append(&mut session.wanted);
        for item in std::mem::take(&mut session.queue) {
            match item {
                Queued::Command(slot) => self.not_started(slot, why(), now),
                Queued::Env { request, .. } | Queued::Snapshot { request } => requests.push(request),
            }
        }
        for request in requests {
            self.link.send(request, &Answer::Refused(why()));
        }
    }

    /// Whether anything may be left of a command that has returned; cheap, and nearly always no.
    pub(super) fn may_have_leftovers(&mut self) -> bool {
        let shell = self.shell.as_ref().filter(|_| self.session.is_some()).map(Shell::pid);
        self.children.any_besides(shell).unwrap_or(true)
            || shell.is_some_and(|pid| self.shell_children.any(pid))
    }

    /// Ends a command that never had its turn.
    pub(super) fn end_unstarted(&mut self, slot: u32, now: Instant) {
        if let Some(session) = &mut self.session {
            session.queue.retain(|item| !matches!(item, Queued::Command(queued) if *queued == slot));
        }
        let Ok(job) = self.job(slot) else { return };
        job.hang_up();
        let signal = job.cause.map_or(libc::SIGKILL, |(_, signal)| signal);
        let exit = Exit { code: Some(128 + signal), ..Exit::default() };
        job.pending_end = Some(job.end_of(exit, Vec::new(), now));
        self.end_now(slot);
    }
}

/// Whether a command looks as if it may end the shell. A guess that only decides when the state is
/// saved: if it is wrong, the state that comes back is a little older, and says so.
fn may_end_shell(job: &Job) -> bool {
    match &job.command.program {
        WireProgram::Shell(text) => looks_fatal(&text.0),
        WireProgram::Argv(argv) => argv.iter().any(|word| looks_fatal(&word.0)),
    }
}
