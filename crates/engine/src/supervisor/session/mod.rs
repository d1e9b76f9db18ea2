//! A supervisor as the owner of a session: one shell, one command at a time, and the restore of the shell.

mod saved;
mod state;
mod turn;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getegid, geteuid};

use super::core::{Core, EndRequest, JobProcesses, Purpose};
use super::job::{Exit, Job, Restored};
use super::ready::Ready;
use super::role::Housekeeping;
use super::setup::setup_text;
use super::shell_input::check_folder;
use super::template::Template;
use crate::end::{EndReason, StateSource};
use crate::journal::NewJournal;
use crate::layout::SnapshotFile;
use crate::process_tree::Scope;
use crate::procfs;
use crate::protocol::{Bytes, Command, Inspection, OpenSession, Refusal, Response, Stage, Variable};
use crate::shell::{Driver, PORTABLE_REMEDY, Shell, Snapshot};
use crate::sys::{Credentials, Reaped};
use saved::Saved;

/// Maximum number of queued commands.
const MAX_QUEUE: usize = 1000;
/// Maximum number of queued bytes: texts, variables and standard input.
const MAX_QUEUE_BYTES: usize = 256 << 20;
/// Maximum time for a shell to restore or send its state.
pub(super) const STATE_TIMEOUT: Duration = Duration::from_secs(20);

/// The activity of the shell.
#[derive(Debug, Clone, Copy)]
enum Activity {
    /// Waiting for a command.
    Idle,
    /// Running a command.
    Command {
        slot: u32,
        unwinding: Option<Unwinding>,
    },
    /// Running a text of the supervisor: first its state, then perhaps changes to its environment.
    State {
        until: Instant,
    },
    Env {
        request: u64,
        until: Instant,
    },
    /// The command has ended, but the shell has not returned yet.
    Recovering {
        again: Instant,
        until: Instant,
    },
    /// Sending its state, and nothing else meanwhile (portable driver).
    Snapshot {
        until: Instant,
    },
    /// Exiting; the next one starts when it has been reaped.
    Dying,
    /// Exited, but a child still writes its last state.
    AwaitingSnapshot {
        until: Instant,
    },
    /// No shell.
    Down,
}

/// A command that is being interrupted.
#[derive(Debug, Clone, Copy)]
struct Unwinding {
    /// Time of the next interrupt: a signal can arrive just before the shell begins to wait.
    again: Instant,
    /// Time at which the command counts as ended, even if the shell has not returned.
    over_by: Instant,
    /// Time at which a shell that has not returned is killed.
    kill_at: Instant,
}

/// A queued request.
#[derive(Debug)]
enum Queued {
    Command(u32),
    Env { request: u64, text: Vec<u8> },
    Snapshot { request: u64 },
}

/// What the next shell gets because the last one did not listen: once, or every shell would be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandedOn {
    Command(u32),
    Env(u64),
}

/// A request for a new shell.
#[derive(Debug)]
struct Reset {
    requests: Vec<u64>,
    /// Whether it gets the state of the old one.
    restore: bool,
}

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    /// The slot of its record.
    slot: u32,
    shell: Option<Shell>,
    /// The rest of the template that has become its shell.
    unused: Template,
    env: Vec<Variable>,
    cwd: Option<Bytes>,
    activity: Activity,
    queue: VecDeque<Queued>,
    saved: Saved,
    /// Time until which the next command may follow soon.
    warm_until: Option<Instant>,
    /// Whether the shell hands over its state when it exits.
    is_caught: bool,
    /// Whether the last command followed soon after another.
    is_rapid: bool,
    /// What a shell could not accept, and the next one gets.
    handed_on: Option<HandedOn>,
    /// Requests that are answered by the pending snapshot.
    wanted: Vec<u64>,
    /// The request that is answered when the shell is ready.
    opening: Option<u64>,
    /// A shell that has exited while its last snapshot is pending.
    dead_shell: Option<Shell>,
    restarts: u32,
    /// Whether the last command ended the shell, and none has run in the next one yet.
    shell_ended: bool,
    failed_starts: u32,
    /// Source of the state, if the last shell has died and the next one is not ready.
    died: Option<StateSource>,
    /// The restored state, to be reported with the next command.
    restored: Option<Restored>,
    reset: Option<Reset>,
}

