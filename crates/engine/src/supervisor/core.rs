//! The state of every supervisor, independent of its role: its connection, its jobs, and kills in progress.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, test_kill_process};

use super::context::Context;
use super::job::{Exit, Job, raw};
use super::leftover_probe::LeftoverProbe;
use super::leftovers::Leftovers;
use super::link::EngineLink;
use super::own_limits::OwnLimits;
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

/// Grace period between SIGINT and SIGKILL for the processes of a command, with the portable driver.
const PORTABLE_GRACE: Duration = Duration::from_millis(15);

/// Interval and number of checks for the program name of a process that was just forked.
const NAME_INTERVAL: Duration = Duration::from_micros(500);
const NAME_LOOKS: u32 = 60;

/// Why processes are being ended, which decides what follows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
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
pub(super) struct EndingTask {
    pub(super) ending: Ending,
    pub(super) purpose: Purpose,
    /// The session's command to which they belong: its shell may start more of them until it has returned.
    pub(super) command: Option<u32>,
    /// Time of the next step.
    pub(super) wake_at: Instant,
}

/// Options for ending the processes of a running job.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndRequest {
    pub(super) slot: u32,
    pub(super) reason: EndReason,
    pub(super) signal: Signal,
    /// Grace period between the signal and SIGKILL.
    pub(super) grace: Duration,
    pub(super) purpose: Purpose,
}

/// The processes of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobProcesses {
    pub(super) scope: Scope,
    /// The shell that runs it. It is not a leftover when the job has returned.
    pub(super) shell: Option<Pid>,
    /// The template from which shells are forked.
    pub(super) template: Option<Pid>,
}

/// The initial environment of a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShellEnv<'a> {
    /// That of the sandbox.
    Sandbox,
    /// The given one.
    Own(&'a [(OsString, OsString)]),
    /// Empty: a snapshot will set every variable.
    Empty,
}

/// The state of every supervisor.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) context: Context,
    pub(super) nonce: Nonce,
    pub(super) link: EngineLink,
    pub(super) jobs: Vec<Job>,
    pub(super) endings: Vec<EndingTask>,
    /// The cgroup of everything below this supervisor.
    pub(super) cgroup: Option<Cgroup>,
    /// Cgroups of finished commands, until they are empty.
    pub(super) old_cgroups: Vec<Cgroup>,
    /// The buffer for output. It grows with the first command that writes much.
    pub(super) buffer: Vec<u8>,
    pub(super) supply: PipeSupply,
    /// Whether everything is being ended, after which the supervisor exits.
    pub(super) quitting: bool,
    leftover_probe: LeftoverProbe,
    pub(super) own_limits: OwnLimits,
    /// The limits of a shell that it has started.
    shell_limits: OwnLimits,
    /// Leftovers of closed executions.
    pub(super) closed_leftovers: Vec<Leftovers>,
    tags: Tags,
    /// User of processes; `None` for this process's own user.
    credentials: Option<Credentials>,
}

impl Core {
    pub(super) fn new(context: Context, nonce: Nonce, link: EngineLink) -> std::io::Result<Self> {
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
            closed_leftovers: Vec::new(),
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

    /// Creates a cgroup of this supervisor, if cgroups are used.
    pub(super) fn make_cgroup(&self, name: &str, limits: &Limits) -> std::io::Result<Cgroup> {
        let support = self.context.cgroups.support();
        if !support.kill && !limits.any_kernel_limit() {
            return Err(std::io::ErrorKind::Unsupported.into());
        }
        self.context.cgroups.create(self.nonce, name, limits)
    }

    /// Sets the user of processes. Returns whether it changed, so that an existing shell cannot be used.
    pub(super) fn run_as(&mut self, user: &User) -> bool {
        self.set_credentials(user.credentials())
    }

    /// Resets the user of processes to the default.
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

    /// Whether commands run as root, for which some limits are not enforced.
    pub(super) fn commands_are_root(&self) -> bool {
        self.credentials.as_ref().map_or_else(is_root, |credentials| credentials.user == 0)
    }

    /// The initial state of every process of this supervisor.
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
            return Err(Refusal::NoShell("bash not found; install it".into()));
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

    /// Restores all limits of this process that a command has changed. Its children inherit them.
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        if self.own_limits.restore_all() { Ok(()) } else { Err(Refusal::LimitsLowered) }
    }

