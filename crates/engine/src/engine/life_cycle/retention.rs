//! Which finished executions go, and when. Their slots are used again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use crate::engine::Inner;
use crate::engine::link::lock;
use crate::engine::tasks::blocking;
use crate::journal;

/// The shortest wait of the clean-up by age, so that it is not woken for each execution.
const AGE_GRAIN: Duration = Duration::from_millis(100);

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
        let policy = &self.config.retention;
        // A little over the count is allowed, so that it is not cleaned every time.
        let over = {
            let table = lock(&self.executions);
            table.finished().expiring() > policy.max_count + policy.max_count / 16
                || table.finished().bytes() > policy.max_total_bytes
        };
        if over && !self.cleaning.swap(true, Ordering::AcqRel) {
            self.clean_soon();
        }
        // Everything else in the list may be kept for good, so that no clean-up was due before.
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

    /// Retires what the policy no longer keeps. Executions that live are not in the list at all.
    fn clean_finished(&self) {
        let (policy, now) = (self.policy(), SystemTime::now());
        let mut table = lock(&self.executions);
        let gone: Vec<_> = std::iter::from_fn(|| table.pop_expired(&policy, now)).collect();
        drop(table);
        for tracked in gone {
            // A command that waits for this core does not wait for all of it.
            std::thread::yield_now();
            self.retire_execution(&tracked);
        }
    }

    /// Cleans by age: one timer, for the oldest, and none when there is nothing.
    pub(in crate::engine) fn start_retention(self: &Arc<Self>) {
        self.clean_finished();
        let engine = Arc::downgrade(self);
        self.tasks.spawn(async move {
            loop {
                let Some(strong) = engine.upgrade() else {
                    return;
                };
                let oldest = lock(&strong.executions).finished().oldest();
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
