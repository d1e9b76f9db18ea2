//! A supervisor as the owner of one run: a stateless command or a background process.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use super::context::apply;
use super::event_loop::{EndingTask, Purpose, Supervisor};
use super::job::{Exit, Job, raw};
use super::session::STATE_PATIENCE;
use super::stdio::Stdio;
use crate::command::{LeftoverPolicy, Limits};
use crate::end::{End, EndReason, Leftover, Usage};
use crate::journal::NewJournal;
use crate::memory_file::memory_file;
use crate::process_tree::{Cgroup, Ending, Plan, Scope, Tag, limits, walk};
use crate::protocol::{Answer, Bytes, Command, Refusal, Role, Stage, Variable, WireProgram, WireStdin};
use crate::shell::{self, Done, Driver, Hurry, Shell, ShellConfig, Snapshot};
use crate::spawn::{self, ProcessSetup, Spawn, environment, find_program};
use crate::sys::{Reaped, StartFailure, StartStep};

/// A text longer than the kernel takes as one argument is read from a descriptor instead.
const MAX_ARGUMENT: usize = 100 << 10;
/// The descriptors it and a prelude are read from: high, so that the text may use the low ones.
const TEXT_FD: i32 = 250;
const PRELUDE_FD: i32 = 251;

/// How long a shell stays whose only command is over: as long as the news takes to its client. To end it, and to start
/// the next, takes a core for longer than the command did.
const LET_GO_DELAY: Duration = Duration::from_millis(1);

/// How long it may then take to end. It may have been stopped.
const DEPARTURE_PATIENCE: Duration = Duration::from_millis(100);

/// A shell whose only command is over.
#[derive(Debug)]
pub(super) struct Departure {
    /// When something is to be done about it.
    pub(super) at: Instant,
    /// Whether it was told to end.
    is_told: bool,
}

/// A command that waits for its prelude to be over.
#[derive(Debug)]
pub(super) struct AfterPrelude {
    slot: u32,
    stdio: Stdio,
    /// When the shell has had its time.
    pub(super) until: Instant,
}

/// What a shell starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// The environment of this sandbox.
    Fresh,
    /// Nothing: a snapshot will give it everything.
    Empty,
}

impl Supervisor {
    /// Starts a shell before anybody asks, if it can serve any command.
    pub(super) fn warm_up(&mut self) {
        self.cgroup = self.make_cgroup("", &Limits::default()).ok();
        if self.context.driver == Some(Driver::Loaded) {
            self.shell = self.start_shell(Start::Fresh).ok();
        }
    }

    /// Becomes ready for another run, with another shell: everything of the last one is gone, and a new
    /// supervisor would cost as much again as the shell.
    pub(super) fn renew(&mut self) {
        self.role = Role::Ready;
        self.reusable = false;
        self.orphans = Exit::default();
        self.shell_ready = false;
        self.shell = self.start_shell(Start::Fresh).ok();
        if self.shell.is_none() {
            self.tell_ready();
        }
    }

    /// Tells the engine that a command may come.
    pub(super) fn tell_ready(&mut self) {
        let ready = if self.runs == 0 { Answer::Ready } else { Answer::Renewed };
        self.link.send(0, &ready);
    }

    /// Starts a shell with the environment and folder of this sandbox.
    pub(super) fn start_shell(&self, start: Start) -> io::Result<Shell> {
        let (Some(bash), Some(driver)) = (&self.context.bash, self.context.driver) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        Shell::start(&ShellConfig {
            driver,
            bash,
            env: if start == Start::Fresh { &self.context.env } else { &[] },
            cwd: &self.context.cwd,
            setup: &self.process_setup(Tag::new(self.nonce, 0)),
        })
    }

    /// A cgroup of this supervisor, if cgroups serve anything here.
    pub(super) fn make_cgroup(&self, name: &str, limits: &Limits) -> io::Result<Cgroup> {
        let support = self.context.cgroups.support();
        if !support.kill && !limits.any_kernel_limit() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.context.cgroups.create(self.nonce, name, limits)
    }

