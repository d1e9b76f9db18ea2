//! [`UnauthorizedConnections`]: connections without an authorized request. They are closed first when slots are scarce.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// The authorization state of a connection. It is in the extensions of its requests.
#[derive(Debug)]
pub(crate) struct Admission {
    since: Instant,
    /// One of [`NEW`], [`ADMITTED`] and [`EVICTED`]; only `NEW` ever changes, so that no authorized request is
    /// aborted.
    state: AtomicU8,
    evicted: Notify,
}

const NEW: u8 = 0;
const ADMITTED: u8 = 1;
const EVICTED: u8 = 2;

impl Admission {
    /// Marks the connection as authorized; `false` if it was already selected to be closed.
    pub(crate) fn admit(&self) -> bool {
        self.become_if_new(ADMITTED) != EVICTED
    }

    /// Changes the state if it is `NEW`. Returns the resulting state.
    fn become_if_new(&self, state: u8) -> u8 {
        let changed = self.state.compare_exchange(NEW, state, Ordering::AcqRel, Ordering::Acquire);
        changed.map_or_else(|found| found, |_| state)
    }

    /// Waits until the connection must be closed.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

/// Connections without an authorized request, in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct UnauthorizedConnections(Mutex<VecDeque<Weak<Admission>>>);

impl UnauthorizedConnections {
    /// Adds a connection.
    pub(crate) fn add(&self, open: usize) -> Arc<Admission> {
        let (state, evicted) = (AtomicU8::new(NEW), Notify::new());
        let admission = Arc::new(Admission { since: Instant::now(), state, evicted });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Closed or authorized ones are removed only when there are many.
        if all.len() > 2 * open.max(64) {
            all.retain(|admission| admission.upgrade().is_some_and(|admission| is_unauthorized(&admission)));
        }
        all.push_back(Arc::downgrade(&admission));
        admission
    }

    /// Closes the oldest, if it has this age. Returns whether it did.
    pub(crate) fn evict_oldest(&self, age: Duration) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(first) = all.front() {
            let oldest = first.upgrade().filter(|admission| is_unauthorized(admission));
            if oldest.as_ref().is_some_and(|admission| admission.since.elapsed() < age) {
                return false;
            }
            all.pop_front();
            // A request may be authorized on it at this moment.
            if let Some(admission) = oldest.filter(|admission| admission.become_if_new(EVICTED) == EVICTED) {
                admission.evicted.notify_one();
                return true;
            }
        }
        false
    }
}

fn is_unauthorized(admission: &Admission) -> bool {
    admission.state.load(Ordering::Acquire) == NEW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn oldest_unauthorized_connection_is_evicted_first() {
        let unauthorized = UnauthorizedConnections::default();
        let [admitted, first, second] = std::array::from_fn(|_| unauthorized.add(3));
        drop(unauthorized.add(3));
        assert!(admitted.admit() && admitted.admit());
        assert!(!unauthorized.evict_oldest(Duration::from_secs(600)));
        assert!(unauthorized.evict_oldest(Duration::ZERO));
        first.evicted().await;
        // Its request comes too late, and is not executed.
        assert!(!first.admit());
        assert!(unauthorized.evict_oldest(Duration::ZERO));
        second.evicted().await;
        assert!(!unauthorized.evict_oldest(Duration::ZERO));
    }

    /// The connection is either authorized or closed, never both.
    #[test]
    fn admission_and_eviction_exclude_each_other() {
        for _ in 0..2_000 {
            let unauthorized = UnauthorizedConnections::default();
            let admission = unauthorized.add(1);
            let admitted = std::thread::scope(|scope| {
                let admitting = scope.spawn(|| admission.admit());
                let evicted = unauthorized.evict_oldest(Duration::ZERO);
                (admitting.join().unwrap(), evicted)
            });
            assert!(admitted == (true, false) || admitted == (false, true), "{admitted:?}");
        }
    }

    #[test]
    fn tracked_connections_are_bounded() {
        let unauthorized = UnauthorizedConnections::default();
        for _ in 0..10_000 {
            drop(unauthorized.add(1));
        }
        assert!(unauthorized.0.lock().unwrap().len() <= 129);
    }
}
