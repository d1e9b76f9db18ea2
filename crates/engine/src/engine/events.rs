//! [`EngineEvent`]: events of all executions and sessions.
//!
//! This is a bounded broadcast. A slow watcher gets the number of missed events and does not block others. The
//! channel is created for the first watcher.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::Inner;
use super::execution::ExecutionInfo;
use super::link::{SupervisorLink, lock};
use crate::id::{ExecutionId, SessionId};

/// Maximum number of unread events of a watcher.
pub const MAX_UNREAD_EVENTS: usize = 1024;

/// An event of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineEvent {
    /// An execution started.
    ExecutionStarted(ExecutionInfo),
    /// An execution ended. One that was still queued ends without having started.
    ExecutionEnded(ExecutionInfo),
    /// The record of an execution was removed, by retention or on request.
    ExecutionRemoved {
        /// The execution.
        id: ExecutionId,
    },
    /// A session was created.
    SessionCreated {
        /// The session.
        id: SessionId,
        /// Its name.
        name: Option<String>,
        /// Time of its creation.
        created_at: SystemTime,
    },
    /// The shell of a session was restarted.
    SessionRestarted {
        /// The session.
        id: SessionId,
    },
    /// A session was deleted.
    SessionDeleted {
        /// The session.
        id: SessionId,
    },
    /// The watcher was too slow, and this many events were dropped. List executions and sessions to get their current
    /// state.
    Lagged(u64),
}

/// A stream of the events of an engine. It does not keep the engine open.
#[derive(Debug)]
pub struct EventStream {
    receiver: broadcast::Receiver<EngineEvent>,
}

impl EventStream {
    /// Waits for the next event; `None` when the engine has closed.
    pub async fn next(&mut self) -> Option<EngineEvent> {
        match self.receiver.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(missed)) => Some(EngineEvent::Lagged(missed)),
            Err(RecvError::Closed) => None,
        }
    }
}

/// The sender of events.
#[derive(Debug, Default)]
pub(super) struct Events(OnceLock<broadcast::Sender<EngineEvent>>);

impl Events {
    pub(super) fn subscribe(&self) -> EventStream {
        let sender = self.0.get_or_init(|| broadcast::Sender::new(MAX_UNREAD_EVENTS));
        EventStream { receiver: sender.subscribe() }
    }

    /// Sends an event, which is created only if there is a watcher.
    pub(super) fn publish(&self, event: impl FnOnce() -> EngineEvent) {
        if let Some(sender) = self.0.get()
            && sender.receiver_count() > 0
        {
            // The last watcher may just have been dropped.
            drop(sender.send(event()));
        }
    }

    fn has_watchers(&self) -> bool {
        self.0.get().is_some_and(|sender| sender.receiver_count() > 0)
    }
}

impl Inner {
    /// A supervisor has restarted the shell of its session.
    pub(super) fn session_restarted(&self, link: &Arc<SupervisorLink>) {
        self.incidents.session_restored();
        // Only watchers need the id of the session.
        if !self.events.has_watchers() {
            return;
        }
        let sessions: Vec<_> = lock(&self.registry).sessions.values().cloned().collect();
        let is_own = |own: &Arc<SupervisorLink>| Arc::ptr_eq(own, link);
        if let Some(session) = sessions.iter().find(|s| lock(&s.place).link.as_ref().is_some_and(is_own)) {
            self.events.publish(|| EngineEvent::SessionRestarted { id: session.id.clone() });
        }
    }
}
