//! [`ConnectionLimit`]: a bound on the connections of one client.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use reqwest::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Default maximum of connections of one client. Further requests wait, the longest waiting first. A stream holds one
/// until it is dropped.
pub const MAX_CONNECTIONS: usize = 64;

/// Further connections, for requests that end something, and as many for those that give input: streams must not keep them waiting.
const URGENT_CONNECTIONS: usize = 8;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// It waits for a free connection.
    Normal,
    /// It ends a command. Without it, the streams that hold all connections may never end.
    Urgent,
    /// It gives a command input, which may wait until the command reads.
    Input,
}

/// The connections that a client may still open. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionLimit {
    normal: Arc<Semaphore>,
    urgent: Arc<Semaphore>,
    /// Requests that end a command must not wait for input that it does not read.
    input: Arc<Semaphore>,
}

impl ConnectionLimit {
    pub(crate) fn new(max_connections: usize) -> Self {
        let normal = Semaphore::new(max_connections.clamp(1, Semaphore::MAX_PERMITS));
        let further = || Arc::new(Semaphore::new(URGENT_CONNECTIONS));
        Self { normal: Arc::new(normal), urgent: further(), input: further() }
    }

    /// Waits for a connection.
    pub(crate) async fn acquire(&self, urgency: Urgency) -> Option<OwnedSemaphorePermit> {
        let permits = match urgency {
            Urgency::Normal => &self.normal,
            Urgency::Urgent => &self.urgent,
            Urgency::Input => &self.input,
        };
        // never fails: the semaphores are not closed.
        Arc::clone(permits).acquire_owned().await.ok()
    }
}

/// A response that holds its connection until it is dropped.
#[derive(Debug)]
pub(crate) struct ResponseGuard {
    response: Response,
    _permit: Option<OwnedSemaphorePermit>,
}

impl ResponseGuard {
    pub(crate) fn new(response: Response, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self { response, _permit: permit }
    }
}

impl Deref for ResponseGuard {
    type Target = Response;

    fn deref(&self) -> &Response {
        &self.response
    }
}

impl DerefMut for ResponseGuard {
    fn deref_mut(&mut self) -> &mut Response {
        &mut self.response
    }
}
