//! [`EngineEvent`]: what happens to executions and sessions, for whoever watches all of them.
//!
//! A bounded broadcast: a watcher that is too slow is told how much it has missed and holds up nobody. Until
//! somebody watches there is not even a channel.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::Inner;
use super::execution::ExecutionInfo;
use super::link::{Link, lock};
use crate::id::{ExecutionId, SessionId};

/// The most events that wait for a watcher.
pub const MAX_UNREAD_EVENTS: usize = 1024;

/// Something that has happened in an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineEvent {
    /// An execution runs.
    ExecutionStarted(ExecutionInfo),
    /// An execution is over. One that never had its turn ends without having started.
    ExecutionEnded(ExecutionInfo),
    /// The record of an execution was removed, by retention or on request.
    ExecutionRemoved {
        /// The execution.
        id: ExecutionId,
    },
    /// A session was made.
    SessionCreated {
        /// The session.
        id: SessionId,
        /// Its name.
        name: Option<String>,
        /// When it was made.
        created_at: SystemTime,
    },
    /// A session has another shell.
    SessionRestarted {
        /// The session.
        id: SessionId,
    },
    /// A session was deleted.
    SessionDeleted {
        /// The session.
        id: SessionId,
    },
    /// The watcher was too slow: so many events were not kept for it. What there is now says what has become of
    /// everything.
    Lagged(u64),
}

/// The events of an engine from a moment on. It does not keep the engine open.
#[derive(Debug)]
pub struct EventStream {
    receiver: broadcast::Receiver<EngineEvent>,
}

impl EventStream {
    /// The next event, waiting for it; `None` when the engine has closed.
    pub async fn next(&mut self) -> Option<EngineEvent> {
        match self.receiver.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(missed)) => Some(EngineEvent::Lagged(missed)),
            Err(RecvError::Closed) => None,
        }
    }
}

/// Where events are told.
#[derive(Debug, Default)]
pub(super) struct Events(OnceLock<broadcast::Sender<EngineEvent>>);

impl Events {
    pub(super) fn subscribe(&self) -> EventStream {
        let sender = self.0.get_or_init(|| broadcast::Sender::new(MAX_UNREAD_EVENTS));
        EventStream { receiver: sender.subscribe() }
    }

    /// Tells an event, which is made only if somebody watches.
    pub(super) fn tell(&self, event: impl FnOnce() -> EngineEvent) {
        if let Some(sender) = self.0.get()
            && sender.receiver_count() > 0
        {
            // The last watcher may have just gone.
            drop(sender.send(event()));
        }
    }

    fn has_watchers(&self) -> bool {
        self.0.get().is_some_and(|sender| sender.receiver_count() > 0)
    }
}

impl Inner {
    /// A supervisor has given its session another shell.
    pub(super) fn session_restarted(&self, link: &Arc<Link>) {
        self.incidents.session_restored();
        // Nobody but watchers wants to know whose it is.
        if !self.events.has_watchers() {
            return;
        }
        let sessions: Vec<_> = lock(&self.registry).sessions.values().cloned().collect();
        let is_own = |own: &Arc<Link>| Arc::ptr_eq(own, link);
        if let Some(session) = sessions.iter().find(|s| lock(&s.place).link.as_ref().is_some_and(is_own)) {
            self.events.tell(|| EngineEvent::SessionRestarted { id: session.id.clone() });
        }
    }
}
