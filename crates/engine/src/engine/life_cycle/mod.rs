//! The life cycle of an execution. All changes of an execution's state are made here.
//!
//! | stage | meaning | entered by |
//! |---|---|---|
//! | claimed | its id and its journal are reserved; nothing has run | [`Inner::claim_execution`], or
//! [`Inner::restore_execution`] for an execution found on disk |
//! | started | its program runs | [`Inner::execution_started`] |
//! | refused | it never ran; its id and its journal are free again | [`Inner::execution_refused`] |
//! | ended | it has its end; its leftovers may still write | [`Inner::execution_ended`] |
//! | closed | no supervisor writes to its journal; retention counts it | [`Inner::execution_closed`] |
//! | retired | its record is removed, its slot is free | [`Inner::forget`], or retention |
//!
//! A supervisor accepts a command between *claimed* and *started*; the engine needs no state for that.
//!
//! Each function changes the state and the counts in the [`Table`], notifies watchers and wakes retention. A repeated
//! change has no effect, so callers need not know what others have reported. Changes are made under the lock of the
//! table: a caller that was notified of an end finds it counted.
//!
//! - `tracked.rs`, `terminal_state.rs`: the engine's state of an execution, and of a terminal; `direct_input.rs`: keys that
//!   need no supervisor.
//! - `table.rs`: all of them, by id.
//! - `readers.rs`: the readers for which an execution waits.
//! - `retention.rs`: removal of finished executions; `retire.rs`: removal of their files.

mod direct_input;
mod readers;
mod retention;
mod retire;
mod table;
mod terminal_state;
mod tracked;

use std::convert::identity;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub(super) use direct_input::DirectInput;
pub(super) use readers::AttachedReader;
pub use readers::ReaderRole;
pub(super) use retention::Cleanup;
pub(super) use retire::{Unretired, cause_of};
pub(super) use table::Table;
pub(super) use terminal_state::TerminalState;
pub(super) use tracked::{Fixed, RecordGuard, State, Tracked, lost_end};

use tracing::field::display;

use super::events::EngineEvent;
use super::link::{SupervisorLink, lock};
use super::{ControlError, Inner, StartError};
use crate::command::{CommandSpec, LeftoverPolicy, Overflow};
use crate::end::End;
use crate::id::{ExecutionId, SessionId};
use crate::journal::{self, JournalSummary, NewJournal, Retiring};
use crate::layout::ScreenFile;
use crate::protocol::Refusal;
use crate::record::{ExecutionRecord, Record, TerminalRecord};

/// Maximum number of replaced terminals whose records are still in use.
const MAX_DETACHED: usize = 256;
/// Interval of checks whether such a record is still in use.
const DETACHED_INTERVAL: Duration = Duration::from_millis(500);

impl Inner {
    /// Claims an id and a journal; or returns the execution of an earlier identical request. On a full disk, removes
    /// the oldest finished executions.
    pub(super) fn claim_execution(
        self: &Arc<Self>,
        nonce: u64,
        spec: &CommandSpec,
        session: Option<&SessionId>,
        terminal: Option<&TerminalRecord>,
    ) -> Result<(Arc<Tracked>, Option<NewJournal>), StartError> {
        self.help_clean();
        self.making_room(|engine| engine.try_claim_execution(nonce, spec, session, terminal))
    }

