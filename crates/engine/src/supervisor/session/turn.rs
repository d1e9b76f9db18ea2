//! Scheduling: what the shell does next, and what follows when it has finished.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::super::core::Core;
use super::super::job::{Exit, Restored, raw};
use super::super::shell_input::{check_folder, path_of, shell_env};
use super::{Activity, HandedOn, Queued, STATE_TIMEOUT, Session, Unwinding};
use crate::command::Limits;
use crate::end::StateSource;
use crate::process_tree::{StartTime, limits};
use crate::protocol::{Refusal, Response, WireProgram};
use crate::shell::{self, CommandEnd, Done, Report, Shell, SnapshotError, Urgency};

/// Time after a command in which the next one may follow at once.
const WARM_TIME: Duration = Duration::from_millis(200);
/// Maximum time for a shell to return after it was interrupted and its children have ended.
const SHELL_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between interrupts of a shell that should unwind.
const INTERRUPT_AGAIN: Duration = Duration::from_millis(5);
/// Time after a deadline at which the command counts as ended, even if the shell has not returned.
const DEADLINE_SLACK: Duration = Duration::from_millis(30);

impl Session {
    /// Continues with the next action, if the shell is free or has taken too long.
    pub(in crate::supervisor) fn advance(&mut self, core: &mut Core, now: Instant) {
        self.saved.write_if_due(&core.context.folders.snapshots, now);
        if core.quitting {
            return;
        }
        if self.saved.asked().is_some_and(|asked| asked + STATE_TIMEOUT <= now) {
            self.end_snapshot_forks(core);
            self.snapshot_arrived(core, Err(SnapshotError::Incomplete(0)), now);
        }
        match self.activity {
            Activity::Idle => self.next_in_queue(core, now),
            // No shell could be started the last time; try again.
            Activity::Down if !self.queue.is_empty() || self.reset.is_some() => self.bring_up(core, now),
            Activity::Command { slot, unwinding: Some(mut unwinding) } => {
                if unwinding.over_by <= now {
                    let Unwinding { again, kill_at: until, .. } = unwinding;
                    self.activity = Activity::Recovering { again, until };
                    self.complete_command(core, slot, Exit::default(), now);
                } else if unwinding.again <= now {
                    unwinding.again = now + INTERRUPT_AGAIN;
                    self.activity = Activity::Command { slot, unwinding: Some(unwinding) };
                    self.interrupt_once();
                }
            }
            Activity::Recovering { again, until } if again <= now && now < until => {
                self.activity = Activity::Recovering { again: now + INTERRUPT_AGAIN, until };
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
            Activity::AwaitingSnapshot { until } if until <= now => {
                self.dead_shell = None;
                self.saved.give_up_pending();
                self.refuse_wanted(core);
                self.end_snapshot_forks(core);
                self.bring_up(core, now);
            }
            _ => {}
        }
    }

    fn next_in_queue(&mut self, core: &mut Core, now: Instant) {
        if self.warm_until.take_if(|until| *until <= now).is_some() {
            // No urgent work follows.
            core.supply.release();
        }
        while matches!(self.activity, Activity::Idle) {
            if let Some(reset) = &self.reset {
                if self.saved.is_pending() {
                    return;
                }
                if reset.restore && !self.saved.is_current() {
                    self.take_snapshot(core, now);
                    continue;
                }
                self.activity = Activity::Dying;
                self.kill_shell();
                return;
            }
            let is_command = matches!(self.queue.front(), Some(Queued::Command(_)));
            if self.saved.due(self.is_caught).is_some_and(|due| due <= now)
                || (is_command && self.saved.is_due_before_command(self.is_caught, now))
            {
                let urgency = if self.queue.is_empty() { Urgency::Low } else { Urgency::High };
                self.save_changes(core, urgency, now);
                continue;
            }
            match self.queue.front() {
                None => return,
                Some(Queued::Snapshot { request }) => {
                    let request = *request;
                    if self.saved.is_pending() && !self.saved.is_present_pending() && !self.wanted.is_empty()
                    {
                        // It is an earlier state, for requests that want that one.
                        return;
                    }
                    self.queue.pop_front();
                    self.wanted.push(request);
                    if self.saved.is_current() {
                        self.answer_wanted(core);
                    } else if !self.saved.is_present_pending() {
                        self.take_snapshot(core, now);
                    }
                }
                Some(Queued::Env { .. }) => {
                    if let Some(Queued::Env { request, text }) = self.queue.pop_front() {
                        self.change_env(core, request, text, now);
                    }
                }
                Some(Queued::Command(slot)) => {
                    let slot = *slot;
                    self.queue.pop_front();
                    if !core.jobs.iter().any(|job| job.slot == slot) {
                        continue;
                    }
                    if let Err(why) = self.run_command(core, slot, now) {
                        self.leave_limits(core, slot);
                        core.not_started(slot, why, now);
                    }
                }
            }
        }
    }

    fn run_command(&mut self, core: &mut Core, slot: u32, now: Instant) -> Result<(), Refusal> {
        let index = core.jobs.iter().position(|job| job.slot == slot).ok_or(Refusal::NoSuchExecution)?;
        check_folder(core.jobs[index].command.cwd.as_ref(), core.credentials())?;
        let is_root = core.commands_are_root();
        let job = &mut core.jobs[index];
        let plan = limits::plan(&job.command.limits, &core.context.cgroups, is_root)
            .map_err(|e| Refusal::Limit(e.to_string()))?;
        let in_cgroup = Limits { output_bytes: job.command.limits.output_bytes, ..plan.in_cgroup };
        if in_cgroup != job.command.limits {
            return Err(Refusal::Limit(
                "a command of a session supports only limits of output, and of memory and processes if a cgroup is \
                 available; for other limits run it without a session, or use ulimit in the session"
                    .into(),
            ));
        }
        let shell = self.shell.as_mut().ok_or_else(|| Refusal::NoShell("the shell has ended".into()))?;
        let pid = shell.pid();
        if in_cgroup.any_kernel_limit() {
            // A command that was passed on from a shell that had ended already has it.
            let cgroup = match &mut job.cgroup {
                Some(cgroup) => cgroup,
                none => {
                    let name = format!("-{}", job.tag.command());
                    let made = core.context.cgroups.create(core.nonce, &name, &in_cgroup);
                    none.insert(made.map_err(|e| Refusal::os(&e, "make a cgroup for the limits"))?)
                }
            };
            cgroup.add(pid).map_err(|e| Refusal::os(&e, "apply the limits"))?;
        }
        job.note_oom_kills(core.context.oom_kills());
        let stdio = job.open_stdio(&mut core.supply).map_err(|e| Refusal::os(&e.into(), "make pipes"))?;
        // Without a tag, ancestry and start time still identify most processes of the command.
        drop(job.tag.set_on(pid));
        let since = StartTime::now();
        job.since = Some(since);
        core.endings.iter_mut().for_each(|task| task.ending.end_by(since.before()));
        let text = match &job.command.program {
            WireProgram::Shell(text) => text.0.clone(),
            WireProgram::Argv(argv) => shell::quoted(argv.iter().map(|word| &word.0)),
        };
        let env = shell_env(&job.command.env);
        let cwd = job.command.cwd.clone().map(path_of);
        let given = shell.run(shell::ShellJob {
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
            // The last command has closed the shell's connection: the next shell gets this one.
            Err(e) if is_hung_up(&e) && self.handed_on != Some(HandedOn::Command(slot)) => {
                job.io.keep_unused(stdio);
                self.handed_on = Some(HandedOn::Command(slot));
                self.queue.push_front(Queued::Command(slot));
                self.activity = Activity::Dying;
                self.kill_shell();
                return Ok(());
            }
            Err(e) => return Err(Refusal::os(&e, "hand the command to the shell")),
        }
        self.activity = Activity::Command { slot, unwinding: None };
        self.is_rapid = self.warm_until.take().is_some();
        job.restored = self.restored.take();
        self.shell_ended = false;
        job.record_start(pid);
        job.io.hold(stdio);
        job.started(pid, now);
        core.link.send(0, &Response::Started { slot, pid: raw(pid) });
        Ok(())
    }

    /// Runs a text of the supervisor that changes variables, and is not visible to the user. A text that this process
    /// cannot hand over is refused: the shell has got nothing of it, and stays.
    fn change_env(&mut self, core: &mut Core, request: u64, text: Vec<u8>, now: Instant) {
        let refuse = |core: &mut Core, why| core.link.send(request, &Response::Refused(why));
        let Some(shell) = &mut self.shell else {
            return refuse(core, Refusal::NoShell("the shell has ended".into()));
        };
        let null = core.supply.null().as_fd();
        let (stdin, stdout, stderr) = (null, null, null);
        let job = shell::ShellJob { text: &text, stdin, stdout, stderr, env: &[], cwd: None, once: None };
        let mut given = shell.run(job);
        // A command may have lowered a limit of this process.
        let mut is_usable = true;
        if given.as_ref().is_err_and(|e| !is_hung_up(e)) {
            is_usable = core.own_limits.restore_needed();
            if is_usable {
                given = shell.run(job);
            }
        }
        match given {
            Ok(()) => self.activity = Activity::Env { request, until: now + STATE_TIMEOUT },
            Err(e) if is_hung_up(&e) && self.handed_on != Some(HandedOn::Env(request)) => {
                self.handed_on = Some(HandedOn::Env(request));
                self.queue.push_front(Queued::Env { request, text });
                self.activity = Activity::Dying;
                self.kill_shell();
            }
            Err(e) if is_usable => refuse(core, Refusal::os(&e, "hand the variables to the shell")),
            Err(_) => refuse(core, Refusal::LimitsLowered),
        }
    }

    /// Reads all reports of shells: the current one, and one whose last snapshot is pending.
    pub(in crate::supervisor) fn receive(&mut self, core: &mut Core, now: Instant) {
        while self.receive_until_done(core, now) {}
    }

    /// The same up to the end of a command, after which there is hardly ever more. Returns whether that came.
    pub(in crate::supervisor) fn receive_until_done(&mut self, core: &mut Core, now: Instant) -> bool {
        loop {
            let report = match self.dead_shell.as_mut().and_then(|shell| shell.receive().ok().flatten()) {
                Some(report) => Some(report),
                None => match self.shell.as_mut().map(Shell::receive) {
                    Some(Ok(report)) => report,
                    Some(Err(_)) => {
                        self.shell_refused(core);
                        None
                    }
                    None => None,
                },
            };
            match report {
                None => return false,
                Some(Report::Ready) => {}
                Some(Report::Done(done)) => {
                    self.shell_done(core, &done, now);
                    return true;
                }
                Some(Report::Snapshot(Err(SnapshotError::Unchanged))) => self.state_unchanged(core, now),
                Some(Report::Snapshot(taken)) => self.snapshot_arrived(core, taken, now),
            }
        }
    }

    /// The shell cannot accept the command, for example after `ulimit -n 3`, and is not usable any more.
    fn shell_refused(&mut self, core: &mut Core) {
        if matches!(self.activity, Activity::Env { .. } | Activity::State { .. }) {
            self.kill_shell();
        }
        let Some(slot) = self.current() else { return };
        if let Ok(job) = core.job(slot) {
            job.io.tell_reader(b"bash: no descriptors are left for a command; the shell starts over\n");
        }
        self.kill_shell();
    }

    fn shell_done(&mut self, core: &mut Core, done: &Done, now: Instant) {
        let activity = std::mem::replace(&mut self.activity, Activity::Idle);
        match activity {
            Activity::Command { slot, .. } => {
                self.warm_until = Some(now + WARM_TIME);
                self.saved.changed(now);
                self.complete_command(core, slot, Exit::of(done), now);
                if done.how == CommandEnd::Exit {
                    self.shell_went_on(core);
                }
            }
            Activity::Recovering { .. } => self.saved.changed(now),
            Activity::State { .. } => {
                self.failed_starts = 0;
                self.shell_up(core);
            }
            Activity::Env { request, .. } => {
                self.saved.changed(now);
                core.link.send(request, &Response::Done);
            }
            Activity::Dying => self.activity = Activity::Dying,
            Activity::Idle
            | Activity::Snapshot { .. }
            | Activity::AwaitingSnapshot { .. }
            | Activity::Down => {}
        }
    }

    /// The command has ended its shell, which continues as the next one, with the state that the command left.
    fn shell_went_on(&mut self, core: &mut Core) {
        self.restarts += 1;
        self.restored = Some(Restored { age: Duration::ZERO, from: StateSource::Exit });
        core.link.send(0, &Response::Restarted(self.restarts));
    }

    pub(super) fn complete_command(&mut self, core: &mut Core, slot: u32, mut exit: Exit, now: Instant) {
        if let Ok(job) = core.job(slot)
            && let Some((_, signal)) = job.cause
        {
            // The shell reports 130 for any signal.
            exit.code = Some(128 + signal);
        }
        self.shell_ended = exit.shell_ended;
        self.leave_limits(core, slot);
        self.complete(core, slot, exit, now);
    }

    /// Removes the shell from a cgroup of one command.
    fn leave_limits(&self, core: &Core, slot: u32) {
        let Some(shell) = &self.shell else { return };
        let limited = core.jobs.iter().find(|job| job.slot == slot).and_then(|job| job.cgroup.as_ref());
        if let Some(limited) = limited {
            // It has exited.
            drop(limited.release(shell.pid()));
            drop(core.cgroup.as_ref().map(|cgroup| cgroup.add(shell.pid())));
        }
    }

    /// Unwinds the running command; the shell stays.
    pub(in crate::supervisor) fn interrupt_shell(&mut self, slot: u32, grace: Duration, now: Instant) {
        if self.current() != Some(slot) || self.shell.is_none() {
            return;
        }
        self.interrupt_once();
        let unwinding = Unwinding {
            again: now + INTERRUPT_AGAIN,
            over_by: now + grace + DEADLINE_SLACK,
            kill_at: now + grace + SHELL_TIMEOUT,
        };
        self.activity = Activity::Command { slot, unwinding: Some(unwinding) };
    }

    fn interrupt_once(&mut self) {
        if let Some(shell) = &mut self.shell {
            // If it has exited, reaping reports it.
            drop(shell.interrupt());
        }
    }
}

/// Whether the shell no longer listens, or has got only a part.
pub(super) fn is_hung_up(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, WriteZero};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected | WriteZero)
}