    /// Restores the limits of a shell that waits for a command. Returns whether they are correct.
    pub(super) fn restore_shell_limits(&self, shell: Pid) -> bool {
        self.shell_limits.restore_on(shell)
    }

    /// Writes an unexpected failure to the log.
    pub(super) fn log_failure(&self, reason: &str) {
        // On a full disk the line is lost.
        drop(log_failure(&self.context.folders.supervisors, &format!("{}: {reason}", self.nonce)));
    }

    /// Creates a job. Its journal is opened if it was not sent with the command.
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

    /// The command could not be started: tells the engine the reason, and records it.
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

    /// Ends a command that has no process yet.
    pub(super) fn end_unstarted(&mut self, slot: u32, reason: EndReason, exit: Exit, now: Instant) {
        let Ok(job) = self.job(slot) else { return };
        job.io.close_outputs();
        job.cause = Some((reason, exit.signal.unwrap_or(libc::SIGKILL)));
        job.pending_end = Some(job.end_of(exit, Vec::new(), now));
        self.end_now(slot);
    }

    /// Starts to end processes. `is_session` is true for those of a session's command.
    pub(super) fn begin_ending(&mut self, request: EndRequest, scope: Scope, is_session: bool, now: Instant) {
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
    pub(super) fn complete(
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

    /// Reports an end to the engine, which must record it if this process cannot.
    fn tell_end(&mut self, slot: u32, end: End) {
        let has_engine = self.link.engine().is_some();
        let Some(job) = self.jobs.iter_mut().find(|job| job.slot == slot) else { return };
        // Nearly always it is recorded. Once handed over, the engine records it.
        let is_kept =
            job.retry_end() || !job.is_handed_over() && (!has_engine || self.own_limits.restore_file_size());
        let unrecorded = (!is_kept).then(|| job.hand_over_end());
        let (position, stderr_bytes) = (job.position(), Some(job.stderr_bytes()));
        self.link.send(0, &Answer::Ended { slot, end, position, unrecorded, stderr_bytes });
    }

    /// Repeats the ends that the engine must record and has not confirmed.
    pub(super) fn repeat_ends(&mut self, now: Instant) {
        if self.link.engine().is_some() {
            let late: Vec<_> =
                self.jobs.iter().filter(|job| job.is_unconfirmed(now)).map(|job| job.slot).collect();
            late.into_iter().for_each(|slot| self.tell_end_again(slot));
        }
    }

    /// Reports an unrecorded end to an engine again.
    pub(super) fn tell_end_again(&mut self, slot: u32) {
        if let Some(end) = self.find(slot).and_then(Job::unwritten_end) {
            self.tell_end(slot, end);
        }
    }

    /// The leftovers of a job that has just returned.
    fn leftovers(&mut self, slot: u32, processes: JobProcesses, is_childless: bool) -> Vec<Leftover> {
        let JobProcesses { scope, shell, template } = processes;
        if !self.leftover_probe.any_besides(shell, template, is_childless) {
            return Vec::new();
        }
        let mut members = scope.members();
        // A shell whose only command has ended is about to exit.
        members.retain(|pid| Some(*pid) != shell);
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

    /// Ends everything below, then the supervisor itself.
    pub(super) fn quit(&mut self, request: u64) {
        self.quitting = true;
        for job in self.jobs.iter_mut().filter(|job| job.stage != Stage::Ended) {
            job.cause.get_or_insert((EndReason::SessionEnded, libc::SIGKILL));
        }
        let ending = Ending::new(Scope::Tree, Signal::KILL, Duration::ZERO, self.cgroup.as_ref());
        let purpose = Purpose::Quit { request };
        self.endings.push(EndingTask { ending, purpose, command: None, wake_at: Instant::now() });
    }

    /// Whether this process has other children, zombies included.
    pub(super) fn has_children_besides(&self, template: Option<Pid>) -> bool {
        self.leftover_probe.has_children([template, None])
    }

    /// Turns a leftover of a command into an execution.
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
            terminal: None,
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

/// The processes of the only job of a supervisor: everything below it, unless the job is an adopted process.
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
    // It is our child and not reaped, so the process id is valid.
    let _ = rustix::process::kill_process(shell.pid(), Signal::KILL);
}