    /// What every process of this supervisor is from its start.
    fn process_setup(&self, tag: Tag) -> ProcessSetup<'_> {
        ProcessSetup {
            cgroup: self.cgroup.as_ref(),
            fork_into_cgroup: self.context.births,
            tag: Some(tag),
            open_files: self.context.open_files,
            ..ProcessSetup::default()
        }
    }

    /// Starts the command this supervisor is for.
    pub(super) fn start_run(&mut self, command: Command, journal: Option<NewJournal>, now: Instant) {
        let slot = command.slot;
        if let Err(why) = self.try_start_run(command, journal, now) {
            // With a shell that nobody uses it would never be over.
            self.drop_ready_shell();
            self.not_started(slot, why, now);
        }
    }

    fn try_start_run(
        &mut self,
        command: Command,
        journal: Option<NewJournal>,
        now: Instant,
    ) -> Result<(), Refusal> {
        let plan = limits::plan(&command.limits, &self.context.cgroups, is_root())
            .map_err(|e| Refusal::Limit(e.to_string()))?;
        let job = self.new_job(command, journal, now)?;
        let slot = job.slot;
        self.jobs.push(job);
        if plan.needs_cgroup() {
            let cgroup = self.make_cgroup("-limits", &plan.in_cgroup);
            let cgroup = cgroup.map_err(|e| Refusal::os(&e, "make a cgroup for the limits"))?;
            let job = self.job(slot)?;
            job.cgroup = Some(cgroup);
        }
        let around = self.context.oom_kills();
        self.job(slot)?.note_oom_kills(around);
        let job = self.jobs.iter_mut().find(|job| job.slot == slot).ok_or(Refusal::NoSuchExecution)?;
        let opened = job.open_stdio(&mut self.supply);
        let mut stdio = Some(opened.map_err(|e| Refusal::os(&e.into(), "make pipes"))?);
        check_folder(job.command.cwd.as_ref())?;
        self.reusable = false;
        let loaded = self.context.driver == Some(Driver::Loaded)
            && self.context.env.iter().all(|(name, value)| shell::is_taken_at_start(name, value));
        let job = self.job(slot)?;
        let takes = |change: &Variable| {
            let value = change.value.as_ref().map(|value| OsStr::from_bytes(&value.0));
            shell::is_plain(OsStr::from_bytes(&change.name.0), value)
        };
        let plain = job.command.env.iter().all(takes);
        if loaded && plain && matches!(job.command.program, WireProgram::Shell(_)) {
            if job.command.prelude.is_some() {
                self.drop_ready_shell();
                self.shell = self.start_shell(Start::Empty).ok();
            } else if self.shell.is_none() {
                self.shell = self.start_shell(Start::Fresh).ok();
            }
            // One that has died in the meantime is no reason not to run the command.
            if self.start_in_ready_shell(slot, &mut stdio, &plan, now).is_ok() {
                return Ok(());
            }
        }
        self.drop_ready_shell();
        let stdio = stdio.ok_or(Refusal::NoSuchExecution)?;
        self.start_cold(slot, &stdio, &plan, now)
    }

    pub(super) fn job(&mut self, slot: u32) -> Result<&mut Job, Refusal> {
        self.jobs.iter_mut().find(|job| job.slot == slot).ok_or(Refusal::NoSuchExecution)
    }

    /// A shell that is up already takes the command, as `bash -c` would have.
    fn start_in_ready_shell(
        &mut self,
        slot: u32,
        stdio: &mut Option<Stdio>,
        plan: &Plan,
        now: Instant,
    ) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let index = self.jobs.iter().position(|job| job.slot == slot).ok_or_else(gone)?;
        let job = &mut self.jobs[index];
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
            self.after_prelude =
                stdio.take().map(|stdio| AfterPrelude { slot, stdio, until: now + STATE_PATIENCE });
        } else {
            run_once(shell, job, stdio.as_ref().ok_or_else(gone)?)?;
            job.record_start(pid);
            self.reusable = *plan == Plan::default();
            stdio.take().into_iter().for_each(|stdio| job.hold(stdio));
        }
        self.jobs[index].started(pid, now);
        self.link.send(0, &Answer::Started { slot, pid: raw(pid) });
        Ok(())
    }

    /// Goes on with the command when the state it starts from is there.
    pub(super) fn prelude_done(&mut self) {
        let Some(AfterPrelude { slot, stdio, .. }) = self.after_prelude.take() else {
            return;
        };
        let Some(job) = self.jobs.iter_mut().find(|job| job.slot == slot) else {
            return;
        };
        if let Some(shell) = &mut self.shell
            && run_once(shell, job, &stdio).is_err()
        {
            // It has gone; its death is the job's end.
            let _ = rustix::process::kill_process(shell.pid(), rustix::process::Signal::KILL);
        }
    }

    pub(super) fn drop_ready_shell(&mut self) {
        if let Some(shell) = self.shell.take() {
            // Our child, not reaped, so the number is its own.
            let _ = rustix::process::kill_process(shell.pid(), rustix::process::Signal::KILL);
        }
    }

    /// A new process: an argv, or `bash -c` where no ready shell can take the command.
    fn start_cold(&mut self, slot: u32, stdio: &Stdio, plan: &Plan, now: Instant) -> Result<(), Refusal> {
        let index = self.jobs.iter().position(|job| job.slot == slot).ok_or(Refusal::NoSuchExecution)?;
        let job = &self.jobs[index];
        let env = apply(self.context.env.clone(), &job.command.env);
        let cwd = job.command.cwd.clone().map_or_else(|| self.context.cwd.clone(), path_of);
        let mut inherited = Vec::new();
        let mut bash = None;
        let argv: Vec<OsString> = match &job.command.program {
            WireProgram::Argv(argv) => argv.iter().cloned().map(OsString::from).collect(),
            WireProgram::Shell(text) => {
                let mut file = |bytes: &[u8], fd: i32| -> Result<(), Refusal> {
                    let file = memory_file("text", &[bytes])
                        .map_err(|e| Refusal::os(&e.into(), "store the text"))?;
                    inherited.push((file, fd));
                    Ok(())
                };
                let mut script = Vec::new();
                if let Some(prelude) = &job.command.prelude {
                    let snapshot = Snapshot::from_bytes(prelude.0.clone());
                    let text = snapshot.map_err(|e| Refusal::NoShell(e.to_string()))?.restore_text();
                    file(&text, PRELUDE_FD)?;
                    script.extend(format!(". /proc/self/fd/{PRELUDE_FD}; exec {PRELUDE_FD}<&-\n").bytes());
                }
                if text.0.len() > MAX_ARGUMENT {
                    file(&text.0, TEXT_FD)?;
                    script.extend(format!(". /proc/self/fd/{TEXT_FD}").bytes());
                } else {
                    script.extend(&text.0);
                }
                bash.clone_from(&self.context.bash);
                shell_argv(bash.is_some(), script)
            }
        };
        let program = match bash {
            Some(bash) => bash,
            None => {
                let name = argv.first().ok_or(Refusal::BadProgram(libc::ENOENT))?;
                find_program(name, &env, &cwd).map_err(Refusal::BadProgram)?
            }
        };
        let bad = |_| Refusal::BadProgram(libc::EINVAL);
        let spawn = Spawn {
            program: &program,
            argv: argv
                .into_iter()
                .map(|arg| CString::new(arg.into_vec()).map_err(bad))
                .collect::<Result<_, _>>()?,
            env: environment(&env).map_err(|_| Refusal::BadProgram(libc::EINVAL))?,
            cwd: &cwd,
            stdio: spawn::Stdio::Streams {
                stdin: stdio.stdin.as_fd(),
                stdout: stdio.stdout.as_fd(),
                stderr: stdio.stderr.as_fd(),
            },
            inherited: &inherited.iter().map(|(file, number)| (file.as_fd(), *number)).collect::<Vec<_>>(),
            setup: &ProcessSetup {
                limit_cgroup: job.cgroup.as_ref(),
                limits: Some(plan),
                ..self.process_setup(job.tag)
            },
        };
        let pid = spawn.start().map_err(|failure| refusal_of(&failure))?;
        self.jobs[index].record_start(pid);
        self.jobs[index].started(pid, now);
        self.link.send(0, &Answer::Started { slot, pid: raw(pid) });
        Ok(())
    }

    /// The command could not be started: the engine is told why, the record says so for later.
    pub(super) fn not_started(&mut self, slot: u32, why: Refusal, now: Instant) {
        let code = match why {
            Refusal::BadProgram(libc::ENOENT) => 127,
            _ => 126,
        };
        if let Some(index) = self.jobs.iter().position(|job| job.slot == slot) {
            let mut job = self.jobs.remove(index);
            job.hang_up();
            let exit = Exit { code: Some(code), ..Exit::default() };
            let end = job.end_of(exit, Vec::new(), now);
            for request in job.close_stdin() {
                self.link.send(request, &Answer::Refused(Refusal::NoSuchExecution));
            }
            job.finish(&End { usage: Usage::default(), ..end });
            self.old_cgroups.extend(job.cgroup.take());
        }
        self.link.send(0, &Answer::NotStarted { slot, why });
    }

    /// The only command of a shell is over; the shell is about to end.
    pub(super) fn once_done(&mut self, done: &Done, now: Instant) {
        let shell = self.shell.as_ref().map(Shell::pid);
        let own = |job: &&Job| job.pid == shell && job.stage == Stage::Running;
        if let Some(job) = self.jobs.iter().find(own) {
            let slot = job.slot;
            let delay = if hurry_of(job) == Hurry::Yes { Duration::ZERO } else { LET_GO_DELAY };
            self.departure = Some(Departure { at: now + delay, is_told: false });
            self.complete(slot, Exit::of(done), now);
        }
    }

    /// Lets a shell end whose only command is over, when those who waited for the command have heard of it; and ends it if
    /// it does not.
    pub(super) fn let_go(&mut self, now: Instant) {
        let Some(Departure { is_told, .. }) = self.departure.take_if(|departure| departure.at <= now) else {
            return;
        };
        let Some(shell) = &mut self.shell else { return };
        if is_told {
            self.kill_shell();
        } else {
            shell.disconnect();
            self.departure = Some(Departure { at: now + DEPARTURE_PATIENCE, is_told: true });
        }
    }

    /// A child has ended: the shell, a command, or an orphan that came to us.
    pub(super) fn child_ended(&mut self, reaped: &Reaped, now: Instant) {
        let is_shell = self.shell.as_ref().is_some_and(|shell| shell.pid() == reaped.pid);
        let own = |job: &&Job| job.pid == Some(reaped.pid) && job.stage == Stage::Running;
        let slot = self.jobs.iter().find(own).map(|job| job.slot);
        let exit = Exit {
            code: reaped.code,
            signal: reaped.signal,
            user: reaped.user,
            system: reaped.system,
            max_rss_bytes: reaped.max_rss_bytes,
            shell_ended: false,
            out_of_memory: false,
        };
        match (is_shell, self.role) {
            (true, Role::Session(_)) => self.shell_ended(exit, now),
            (true, Role::Ready) => {
                // A command that comes now starts one of its own.
                self.shell = None;
                if !self.shell_ready {
                    self.tell_ready();
                }
            }
            _ => match slot {
                Some(slot) => self.complete(slot, exit, now),
                None => self.orphans.add_usage(&exit),
            },
        }
        if is_shell {
            self.departure = None;
        }
        if is_shell && self.role == Role::Run {
            self.shell = None;
        }
    }

    /// The program has returned. What it wrote is in the pipes; what it left is in the tree.
    pub(super) fn complete(&mut self, slot: u32, mut exit: Exit, now: Instant) {
        // A shell that has said so may still be there when what it left is ended; its death is no second end.
        if self.jobs.iter().any(|job| job.slot == slot && job.pending_end.is_some()) {
            return;
        }
        // One that was killed before it had its state: nobody will write to these.
        drop(self.after_prelude.take_if(|after| after.slot == slot));
        let leftovers = self.leftovers(slot);
        if self.role == Role::Run {
            exit.add_usage(&std::mem::take(&mut self.orphans));
        }
        let Some(job) = self.jobs.iter_mut().find(|job| job.slot == slot) else {
            return;
        };
        exit.out_of_memory = exit.is_killed() && job.ran_out_of_memory(self.context.oom_kills());
        let limited = job.drain(&mut self.buffer, now);
        if limited {
            job.cause.get_or_insert((EndReason::OutputLimit, libc::SIGKILL));
        }
        let end = job.end_of(exit, leftovers, now);
        let kill = (limited || job.command.leftovers == LeftoverPolicy::Kill) && !end.leftovers.is_empty();
        job.pending_end = Some(end);
        if kill {
            self.reusable = false;
            let scope = self.scope_of(slot);
            let cgroup = if scope == Scope::Tree { self.cgroup.as_ref() } else { None };
            let ending = Ending::new(scope, Signal::KILL, Duration::ZERO, cgroup);
            let purpose = Purpose::Leftovers { slot };
            self.endings.push(EndingTask { ending, purpose, command: None, wake_at: now });
        } else {
            self.end_now(slot);
        }
    }

    /// Gives a job the end that was prepared for it.
    pub(super) fn end_now(&mut self, slot: u32) {
        let Some(job) = self.jobs.iter_mut().find(|job| job.slot == slot) else {
            return;
        };
        let Some(end) = job.pending_end.take() else {
            return;
        };
        let unanswered = job.close_stdin();
        job.finish(&end);
        let position = job.position();
        self.link.send(0, &Answer::Ended { slot, end, position });
        for request in unanswered {
            self.link.send(request, &Answer::Refused(Refusal::NoSuchExecution));
        }
    }

    /// What a job that has just returned has left running.
    fn leftovers(&mut self, slot: u32) -> Vec<Leftover> {
        let ended_by_us = self.jobs.iter().any(|job| job.slot == slot && job.cause.is_some());
        if ended_by_us || !self.may_have_leftovers() {
            return Vec::new();
        }
        let shell = self.shell.as_ref().map(Shell::pid);
        let mut members = self.scope_of(slot).members();
        // A shell whose only command is over is about to end.
        members.retain(|pid| Some(*pid) != shell);
        members.into_iter().map(|pid| Leftover { pid: raw(pid), command: walk::command_line(pid) }).collect()
    }

    /// Ends a job because its session ends.
    pub(super) fn end_with_session(&mut self, slot: u32, now: Instant) {
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
            job.hang_up();
        }
    }

    /// Makes a process that a command left behind an execution of its own.
    pub(super) fn adopt_process(&mut self, slot: u32, pid: u32, now: Instant) -> Result<(), Refusal> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Refusal::NoSuchExecution)?;
        let gone = |e: rustix::io::Errno| Refusal::os(&e.into(), "find the process");
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(gone)?;
        if !Scope::Tree.members().contains(&pid) {
            return Err(Refusal::NoSuchExecution);
        }
        let command = Command {
            slot,
            program: WireProgram::Argv(Vec::new()),
            env: Vec::new(),
            cwd: None,
            stdin: WireStdin::Null,
            timeout: None,
            idle_timeout: None,
            timeout_grace: Duration::ZERO,
            limits: Limits::default(),
            leftovers: LeftoverPolicy::Keep,
            prelude: None,
            record_taken: None,
            journal: None,
            hurry: None,
        };
        let mut job = self.new_job(command, None, now)?;
        for pid in std::iter::once(pid).chain(walk::descendants(pid)) {
            drop(job.tag.set_on(pid));
        }
        job.adopted = Some(pidfd);
        job.record_start(pid);
        job.started(pid, now);
        self.jobs.push(job);
        Ok(())
    }

    /// An adopted process has ended that is not our child: how is not known.
    pub(super) fn adopted_ended(&mut self, slot: u32, now: Instant) {
        // If it is our child after all, reaping tells more.
        self.reap(now);
        let running = |job: &&Job| job.slot == slot && job.stage == Stage::Running;
        if self.jobs.iter().any(|job| running(&job)) {
            self.complete(slot, Exit::default(), now);
        }
    }
}