    fn try_claim_execution(
        self: &Arc<Self>,
        nonce: u64,
        spec: &CommandSpec,
        session: Option<&SessionId>,
        terminal: Option<&TerminalRecord>,
    ) -> Result<(Arc<Tracked>, Option<NewJournal>), StartError> {
        let id = spec.id.clone().unwrap_or_else(ExecutionId::random);
        let mut table = lock(&self.executions);
        if let Some(same) = table.check_id(spec)? {
            return Ok((Arc::clone(same), None));
        }
        if table.unfinished() >= self.config.max_executions {
            return Err(StartError::TooManyExecutions(self.config.max_executions));
        }
        if terminal.is_some() && table.unfinished_terminals() >= self.config.max_terminals {
            return Err(StartError::TooManyTerminals(self.config.max_terminals));
        }
        let mut record = ExecutionRecord::new(id.to_string(), nonce, session.map(ToString::to_string), spec);
        record.terminal = terminal.cloned();
        let before = table.get(&id).cloned();
        let fixed = Fixed {
            id,
            session: session.cloned(),
            command: super::display_of(&record),
            argv: record.is_argv,
            program: super::program_of(&record),
            cwd: spec.cwd.clone().unwrap_or_else(|| self.config.cwd.clone()),
            background: spec.background,
            digest: spec.digest.clone(),
            keep: spec.keep_record,
            on_session_end: spec.on_session_end,
            adopt: spec.leftovers == LeftoverPolicy::Adopt,
            created_at: SystemTime::now(),
            note: record.note.clone().map(|note| note.0),
            waits_for_reader: spec.overflow == Overflow::Wait,
            replaced: before.as_ref().and_then(|before| before.end()),
            terminal: terminal.map(TerminalState::new),
        };
        let in_use = || StartError::InUse(fixed.id.clone());
        // The record of a terminal that a client reads loses its id, and is removed later.
        let may_detach = terminal.is_some() && table.detached() < MAX_DETACHED;
        if !may_detach && before.as_ref().is_some_and(|before| before.is_in_use()) {
            return Err(in_use());
        }
        let (claimed, journal) = self.claim(&Record::Execution(record), spec.journal_bytes)?;
        // It may have come into use meanwhile.
        let is_used = before.is_some_and(|before| !before.begin_removal());
        if is_used && !may_detach {
            drop(table);
            self.retire(claimed);
            return Err(in_use());
        }
        let tracked = Tracked::new(fixed, claimed, journal.silent_bytes);
        let replaced = table.insert(&tracked);
        if is_used {
            table.detach();
        }
        drop(table);
        match replaced {
            Some(replaced) if is_used => self.retire_when_unused(replaced),
            Some(replaced) => self.retire_execution(&replaced),
            None => {}
        }
        Ok((tracked, Some(journal)))
    }

    /// Adds an execution found on disk. If it has ended and no supervisor holds it, it is closed. `None` if its
    /// record cannot be read or a later execution has its id: its slot must then be released.
    pub(super) fn restore_execution(
        &self,
        record: ExecutionRecord,
        journal: &JournalSummary,
        is_held: bool,
    ) -> Option<Arc<Tracked>> {
        let tracked = Tracked::of_journal(record, journal, is_held)?;
        tracked.add_bytes_on_disk(self.screen_bytes(&tracked));
        let mut table = lock(&self.executions);
        // Two executions with the same id: the later one replaced a finished one, and the clean-up was interrupted.
        let is_later = |other: &Arc<Tracked>| other.fixed.created_at > tracked.fixed.created_at;
        if table.get(&tracked.fixed.id).is_some_and(is_later) {
            return None;
        }
        let replaced = table.insert(&tracked);
        drop(table);
        if let Some(replaced) = replaced {
            self.retire_execution(&replaced);
        }
        Some(tracked)
    }

    /// An execution has started.
    pub(super) fn execution_started(&self, tracked: &Tracked, pid: u32) {
        if tracked.set_started(pid) {
            let (id, session) = (&tracked.fixed.id, tracked.fixed.session.as_ref().map(display));
            tracing::debug!(parent: tracked.caller(), execution = %id, session, pid, "started");
            self.events.publish(|| EngineEvent::ExecutionStarted(tracked.info()));
        }
    }

