//! [`UnauthorizedConnections`]: connections without an authorized request. They are closed first when slots are scarce.
//!
//! A visitor of a preview is not authorized. Its connection is kept while one of its requests runs, and may be closed
//! between them, so that visitors cannot lock out clients of the API.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// The authorization state of a connection. It is in the extensions of its requests.
#[derive(Debug)]
pub(crate) struct Admission {
    state: Mutex<State>,
    evicted: Notify,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Without an authorized request. It may be closed.
    Unauthorized {
        since: Instant,
        /// Whether it had requests to previews.
        was_visitor: bool,
    },
    /// With this number of running requests to previews.
    Visiting(usize),
    /// With an authorized request, for ever.
    Authorized,
    /// Selected to be closed, for ever, so that no authorized request is aborted.
    Evicted { was_visitor: bool },
}

impl Admission {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the connection as authorized; `false` if it was already selected to be closed.
    pub(crate) fn admit(&self) -> bool {
        let mut state = self.state();
        if matches!(*state, State::Evicted { .. }) {
            return false;
        }
        *state = State::Authorized;
        true
    }

    /// Keeps the connection during a request to a preview; `None` if it was already selected to be closed.
    pub(crate) fn visit(self: &Arc<Self>) -> Option<PreviewRequest> {
        let mut state = self.state();
        match &mut *state {
            State::Evicted { .. } => return None,
            State::Authorized => {}
            State::Visiting(running) => *running += 1,
            State::Unauthorized { .. } => *state = State::Visiting(1),
        }
        Some(PreviewRequest(Arc::clone(self)))
    }

    /// Waits until the connection must be closed. Returns whether it had requests to previews, whose last response may
    /// not be sent yet.
    pub(crate) async fn evicted(&self) -> bool {
        self.evicted.notified().await;
        matches!(*self.state(), State::Evicted { was_visitor: true })
    }

    /// Selects the connection to be closed, if it may be and has this age. `None` if it can never be closed.
    fn evict(&self, age: Duration) -> Option<Eviction> {
        let mut state = self.state();
        match *state {
            State::Authorized | State::Evicted { .. } => None,
            State::Visiting(_) => Some(Eviction::Later),
            State::Unauthorized { since, was_visitor } if since.elapsed() < age => {
                Some(if was_visitor { Eviction::Later } else { Eviction::TooYoung })
            }
            State::Unauthorized { was_visitor, .. } => {
                *state = State::Evicted { was_visitor };
                self.evicted.notify_one();
                Some(Eviction::Done)
            }
        }
    }
}

/// The result of the attempt to close a connection.
enum Eviction {
    Done,
    /// It is used, or was until a moment ago.
    Later,
    /// It was opened a moment ago, and all behind it later.
    TooYoung,
}

/// A request to a preview. Its connection is kept until this is dropped.
#[derive(Debug)]
pub(crate) struct PreviewRequest(Arc<Admission>);

impl Drop for PreviewRequest {
    fn drop(&mut self) {
        let mut state = self.0.state();
        match &mut *state {
            State::Visiting(1) => *state = State::Unauthorized { since: Instant::now(), was_visitor: true },
            State::Visiting(running) => *running -= 1,
            State::Unauthorized { .. } | State::Authorized | State::Evicted { .. } => {}
        }
    }
}

/// Connections without an authorized request, in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct UnauthorizedConnections(Mutex<VecDeque<Weak<Admission>>>);

impl UnauthorizedConnections {
    /// Adds a connection.
    pub(crate) fn add(&self, open: usize) -> Arc<Admission> {
        let state = State::Unauthorized { since: Instant::now(), was_visitor: false };
        let admission = Arc::new(Admission { state: Mutex::new(state), evicted: Notify::new() });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Closed or authorized ones are removed only when there are many.
        if all.len() > 2 * open.max(64) {
            all.retain(|admission| admission.upgrade().is_some_and(|admission| is_unauthorized(&admission)));
        }
        all.push_back(Arc::downgrade(&admission));
        admission
    }

    /// Closes the oldest that is not used, if it has this age. Returns whether it did.
    pub(crate) fn evict_oldest(&self, age: Duration) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = VecDeque::new();
        let mut attempt = || {
            let Some(first) = all.pop_front() else { return ControlFlow::Break(false) };
            match first.upgrade().and_then(|admission| admission.evict(age)) {
                Some(Eviction::Done) => ControlFlow::Break(true),
                Some(Eviction::Later) => {
                    kept.push_back(first);
                    ControlFlow::Continue(())
                }
                Some(Eviction::TooYoung) => {
                    kept.push_back(first);
                    ControlFlow::Break(false)
                }
                None => ControlFlow::Continue(()),
            }
        };
        let is_done = loop {
            if let ControlFlow::Break(is_done) = attempt() {
                break is_done;
            }
        };
        for admission in kept.into_iter().rev() {
            all.push_front(admission);
        }
        is_done
    }
}

fn is_unauthorized(admission: &Admission) -> bool {
    matches!(*admission.state(), State::Unauthorized { .. } | State::Visiting(_))
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

    #[tokio::test]
    async fn visitors_are_kept_during_their_requests_only() {
        let unauthorized = UnauthorizedConnections::default();
        let [visitor, other] = std::array::from_fn(|_| unauthorized.add(2));
        let visits = [visitor.visit().unwrap(), visitor.visit().unwrap()];
        assert!(unauthorized.evict_oldest(Duration::ZERO));
        assert!(!other.evicted().await && other.visit().is_none());
        let [first, second] = visits;
        drop(first);
        assert!(!unauthorized.evict_oldest(Duration::ZERO), "one of its requests runs");
        drop(second);
        assert!(!unauthorized.evict_oldest(Duration::from_secs(600)), "its last request has just ended");
        // It does not protect those behind it.
        let new = unauthorized.add(2);
        assert!(unauthorized.evict_oldest(Duration::ZERO));
        assert!(visitor.evicted().await && visitor.visit().is_none());
        assert!(new.visit().is_some());
    }

    #[test]
    fn visitors_become_clients() {
        let unauthorized = UnauthorizedConnections::default();
        let connection = unauthorized.add(1);
        let visit = connection.visit().unwrap();
        assert!(connection.admit() && connection.visit().is_some());
        drop(visit);
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
