//! What becomes of finished executions: kept for a while, then their slots are used again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use super::error::ControlError;
use super::events::EngineEvent;
use super::execution::Tracked;
use super::link::lock;
use super::tasks::blocking;
use super::{Inner, Registry};
use crate::end::End;
use crate::id::ExecutionId;
use crate::journal;

/// How long the clean-up by age waits at least, so that it is not woken for every execution.
const AGE_GRAIN: Duration = Duration::from_millis(100);

impl Registry {
    fn finish(&mut self, tracked: Arc<Tracked>) {
        let ended_at = tracked.state.borrow().ended_at.unwrap_or(tracked.fixed.created_at);
        let bytes = tracked.bytes_on_disk.load(Ordering::Acquire);
        let record = journal::FinishedRecord { ended_at, bytes, keep: tracked.fixed.keep };
        self.finished.insert(tracked.journal, record, tracked);
    }
}

impl Inner {
    /// Puts an execution that was found on disk where it belongs.
    pub(super) fn keep(&self, tracked: Arc<Tracked>) {
        let mut registry = lock(&self.registry);
        let closed = tracked.state.borrow().closed;
        if tracked.end().is_none() {
            registry.unfinished += 1;
        }
        let id = tracked.fixed.id.clone();
        let replaced = registry.executions.insert(id, Arc::clone(&tracked));
        if closed {
            registry.finish(tracked);
        }
        drop(registry);
        if let Some(replaced) = replaced {
            // The same id twice: the later one replaced a finished one, and the clean-up was cut off.
            self.forget_tracked(&replaced);
        }
    }

    /// An execution has ended.
    pub(super) fn execution_ended(self: &Arc<Self>, tracked: &Arc<Tracked>, end: End, position: u64) {
        if !tracked.ended(end, position) {
            return;
        }
        let mut registry = lock(&self.registry);
        registry.unfinished = registry.unfinished.saturating_sub(1);
        drop(registry);
        self.events.tell(|| EngineEvent::ExecutionEnded(tracked.info()));
        if tracked.fixed.adopt
            && let Some(end) = tracked.end()
            && !end.leftovers.is_empty()
        {
            self.adopt_leftovers(tracked, end.leftovers.clone());
        }
    }

    /// Nothing more will come of an execution.
    pub(super) fn execution_closed(self: &Arc<Self>, tracked: &Arc<Tracked>, position: u64) {
        if !tracked.closed(position) {
            return;
        }
        let bytes = *tracked.position.borrow() + (4 << 10);
        tracked.bytes_on_disk.store(bytes, Ordering::Release);
        let mut registry = lock(&self.registry);
        registry.finish(Arc::clone(tracked));
        let policy = &self.config.retention;
        // A little over the count is allowed, so that it is not cleaned every time.
        let over = registry.finished.expiring() > policy.max_count + policy.max_count / 16
            || registry.finished.bytes() > policy.max_total_bytes;
        drop(registry);
        if over && !self.cleaning.swap(true, Ordering::AcqRel) {
            self.clean_soon();
        }
        // Whatever else is in the list may be kept for good, so that nothing was due before.
        self.retention_due.notify_one();
    }

    /// Cleans on a thread of its own: giving back many slots takes a millisecond that no command should wait for.
    fn clean_soon(self: &Arc<Self>) {
        let engine = Arc::downgrade(self);
        self.tasks.spawn(async move {
            blocking(move || {
                if let Some(engine) = engine.upgrade() {
                    // First, so that what is finished meanwhile asks again.
                    engine.cleaning.store(false, Ordering::Release);
                    engine.clean_finished();
                }
            })
            .await;
        });
    }

    /// Opens a few slots for the executions to come, on a thread of its own.
    pub(super) fn open_slots(self: &Arc<Self>, opening: journal::Opening) {
        let engine = Arc::downgrade(self);
        self.tasks.spawn(async move {
            blocking(move || {
                let opened = opening.work();
                if let Some(engine) = engine.upgrade() {
                    lock(&engine.store).end_opening(opened);
                }
            })
            .await;
        });
    }

    /// Retires what the policy no longer keeps. Executions that live are not in the list at all.
    pub(super) fn clean_finished(&self) {
        let policy = journal::Retention {
            max_age: self.config.retention.max_age,
            max_count: self.config.retention.max_count,
            max_total_bytes: self.config.retention.max_total_bytes,
        };
        let now = SystemTime::now();
        let mut registry = lock(&self.registry);
        let finished = &mut registry.finished;
        let gone: Vec<_> = std::iter::from_fn(|| finished.pop_expired(&policy, now)).collect();
        for tracked in &gone {
            let id = &tracked.fixed.id;
            if registry.executions.get(id).is_some_and(|t| Arc::ptr_eq(t, tracked)) {
                registry.executions.remove(id);
            }
        }
        drop(registry);
        for tracked in gone {
            // A command that waits for this core does not wait for all of it.
            std::thread::yield_now();
            self.retire(tracked.journal);
            self.events.tell(|| EngineEvent::ExecutionRemoved { id: tracked.fixed.id.clone() });
        }
    }

    /// Removes the record of an execution of which nothing more will come.
    pub(super) fn forget(&self, id: &ExecutionId) -> Result<(), ControlError> {
        let mut registry = lock(&self.registry);
        let Some(tracked) = registry.executions.get(id).cloned() else {
            return Ok(());
        };
        if !tracked.state.borrow().closed {
            return Err(ControlError::Running);
        }
        registry.executions.remove(id);
        drop(registry);
        self.forget_tracked(&tracked);
        Ok(())
    }

    pub(super) fn forget_tracked(&self, tracked: &Arc<Tracked>) {
        lock(&self.registry).finished.remove(tracked.journal);
        self.retire(tracked.journal);
        self.events.tell(|| EngineEvent::ExecutionRemoved { id: tracked.fixed.id.clone() });
    }

    /// Cleans by age: one timer, for the oldest, and none when there is nothing.
    pub(super) fn start_retention(self: &Arc<Self>) {
        self.clean_finished();
        let engine = Arc::downgrade(self);
        self.tasks.spawn(async move {
            loop {
                let Some(strong) = engine.upgrade() else {
                    return;
                };
                let oldest = lock(&strong.registry).finished.oldest();
                let max_age = strong.config.retention.max_age;
                let due = oldest.map(|at| {
                    let age = SystemTime::now().duration_since(at).unwrap_or_default();
                    max_age.saturating_sub(age).max(AGE_GRAIN)
                });
                match due {
                    Some(wait) => {
                        drop(strong);
                        tokio::time::sleep(wait).await;
                        let Some(strong) = engine.upgrade() else {
                            return;
                        };
                        strong.clean_finished();
                    }
                    None => {
                        let due = Arc::clone(&strong.retention_due);
                        // Holding the engine here would keep it open for ever.
                        drop(strong);
                        due.notified().await;
                    }
                }
            }
        });
    }
}
