//! Turns: what the shell does next, and what follows when it is done.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::super::event_loop::Supervisor;
use super::super::job::{Exit, Job, raw};
use super::super::run::{check_folder, is_root, path_of, shell_env};
use super::super::setup::{looks_fatal, looks_strict, quoted};
use super::{Activity, Queued, STATE_PATIENCE, Unwinding};
use crate::command::Limits;
use crate::process_tree::{StartTime, limits};
use crate::protocol::{Answer, Refusal, Role, WireProgram};
use crate::shell::{self, Done, How, Hurry, Report, Shell};

/// How long a session is idle before its state is saved.
const SNAPSHOT_DELAY: Duration = Duration::from_millis(200);
/// How long a shell has to come back after it was interrupted and its children are gone.
const SHELL_PATIENCE: Duration = Duration::from_secs(2);
/// How often a shell that is to unwind is reminded.
const INTERRUPT_AGAIN: Duration = Duration::from_millis(5);
/// How long after a deadline the command is over, even if the shell has not come back yet.
const DEADLINE_SLACK: Duration = Duration::from_millis(30);

impl Supervisor {
    /// Goes on with whatever is next, if the shell is free or has taken too long.
    pub(in crate::supervisor) fn advance_session(&mut self, now: Instant) {
        if self.quitting {
            return;
        }
        let Some(session) = &mut self.session else {
            return;
        };
        if session.pending.is_some_and(|asked| asked + STATE_PATIENCE <= now) {
            self.end_snapshot_forks();
            self.snapshot_arrived(None, now);
        }
        let Some(session) = &mut self.session else {
            return;
        };
        match session.activity {
            Activity::Idle => self.next_in_queue(now),
            // No shell could be had the last time; perhaps now.
            Activity::Down if !session.queue.is_empty() || session.reset.is_some() => self.bring_up(now),
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
                self.end_snapshot_forks();
                self.bring_up(now);
            }
            _ => {}
        }
    }

    fn next_in_queue(&mut self, now: Instant) {
        while let Some(session) = &mut self.session
            && matches!(session.activity, Activity::Idle)
        {
            if let Some(reset) = &session.reset {
                if reset.restore && session.dirty && session.pending.is_none() {
                    self.take_snapshot(Hurry::Yes, now);
                } else if session.pending.is_none() {
                    session.activity = Activity::Dying;
                    self.kill_shell();
                }
                return;
            }
            match session.queue.front() {
                None => {
                    if session.snapshot_due.is_some_and(|due| due <= now) && session.pending.is_none() {
                        self.take_snapshot(Hurry::No, now);
                    }
                    return;
                }
                Some(Queued::Snapshot { request }) => {
                    session.wanted.push(*request);
                    session.queue.pop_front();
                    if session.dirty || session.state.is_none() {
                        if session.pending.is_none() {
                            self.take_snapshot(Hurry::Yes, now);
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
                    // The state after the last command must be safe before this one can end the shell; if it
                    // cannot be had, the one before it has to do.
                    let tried = session.guarded == Some(slot);
                    let may_end = session.strict || any_text(job, looks_fatal);
                    if session.dirty && !tried && may_end {
                        if session.pending.is_some() {
                            // One of an earlier state is on its way; two at a time cannot be had.
                            return;
                        }
                        session.guarded = Some(slot);
                        self.take_snapshot(Hurry::Yes, now);
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
            let name = format!("-{}", job.tag.command());
            let made = self.context.cgroups.create(self.nonce, &name, &in_cgroup);
            let cgroup = made.map_err(|e| Refusal::os(&e, "make a cgroup for the limits"))?;
            let cgroup = job.cgroup.insert(cgroup);
            cgroup.add(pid).map_err(|e| Refusal::os(&e, "apply the limits"))?;
        }
        job.note_oom_kills(self.context.oom_kills());
        let stdio = match job.unused.take() {
            Some(stdio) => stdio,
            None => job.open_stdio(&mut self.supply).map_err(|e| Refusal::os(&e.into(), "make pipes"))?,
        };
        // Without a tag, ancestry and time still tell most of what belongs to the command.
        drop(job.tag.set_on(pid));
        job.since = Some(StartTime::now());
        let text = match &job.command.program {
            WireProgram::Shell(text) => text.0.clone(),
            WireProgram::Argv(argv) => quoted(argv),
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
            once: None,
        });
        match given {
            Ok(()) => {}
            // The last command has closed what it takes commands from: the next shell gets this one.
            Err(e) if is_hung_up(&e) && session.handed_on != Some(slot) => {
                job.unused = Some(stdio);
                session.handed_on = Some(slot);
                session.queue.push_front(Queued::Command(slot));
                session.activity = Activity::Dying;
                self.kill_shell();
                return Ok(());
            }
            Err(e) => return Err(Refusal::os(&e, "hand the command to the shell")),
        }
        session.activity = Activity::Command { slot, unwinding: None };
        session.strict = session.strict || any_text(job, looks_strict);
        session.dirty = true;
        session.brisk = session.snapshot_due.take().is_some();
        if session.brisk {
            self.for_shell.begin();
        }
        job.restored = session.restored.take();
        session.shell_ended = false;
        job.record_start(pid);
        job.hold(stdio);
        job.started(pid, now);
        self.link.send(0, &Answer::Started { slot, pid: raw(pid) });
        Ok(())
    }

    /// Runs a text of ours that nobody sees.
    pub(super) fn run_hidden(&mut self, text: &[u8], activity: Activity) {
        let (Some(session), Some(shell)) = (&mut self.session, &mut self.shell) else {
            return;
        };
        session.activity = activity;
        let null = self.supply.null().as_fd();
        let (stdin, stdout, stderr) = (null, null, null);
        let job = shell::Job { text, stdin, stdout, stderr, env: &[], cwd: None, once: None };
        if shell.run(job).is_err() {
            self.kill_shell();
        }
    }

    /// Everything a shell has to say: the present one, and one whose last words are awaited.
    pub(in crate::supervisor) fn hear_shell(&mut self, now: Instant) {
        loop {
            let last = self.session.as_mut().and_then(|session| session.last.as_mut());
            let reports = last.and_then(|shell| shell.receive().ok().flatten());
            let report = match reports {
                Some(report) => Some(report),
                None => match self.shell.as_mut().map(Shell::receive) {
                    Some(Ok(report)) => report,
                    Some(Err(_)) => {
                        self.shell_refused();
                        None
                    }
                    None => None,
                },
            };
            match report {
                None => return,
                Some(Report::Ready) if self.role == Role::Ready => {
                    self.shell_ready = true;
                    self.tell_ready();
                }
                Some(Report::Ready) => {}
                Some(Report::Done(_)) if self.after_prelude.is_some() => self.prelude_done(),
                Some(Report::Done(done)) if self.session.is_none() => self.once_done(&done, now),
                Some(Report::Done(done)) => self.shell_done(&done, now),
                Some(Report::Snapshot(taken)) => self.snapshot_arrived(taken.ok(), now),
            }
        }
    }

    /// The shell cannot take the command, as after `ulimit -n 3`: nothing can be done with it any more.
    fn shell_refused(&mut self) {
        let Some(slot) = self.current_slot() else { return };
        if let Ok(job) = self.job(slot) {
            job.tell_reader(b"bash: no descriptors are left for a command; the shell starts over\n");
        }
        self.kill_shell();
    }

    fn shell_done(&mut self, done: &Done, now: Instant) {
        let Some(session) = &mut self.session else {
            return;
        };
        let activity = std::mem::replace(&mut session.activity, Activity::Idle);
        match activity {
            Activity::Command { slot, .. } => {
                self.for_shell.end();
                if session.brisk {
                    self.for_engine.begin();
                }
                session.snapshot_due = Some(now + SNAPSHOT_DELAY);
                self.complete_command(slot, Exit::of(done), now);
                if done.how == How::Exit {
                    self.shell_went_on();
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

    /// The command has ended its shell, which goes on as the next one, with the state the command has left.
    fn shell_went_on(&mut self) {
        let Some(session) = &mut self.session else {
            return;
        };
        session.restarts += 1;
        session.restored = Some(Duration::ZERO);
        self.link.send(0, &Answer::Restarted(session.restarts));
    }

    pub(super) fn complete_command(&mut self, slot: u32, mut exit: Exit, now: Instant) {
        if let Ok(job) = self.job(slot)
            && let Some((_, signal)) = job.cause
        {
            // The shell says 130 whatever it was asked with.
            exit.code = Some(128 + signal);
        }
        if let Some(session) = &mut self.session {
            session.shell_ended = exit.shell_ended;
        }
        self.leave_limits(slot);
        self.complete(slot, exit, now);
    }

    /// Takes the shell out of a cgroup that was for one command.
    fn leave_limits(&mut self, slot: u32) {
        let Some(shell) = &self.shell else { return };
        let limited = self.jobs.iter().find(|job| job.slot == slot).and_then(|job| job.cgroup.as_ref());
        if let Some(limited) = limited {
            // It is gone, then.
            drop(limited.release(shell.pid()));
            drop(self.cgroup.as_ref().map(|cgroup| cgroup.add(shell.pid())));
        }
    }

    /// Unwinds the running command; the shell stays.
    pub(in crate::supervisor) fn interrupt_shell(&mut self, slot: u32, grace: Duration, now: Instant) {
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

    /// Whether anything may be left of a command that has returned; cheap, and nearly always no.
    pub(in crate::supervisor) fn may_have_leftovers(&mut self) -> bool {
        let shell = self.shell.as_ref().map(Shell::pid);
        // In this order: the children of a shell that ends in between are ours by the second look.
        shell.is_some_and(|pid| self.shell_children.any(pid))
            || self.children.any_besides(shell).unwrap_or(true)
    }
}

/// Whether the shell does not listen any more.
fn is_hung_up(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

/// Whether a command looks like something. A guess that only decides when the state is saved: if it is
/// wrong, the state that comes back is a little older, and says so.
fn any_text(job: &Job, looks: fn(&[u8]) -> bool) -> bool {
    match &job.command.program {
        WireProgram::Shell(text) => looks(&text.0),
        WireProgram::Argv(argv) => argv.iter().any(|word| looks(&word.0)),
    }
}