    /// An execution was not started and never will be. Releases its id and its journal, and notifies callers of the
    /// reason.
    pub(super) fn execution_refused(&self, tracked: &Arc<Tracked>, why: Refusal) {
        let mut table = lock(&self.executions);
        if tracked.set_refused(why) {
            table.count_finished();
            table.remove(tracked);
            drop(table);
            self.retire(tracked.journal);
        }
    }

    /// An execution has ended.
    pub(super) fn execution_ended(self: &Arc<Self>, tracked: &Arc<Tracked>, end: End, position: u64) {
        let left = end.leftover_count > 0;
        let caller = tracked.take_caller();
        let (id, session) = (&tracked.fixed.id, tracked.fixed.session.as_ref().map(display));
        tracing::debug!(parent: caller, execution = %id, session, reason = ?end.reason, "ended");
        let mut table = lock(&self.executions);
        if !tracked.set_ended(end, position) {
            return;
        }
        if left {
            self.execution_has_left(tracked);
        }
        table.count_finished();
        drop(table);
        self.events.publish(|| EngineEvent::ExecutionEnded(tracked.info()));
        if tracked.fixed.adopt
            && let Some(end) = tracked.end()
            && !end.leftovers.is_empty()
        {
            self.adopt_leftovers(tracked, end.leftovers.clone());
        }
    }

    /// No more output of an execution can follow, as its supervisor reports.
    pub(super) fn execution_closed_at(self: &Arc<Self>, tracked: &Arc<Tracked>, position: u64) {
        if !tracked.is_closed() {
            let bytes = tracked.bytes_if_silent(position).unwrap_or_else(|| self.disk_bytes(tracked));
            self.close_execution(tracked, position, bytes);
        }
    }

    /// No more output of an execution can follow. The position is 0 if it is unknown.
    pub(super) fn execution_closed(self: &Arc<Self>, tracked: &Arc<Tracked>, position: u64) {
        if !tracked.is_closed() {
            self.close_execution(tracked, position, self.disk_bytes(tracked));
        }
    }

    fn close_execution(self: &Arc<Self>, tracked: &Arc<Tracked>, position: u64, bytes: u64) {
        let mut table = lock(&self.executions);
        if tracked.set_closed(position, bytes) {
            table.finish(tracked);
            drop(table);
            self.clean_if_due();
        }
    }

    /// An execution has ended and has leftovers. Its supervisor reports when none is left, unless it is of an older
    /// version.
    pub(super) fn execution_has_left(&self, tracked: &Tracked) {
        let reports = |link: &Arc<SupervisorLink>| link.reports_leftovers() && !link.is_over();
        if lock(&tracked.link).as_ref().is_some_and(reports) {
            tracked.set_has_leftovers();
        }
    }

    /// The last leftover of an execution has ended.
    pub(super) fn execution_leftovers_gone(self: &Arc<Self>, tracked: &Arc<Tracked>) {
        tracked.set_leftovers_gone();
        if tracked.is_closed() {
            self.clean_if_due();
        }
    }

    /// Removes the record of a closed execution.
    pub(super) fn forget(&self, id: &ExecutionId) -> Result<(), ControlError> {
        let mut table = lock(&self.executions);
        let Some(tracked) = table.get(id).cloned() else {
            return Ok(());
        };
        if !tracked.is_closed() {
            return Err(ControlError::Running);
        }
        if !tracked.begin_removal() {
            return Err(ControlError::InUse);
        }
        table.remove(&tracked);
        drop(table);
        self.erase(&tracked, Retiring::wiped)
    }

    /// Retires the journal of an execution that was removed from the table. If that fails, its record is back.
    fn erase(&self, tracked: &Arc<Tracked>, choose: fn(Retiring) -> Retiring) -> Result<(), ControlError> {
        if let Err(e) = self.try_retire_as(tracked.journal, choose, || self.remove_screens(tracked)) {
            tracked.cancel_removal();
            let mut table = lock(&self.executions);
            if table.get(&tracked.fixed.id).is_none() {
                table.insert(tracked);
            } else {
                // Another execution has its id by now.
                self.retire_later(tracked.journal);
            }
            return Err(retire::not_removed(e));
        }
        self.events.publish(|| EngineEvent::ExecutionRemoved { id: tracked.fixed.id.clone() });
        Ok(())
    }