/// Why a program could not be started, for the engine.
fn refusal_of(failure: &StartFailure) -> Refusal {
    let errno = failure.source.raw_os_error().unwrap_or(libc::EIO);
    match failure.step {
        StartStep::WorkingDirectory => Refusal::BadCwd(errno),
        StartStep::Program if errno == libc::E2BIG => Refusal::ArgumentsTooLong,
        StartStep::Program => Refusal::BadProgram(errno),
        StartStep::Fork => Refusal::Os { errno, doing: "start the program".into() },
        _ => Refusal::Os { errno, doing: "prepare the process".into() },
    }
}

/// Whether the shell of a single command is to end right after it.
fn hurry_of(job: &Job) -> Hurry {
    if job.command.hurry == Some(true) { Hurry::Yes } else { Hurry::No }
}

fn run_once(shell: &mut Shell, job: &Job, stdio: &Stdio) -> io::Result<()> {
    let WireProgram::Shell(text) = &job.command.program else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let env = shell_env(&job.command.env);
    let cwd = job.command.cwd.clone().map(path_of);
    shell.run(shell::Job {
        text: &text.0,
        stdin: stdio.stdin.as_fd(),
        stdout: stdio.stdout.as_fd(),
        stderr: stdio.stderr.as_fd(),
        env: &env,
        cwd: cwd.as_deref(),
        once: Some(hurry_of(job)),
    })
}

