//! A supervisor as the owner of a session: one shell, one command at a time, and the means to bring
//! the shell back.

mod state;
mod turn;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::event_loop::{Purpose, Supervisor};
use super::job::Exit;
use super::run::check_folder;
use super::setup::setup_text;
use crate::end::EndReason;
use crate::journal::NewJournal;
use crate::layout::SnapshotFile;
use crate::protocol::{Answer, Bytes, Command, Inspection, OpenSession, Refusal, Role, Stage, Variable};
use crate::shell::{Shell, Snapshot};

/// The most commands that wait for their turn.
const MAX_QUEUE: usize = 1000;
/// The most bytes that may wait: texts, variables and standard input.
const MAX_QUEUE_BYTES: usize = 256 << 20;
/// How long a shell has for bringing its state up, or giving it.
pub(super) const STATE_PATIENCE: Duration = Duration::from_secs(20);

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

/// A new shell was asked for.
#[derive(Debug)]
struct Reset {
    requests: Vec<u64>,
    /// Whether it is to have the state of the old one.
    restore: bool,
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
    /// The last command came soon after another.
    brisk: bool,
    /// A snapshot was asked for and has not arrived; when it was asked for.
    pending: Option<Instant>,
    /// When it was opened: its first state is of that age.
    opened: Instant,
    /// Any command may end the shell: `set -e` and the like have been used.
    strict: bool,
    /// The command for which a snapshot was taken as a precaution.
    guarded: Option<u32>,
    /// The command that a shell could not be given, and that the next one is.
    handed_on: Option<u32>,
    /// Requests that are answered by the next snapshot.
    wanted: Vec<u64>,
    /// The request that is answered when the shell is up.
    opening: Option<u64>,
    /// A shell that is gone while its last snapshot is not here yet.
    last: Option<Shell>,
    restarts: u32,
    /// The last command ended the shell, and none has run in the next one yet.
    shell_ended: bool,
    failed_starts: u32,
    /// How old the state was that the shell was brought back to, for the next command to say.
    restored: Option<Duration>,
    reset: Option<Reset>,
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
        inspection.shell_ended = Some(self.shell_ended);
        inspection.busy = self.is_busy();
    }

    /// Whether a command was run a moment ago. It is not for long: then its state is saved.
    pub(super) fn is_warm(&self) -> bool {
        matches!(self.activity, Activity::Idle) && self.snapshot_due.is_some()
    }

    /// Whether a command runs that came soon after another: so may the next.
    pub(super) fn is_brisk(&self) -> bool {
        self.brisk && self.is_busy()
    }

    /// Whether a command runs.
    fn is_busy(&self) -> bool {
        matches!(self.activity, Activity::Command { .. })
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

    /// Whether the shell has not come back yet from this command.
    pub(super) fn shell_is_busy_with(&self, command: u32) -> bool {
        match self.session.as_ref().map(|session| session.activity) {
            Some(Activity::Command { slot, .. }) => slot == command,
            // From the last command, which is over already.
            Some(Activity::Recovering { .. }) => true,
            _ => false,
        }
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
        self.supply.let_go();
        let age = open.snapshot_age.unwrap_or_default();
        let taken = now.checked_sub(age).unwrap_or(now);
        let mut file = SnapshotFile::new(open.slot, open.salt);
        if let Some(snapshot) = &open.snapshot {
            // The engine forgets its own copy once we are up, and we may be killed before the next is taken.
            drop(file.write(&self.context.folders.snapshots, &snapshot.0, age));
        }
        self.session = Some(Session {
            env: open.env,
            cwd: open.cwd,
            activity: Activity::Down,
            queue: VecDeque::new(),
            restored: open.snapshot_age,
            state: open
                .snapshot
                .and_then(|text| Snapshot::from_bytes(text.0).ok())
                .map(|snapshot| State { snapshot, taken }),
            file,
            dirty: false,
            snapshot_due: None,
            brisk: false,
            pending: None,
            opened: taken,
            strict: false,
            guarded: None,
            handed_on: None,
            wanted: Vec::new(),
            opening: Some(request),
            last: None,
            restarts: 0,
            shell_ended: false,
            failed_starts: 0,
            reset: None,
        });
        self.bring_up(now);
        None
    }

    pub(super) fn queue_command(
        &mut self,
        command: Command,
        journal: Option<NewJournal>,
        now: Instant,
    ) -> Answer {
        if let Some(refused) = self.refuse_queueing(command.bytes()) {
            return refused;
        }
        let slot = command.slot;
        self.for_engine.end();
        match self.new_job(command, journal, now) {
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

    /// Why something of so many bytes cannot wait for its turn.
    fn refuse_queueing(&self, bytes: usize) -> Option<Answer> {
        let Some(session) = &self.session else {
            return Some(Answer::Refused(Refusal::NotASession));
        };
        let texts = session.queue.iter().map(|queued| match queued {
            Queued::Env { text, .. } => text.len(),
            Queued::Command(_) | Queued::Snapshot { .. } => 0,
        });
        let jobs = self.jobs.iter().filter(|job| job.stage != Stage::Ended);
        let waiting: usize = texts.chain(jobs.map(|job| job.command.bytes())).sum();
        // Alone it may be as large as a request may be.
        let full = session.queue.len() >= MAX_QUEUE || (waiting > 0 && waiting + bytes > MAX_QUEUE_BYTES);
        full.then_some(Answer::Refused(Refusal::QueueFull))
    }

    pub(super) fn queue_snapshot(&mut self, request: u64) -> Option<Answer> {
        let refused = self.refuse_queueing(0);
        if refused.is_none() {
            self.enqueue(Queued::Snapshot { request });
        }
        refused
    }

    pub(super) fn queue_env(&mut self, request: u64, changes: &[Variable]) -> Option<Answer> {
        let text = setup_text(changes, None);
        let refused = self.refuse_queueing(text.len());
        if refused.is_none() {
            self.enqueue(Queued::Env { request, text });
        }
        refused
    }

    pub(super) fn reset_session(&mut self, request: u64, restore: bool, now: Instant) -> Option<Answer> {
        let Some(session) = &mut self.session else {
            return Some(Answer::Refused(Refusal::NotASession));
        };
        let reset = session.reset.get_or_insert_with(|| Reset { requests: Vec::new(), restore });
        // One that is under way serves this one too; whoever wants the state gone gets that.
        reset.requests.push(request);
        reset.restore &= restore;
        if !restore && session.state.is_some() && matches!(session.activity, Activity::State { .. }) {
            // It is being brought to the very state that is to go.
            session.activity = Activity::Dying;
            self.kill_shell();
            return None;
        }
        if let Some(slot) = session.current() {
            self.end_processes(
                slot,
                EndReason::SessionEnded,
                rustix::process::Signal::KILL,
                Duration::ZERO,
                Purpose::Cause,
                now,
            );
        }
        None
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
