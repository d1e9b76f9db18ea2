//! [`Tracked`]: the engine's state of an execution.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;
use tracing::Span;

use super::readers::Readers;
use super::terminal_state::TerminalState;
use crate::command::SessionEndPolicy;
use crate::end::{End, EndReason, Usage};
use crate::engine::StartError;
use crate::engine::execution::{ExecutionInfo, Status};
use crate::engine::link::{SupervisorLink, lock};
use crate::id::{ExecutionId, SessionId};
use crate::journal::{JournalSlot, JournalSummary};
use crate::protocol::{Refusal, Request};
use crate::record::ExecutionRecord;
use crate::terminal::SizeEvent;

/// The immutable data of an execution.
#[derive(Debug)]
pub(in crate::engine) struct Fixed {
    pub(in crate::engine) id: ExecutionId,
    pub(in crate::engine) session: Option<SessionId>,
    pub(in crate::engine) command: String,
    pub(in crate::engine) argv: bool,
    /// The program and the working directory, for error messages.
    pub(in crate::engine) program: String,
    pub(in crate::engine) cwd: PathBuf,
    pub(in crate::engine) background: bool,
    pub(in crate::engine) digest: Option<Vec<u8>>,
    pub(in crate::engine) keep: bool,
    pub(in crate::engine) on_session_end: SessionEndPolicy,
    /// Whether its leftovers become executions.
    pub(in crate::engine) adopt: bool,
    pub(in crate::engine) created_at: SystemTime,
    pub(in crate::engine) note: Option<Arc<[u8]>>,
    /// Whether it waits for its readers instead of dropping unread output.
    pub(in crate::engine) waits_for_reader: bool,
    /// The end of the previous execution with the same id, whose record it replaced.
    pub(in crate::engine) replaced: Option<Arc<End>>,
    /// Set if it is a terminal.
    pub(in crate::engine) terminal: Option<TerminalState>,
}

impl Fixed {
    /// The error for a refused start.
    pub(in crate::engine) fn refused(&self, why: Refusal) -> StartError {
        StartError::refused(why, &self.program, self.cwd.clone())
    }
}

/// The mutable state, as one value that can be watched.
#[derive(Debug, Clone)]
pub(in crate::engine) struct State {
    pub(in crate::engine) status: Status,
    pub(in crate::engine) pid: Option<u32>,
    pub(in crate::engine) started_at: Option<SystemTime>,
    pub(in crate::engine) ended_at: Option<SystemTime>,
    /// Whether its journal is final: no supervisor writes to it any more.
    pub(in crate::engine) closed: bool,
    pub(in crate::engine) refused: Option<Refusal>,
}

impl State {
    /// Whether it has neither ended nor been refused.
    fn is_unfinished(&self) -> bool {
        self.status.end().is_none() && self.refused.is_none()
    }
}

/// The engine's state of an execution.
#[derive(Debug)]
pub(in crate::engine) struct Tracked {
    pub(in crate::engine) fixed: Fixed,
    pub(in crate::engine) journal: JournalSlot,
    state: watch::Sender<State>,
    pub(in crate::engine) link: Mutex<Option<Arc<SupervisorLink>>>,
    /// The last known position of its journal.
    position: watch::Sender<u64>,
    /// Number of reports of growth that the supervisor was asked for and has not sent.
    reports_due: AtomicU32,
    /// Whether the supervisor was asked to adopt its process, and has not replied.
    pub(in crate::engine) adopting: AtomicBool,
    /// Held during a write to its standard input.
    pub(in crate::engine) writing: Arc<tokio::sync::Mutex<()>>,
    bytes_on_disk: AtomicU64,
    /// The size of its journal on disk if it has neither output nor leftovers, if known.
    silent_bytes: Option<u64>,
    /// Number of bytes of standard error at its end.
    stderr_bytes: AtomicU64,
    /// Number of readers and waiters that use its record; [`REMOVED`] if it is being removed.
    users: AtomicU32,
    /// Whether it has leftovers, as far as known. Its supervisor reports when the last one has ended.
    has_leftovers: AtomicBool,
    /// Time of its closing, or of the last use by a reader or waiter.
    last_used: Mutex<Option<Instant>>,
    pub(super) readers: Mutex<Readers>,
    /// The span in which it was started, until its end: its events belong to it.
    caller: Mutex<Span>,
}

