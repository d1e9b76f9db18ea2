//! [`Table`]: all executions by id, and the number of unfinished ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::Tracked;
use super::retention::{SHORT_GRACE, bytes_in_grace};
use crate::command::CommandSpec;
use crate::engine::{MAX_RECORDS_IN_GRACE, StartError};
use crate::id::ExecutionId;
use crate::journal::{Decision, Excess, Expired, Finished, FinishedRecord, Retention};

/// The part of a digest that tells whether two requests are related; see [`CommandSpec::digest`].
const KEY_DIGEST_BYTES: usize = 32;

/// Number of just used records removed at a time when too many are kept for the grace period. Half as many as slots are kept
/// open: under steady use, new commands get the slots of removed ones, and no slot is closed and opened again.
const REMOVED_FROM_GRACE: usize = 32;

/// All executions of an engine.
#[derive(Debug, Default)]
pub(in crate::engine) struct Table {
    by_id: HashMap<ExecutionId, Arc<Tracked>>,
    unfinished: usize,
    /// Number of replaced terminals whose records are still in use.
    detached: usize,
    /// The closed executions.
    finished: Finished<Arc<Tracked>>,
}

impl Table {
    /// The execution with this id.
    pub(in crate::engine) fn get(&self, id: &ExecutionId) -> Option<&Arc<Tracked>> {
        self.by_id.get(id)
    }

    pub(in crate::engine) fn all(&self) -> impl Iterator<Item = &Arc<Tracked>> {
        self.by_id.values()
    }

    /// Number of executions that have neither ended nor been refused.
    pub(in crate::engine) fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// Number of terminals among them.
    pub(super) fn unfinished_terminals(&self) -> usize {
        self.all().filter(|tracked| tracked.fixed.terminal.is_some() && tracked.is_unfinished()).count()
    }

    /// Number of replaced terminals whose records are still in use.
    pub(super) fn detached(&self) -> usize {
        self.detached
    }

    /// Counts a replaced terminal whose record is in use.
    pub(super) fn detach(&mut self) {
        self.detached += 1;
    }

    /// The record of one of these is not in use any more.
    pub(super) fn count_retired(&mut self) {
        self.detached = self.detached.saturating_sub(1);
    }

    /// Checks an id: `Some` if an identical request has used it, an error if another request has.
    pub(in crate::engine) fn check_id(
        &self,
        spec: &CommandSpec,
    ) -> Result<Option<&Arc<Tracked>>, StartError> {
        let Some(id) = &spec.id else { return Ok(None) };
        let Some(tracked) = self.by_id.get(id) else {
            return Ok(None);
        };
        match (&spec.digest, &tracked.fixed.digest) {
            (Some(new), Some(old)) if new == old => Ok(Some(tracked)),
            (Some(new), Some(old)) if !is_unrelated(new, old) => Err(StartError::Conflict(id.clone())),
            _ if tracked.has_leftovers() => Err(StartError::HasLeftovers(id.clone())),
            _ if tracked.is_closed() => Ok(None),
            _ => Err(StartError::AlreadyExists(id.clone())),
        }
    }

    /// Adds an execution. Returns the previous one with the same id.
    pub(super) fn insert(&mut self, tracked: &Arc<Tracked>) -> Option<Arc<Tracked>> {
        let replaced = self.by_id.insert(tracked.fixed.id.clone(), Arc::clone(tracked));
        if let Some(replaced) = &replaced {
            self.finished.remove(replaced.journal);
        }
        if tracked.is_unfinished() {
            self.unfinished += 1;
        }
        if tracked.is_closed() {
            self.finish(tracked);
        }
        replaced
    }

    /// Counts an execution as finished.
    pub(super) fn count_finished(&mut self) {
        debug_assert!(self.unfinished > 0, "each is counted once");
        self.unfinished = self.unfinished.saturating_sub(1);
    }

    /// Passes a closed execution to retention, unless another execution has its id by now.
    pub(super) fn finish(&mut self, tracked: &Arc<Tracked>) {
        if self.is_own(tracked) {
            let record = FinishedRecord {
                ended_at: tracked.ended_at().unwrap_or(tracked.fixed.created_at),
                bytes: tracked.bytes_on_disk(),
                keep: tracked.fixed.keep,
            };
            self.finished.insert(tracked.journal, record, Arc::clone(tracked));
        }
    }

    /// Removes an execution.
    pub(super) fn remove(&mut self, tracked: &Arc<Tracked>) {
        self.finished.remove(tracked.journal);
        if self.is_own(tracked) {
            self.by_id.remove(&tracked.fixed.id);
        }
    }

    /// Removes at most so many executions that exceed a policy, except those in use or just used.
    pub(super) fn take_expired(
        &mut self,
        policy: &Retention,
        grace: Duration,
        most: usize,
    ) -> Expired<Arc<Tracked>> {
        // Many at a time: under steady use, each command adds one.
        let is_over = self.finished.expiring() > policy.max_count.saturating_add(MAX_RECORDS_IN_GRACE);
        let in_grace = if is_over { MAX_RECORDS_IN_GRACE - REMOVED_FROM_GRACE } else { MAX_RECORDS_IN_GRACE };
        let (now, today) = (Instant::now(), SystemTime::now());
        let has_just_ended = |tracked: &Tracked, grace| {
            let age = tracked.ended_at().map(|at| today.duration_since(at).unwrap_or_default());
            age.is_some_and(|age| age < grace)
        };
        let decide = |tracked: &Arc<Tracked>, excess: Excess| {
            let is_much = excess.bytes > bytes_in_grace(policy.max_total_bytes);
            let grace = if is_much { grace.min(SHORT_GRACE) } else { grace };
            if excess.count <= in_grace && tracked.was_used_within(grace, now) {
                // Those that ended later are in their grace period, too: under steady use they are nearly all of the
                // records, and the table is locked.
                return if has_just_ended(tracked, grace) { Decision::KeepRest } else { Decision::Keep };
            }
            if tracked.begin_removal() { Decision::Remove } else { Decision::Keep }
        };
        let expired = self.finished.take_expired(policy, today, most, decide);
        for tracked in &expired.gone {
            self.remove(tracked);
        }
        expired
    }

    /// Removes the oldest executions that may be removed, to free space.
    pub(super) fn take_oldest(&mut self, count: usize, grace: Duration) -> Vec<Arc<Tracked>> {
        let max_count = self.finished.expiring().saturating_sub(count);
        let policy = Retention { max_age: Duration::MAX, max_count, max_total_bytes: u64::MAX };
        self.take_expired(&policy, grace, count).gone
    }

    pub(super) fn finished(&self) -> &Finished<Arc<Tracked>> {
        &self.finished
    }

    /// Whether an execution still has the id with which it was claimed.
    fn is_own(&self, tracked: &Arc<Tracked>) -> bool {
        self.by_id.get(&tracked.fixed.id).is_some_and(|own| Arc::ptr_eq(own, tracked))
    }
}

/// Whether two digests are of requests with different idempotency keys. Records of an older version have shorter digests, and
/// do not tell.
fn is_unrelated(new: &[u8], old: &[u8]) -> bool {
    new.len() == old.len() && new.get(..KEY_DIGEST_BYTES) != old.get(..KEY_DIGEST_BYTES)
}
