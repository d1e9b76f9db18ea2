//! A supervisor as the owner of one run: a stateless command or a background process.

pub(super) mod process;

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::core::{Core, EndRequest, JobProcesses, ShellEnv, kill_shell, scope_in_tree};
use super::job::{Exit, Job, raw};
use super::ready::Ready;
use super::role::{Housekeeping, Next};
use super::session::STATE_TIMEOUT;
use super::shell_input::{check_folder, path_of, shell_env, takes_changes};
use super::stdio::Stdio;
use super::template::Template;
use crate::end::EndReason;
use crate::journal::NewJournal;
use crate::process_tree::{Plan, Scope, limits};
use crate::protocol::{Command, Refusal, Response, Stage, WireProgram};
use crate::shell::{self, Done, Driver, Report, Shell, Snapshot, Urgency};
use crate::spawn;
use crate::sys::{self, Reaped};

/// Maximum number of runs of a supervisor.
const MAX_RUNS: u32 = 1_000;
/// Time for which the shell stays after its only command has ended: until the report has reached the client. Ending
/// it and starting the next occupies a core for longer than the command did.
const SHELL_EXIT_DELAY: Duration = Duration::from_millis(1);
/// Maximum time for its exit after that. It may have been stopped.
const SHELL_EXIT_TIMEOUT: Duration = Duration::from_millis(100);

/// A shell whose only command has ended.
#[derive(Debug)]
struct ShellExit {
    /// Time of the next action.
    due: Instant,
    /// Whether it was told to exit.
    is_told: bool,
}

/// A command that waits for its prelude to finish.
#[derive(Debug)]
struct PendingPrelude {
    slot: u32,
    stdio: Stdio,
    /// Deadline of the prelude.
    until: Instant,
}

/// One run.
#[derive(Debug)]
pub(super) struct Run {
    /// The shell that runs the command.
    shell: Option<Shell>,
    template: Template,
    /// Whether the template accepts requests. Otherwise it runs the command itself, which has then waited for one
    /// start.
    template_is_up: bool,
    prelude: Option<PendingPrelude>,
    /// Set when the shell is about to exit.
    shell_exit: Option<ShellExit>,
    /// Resource usage of reaped orphans.
    orphans: Exit,
    /// Whether nothing was done to this supervisor that affects the next run.
    reusable: bool,
    /// Number of earlier runs.
    runs: u32,
}

impl Run {
    /// Starts the command of this supervisor.
    pub(super) fn start(
        core: &mut Core,
        ready: Ready,
        command: Command,
        journal: Option<NewJournal>,
        now: Instant,
    ) -> Self {
        let template_is_up = ready.is_up();
        let (template, runs) = ready.into_parts();
        let mut run = Self {
            shell: None,
            template,
            template_is_up,
            prelude: None,
            shell_exit: None,
            orphans: Exit::default(),
            reusable: false,
            runs,
        };
        let slot = command.slot;
        if command.user.as_ref().is_some_and(|user| core.run_as(user)) {
            // It belongs to another user.
            run.template.end();
        }
        if let Err(why) = run.try_start(core, command, journal, now) {
            // With an unused shell the run would never finish.
            run.drop_shell();
            run.template.end();
            core.not_started(slot, why, now);
        }
        run
    }

