//! What every supervisor has, whatever its role: its connection, its jobs, and the processes that are being ended.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, test_kill_process};

use super::context::Context;
use super::job::{Exit, Job, raw};
use super::leftover_probe::LeftoverProbe;
use super::link::Link;
use super::own_limits::OwnLimits;
use super::remains::Remains;
use super::shell_input::is_root;
use super::stdio::PipeSupply;
use crate::command::{LeftoverPolicy, Limits};
use crate::end::{End, EndReason, Leftover, MAX_LEFTOVERS, Usage};
use crate::journal::{JournalWriter, NewJournal, Slot, kind};
use crate::layout::log_failure;
use crate::process_tree::{Cgroup, Ending, Nonce, Scope, StartTime, Tag, Tags, walk};
use crate::procfs::{self, Stat};
use crate::protocol::{Answer, Command, Refusal, Stage, WireProgram, WireStdin};
use crate::shell::{Driver, Shell, ShellConfig};
use crate::spawn::ProcessSetup;
use crate::sys::Credentials;
use crate::user::User;

/// How long the processes of a command have to die of SIGINT before they are killed, with the portable driver.
const PORTABLE_GRACE: Duration = Duration::from_millis(15);

/// How often, and how many times, a process that was just forked is looked at for the name of its program.
const NAME_INTERVAL: Duration = Duration::from_micros(500);
const NAME_LOOKS: u32 = 60;

/// Why processes are being ended, and so what follows when they are gone.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// A client asked; the receipt answers this request.
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

/// How the processes of a running job are to be ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndRequest {
    pub(super) slot: u32,
    pub(super) reason: EndReason,
    pub(super) signal: Signal,
    /// How long they have between the signal and SIGKILL.
    pub(super) grace: Duration,
    pub(super) purpose: Purpose,
}

/// The processes of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobProcesses {
    pub(super) scope: Scope,
    /// The shell that runs it. It is not left over when the job has returned.
    pub(super) shell: Option<Pid>,
    /// The shell that shells are forked from.
    pub(super) template: Option<Pid>,
}

/// Which environment a shell starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShellEnv<'a> {
    /// That of the sandbox.
    Sandbox,
    /// This one.
    Own(&'a [(OsString, OsString)]),
    /// None: a snapshot will set every variable.
    Empty,
}

/// What every supervisor has.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) context: Context,
    pub(super) nonce: Nonce,
    pub(super) link: Link,
    pub(super) jobs: Vec<Job>,
    pub(super) endings: Vec<EndingTask>,
    /// The cgroup of everything below this supervisor.
    pub(super) cgroup: Option<Cgroup>,
    /// Those of commands that are over, until nothing is left in them.
    pub(super) old_cgroups: Vec<Cgroup>,
    /// What output is read into. It grows with the first command that writes much.
    pub(super) buffer: Vec<u8>,
    pub(super) supply: PipeSupply,
    /// Everything is being ended, and then the supervisor ends.
    pub(super) quitting: bool,
    leftover_probe: LeftoverProbe,
    pub(super) own_limits: OwnLimits,
    /// Those of a shell that it has started.
    shell_limits: OwnLimits,
    /// What executions that are closed have left running.
    pub(super) remains: Vec<Remains>,
    tags: Tags,
    /// As whom processes run; `None` for this process's own user.
    credentials: Option<Credentials>,
}

impl Core {
    pub(super) fn new(context: Context, nonce: Nonce, link: Link) -> std::io::Result<Self> {
        let own_limits = OwnLimits::now();
        let mut core = Self {
            context,
            nonce,
            link,
            jobs: Vec::new(),
            endings: Vec::new(),
            cgroup: None,
            old_cgroups: Vec::new(),
            buffer: Vec::new(),
            supply: PipeSupply::open()?,
            credentials: None,
            quitting: false,
            leftover_probe: LeftoverProbe::open()?,
            shell_limits: own_limits.clone(),
            own_limits,
            remains: Vec::new(),
            tags: Tags::new(nonce),
        };
        let of_shell = core.process_setup(core.tags.of_no_command()).limit_values()?;
        core.shell_limits = core.own_limits.clone().with(&of_shell);
        core.run_as_default();
        core.cgroup = core.make_cgroup("", &Limits::default()).ok();
        Ok(core)
    }

