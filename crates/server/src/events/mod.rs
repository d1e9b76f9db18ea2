//! Event streams: events are typed values until they are written, as SSE ([`sse`]) or as frames of a WebSocket
//! ([`frames`]).
//!
//! A handler returns an [`EventStream`]. The transport takes it out of the response and writes it in its own format,
//! so neither transport parses the output of the other.

pub(crate) mod frames;
pub(crate) mod sse;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use sandcrab_api::event::{ExecuteEvent, ProcessEvent, ServerEvent};
use sandcrab_api::file::FileEvent;
use sandcrab_api::git::GitEvent;
use sandcrab_api::port::PortWatchEvent;
use sandcrab_api::search::SearchEvent;
use sandcrab_api::service::ServiceEvent;
use sandcrab_api::watch::WatchEvent;

use crate::cursor::Cursor;
use crate::error::ApiError;
use crate::origin::Origin;
use crate::services::Position;

/// Time without events after which a heartbeat is sent, so that proxies keep the connection.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// One item of a stream.
#[derive(Debug)]
pub(crate) enum Item {
    /// An event.
    Event(Box<Event>),
    /// No event for a while.
    Heartbeat,
}

/// An event, and the cursor from which to resume after it.
#[derive(Debug)]
pub(crate) struct Event {
    /// The cursor after this event. `None` if the stream cannot be resumed.
    pub(crate) id: Option<EventId>,
    pub(crate) payload: Payload,
}

/// The id of an event: the position from which to resume after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventId {
    /// In the output of an execution.
    Execution(Cursor),
    /// In the output of a service.
    Service(Position),
}

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Execution(cursor) => cursor.fmt(f),
            Self::Service(position) => position.fmt(f),
        }
    }
}

impl From<Cursor> for EventId {
    fn from(cursor: Cursor) -> Self {
        Self::Execution(cursor)
    }
}

/// The events of the wire, one variant for each kind of stream.
#[derive(Debug)]
pub(crate) enum Payload {
    Execute(ExecuteEvent),
    Process(ProcessEvent),
    Server(ServerEvent),
    PortWatch(PortWatchEvent),
    File(FileEvent),
    Git(GitEvent),
    Search(SearchEvent),
    Service(ServiceEvent),
    Watch(WatchEvent),
}

impl Payload {
    /// Appends the event as JSON on one line.
    pub(crate) fn write_json(&self, to: &mut Vec<u8>) {
        let written = match self {
            Self::Execute(event) => serde_json::to_writer(to, event),
            Self::Process(event) => serde_json::to_writer(to, event),
            Self::Server(event) => serde_json::to_writer(to, event),
            Self::PortWatch(event) => serde_json::to_writer(to, event),
            Self::File(event) => serde_json::to_writer(to, event),
            Self::Git(event) => serde_json::to_writer(to, event),
            Self::Search(event) => serde_json::to_writer(to, event),
            Self::Service(event) => serde_json::to_writer(to, event),
            Self::Watch(event) => serde_json::to_writer(to, event),
        };
        // Never fails: the wire's types have string keys only, and writing to a Vec cannot fail.
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

impl From<GitEvent> for Payload {
    fn from(event: GitEvent) -> Self {
        Self::Git(event)
    }
}

impl From<PortWatchEvent> for Payload {
    fn from(event: PortWatchEvent) -> Self {
        Self::PortWatch(event)
    }
}

impl From<FileEvent> for Payload {
    fn from(event: FileEvent) -> Self {
        Self::File(event)
    }
}

impl From<ServerEvent> for Payload {
    fn from(event: ServerEvent) -> Self {
        Self::Server(event)
    }
}

impl From<SearchEvent> for Payload {
    fn from(event: SearchEvent) -> Self {
        Self::Search(event)
    }
}

impl From<ServiceEvent> for Payload {
    fn from(event: ServiceEvent) -> Self {
        Self::Service(event)
    }
}

impl From<WatchEvent> for Payload {
    fn from(event: WatchEvent) -> Self {
        Self::Watch(event)
    }
}

/// Items as they arrive. The stream ends after its terminal event.
pub(crate) type Items = Pin<Box<dyn Stream<Item = Item> + Send>>;

/// A stream that ends with an error event if it panics.
struct Guarded {
    items: Option<Items>,
    origin: Origin,
}

impl Stream for Guarded {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let Some(items) = &mut self.items else { return Poll::Ready(None) };
        // It is not polled again after a panic, so an inconsistent state is not visible.
        match catch_unwind(AssertUnwindSafe(|| items.as_mut().poll_next(cx))) {
            Ok(polled) => polled,
            Err(panic) => {
                self.items = None;
                let error = ApiError::panic(panic.as_ref());
                self.origin.log("a stream", &error);
                Poll::Ready(Some(failure(&error)))
            }
        }
    }
}

/// The terminal event of a stream that cannot continue, the same for every kind of stream.
fn failure(error: &ApiError) -> Item {
    let event = ProcessEvent::Error(error.event());
    Item::Event(Box::new(Event { id: None, payload: event.into() }))
}

/// The response of a handler that streams events.
///
/// It is in the extensions of a response, which must be `Clone`; only the first [`EventStream::take`] finds it.
#[derive(Clone)]
pub(crate) struct EventStream(Arc<Mutex<Option<Items>>>);

impl EventStream {
    pub(crate) fn new(items: impl Stream<Item = Item> + Send + 'static, origin: Origin) -> Self {
        let items = Guarded { items: Some(Box::pin(items)), origin };
        Self(Arc::new(Mutex::new(Some(Box::pin(items)))))
    }

    /// Its items.
    pub(crate) fn into_items(self) -> Items {
        let items = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        items.unwrap_or_else(|| Box::pin(futures_util::stream::empty()))
    }

    /// Takes the stream out of a response, if it contains one.
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

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};

    use super::*;
    use crate::origin::tests::{Log, origin};

    #[tokio::test]
    async fn a_stream_that_panics_ends_with_an_error() {
        let (log, _guard) = Log::capture();
        let broken = stream::iter(0..9).map(|number| match number {
            0 => Item::Heartbeat,
            _ => panic!("broken"),
        });
        let mut response = EventStream::new(broken, origin()).into_response();
        let items: Vec<_> = EventStream::take(&mut response).unwrap().collect().await;
        let [Item::Heartbeat, Item::Event(last)] = &items[..] else { panic!("{items:?}") };
        let mut json = Vec::new();
        last.payload.write_json(&mut json);
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((&json["type"], &json["code"]), (&"error".into(), &"INTERNAL_ERROR".into()));
        log.assert_named();
        assert!(!json.to_string().contains("broken"), "the message is for the log only");
        assert!(EventStream::take(&mut response).is_none());
    }
}