impl Session {
    pub(super) fn slot(&self) -> u32 {
        self.slot
    }

    pub(super) fn shell(&self) -> Option<&Shell> {
        self.shell.as_ref()
    }

    /// A shell that has ended while its last snapshot is pending.
    pub(super) fn dead_shell(&self) -> Option<&Shell> {
        self.dead_shell.as_ref()
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        let activity = match self.activity {
            Activity::Idle => [self.saved.due(self.is_caught), self.warm_until].into_iter().flatten().min(),
            Activity::Command { unwinding, .. } => unwinding.map(|u| u.again.min(u.over_by)),
            Activity::State { until }
            | Activity::Env { until, .. }
            | Activity::Snapshot { until }
            | Activity::AwaitingSnapshot { until } => Some(until),
            Activity::Recovering { again, until } => Some(again.min(until)),
            Activity::Dying | Activity::Down => None,
        };
        let pending = self.saved.asked().map(|asked| asked + STATE_TIMEOUT);
        [activity, pending, self.saved.write_again_at()].into_iter().flatten().min()
    }

    pub(super) fn describe(&self, inspection: &mut Inspection) {
        inspection.queued = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        inspection.restarts = self.restarts;
        inspection.shell_ended = Some(self.shell_ended);
        inspection.busy = self.is_busy();
        let shell = self.shell.as_ref().map(Shell::pid);
        inspection.cwd = shell.and_then(|pid| procfs::working_directory(pid).ok()).map(Bytes);
    }

    pub(super) fn housekeeping(&self) -> Housekeeping {
        let is_warm = matches!(self.activity, Activity::Idle) && self.warm_until.is_some();
        // The running command followed soon after another: so may the next.
        Housekeeping { close: !is_warm, prepare: self.is_rapid && self.is_busy() }
    }

    /// Does what can wait until the request that opens it was answered.
    pub(super) fn prepare(&mut self) {
        if self.opening.is_none() {
            self.unused.end_unused();
        }
    }

    /// Whether a command runs.
    fn is_busy(&self) -> bool {
        matches!(self.activity, Activity::Command { .. })
    }

    pub(super) fn current(&self) -> Option<u32> {
        match self.activity {
            Activity::Command { slot, .. } => Some(slot),
            _ => None,
        }
    }
}

impl Session {
    /// Whether the shell has not returned from this command yet.
    pub(super) fn is_busy_with(&self, command: u32) -> bool {
        match self.activity {
            Activity::Command { slot, .. } => slot == command,
            // From the last command, which has already ended.
            Activity::Recovering { .. } => true,
            _ => false,
        }
    }

    /// The scope of a job's processes.
    pub(super) fn scope_of(&self, job: Option<&Job>) -> Scope {
        let Some(job) = job else { return Scope::Tree };
        let shell = self.shell.as_ref().map_or_else(rustix::process::getpid, Shell::pid);
        Scope::Command { tag: job.tag, shell, since: job.since, until: job.until }
    }

    /// Signals the shell, which runs this command itself. A signal without a trap ends the command and not the shell;
    /// signals that would end or stop the shell itself are not sent.
    pub(super) fn signal_shell(&self, slot: u32, signal: Signal) {
        const ENDS_COMMAND: [Signal; 11] = [
            Signal::HUP,
            Signal::INT,
            Signal::PIPE,
            Signal::ALARM,
            Signal::TERM,
            Signal::USR1,
            Signal::USR2,
            Signal::VTALARM,
            Signal::PROF,
            Signal::XCPU,
            Signal::XFSZ,
        ];
        if self.current() == Some(slot)
            && ENDS_COMMAND.contains(&signal)
            && let Some(shell) = &self.shell
        {
            // It is our child and not reaped, so the process id is valid.
            let _ = rustix::process::kill_process(shell.pid(), signal);
        }
    }

