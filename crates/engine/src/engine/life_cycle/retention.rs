//! Retention: removes finished executions. Their slots are reused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, oneshot};

use crate::engine::link::lock;
use crate::engine::tasks::blocking;
use crate::engine::{Inner, MAX_RECORDS_IN_GRACE, StartError};
use crate::journal::{self, DEFAULT_JOURNAL_BYTES};

/// Minimum delay of the clean-up by age, so that it does not run for each execution.
const AGE_GRAIN: Duration = Duration::from_millis(100);
/// Delay before a clean-up looks again at records that exceed the policy and are in use.
const IN_USE_GRAIN: Duration = Duration::from_millis(500);

/// Maximum number of executions that a clean-up has taken out and not removed yet: the excess is counted without them.
const CLEANED_AT_ONCE: usize = 64;
/// Number of executions after which a clean-up yields: commands need not wait for the whole clean-up to get this core.
const RETIRED_AT_ONCE: usize = 4;
/// Number of finished executions over `max_count` beyond which each start removes some itself, and how many: on a busy
/// machine the thread of the clean-up may not keep up.
const MOST_BEHIND: usize = 2 * MAX_RECORDS_IN_GRACE;
const REMOVED_BY_START: usize = 2;

/// Number of finished executions removed at a time for a start on a full disk, and the maximum number of rounds:
/// another writer may fill the space at once, and the whole history must not be lost.
const REMOVED_AT_ONCE: usize = 16;
const MAX_ROUNDS_FOR_ROOM: usize = 4;
/// Grace period of just used records on a full disk, if no other record can be removed, and of those whose bytes exceed
/// the limit by more than [`bytes_in_grace`].
pub(super) const SHORT_GRACE: Duration = Duration::from_secs(2);
/// Bytes over any limit that are kept because their records were just used: one journal of the default size.
const MIN_BYTES_IN_GRACE: u64 = DEFAULT_JOURNAL_BYTES;

/// Bytes over `max_total_bytes` that are kept for the whole grace period, because their records were just used.
pub(super) fn bytes_in_grace(max_total_bytes: u64) -> u64 {
    max_total_bytes.max(MIN_BYTES_IN_GRACE)
}

/// State of the clean-up of finished executions.
#[derive(Debug, Default)]
pub(in crate::engine) struct Cleanup {
    /// Notified when an execution was closed.
    closed: Arc<Notify>,
    /// Notified when the policy is exceeded by so much that the grace period does not apply, or a shorter one.
    urgent: Arc<Notify>,
    /// Whether a clean-up runs, or waits for records in use.
    is_active: AtomicBool,
}

impl Inner {
    fn policy(&self) -> journal::Retention {
        let policy = &self.config.retention;
        journal::Retention {
            max_age: policy.max_age,
            max_count: policy.max_count,
            max_total_bytes: policy.max_total_bytes,
        }
    }

    /// Called when an execution was closed.
    pub(super) fn clean_if_due(self: &Arc<Self>) {
        let policy = self.policy();
        let max_total_bytes = policy.max_total_bytes.saturating_add(bytes_in_grace(policy.max_total_bytes));
        let max_count = policy.max_count + MAX_RECORDS_IN_GRACE;
        let urgent = journal::Retention { max_count, max_total_bytes, ..policy };
        let (is_over, is_urgent) = {
            let table = lock(&self.executions);
            (table.finished().is_over(&policy), table.finished().is_over(&urgent))
        };
        if is_over && !self.cleanup.is_active.swap(true, Ordering::AcqRel) {
            self.clean_soon();
        } else if is_urgent {
            self.cleanup.urgent.notify_one();
        }
        // Everything else in the list may be kept without limit, so that no clean-up was due before.
        self.cleanup.closed.notify_one();
    }