    fn try_start(
        &mut self,
        core: &mut Core,
        command: Command,
        journal: Option<NewJournal>,
        now: Instant,
    ) -> Result<(), Refusal> {
        let plan = limits::plan(&command.limits, &core.context.cgroups, core.commands_are_root())
            .map_err(|e| Refusal::Limit(e.to_string()))?;
        let job = core.new_job(command, journal, now)?;
        let slot = job.slot;
        core.jobs.push(job);
        if plan.needs_cgroup() {
            let cgroup = core.make_cgroup("-limits", &plan.in_cgroup);
            let cgroup = cgroup.map_err(|e| Refusal::os(&e, "make a cgroup for the limits"))?;
            core.job(slot)?.cgroup = Some(cgroup);
        }
        let around = core.context.oom_kills();
        let credentials = core.credentials().cloned();
        let job = core.jobs.iter_mut().find(|job| job.slot == slot).ok_or(Refusal::NoSuchExecution)?;
        job.note_oom_kills(around);
        let opened = job.open_stdio(&mut core.supply);
        let mut stdio = Some(opened.map_err(|e| Refusal::os(&e.into(), "make pipes"))?);
        check_folder(job.command.cwd.as_ref(), credentials.as_ref())?;
        self.template.check(|shell| core.restore_shell_limits(shell));
        let job = core.find(slot).ok_or(Refusal::NoSuchExecution)?;
        let has_prelude = job.command.prelude.is_some();
        let is_text = matches!(job.command.program, WireProgram::Shell(_));
        let is_plain = takes_changes(&job.command.env)
            && core.context.env.iter().all(|(name, value)| shell::is_taken_at_start(name, value));
        if core.context.driver == Some(Driver::Loaded) && is_text && is_plain && plan.suits_running_shell() {
            if has_prelude {
                self.template.end();
                self.shell = core.start_shell(ShellEnv::Empty).ok();
            } else if plan != Plan::default() {
                // A fork may not be ready for limits that are set from outside.
                self.shell = self.template.take();
            } else if let Some(fork) = self.template.take_fork(now) {
                self.shell = Some(fork);
            } else if self.template.can_fork() && self.template_is_up {
                match self.start_in_fork(core, slot, &mut stdio, now) {
                    Ok(()) => return Ok(()),
                    // It may have started, and must not run twice.
                    Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                        return Err(Refusal::os(
                            &io::Error::from_raw_os_error(libc::ETIMEDOUT),
                            "fork a shell",
                        ));
                    }
                    Err(_) => {}
                }
            }
            if self.shell.is_none() {
                let ready = self.template.take();
                self.shell = ready.or_else(|| core.start_shell(ShellEnv::Sandbox).ok());
            }
            // The command does not need a shell that has died meanwhile.
            if self.start_in_shell(core, slot, &mut stdio, &plan, now).is_ok() {
                return Ok(());
            }
        }
        self.drop_shell();
        self.template.end();
        let stdio = stdio.ok_or(Refusal::NoSuchExecution)?;
        let streams = spawn::Stdio::Streams {
            stdin: stdio.stdin.as_fd(),
            stdout: stdio.stdout.as_fd(),
            stderr: stdio.stderr.as_fd(),
        };
        process::start(core, slot, streams, &plan, now)
    }

    /// A fork of the template runs the command.
    fn start_in_fork(
        &mut self,
        core: &mut Core,
        slot: u32,
        stdio: &mut Option<Stdio>,
        now: Instant,
    ) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let job = core.find(slot).ok_or_else(gone)?;
        let given = stdio.as_ref().ok_or_else(gone)?;
        let tag = job.tag;
        let template = &mut self.template;
        let shell = with_single_job(job, given, |job| template.fork(job, tag, now))?;
        let pid = shell.pid();
        self.shell = Some(shell);
        self.reusable = true;
        stdio.take().into_iter().for_each(|stdio| started(core, slot, pid, stdio, now));
        Ok(())
    }

    /// Gives the command to a running shell, which behaves like `bash -c`.
    fn start_in_shell(
        &mut self,
        core: &mut Core,
        slot: u32,
        stdio: &mut Option<Stdio>,
        plan: &Plan,
        now: Instant,
    ) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let job = core.jobs.iter_mut().find(|job| job.slot == slot).ok_or_else(gone)?;
        let shell = self.shell.as_mut().ok_or_else(gone)?;
        let pid = shell.pid();
        drop(job.tag.set_on(pid));
        if let Some(cgroup) = &job.cgroup {
            cgroup.add(pid)?;
        }
        plan.apply_to(pid).map_err(io::Error::other)?;
        if let Some(prelude) = &job.command.prelude {
            let snapshot = Snapshot::from_bytes(prelude.0.clone()).map_err(io::Error::other)?;
            shell.restore(&snapshot)?;
            let until = now + STATE_TIMEOUT;
            // The command is reported as started only when it runs: a signal would reach a shell that is not the
            // command's yet.
            self.prelude = stdio.take().map(|stdio| PendingPrelude { slot, stdio, until });
            return Ok(());
        }
        // A command of another supervisor may have stopped it while it waited.
        drop(sys::send_signal(pid, libc::SIGCONT));
        run_once(shell, job, stdio.as_ref().ok_or_else(gone)?)?;
        self.reusable = *plan == Plan::default() && job.command.user.is_none();
        stdio.take().into_iter().for_each(|stdio| started(core, slot, pid, stdio, now));
        Ok(())
    }

    pub(super) fn shell(&self) -> Option<&Shell> {
        self.shell.as_ref()
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        let prelude = self.prelude.as_ref().map(|prelude| prelude.until);
        let exit = self.shell_exit.as_ref().map(|exit| exit.due);
        prelude.into_iter().chain(exit).chain(self.template.wake_at()).min()
    }

    /// Finished jobs are closed when the shell exits: the client gets its response first.
    pub(super) fn housekeeping(&self) -> Housekeeping {
        let is_exit_delayed = self.shell_exit.as_ref().is_some_and(|exit| !exit.is_told);
        Housekeeping { close: !is_exit_delayed, prepare: false }
    }

    /// Reads the reports of its shell up to the end of the command, after which there is no other.
    pub(super) fn receive(&mut self, core: &mut Core, now: Instant) {
        loop {
            match self.shell.as_mut().map(Shell::receive) {
                Some(Ok(Some(Report::Done(_)))) if self.prelude.is_some() => self.prelude_done(core, now),
                Some(Ok(Some(Report::Done(done)))) => return self.command_done(core, &done, now),
                Some(Ok(Some(Report::Ready | Report::Snapshot(_)))) => {}
                Some(Err(_)) => return self.shell_refused(core),
                Some(Ok(None)) | None => return,
            }
        }
    }

    /// The shell cannot accept the command, for example after `ulimit -n 3` in its state. The command ends with it.
    fn shell_refused(&mut self, core: &mut Core) {
        let Some(shell) = &self.shell else { return };
        let pid = shell.pid();
        self.reusable = false;
        kill_shell(shell);
        if let Some(job) = core.jobs.iter_mut().find(|job| job.pid == Some(pid)) {
            job.io.tell_reader(b"bash: the shell could not take the command\n");
        }
    }

    /// Continues with the command when its initial state is restored.
    fn prelude_done(&mut self, core: &mut Core, now: Instant) {
        let Some(PendingPrelude { slot, stdio, .. }) = self.prelude.take() else {
            return;
        };
        let (Some(shell), Some(job)) = (&mut self.shell, core.find(slot)) else {
            return;
        };
        let pid = shell.pid();
        match run_once(shell, job, &stdio) {
            Ok(()) => started(core, slot, pid, stdio, now),
            Err(e) => {
                self.drop_shell();
                core.not_started(slot, Refusal::os(&e, "hand the command to the shell"), now);
            }
        }
    }

    /// Ends a command during its prelude, as if the signal had ended it.
    pub(super) fn end_unstarted(&mut self, core: &mut Core, slot: u32, signal: Signal, now: Instant) {
        self.reusable = false;
        self.prelude = None;
        self.drop_shell();
        let exit = Exit { signal: Some(signal.as_raw()), ..Exit::default() };
        core.end_unstarted(slot, EndReason::Killed, exit, now);
    }

    /// The only command of the shell has ended; the shell is about to exit.
    fn command_done(&mut self, core: &mut Core, done: &Done, now: Instant) {
        let shell = self.shell.as_ref().map(Shell::pid);
        let own = |job: &&Job| job.pid == shell && job.stage == Stage::Running;
        if let Some(job) = core.jobs.iter().find(own) {
            let slot = job.slot;
            let delay = if exit_urgency(job) == Urgency::High { Duration::ZERO } else { SHELL_EXIT_DELAY };
            self.shell_exit = Some(ShellExit { due: now + delay, is_told: false });
            self.complete(core, slot, Exit::of(done), now);
        }
    }

    /// Does what is due: lets a shell exit after its report has been sent, and kills one that takes too long.
    pub(super) fn advance(&mut self, core: &mut Core, now: Instant) {
        self.template.advance(now);
        if let Some(prelude) = self.prelude.take_if(|prelude| prelude.until <= now) {
            self.drop_shell();
            let why = "the shell did not come to the session's state in time";
            core.not_started(prelude.slot, Refusal::NoShell(why.into()), now);
        }
        let Some(ShellExit { is_told, .. }) = self.shell_exit.take_if(|exit| exit.due <= now) else {
            return;
        };
        let Some(shell) = &mut self.shell else { return };
        if is_told {
            kill_shell(shell);
        } else {
            shell.disconnect();
            self.shell_exit = Some(ShellExit { due: now + SHELL_EXIT_TIMEOUT, is_told: true });
        }
    }

    pub(super) fn child_ended(&mut self, core: &mut Core, reaped: &Reaped, now: Instant) {
        if self.template.has_ended(reaped.pid) {
            return;
        }
        let own = |job: &&Job| job.pid == Some(reaped.pid) && job.stage == Stage::Running;
        match core.jobs.iter().find(own).map(|job| job.slot) {
            Some(slot) => self.complete(core, slot, Exit::from(reaped), now),
            None => self.orphans.add_usage(&Exit::from(reaped)),
        }
        if self.shell.take_if(|shell| shell.pid() == reaped.pid).is_some() {
            self.shell_exit = None;
            if let Some(prelude) = self.prelude.take() {
                let why = "the shell ended before it had the session's state";
                core.not_started(prelude.slot, Refusal::NoShell(why.into()), now);
            }
        }
    }

    pub(super) fn complete(&mut self, core: &mut Core, slot: u32, mut exit: Exit, now: Instant) {
        exit.add_usage(&std::mem::take(&mut self.orphans));
        let scope = self.scope_of(core.find(slot));
        let shell = self.shell.as_ref().map(Shell::pid);
        let processes = JobProcesses { scope, shell, template: self.template.pid() };
        if core.complete(slot, exit, processes, now) {
            self.reusable = false;
        }
    }

    pub(super) fn end_processes(&mut self, core: &mut Core, request: EndRequest, now: Instant) {
        self.reusable = false;
        // Everything below then belongs to the command, and can be ended with its cgroup.
        self.template.end();
        let scope = self.scope_of(core.find(request.slot));
        core.begin_ending(request, scope, false, now);
    }

    /// The scope of a job's processes.
    pub(super) fn scope_of(&self, job: Option<&Job>) -> Scope {
        scope_in_tree(job, self.template.pid())
    }

    pub(super) fn template(&self) -> &Template {
        &self.template
    }

    pub(super) fn end_template(&mut self) {
        self.template.end();
    }

    /// It is finished when no process is left. The supervisor may then serve another run.
    pub(super) fn next(&mut self, core: &mut Core) -> Next {
        let is_busy = !core.jobs.is_empty() || !core.endings.is_empty() || self.shell.is_some();
        if is_busy || core.has_children_besides(self.template.pid()) {
            return Next::Continue;
        }
        let runs = self.runs + 1;
        let is_wanted = self.reusable && runs < MAX_RUNS && !core.quitting && core.link.engine().is_some();
        if is_wanted {
            // Limits that the command has lowered are found before the next one starts.
            return Next::Become(Box::new(Ready::again(core, self.template.reuse(), runs)));
        }
        self.template.end();
        Next::End
    }

    fn drop_shell(&mut self) {
        if let Some(shell) = self.shell.take() {
            kill_shell(&shell);
        }
    }
}