    /// Unwinds a command and starts to end its processes; the shell stays.
    pub(super) fn end_processes(&mut self, core: &mut Core, request: EndRequest, now: Instant) {
        let scope = self.scope_of(core.find(request.slot));
        self.interrupt_shell(request.slot, request.grace, now);
        core.begin_ending(request, scope, true, now);
    }

    pub(super) fn child_ended(&mut self, core: &mut Core, reaped: &Reaped, now: Instant) {
        if self.shell.as_ref().is_some_and(|shell| shell.pid() == reaped.pid) {
            // It may have sent its last state after the reports were read, and exited before it was reaped.
            self.receive(core, now);
            self.shell_ended(core, Exit::from(reaped), now);
            return;
        }
        if self.unused.has_ended(reaped.pid) {
            return;
        }
        // An adopted process that has become our child.
        let own = |job: &&Job| job.pid == Some(reaped.pid) && job.stage == Stage::Running;
        if let Some(slot) = core.jobs.iter().find(own).map(|job| job.slot) {
            self.complete(core, slot, Exit::from(reaped), now);
        }
    }

    /// The program of a job has returned.
    pub(super) fn complete(&self, core: &mut Core, slot: u32, exit: Exit, now: Instant) {
        let scope = self.scope_of(core.find(slot));
        let processes = JobProcesses { scope, shell: self.shell.as_ref().map(Shell::pid), template: None };
        let _ = core.complete(slot, exit, processes, now);
    }

    /// With the portable driver, the shell opens descriptors of this process, which the kernel refuses to other users.
    fn check_driver(core: &Core, credentials: Option<&Credentials>) -> Result<(), Refusal> {
        let own = (geteuid().as_raw(), getegid().as_raw());
        let is_other = credentials.is_some_and(|user| (user.user, user.group) != own);
        if is_other && core.context.driver == Some(Driver::Portable) {
            let why = "the portable driver cannot start the shell of another user";
            return Err(Refusal::NoShell(format!("{why}; {PORTABLE_REMEDY}")));
        }
        Ok(())
    }

    /// Why a session cannot be opened.
    pub(super) fn check(core: &Core, open: &OpenSession) -> Result<(), Refusal> {
        if core.context.driver.is_none() {
            return Err(Refusal::NoShell("sessions require bash; install it".into()));
        }
        let Some(user) = &open.user else {
            Self::check_driver(core, core.credentials())?;
            return check_folder(open.cwd.as_ref(), core.credentials());
        };
        let cwd = open.cwd.clone().unwrap_or_else(|| core.context.cwd.as_os_str().into());
        let credentials = user.credentials();
        Self::check_driver(core, credentials.as_ref())?;
        check_folder(Some(&cwd), credentials.as_ref())
    }

    pub(super) fn open(core: &mut Core, ready: Ready, request: u64, open: OpenSession, now: Instant) -> Self {
        core.supply.release();
        let age = open.snapshot_age.unwrap_or_default();
        let taken = now.checked_sub(age).unwrap_or(now);
        let folder = &core.context.folders.snapshots;
        let mut file = match (&open.snapshot, open.salt) {
            // The engine has saved it for this session.
            (Some(_), Some(salt)) => SnapshotFile::resume(folder, open.slot, salt),
            _ => SnapshotFile::new(open.slot, open.salt),
        };
        if let Some(snapshot) = &open.snapshot
            && !file.is_saved()
        {
            // An engine of an earlier version: it drops its own copy when we are ready, and we may be killed before the
            // next one is taken.
            drop(file.write(folder, &snapshot.0, age));
        }
        let state = open.snapshot.and_then(|text| Snapshot::from_bytes(text.0).ok());
        let (mut template, _) = ready.into_parts();
        if open.user.as_ref().is_some_and(|user| core.run_as(user)) {
            template.end();
        }
        let mut session = Self {
            slot: open.slot,
            shell: template.take_for_session(|shell| core.restore_shell_limits(shell)),
            unused: template,
            env: open.env,
            cwd: open.cwd,
            activity: Activity::Down,
            queue: VecDeque::new(),
            restored: open.snapshot_age.map(|age| Restored { age, from: StateSource::Snapshot }),
            saved: Saved::new(file, state, taken),
            warm_until: None,
            is_caught: core.context.driver == Some(Driver::Loaded),
            is_rapid: false,
            handed_on: None,
            wanted: Vec::new(),
            opening: Some(request),
            dead_shell: None,
            restarts: 0,
            shell_ended: false,
            failed_starts: 0,
            died: None,
            reset: None,
        };
        session.bring_up(core, now);
        session
    }