pub(super) fn is_root() -> bool {
    static ROOT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ROOT.get_or_init(|| rustix::process::geteuid().is_root())
}

/// Changes to an environment, as a shell takes them.
pub(super) fn shell_env(changes: &[Variable]) -> Vec<(OsString, Option<OsString>)> {
    changes.iter().map(|v| (v.name.clone().into(), v.value.clone().map(Into::into))).collect()
}

pub(super) fn path_of(bytes: Bytes) -> PathBuf {
    OsString::from_vec(bytes.0).into()
}

/// Refuses a folder that a command could not run in, before it is handed to a shell.
pub(super) fn check_folder(cwd: Option<&Bytes>) -> Result<(), Refusal> {
    let Some(cwd) = cwd else { return Ok(()) };
    let path = path_of(cwd.clone());
    let bad = |e: rustix::io::Errno| Refusal::BadCwd(e.raw_os_error());
    openat(CWD, &path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(bad)?;
    rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).map_err(bad)
}

fn shell_argv(bash: bool, script: Vec<u8>) -> Vec<OsString> {
    let mut argv: Vec<OsString> = if bash {
        vec!["bash".into(), "--norc".into(), "--noprofile".into()]
    } else {
        vec!["/bin/sh".into()]
    };
    argv.extend(["-c".into(), OsString::from_vec(script)]);
    argv
}
