//! The state of every supervisor, independent of its role: its connection, its jobs, and kills in progress.

mod ends;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open};

pub(super) use ends::{EndRequest, EndingTask, JobProcesses, Purpose};

use super::context::Context;
use super::job::Job;
use super::leftover_probe::LeftoverProbe;
use super::leftovers::Leftovers;
use super::link::EngineLink;
use super::own_limits::OwnLimits;
use super::shell_input::is_root;
use super::stdio::PipeSupply;
use crate::command::{LeftoverPolicy, Limits};
use crate::journal::{JournalWriter, NewJournal, Slot, kind};
use crate::layout::log_failure;
use crate::process_tree::{Cgroup, Nonce, Scope, Tag, Tags, walk};
use crate::protocol::{Command, Refusal, WireProgram, WireStdin};
use crate::shell::{Shell, ShellConfig};
use crate::spawn::ProcessSetup;
use crate::sys::Credentials;
use crate::user::User;

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
        let of_shell = core.process_setup(core.tag_of_no_command()).limit_values()?;
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
            setup: &self.process_setup(self.tag_of_no_command()),
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

    /// The tag of processes that belong to no command.
    pub(super) fn tag_of_no_command(&self) -> Tag {
        self.tags.of_no_command()
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
        let left = self.closed_leftovers.iter().map(Leftovers::tag);
        let held = self.jobs.iter().map(|job| job.tag).chain(left);
        let tag = self.tags.next_besides(held).ok_or_else(no_tag)?;
        Ok(Job::new(command, tag, journal, now))
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
        if !walk::is_below(getpid(), pid) {
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
            is_urgent: None,
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
            Scope::Command { tag: job.tag, shell: getpid(), since: None, until: None }
        }
        _ => template.map_or(Scope::Tree, Scope::TreeBesides),
    }
}

/// Kills a child of this process.
pub(super) fn kill_shell(shell: &Shell) {
    // It is our child and not reaped, so the process id is valid.
    let _ = rustix::process::kill_process(shell.pid(), Signal::KILL);
}
