//! Event streams: what a stream carries is typed until the moment it is written, as SSE ([`sse`]) or as frames of a
//! WebSocket ([`frames`]).
//!
//! A handler answers with an [`EventStream`]. The transport takes it out of the response and writes it its own way, so
//! neither transport reads what the other has written.

pub(crate) mod frames;
pub(crate) mod sse;

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use sandcrab_api::event::{ExecuteEvent, ProcessEvent, ServerEvent};

use crate::cursor::Cursor;

/// How long a stream may be silent before a heartbeat is sent, which keeps proxies from cutting it.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// One item of a stream.
#[derive(Debug)]
pub(crate) enum Item {
    /// An event.
    Event(Box<Event>),
    /// Nothing happened for a while.
    Heartbeat,
}

/// An event, and where to resume after it.
#[derive(Debug)]
pub(crate) struct Event {
    /// The cursor after this event. `None` where a stream cannot be resumed.
    pub(crate) id: Option<Cursor>,
    pub(crate) payload: Payload,
}

/// The wire's types of events, one variant for each kind of stream.
#[derive(Debug)]
pub(crate) enum Payload {
    Execute(ExecuteEvent),
    Process(ProcessEvent),
    Server(ServerEvent),
}

impl Payload {
    /// Appends the event as JSON on one line.
    pub(crate) fn write_json(&self, to: &mut Vec<u8>) {
        let written = match self {
            Self::Execute(event) => serde_json::to_writer(to, event),
            Self::Process(event) => serde_json::to_writer(to, event),
            Self::Server(event) => serde_json::to_writer(to, event),
        };
        // Never fails: the wire's types have string keys only, and a Vec takes everything.
        drop(written);
    }
}

impl From<ExecuteEvent> for Payload {
    fn from(event: ExecuteEvent) -> Self {
        Self::Execute(event)
    }
}

impl From<ProcessEvent> for Payload {
    fn from(event: ProcessEvent) -> Self {
        Self::Process(event)
    }
}

impl From<ServerEvent> for Payload {
    fn from(event: ServerEvent) -> Self {
        Self::Server(event)
    }
}

/// Items as they come. The stream ends after its terminal event.
pub(crate) type Items = Pin<Box<dyn Stream<Item = Item> + Send>>;

/// The answer of a handler that streams events.
///
/// It travels in the extensions of a response, which have to be `Clone`; only the first [`EventStream::take`] finds it.
#[derive(Clone)]
pub(crate) struct EventStream(Arc<Mutex<Option<Items>>>);

impl EventStream {
    pub(crate) fn new(items: impl Stream<Item = Item> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::pin(items)))))
    }

    /// Takes the stream out of a response, if that is what it carries.
    pub(crate) fn take(response: &mut Response) -> Option<Items> {
        let Self(items) = response.extensions_mut().remove()?;
        items.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl IntoResponse for EventStream {
    fn into_response(self) -> Response {
        let mut response = Response::default();
        response.extensions_mut().insert(self);
        response
    }
}