    /// Cleans until nothing exceeds the policy, on a thread: releasing many slots takes a millisecond, for which no
    /// command should wait.
    fn clean_soon(self: &Arc<Self>) {
        let engine = Arc::downgrade(self);
        let urgent = Arc::clone(&self.cleanup.urgent);
        self.tasks.spawn(async move {
            loop {
                let (done, passed_over) = oneshot::channel();
                let weak = engine.clone();
                let clean = move || {
                    let passed_over = weak.upgrade().map(|engine| engine.clean_finished());
                    // The waiting task may have ended.
                    let _ = done.send(passed_over);
                };
                blocking(clean).await;
                let Ok(Some(passed_over)) = passed_over.await else { return };
                if passed_over {
                    tokio::select! {
                        () = tokio::time::sleep(IN_USE_GRAIN) => {}
                        () = urgent.notified() => {}
                    }
                    continue;
                }
                let Some(engine) = engine.upgrade() else { return };
                engine.cleanup.is_active.store(false, Ordering::Release);
                let is_over = lock(&engine.executions).finished().is_over(&engine.policy());
                if !is_over || engine.cleanup.is_active.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        });
    }

    /// Retires executions that exceed the policy. Returns whether others exceed it and are in use. Running executions
    /// are not in the list.
    fn clean_finished(&self) -> bool {
        let (policy, grace) = (self.policy(), self.config.retention.grace);
        self.retry_unretired();
        loop {
            let expired = lock(&self.executions).take_expired(&policy, grace, CLEANED_AT_ONCE);
            let is_last = expired.gone.len() < CLEANED_AT_ONCE;
            for some in expired.gone.chunks(RETIRED_AT_ONCE) {
                std::thread::yield_now();
                some.iter().for_each(|tracked| self.retire_execution(tracked));
            }
            if is_last {
                return expired.passed_over;
            }
        }
    }

    /// Called before a start: removes a few executions if the clean-up is far behind. Their slots are used again, which
    /// takes less time than to create a file.
    pub(super) fn help_clean(&self) {
        let most = self.config.retention.max_count.saturating_add(MOST_BEHIND);
        let gone = {
            let mut table = lock(&self.executions);
            if table.finished().expiring() <= most {
                return;
            }
            table.take_oldest(REMOVED_BY_START, Duration::ZERO)
        };
        for tracked in &gone {
            self.retire_execution(tracked);
        }
    }

    /// Runs `attempt`. On a full disk frees the space of free slots, then of the oldest finished executions, and
    /// retries.
    pub(in crate::engine) fn making_room<T>(
        self: &Arc<Self>,
        attempt: impl Fn(&Arc<Self>) -> Result<T, StartError>,
    ) -> Result<T, StartError> {
        for _ in 0..MAX_ROUNDS_FOR_ROOM {
            match attempt(self) {
                Err(StartError::NoSpace) if self.make_room() => {}
                result => return result,
            }
        }
        attempt(self)
    }

    fn make_room(&self) -> bool {
        let trimming = lock(&self.store).begin_trimming();
        let trimmed = trimming.work();
        if lock(&self.store).end_trimming(trimmed) {
            return true;
        }
        let grace = self.config.retention.grace;
        for grace in [grace, grace.min(SHORT_GRACE)] {
            let gone = lock(&self.executions).take_oldest(REMOVED_AT_ONCE, grace);
            for tracked in &gone {
                self.retire_execution(tracked);
            }
            if !gone.is_empty() {
                return true;
            }
        }
        false
    }

    /// Starts the clean-up by age: one timer for the oldest execution, none without executions.
    pub(in crate::engine) fn start_retention(self: &Arc<Self>) {
        self.clean_finished();
        let engine = Arc::downgrade(self);
        self.tasks.spawn(async move {
            let mut grain = AGE_GRAIN;
            loop {
                let Some(strong) = engine.upgrade() else {
                    return;
                };
                let oldest = lock(&strong.executions).finished().oldest();
                let max_age = strong.config.retention.max_age;
                let due = oldest.map(|at| {
                    let age = SystemTime::now().duration_since(at).unwrap_or_default();
                    max_age.saturating_sub(age).max(grain)
                });
                match due {
                    Some(wait) => {
                        drop(strong);
                        tokio::time::sleep(wait).await;
                        let Some(strong) = engine.upgrade() else {
                            return;
                        };
                        grain = if strong.clean_finished() { IN_USE_GRAIN } else { AGE_GRAIN };
                    }
                    None => {
                        let closed = Arc::clone(&strong.cleanup.closed);
                        // A strong reference here would keep the engine open forever.
                        drop(strong);
                        closed.notified().await;
                    }
                }
            }
        });
    }
}