/// Number of reports of growth that a supervisor of a terminal is asked for at once. A request for each would wake it
/// after every key.
const TERMINAL_REPORTS: u32 = 32;

/// Value of `users` for a record that is being removed.
const REMOVED: u32 = u32::MAX;

/// Protects the record of an execution: a record that is read or waited for is not removed. Afterwards it is kept for
/// the grace period.
#[derive(Debug)]
pub(in crate::engine) struct RecordGuard(Arc<Tracked>);

impl Drop for RecordGuard {
    fn drop(&mut self) {
        *lock(&self.0.last_used) = Some(Instant::now());
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Tracked {
    /// Creates one that was just claimed.
    pub(super) fn new(fixed: Fixed, journal: JournalSlot, silent_bytes: Option<u64>) -> Arc<Self> {
        let state = State {
            status: Status::Starting,
            pid: None,
            started_at: None,
            ended_at: None,
            closed: false,
            refused: None,
        };
        let caller = Span::current();
        // Has no effect if the span of the caller has no such field.
        caller.record("execution", tracing::field::display(&fixed.id));
        let caller = Mutex::new(caller);
        Arc::new(Self { silent_bytes, caller, ..Self::with_state(fixed, journal, state) })
    }

    /// The span in which it was started.
    pub(super) fn caller(&self) -> Span {
        lock(&self.caller).clone()
    }

    /// The same, for the last time.
    pub(super) fn take_caller(&self) -> Span {
        std::mem::replace(&mut lock(&self.caller), Span::none())
    }

    fn with_state(fixed: Fixed, journal: JournalSlot, state: State) -> Self {
        Self {
            fixed,
            journal,
            state: watch::Sender::new(state),
            link: Mutex::new(None),
            position: watch::Sender::new(0),
            reports_due: AtomicU32::new(0),
            adopting: AtomicBool::new(false),
            writing: Arc::default(),
            bytes_on_disk: AtomicU64::new(0),
            silent_bytes: None,
            stderr_bytes: AtomicU64::new(0),
            users: AtomicU32::new(0),
            has_leftovers: AtomicBool::new(false),
            last_used: Mutex::new(None),
            readers: Mutex::default(),
            caller: Mutex::new(Span::none()),
        }
    }

    /// Creates one from its journal.
    pub(super) fn of_journal(
        record: ExecutionRecord,
        journal: &JournalSummary,
        is_held: bool,
    ) -> Option<Arc<Self>> {
        let fixed = Fixed {
            id: record.id.parse::<ExecutionId>().ok()?,
            session: record.session.as_ref().and_then(|id| id.parse().ok()),
            command: crate::engine::display_of(&record),
            argv: record.is_argv,
            program: crate::engine::program_of(&record),
            cwd: PathBuf::new(),
            background: record.background,
            digest: record.digest.map(|digest| digest.0),
            keep: record.keep,
            on_session_end: record.on_session_end,
            adopt: record.adopt == Some(true),
            created_at: journal.claimed_at,
            note: record.note.map(|note| note.0),
            waits_for_reader: record.waits_for_reader == Some(true),
            replaced: None,
            terminal: record.terminal.as_ref().map(TerminalState::new),
        };
        if let (Some(terminal), Some(payload)) = (&fixed.terminal, &journal.size)
            && let Ok(event) = minicbor::decode::<SizeEvent>(payload)
        {
            terminal.sizes.send_replace(event.size);
        }
        let end = journal.ended.as_ref().and_then(|payload| minicbor::decode(payload).ok());
        let state = State {
            closed: end.is_some() && !is_held,
            ended_at: journal.ended_at.filter(|_| end.is_some()),
            status: end.map_or(Status::Starting, |end| Status::Ended(Arc::new(end))),
            pid: journal.started.as_ref().and_then(|payload| minicbor::decode(payload).ok()),
            started_at: journal.started_at,
            refused: None,
        };
        let claimed = JournalSlot { slot: journal.slot, salt: journal.salt };
        let tracked = Self::with_state(fixed, claimed, state);
        tracked.bytes_on_disk.store(journal.bytes_on_disk, Ordering::Release);
        tracked.position.send_replace(journal.stdout_bytes + journal.stderr_bytes);
        tracked.set_stderr_bytes(journal.stderr_bytes);
        Some(Arc::new(tracked))
    }

    pub(in crate::engine) fn slot(&self) -> u32 {
        self.journal.slot.0
    }

    /// Its state, to be watched.
    pub(in crate::engine) fn states(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub(in crate::engine) fn status(&self) -> Status {
        self.state.borrow().status.clone()
    }

    pub(in crate::engine) fn end(&self) -> Option<Arc<End>> {
        self.state.borrow().status.end().cloned()
    }

    pub(in crate::engine) fn ended_at(&self) -> Option<SystemTime> {
        self.state.borrow().ended_at
    }

    pub(in crate::engine) fn is_closed(&self) -> bool {
        self.state.borrow().closed
    }

    pub(super) fn is_unfinished(&self) -> bool {
        self.state.borrow().is_unfinished()
    }

    /// The last known position of its journal.
    pub(in crate::engine) fn position(&self) -> u64 {
        *self.position.borrow()
    }

    /// That position, to be watched.
    pub(in crate::engine) fn positions(&self) -> watch::Receiver<u64> {
        self.position.subscribe()
    }

    /// Sets the number of bytes of standard error at its end.
    pub(in crate::engine) fn set_stderr_bytes(&self, bytes: u64) {
        self.stderr_bytes.store(bytes, Ordering::Release);
    }

    /// Counts files besides its journal.
    pub(super) fn add_bytes_on_disk(&self, bytes: u64) {
        self.bytes_on_disk.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(super) fn bytes_on_disk(&self) -> u64 {
        self.bytes_on_disk.load(Ordering::Acquire)
    }

    /// It has started. Returns whether that is new.
    pub(super) fn set_started(&self, pid: u32) -> bool {
        let mut news = false;
        self.state.send_modify(|state| {
            if state.status == Status::Starting {
                state.status = Status::Running { pid };
                news = true;
            }
            state.pid = Some(pid);
            state.started_at.get_or_insert_with(SystemTime::now);
        });
        news
    }

    /// It was not started and never will be. Returns whether that is new.
    pub(super) fn set_refused(&self, why: Refusal) -> bool {
        *lock(&self.link) = None;
        self.state.send_if_modified(|state| {
            let first = state.is_unfinished();
            if first {
                state.refused = Some(why);
                state.closed = true;
            }
            first
        })
    }

    /// It has ended. Returns whether that is new.
    pub(super) fn set_ended(&self, end: End, position: u64) -> bool {
        self.grew(position);
        // What is missing at the end stays missing, as the saved screen says.
        self.set_unrecorded(false);
        if let Some(terminal) = &self.fixed.terminal {
            terminal.direct.ended();
        }
        self.state.send_if_modified(|state| {
            let first = state.is_unfinished();
            if first {
                state.status = Status::Ended(Arc::new(end));
                state.ended_at = Some(SystemTime::now());
            }
            first
        })
    }

    /// Protects its record, unless that is being removed.
    pub(in crate::engine) fn guard(self: &Arc<Self>) -> Option<RecordGuard> {
        let more = |users: u32| (users < REMOVED - 1).then(|| users + 1);
        self.users.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(RecordGuard(Arc::clone(self)))
    }

    /// Blocks further use of its record; `false` if it is in use.
    pub(super) fn begin_removal(&self) -> bool {
        !self.has_leftovers()
            && self.users.compare_exchange(0, REMOVED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Its record could not be removed, and can be used again.
    pub(super) fn cancel_removal(&self) {
        let _ = self.users.compare_exchange(REMOVED, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether its record is read or waited for, or it has leftovers.
    pub(super) fn is_in_use(&self) -> bool {
        self.has_leftovers() || self.users.load(Ordering::Acquire) > 0
    }

    /// Whether its record was used within this time before `now`.
    pub(super) fn was_used_within(&self, grace: Duration, now: Instant) -> bool {
        lock(&self.last_used).is_some_and(|at| now.saturating_duration_since(at) < grace)
    }

    /// The size of its journal on disk, if it has ended without output and leftovers, and if the size is known.
    pub(super) fn bytes_if_silent(&self, position: u64) -> Option<u64> {
        let is_silent = |end: &End| end.reason != EndReason::Lost && end.leftover_count == 0;
        let has_ended = position == 0 && self.end().is_some_and(|end| is_silent(&end));
        self.silent_bytes.filter(|_| has_ended && self.fixed.terminal.is_none())
    }

    /// No more output can follow. Returns whether that is new.
    pub(super) fn set_closed(&self, position: u64, bytes_on_disk: u64) -> bool {
        if !self.has_leftovers() {
            *lock(&self.link) = None;
        }
        self.grew(position);
        self.bytes_on_disk.store(bytes_on_disk, Ordering::Release);
        lock(&self.last_used).get_or_insert_with(Instant::now);
        self.state.send_if_modified(|state| !std::mem::replace(&mut state.closed, true))
    }

    /// Sends its start and sets its connection, as one step: a kill sent before the start would have no effect.
    pub(in crate::engine) fn send_start<T>(&self, link: &Arc<SupervisorLink>, send: impl FnOnce() -> T) -> T {
        let mut own = lock(&self.link);
        *own = Some(Arc::clone(link));
        let sent = send();
        drop(own);
        if self.state.receiver_count() > 0 {
            self.state.send_modify(|_| ());
        }
        sent
    }

    /// The connection to its supervisor, after the start was sent. `None` if no process of it is left.
    pub(in crate::engine) async fn sent_link(&self) -> Option<Arc<SupervisorLink>> {
        let mut states = self.states();
        drop(states.wait_for(|state| !state.is_unfinished() || lock(&self.link).is_some()).await);
        lock(&self.link).clone()
    }

    /// Waits for another connection than this one, which is over. `None` if there will be none.
    pub(in crate::engine) async fn next_link(
        &self,
        over: &Arc<SupervisorLink>,
    ) -> Option<Arc<SupervisorLink>> {
        let (mut states, mut positions) = (self.states(), self.positions());
        loop {
            // Before the connection is looked at, so that no change is missed.
            positions.mark_unchanged();
            if !states.borrow_and_update().is_unfinished() {
                return None;
            }
            let link = lock(&self.link).clone();
            if let Some(link) = link.filter(|link| !Arc::ptr_eq(link, over)) {
                return Some(link);
            }
            tokio::select! {
                // Both senders stay alive: this holds them.
                _ = states.changed() => {}
                _ = positions.changed() => {}
            }
        }
    }

    /// Its connection, if there is one.
    pub(in crate::engine) fn link(&self) -> Option<Arc<SupervisorLink>> {
        lock(&self.link).clone()
    }

    /// Its connection is over. Its supervisor may be dead: nothing would record what a key causes.
    pub(in crate::engine) fn link_lost(&self) {
        if let Some(terminal) = &self.fixed.terminal {
            terminal.direct.reconnected();
        }
    }

    /// Sets its connection. Requests of followers on an earlier connection are forgotten: they are sent again.
    pub(in crate::engine) fn set_link(&self, link: &Arc<SupervisorLink>) {
        *lock(&self.link) = Some(Arc::clone(link));
        self.report_readers_again();
        self.adopting.store(false, Ordering::Release);
        self.reports_due.store(0, Ordering::Release);
        self.set_unrecorded(false);
        self.link_lost();
        self.position.send_modify(|_| ());
    }

    /// Whether it has leftovers, as far as known.
    pub(in crate::engine) fn has_leftovers(&self) -> bool {
        self.has_leftovers.load(Ordering::Acquire)
    }

    /// It has leftovers, and its supervisor reports when the last one has ended.
    pub(super) fn set_has_leftovers(&self) {
        self.has_leftovers.store(true, Ordering::Release);
    }

    /// It has no leftovers any more.
    pub(super) fn set_leftovers_gone(&self) {
        self.has_leftovers.store(false, Ordering::Release);
        if self.is_closed() {
            *lock(&self.link) = None;
        }
    }

    /// Its supervisor reports that its journal has grown, or whether output is missing in it.
    pub(in crate::engine) fn reported(&self, position: u64, unrecorded: Option<bool>) {
        let fewer = |due: u32| due.checked_sub(1);
        let _ = self.reports_due.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer);
        if position <= self.position() {
            // The end has told the position before. A follower may have begun to wait since, and did not request another
            // report, because this one was due: it must do so now.
            self.position.send_modify(|_| ());
        }
        self.grew(position);
        if let Some(unrecorded) = unrecorded {
            self.set_unrecorded(unrecorded);
            // The position was known before: followers read the record after the gap.
            self.position.send_modify(|_| ());
        }
    }

    fn set_unrecorded(&self, unrecorded: bool) {
        if let Some(terminal) = &self.fixed.terminal {
            terminal.unrecorded.send_if_modified(|known| std::mem::replace(known, unrecorded) != unrecorded);
        }
    }

    /// Its journal has reached a position.
    fn grew(&self, position: u64) {
        self.position.send_if_modified(|known| {
            let grown = position > *known;
            *known = position.max(*known);
            grown
        });
    }

    /// Requests a report when the journal goes beyond a position, at least the known one: on a full disk the journal
    /// counts output that readers never find, and known growth wakes no follower.
    pub(in crate::engine) fn watch_growth(&self, position: u64) {
        let position = position.max(self.position());
        let times = if self.fixed.terminal.is_some() { TERMINAL_REPORTS } else { 1 };
        if self.reports_due.compare_exchange(0, times, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            let link = lock(&self.link).clone();
            if let Some(link) = link {
                // The link notices a dead supervisor and ends the execution.
                let _ = link.notify(&Request::Follow { slot: self.slot(), position, times: Some(times) });
            }
        }
    }

    pub(in crate::engine) fn info(&self) -> ExecutionInfo {
        let state = self.state.borrow();
        ExecutionInfo {
            id: self.fixed.id.clone(),
            session: self.fixed.session.clone(),
            command: self.fixed.command.clone(),
            argv: self.fixed.argv,
            background: self.fixed.background,
            created_at: self.fixed.created_at,
            started_at: state.started_at,
            ended_at: state.ended_at,
            pid: state.pid,
            status: state.status.clone(),
            output_bytes: *self.position.borrow(),
            stderr_bytes: self.stderr_bytes.load(Ordering::Acquire),
            has_leftovers: self.has_leftovers(),
            note: self.fixed.note.clone(),
            replaced: self.fixed.replaced.clone(),
            is_terminal: self.fixed.terminal.is_some(),
        }
    }
}

/// The end of an execution whose supervisor is dead.
pub(in crate::engine) fn lost_end() -> End {
    End {
        reason: EndReason::Lost,
        exit_code: None,
        signal: None,
        usage: Usage::default(),
        leftovers: Vec::new(),
        shell_ended: false,
        restored: None,
        restored_from: None,
        leftover_count: 0,
    }
}