/// The command of a job was given to the shell.
fn started(core: &mut Core, slot: u32, pid: Pid, stdio: Stdio, now: Instant) {
    if let Ok(job) = core.job(slot) {
        job.io.hold(stdio);
        job.record_start(pid);
        job.started(pid, now);
        core.link.send(0, &Response::Started { slot, pid: raw(pid) });
    }
}

/// Whether the shell of a single command should exit right after it.
fn exit_urgency(job: &Job) -> Urgency {
    if job.command.is_urgent == Some(true) { Urgency::High } else { Urgency::Low }
}

fn run_once(shell: &mut Shell, job: &Job, stdio: &Stdio) -> io::Result<()> {
    with_single_job(job, stdio, |job| shell.run(job))
}

/// Gives a job to a shell, as its only one.
fn with_single_job<T>(
    job: &Job,
    stdio: &Stdio,
    hand: impl FnOnce(shell::ShellJob<'_>) -> io::Result<T>,
) -> io::Result<T> {
    let WireProgram::Shell(text) = &job.command.program else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let env = shell_env(&job.command.env);
    let cwd = job.command.cwd.clone().map(path_of);
    hand(shell::ShellJob {
        text: &text.0,
        stdin: stdio.stdin.as_fd(),
        stdout: stdio.stdout.as_fd(),
        stderr: stdio.stderr.as_fd(),
        env: &env,
        cwd: cwd.as_deref(),
        once: Some(exit_urgency(job)),
    })
}
