//! [`Newcomers`]: connections on which no request was admitted yet. They are the first to go when places are scarce.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// What a connection has shown of itself. In the extensions of its requests.
#[derive(Debug)]
pub(crate) struct Standing {
    since: Instant,
    is_admitted: AtomicBool,
    evicted: Notify,
}

impl Standing {
    /// A request on this connection had what its route requires.
    pub(crate) fn admit(&self) {
        self.is_admitted.store(true, Ordering::Relaxed);
    }

    /// Waits until the connection has to go.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

/// Connections on which no request was admitted yet, in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Newcomers(Mutex<VecDeque<Weak<Standing>>>);

impl Newcomers {
    /// Adds a connection.
    pub(crate) fn add(&self, open: usize) -> Arc<Standing> {
        let (is_admitted, evicted) = (AtomicBool::new(false), Notify::new());
        let standing = Arc::new(Standing { since: Instant::now(), is_admitted, evicted });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are closed or admitted are left where they are until they are many.
        if all.len() > 2 * open.max(64) {
            all.retain(|standing| standing.upgrade().is_some_and(|standing| is_newcomer(&standing)));
        }
        all.push_back(Arc::downgrade(&standing));
        standing
    }

    /// Closes the oldest, if it is this old; says whether it did.
    pub(crate) fn evict_oldest(&self, age: Duration) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(first) = all.front() {
            let newcomer = first.upgrade().filter(|standing| is_newcomer(standing));
            if newcomer.as_ref().is_some_and(|standing| standing.since.elapsed() < age) {
                return false;
            }
            all.pop_front();
            if let Some(standing) = newcomer {
                standing.evicted.notify_one();
                return true;
            }
        }
        false
    }
}

fn is_newcomer(standing: &Standing) -> bool {
    !standing.is_admitted.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_that_was_not_admitted_goes_first() {
        let newcomers = Newcomers::default();
        let [admitted, first, second] = std::array::from_fn(|_| newcomers.add(3));
        drop(newcomers.add(3));
        admitted.admit();
        assert!(!newcomers.evict_oldest(Duration::from_secs(600)));
        assert!(newcomers.evict_oldest(Duration::ZERO));
        first.evicted().await;
        assert!(newcomers.evict_oldest(Duration::ZERO));
        second.evicted().await;
        assert!(!newcomers.evict_oldest(Duration::ZERO));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let newcomers = Newcomers::default();
        for _ in 0..10_000 {
            drop(newcomers.add(1));
        }
        assert!(newcomers.0.lock().unwrap().len() <= 129);
    }
}