    /// Removes the record of an ended terminal. One that a client reads loses its id, and is removed later.
    pub(super) fn forget_terminal(self: &Arc<Self>, tracked: &Arc<Tracked>) -> Result<(), ControlError> {
        let mut table = lock(&self.executions);
        if !table.get(&tracked.fixed.id).is_some_and(|known| Arc::ptr_eq(known, tracked)) {
            return Ok(());
        }
        if !tracked.is_closed() {
            return Err(ControlError::Running);
        }
        let is_unused = tracked.begin_removal();
        if !is_unused && (tracked.has_leftovers() || table.detached() >= MAX_DETACHED) {
            return Err(ControlError::InUse);
        }
        table.remove(tracked);
        if !is_unused {
            table.detach();
        }
        drop(table);
        if is_unused {
            return self.erase(tracked, Retiring::wiped);
        }
        self.retire_when_unused(Arc::clone(tracked));
        Ok(())
    }

    /// Removes the records of finished background processes and ended terminals. On a nearly full disk also removes those of all other
    /// finished executions, without the grace period, to free space. Returns their number.
    pub(super) fn remove_finished(&self) -> usize {
        let all = journal::is_short_of_space(lock(&self.store).dir());
        let mut table = lock(&self.executions);
        let goes = |tracked: &&Arc<Tracked>| {
            let is_listed = tracked.fixed.background || tracked.fixed.terminal.is_some();
            tracked.is_closed() && (all || is_listed) && tracked.begin_removal()
        };
        let gone: Vec<_> = table.all().filter(goes).cloned().collect();
        for tracked in &gone {
            table.remove(tracked);
        }
        drop(table);
        self.retry_unretired();
        gone.iter().filter(|tracked| self.erase(tracked, identity).is_ok()).count()
    }

    fn disk_bytes(&self, tracked: &Tracked) -> u64 {
        let dir = Arc::clone(lock(&self.store).dir());
        journal::disk_bytes(&dir, tracked.journal) + self.screen_bytes(tracked)
    }

    /// Size of the saved screens of a terminal on disk.
    fn screen_bytes(&self, tracked: &Tracked) -> u64 {
        let screens = &self.state.folders.screens;
        if tracked.fixed.terminal.is_some() { ScreenFile::bytes_on_disk(screens, tracked.slot()) } else { 0 }
    }

    /// Removes the saved screens of a terminal. Its slot must not be free yet: the next terminal in it has its own.
    fn remove_screens(&self, tracked: &Tracked) {
        if tracked.fixed.terminal.is_some() {
            ScreenFile::remove(&self.state.folders.screens, tracked.slot());
        }
    }

    /// Releases the slot of a replaced terminal when no client reads its record and no leftover of it is left.
    fn retire_when_unused(self: &Arc<Self>, tracked: Arc<Tracked>) {
        self.events.publish(|| EngineEvent::ExecutionRemoved { id: tracked.fixed.id.clone() });
        let engine = Arc::downgrade(self);
        self.tasks.spawn(async move {
            while !tracked.begin_removal() {
                tokio::time::sleep(DETACHED_INTERVAL).await;
            }
            if let Some(engine) = engine.upgrade() {
                lock(&engine.executions).count_retired();
                engine.retire_with(tracked.journal, || engine.remove_screens(&tracked));
            }
        });
    }

    /// Releases the slot of an execution that is no longer in the table.
    fn retire_execution(&self, tracked: &Tracked) {
        self.retire_with(tracked.journal, || self.remove_screens(tracked));
        self.events.publish(|| EngineEvent::ExecutionRemoved { id: tracked.fixed.id.clone() });
    }
}
