//! [`Calls`]: cancels calls of `/mcp` whose client has vanished.
//!
//! The response to a call is a stream of events. A client that loses its connection may resume the stream. One that does
//! not within [`CALL_RESUME_WINDOW`] is gone, and its call is cancelled as if the client had asked for it.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::Stream;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification,
    JsonRpcMessage, RequestId,
};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio_util::sync::CancellationToken;

use crate::limits::CALL_RESUME_WINDOW;

/// The calls that run. A handle.
#[derive(Clone)]
pub(crate) struct Calls(Arc<Inner>);

struct Inner {
    sessions: Arc<LocalSessionManager>,
    stop: CancellationToken,
    /// By session and stream, so that a resumed stream finds its call.
    streams: Mutex<HashMap<(SessionId, String), Arc<Call>>>,
}

/// A call that has no response yet.
pub(crate) struct Call {
    session: SessionId,
    request: RequestId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The name of its stream: the end of its event ids. `None` before the first event.
    stream: Option<String>,
    /// How many connections read it. A client may resume before the loss of the first one is noticed.
    readers: usize,
    /// How many connections have read it. A resume changes it, so an earlier loss does not end a later window.
    watches: u64,
}

impl State {
    fn joined(&mut self) {
        self.readers += 1;
        self.watches += 1;
    }

    /// The number of connections so far, if the last reader has left.
    fn left(&mut self) -> Option<u64> {
        self.readers -= 1;
        (self.readers == 0).then_some(self.watches)
    }

    /// Whether no connection has read it since there were so many.
    fn is_abandoned_since(&self, watches: u64) -> bool {
        self.readers == 0 && self.watches == watches
    }
}

impl Calls {
    pub(crate) fn new(sessions: Arc<LocalSessionManager>, stop: CancellationToken) -> Self {
        Self(Arc::new(Inner { sessions, stop, streams: Mutex::default() }))
    }

    /// The stream of a new call. A message without an id is no call.
    pub(crate) fn watch<S>(
        &self,
        session: &SessionId,
        request: Option<RequestId>,
        stream: S,
    ) -> DisconnectWatch<S> {
        let call = request
            .map(|request| Arc::new(Call { session: session.clone(), request, state: Mutex::default() }));
        self.watch_again(call, stream)
    }

    /// Another stream of a call.
    pub(crate) fn watch_again<S>(&self, call: Option<Arc<Call>>, stream: S) -> DisconnectWatch<S> {
        if let Some(call) = &call {
            call.state().joined();
        }
        DisconnectWatch { stream: Box::pin(stream), call, calls: self.clone() }
    }

    /// The call of a stream that is resumed after an event.
    pub(crate) fn resumed(&self, session: &SessionId, last_event_id: &str) -> Option<Arc<Call>> {
        let key = (session.clone(), stream_of(last_event_id)?);
        self.streams().get(&key).cloned()
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, HashMap<(SessionId, String), Arc<Call>>> {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the name of a stream, which is in the ids of its events.
    fn learn(&self, call: &Arc<Call>, event_id: Option<&String>) {
        let mut state = call.state();
        if state.stream.is_none()
            && let Some(stream) = event_id.and_then(|id| stream_of(id))
        {
            state.stream = Some(stream.clone());
            drop(state);
            self.streams().insert((call.session.clone(), stream), Arc::clone(call));
        }
    }

    fn forget(&self, call: &Call) {
        let stream = call.state().stream.clone();
        if let Some(stream) = stream {
            self.streams().remove(&(call.session.clone(), stream));
        }
    }

    /// A connection no longer reads a call that has no response. If it was the last one, the call is cancelled later.
    fn leave(&self, call: Arc<Call>) {
        let left = call.state().left();
        // Without a runtime the server is ending, and its calls with it.
        if let Some(watches) = left
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(self.clone().abandon(call, watches));
        }
    }

    /// Cancels a call unless its stream is resumed in time.
    async fn abandon(self, call: Arc<Call>, watches: u64) {
        tokio::select! {
            () = self.0.stop.cancelled() => return,
            () = tokio::time::sleep(CALL_RESUME_WINDOW) => (),
        }
        if !call.state().is_abandoned_since(watches) {
            return;
        }
        self.forget(&call);
        let reason = Some("the client has disconnected".to_owned());
        let cancelled = CancelledNotificationParam::new(Some(call.request.clone()), reason);
        let cancelled = ClientNotification::CancelledNotification(CancelledNotification::new(cancelled));
        let message = ClientJsonRpcMessage::notification(cancelled);
        // A session that has ended has cancelled its calls.
        drop(self.0.sessions.accept_message(&call.session, message).await);
    }
}

impl Call {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a stream in the id of an event, `INDEX/STREAM`.
fn stream_of(event_id: &str) -> Option<String> {
    event_id.split_once('/').map(|(_, stream)| stream.to_owned())
}

/// The stream of a call. If it is dropped before the response, the client has disconnected.
pub(crate) struct DisconnectWatch<S> {
    stream: Pin<Box<S>>,
    /// `None` after the response, or after the end of the stream.
    call: Option<Arc<Call>>,
    calls: Calls,
}

impl<S: Stream<Item = ServerSseMessage>> Stream for DisconnectWatch<S> {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        let polled = self.stream.as_mut().poll_next(cx);
        let Some(call) = self.call.clone() else { return polled };
        match &polled {
            Poll::Pending => (),
            // Not the end of the call: a resume on another connection ends the stream of this one.
            Poll::Ready(None) => {
                self.call = None;
                self.calls.leave(call);
            }
            Poll::Ready(Some(event)) => {
                self.calls.learn(&call, event.event_id.as_ref());
                let message = event.message.as_deref();
                if matches!(message, Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))) {
                    self.calls.forget(&call);
                    self.call = None;
                }
            }
        }
        polled
    }
}

impl<S> Drop for DisconnectWatch<S> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            self.calls.leave(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window of a second loss does not end with the window of the first one.
    #[test]
    fn a_resumed_call_has_a_new_window() {
        let mut state = State::default();
        state.joined();
        let first = state.left().unwrap();
        assert!(state.is_abandoned_since(first));
        state.joined();
        assert!(!state.is_abandoned_since(first));
        let second = state.left().unwrap();
        assert!(!state.is_abandoned_since(first));
        assert!(state.is_abandoned_since(second));
    }

    /// A client may resume before the loss of its first connection is noticed.
    #[test]
    fn a_call_is_abandoned_after_its_last_reader() {
        let mut state = State::default();
        state.joined();
        state.joined();
        assert_eq!(state.left(), None);
        assert!(state.left().is_some());
    }
}