    pub(super) fn find(&self, slot: u32) -> Option<&Job> {
        self.jobs.iter().find(|job| job.slot == slot)
    }

    pub(super) fn job(&mut self, slot: u32) -> Result<&mut Job, Refusal> {
        self.jobs.iter_mut().find(|job| job.slot == slot).ok_or(Refusal::NoSuchExecution)
    }

    /// A cgroup of this supervisor, if cgroups serve anything here.
    pub(super) fn make_cgroup(&self, name: &str, limits: &Limits) -> std::io::Result<Cgroup> {
        let support = self.context.cgroups.support();
        if !support.kill && !limits.any_kernel_limit() {
            return Err(std::io::ErrorKind::Unsupported.into());
        }
        self.context.cgroups.create(self.nonce, name, limits)
    }

    /// Has processes run as this user from now on. Says whether they did not before, so that a shell that is up is of no use.
    pub(super) fn run_as(&mut self, user: &User) -> bool {
        self.set_credentials(user.credentials())
    }

    /// Has processes run as the sandbox's user from now on.
    pub(super) fn run_as_default(&mut self) {
        self.set_credentials(self.context.user.as_ref().and_then(User::credentials));
    }

    fn set_credentials(&mut self, credentials: Option<Credentials>) -> bool {
        let is_other = self.credentials != credentials;
        if is_other {
            self.supply.set_owner(credentials.as_ref());
            self.credentials = credentials;
        }
        is_other
    }

    pub(super) fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// Whether commands run as root, which some limits do not hold for.
    pub(super) fn commands_are_root(&self) -> bool {
        self.credentials.as_ref().map_or_else(is_root, |credentials| credentials.user == 0)
    }