    pub(super) fn queue_command(
        &mut self,
        core: &mut Core,
        command: Command,
        journal: Option<NewJournal>,
        now: Instant,
    ) -> Response {
        if let Err(why) = self.check_room(core, command.bytes()) {
            return Response::Refused(why);
        }
        let slot = command.slot;
        match core.new_job(command, journal, now) {
            Ok(job) => {
                core.jobs.push(job);
                self.queue.push_back(Queued::Command(slot));
                Response::Accepted
            }
            Err(why) => Response::Refused(why),
        }
    }

    /// Why a request of this size cannot be queued.
    fn check_room(&self, core: &Core, bytes: usize) -> Result<(), Refusal> {
        let texts = self.queue.iter().map(|queued| match queued {
            Queued::Env { text, .. } => text.len(),
            Queued::Command(_) | Queued::Snapshot { .. } => 0,
        });
        let jobs = core.jobs.iter().filter(|job| job.stage != Stage::Ended);
        let waiting: usize = texts.chain(jobs.map(|job| job.command.bytes())).sum();
        // A single request may have the maximum size of a request.
        let full = self.queue.len() + self.wanted.len() >= MAX_QUEUE
            || (waiting > 0 && waiting + bytes > MAX_QUEUE_BYTES);
        if full { Err(Refusal::QueueFull) } else { Ok(()) }
    }

    pub(super) fn queue_snapshot(&mut self, core: &Core, request: u64) -> Result<(), Refusal> {
        self.check_room(core, 0)?;
        self.queue.push_back(Queued::Snapshot { request });
        Ok(())
    }

    pub(super) fn queue_env(
        &mut self,
        core: &Core,
        request: u64,
        changes: &[Variable],
    ) -> Result<(), Refusal> {
        let text = setup_text(changes, None);
        self.check_room(core, text.len())?;
        self.queue.push_back(Queued::Env { request, text });
        Ok(())
    }

    /// Replaces the shell, with or without its state; the request is answered when the next one is ready.
    pub(super) fn reset(
        &mut self,
        core: &mut Core,
        request: u64,
        restore: bool,
        now: Instant,
    ) -> Result<(), Refusal> {
        // Allowed with a full queue: it is the way out.
        if self.reset.as_ref().is_some_and(|reset| reset.requests.len() >= MAX_QUEUE) {
            return Err(Refusal::QueueFull);
        }
        let reset = self.reset.get_or_insert_with(|| Reset { requests: Vec::new(), restore });
        // A reset in progress serves this request too; if any request drops the state, it is dropped.
        reset.requests.push(request);
        reset.restore &= restore;
        if !restore && self.saved.snapshot().is_some() && matches!(self.activity, Activity::State { .. }) {
            // It is being restored to the very state that must be dropped.
            self.activity = Activity::Dying;
            self.kill_shell();
        } else if let Some(slot) = self.current() {
            let request = EndRequest {
                slot,
                reason: EndReason::SessionEnded,
                signal: Signal::KILL,
                grace: Duration::ZERO,
                purpose: Purpose::Cause,
            };
            self.end_processes(core, request, now);
        }
        Ok(())
    }

    /// Ends a command that is still queued.
    pub(super) fn end_unstarted(&mut self, core: &mut Core, slot: u32, signal: Signal, now: Instant) {
        self.queue.retain(|item| !matches!(item, Queued::Command(queued) if *queued == slot));
        let exit = Exit { code: Some(128 + signal.as_raw()), ..Exit::default() };
        core.end_unstarted(slot, EndReason::Killed, exit, now);
    }
}