    /// What every process of this supervisor is from its start.
    pub(super) fn process_setup(&self, tag: Tag) -> ProcessSetup<'_> {
        ProcessSetup {
            cgroup: self.cgroup.as_ref(),
            fork_into_cgroup: self.context.fork_into_cgroup,
            tag: Some(tag),
            open_files: self.context.open_files,
            credentials: self.credentials.as_ref(),
            ..ProcessSetup::default()
        }
    }

    /// Starts a shell in the sandbox's working directory.
    pub(super) fn start_shell(&self, env: ShellEnv<'_>) -> Result<Shell, Refusal> {
        let (Some(bash), Some(driver)) = (&self.context.bash, self.context.driver) else {
            return Err(Refusal::NoShell("there is no bash here".into()));
        };
        self.check_limits()?;
        let started = Shell::start(&ShellConfig {
            driver,
            bash,
            env: match env {
                ShellEnv::Sandbox => &self.context.env,
                ShellEnv::Own(env) => env,
                ShellEnv::Empty => &[],
            },
            cwd: &self.context.cwd,
            setup: &self.process_setup(self.tags.of_no_command()),
        });
        started.map_err(|e| match e.raw_os_error() {
            Some(_) => Refusal::os(&e, "start bash"),
            None => Refusal::NoShell(e.to_string()),
        })
    }

    /// Puts back all limits of this process that a command has changed. What it starts inherits them.
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        if self.own_limits.restore_all() { Ok(()) } else { Err(Refusal::LimitsLowered) }
    }

    /// Puts back the limits of a shell that waits for a command. Says whether they are as they are to be.
    pub(super) fn restore_shell_limits(&self, shell: Pid) -> bool {
        self.shell_limits.restore_on(shell)
    }

    /// Leaves a trace of something that should not happen.
    pub(super) fn log_failure(&self, reason: &str) {
        // Without a disk there is no trace.
        drop(log_failure(&self.context.folders.supervisors, &format!("{}: {reason}", self.nonce)));
    }

    /// A new job, whose journal is opened if it did not come with it.
    pub(super) fn new_job(
        &mut self,
        command: Command,
        journal: Option<NewJournal>,
        now: Instant,
    ) -> Result<Job, Refusal> {
        if !self.own_limits.restore_needed() {
            return Err(Refusal::LimitsLowered);
        }
        let (folder, slot) = (&self.context.folders.journals, Slot(command.slot));
        let mut journal = match journal {
            Some(journal) => JournalWriter::begin(folder, slot, journal),
            None => JournalWriter::open(folder, slot)
                .map_err(|e| Refusal::Os { errno: libc::EIO, doing: format!("open the journal: {e}") })?,
        };
        if command.record_taken == Some(true) {
            journal
                .append_event(kind::TAKEN, &[])
                .map_err(|e| Refusal::Os { errno: libc::EIO, doing: format!("write the journal: {e}") })?;
        }
        let no_tag = || Refusal::Os { errno: libc::EAGAIN, doing: "find a free tag for the command".into() };
        let tag = self.tags.next().ok_or_else(no_tag)?;
        Ok(Job::new(command, tag, journal, now))
    }

    /// The command could not be started: the engine is told why, the record says so for later.
    pub(super) fn not_started(&mut self, slot: u32, why: Refusal, now: Instant) {
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
                self.link.send(request, &Answer::Refused(Refusal::NoSuchExecution));
            }
            job.finish(&End { usage: Usage::default(), ..end });
            self.old_cgroups.extend(job.cgroup.take());
        }
        self.link.send(0, &Answer::NotStarted { slot, why });
    }

    /// Ends a command that no program runs for yet.
    pub(super) fn end_unstarted(&mut self, slot: u32, reason: EndReason, exit: Exit, now: Instant) {
        let Ok(job) = self.job(slot) else { return };
        job.io.close_outputs();
        job.cause = Some((reason, exit.signal.unwrap_or(libc::SIGKILL)));
        job.pending_end = Some(job.end_of(exit, Vec::new(), now));
        self.end_now(slot);
    }

    /// Starts to end processes. `is_session` says that they are those of a session's command.
    pub(super) fn begin_ending(&mut self, request: EndRequest, scope: Scope, is_session: bool, now: Instant) {
        let EndRequest { slot, reason, signal, grace, purpose } = request;
        let Ok(job) = self.job(slot) else { return };
        job.cause.get_or_insert((reason, signal.as_raw()));
        // An interactive bash goes on with the next command unless its child died of SIGINT.
        let ask_first = is_session && self.context.driver == Some(Driver::Portable);
        let (signal, grace) =
            if ask_first && grace.is_zero() { (Signal::INT, PORTABLE_GRACE) } else { (signal, grace) };
        let ending = Ending::new(scope, signal, grace, self.cgroup_of(scope));
        let command = is_session.then_some(slot);
        self.endings.push(EndingTask { ending, purpose, command, wake_at: now });
    }

    /// The cgroup that holds a scope and nothing else: a session's holds more than one command.
    fn cgroup_of(&self, scope: Scope) -> Option<&Cgroup> {
        self.cgroup.as_ref().filter(|_| scope == Scope::Tree)
    }

    /// The program has returned. What it wrote is in the pipes; what it left is in the tree. Says whether that is
    /// being killed first.
    pub(super) fn complete(
        &mut self,
        slot: u32,
        mut exit: Exit,
        processes: JobProcesses,
        now: Instant,
    ) -> bool {
        // A shell that has reported may still be there when what it left is ended; its death is not a second end.
        if self.find(slot).is_none_or(|job| job.pending_end.is_some()) {
            return false;
        }
        self.own_limits.restore_file_size();
        let leftovers = self.leftovers(slot, processes);
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

    /// Gives a job the end that was prepared for it.
    pub(super) fn end_now(&mut self, slot: u32) {
        let Ok(job) = self.job(slot) else { return };
        let Some(end) = job.pending_end.take() else {
            return;
        };
        let unanswered = job.io.close_stdin();
        job.finish(&end);
        self.tell_end(slot, end);
        for request in unanswered {
            self.link.send(request, &Answer::Refused(Refusal::NoSuchExecution));
        }
    }

    /// Tells the engine of an end; and has the engine record it where this process cannot, nor will be able to.
    fn tell_end(&mut self, slot: u32, end: End) {
        let can_record = self.link.engine().is_none() || self.own_limits.restore_file_size();
        let Ok(job) = self.job(slot) else { return };
        // One that was handed over stays so.
        let is_kept = can_record && !job.is_handed_over || job.retry_end();
        let unrecorded = (!is_kept).then(|| job.hand_over_end());
        let (position, stderr_bytes) = (job.position(), Some(job.stderr_bytes()));
        self.link.send(0, &Answer::Ended { slot, end, position, unrecorded, stderr_bytes });
    }

    /// Tells an engine of an end that is not recorded, and that an earlier engine was told of, or none.
    pub(super) fn tell_end_again(&mut self, slot: u32) {
        if let Some(end) = self.find(slot).and_then(Job::unwritten_end) {
            self.tell_end(slot, end);
        }
    }

    /// What a job that has just returned has left running.
    fn leftovers(&mut self, slot: u32, processes: JobProcesses) -> Vec<Leftover> {
        let JobProcesses { scope, shell, template } = processes;
        if !self.leftover_probe.any_besides(shell, template) {
            return Vec::new();
        }
        let mut members = scope.members();
        // A shell whose only command is over is about to end.
        members.retain(|pid| Some(*pid) != shell);
        if self.find(slot).is_some_and(|job| job.cause.is_some()) {
            // The others are being ended by us.
            members.retain(|pid| test_kill_process(*pid) == Err(Errno::PERM));
        }
        self.wait_for_names(&members);
        members.into_iter().map(|pid| Leftover { pid: raw(pid), command: walk::command_line(pid) }).collect()
    }

    /// A child that bash has just forked has bash's name until it has become another program. That is waited for a moment,
    /// since the name is recorded for good; but not for a child that sleeps, which is a subshell.
    fn wait_for_names(&self, pids: &[Pid]) {
        let Some(bash) = self.context.bash.as_ref().and_then(|path| rustix::fs::stat(path).ok()) else {
            return;
        };
        // In the middle of becoming another program it has no arguments.
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
            job.io.close_outputs();
        }
    }

    /// Ends everything below and then the supervisor itself.
    pub(super) fn quit(&mut self, request: u64) {
        self.quitting = true;
        for job in self.jobs.iter_mut().filter(|job| job.stage != Stage::Ended) {
            job.cause.get_or_insert((EndReason::SessionEnded, libc::SIGKILL));
        }
        let ending = Ending::new(Scope::Tree, Signal::KILL, Duration::ZERO, self.cgroup.as_ref());
        let purpose = Purpose::Quit { request };
        self.endings.push(EndingTask { ending, purpose, command: None, wake_at: Instant::now() });
    }

    /// Whether this process has children besides one, ended but unreaped ones included.
    pub(super) fn has_children_besides(&self, template: Option<Pid>) -> bool {
        self.leftover_probe.has_children([template, None])
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
            waits_for_reader: None,
            user: None,
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
}

/// The processes of a job in a supervisor that has no other: everything below it, unless the job is an adopted process.
pub(super) fn scope_in_tree(job: Option<&Job>, template: Option<Pid>) -> Scope {
    match job {
        Some(job) if job.adopted.is_some() => {
            Scope::Command { tag: job.tag, shell: rustix::process::getpid(), since: None, until: None }
        }
        _ => template.map_or(Scope::Tree, Scope::TreeBesides),
    }
}

/// Kills a child of this process.
pub(super) fn kill_shell(shell: &Shell) {
    // Our child, not reaped yet, so the number is its own.
    let _ = rustix::process::kill_process(shell.pid(), Signal::KILL);
}
