//! The output of a service, across its executions.

use std::fmt;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use sandcrab_api::Timestamp;
use sandcrab_api::event::ProcessEvent;
use sandcrab_api::execute::Encoding;
use sandcrab_api::service::{ServiceEndEvent, ServiceEvent, ServiceExecutionEvent, ServiceState};
use sandcrab_engine::Execution;

use super::registry::Handle;
use super::snapshot::Snapshot;
use crate::app::App;
use crate::cursor::Cursor;
use crate::error::ApiError;
use crate::events::{Event, EventId, EventStream, HEARTBEAT, Item, Items, Payload};
use crate::feed::{Feed, StreamKind};
use crate::origin::Origin;

/// A position in the output of a service: `3/1234` is in its third execution, `3/end` after the end of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    attempt: u64,
    /// `None` after the end.
    cursor: Option<Cursor>,
}

const END: &str = "end";

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cursor {
            Some(cursor) => write!(f, "{}/{cursor}", self.attempt),
            None => write!(f, "{}/{END}", self.attempt),
        }
    }
}

impl FromStr for Position {
    type Err = ApiError;

    fn from_str(text: &str) -> Result<Self, ApiError> {
        let parts = text.split_once('/').and_then(|(attempt, cursor)| {
            let cursor = if cursor == END { None } else { Some(cursor.parse().ok()?) };
            Some(Self { attempt: attempt.parse().ok()?, cursor })
        });
        parts.ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            ApiError::invalid(
                "since",
                format!("invalid cursor {shown:?}; use one from an event of this stream"),
            )
        })
    }
}

/// What a stream does next.
enum Step {
    /// Opens the first execution from this one on.
    Open { from: u64, cursor: Option<Cursor> },
    /// Sends the output of an execution.
    Output { attempt: u64, items: Items },
    /// Waits for an execution after this one.
    Next { after: u64 },
    /// The last event was sent.
    Over,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open { .. } => "Open",
            Self::Output { .. } => "Output",
            Self::Next { .. } => "Next",
            Self::Over => "Over",
        })
    }
}

struct ServiceFeed {
    app: App,
    handle: Arc<Handle>,
    encoding: Option<Encoding>,
    follows: bool,
    origin: Origin,
    step: Step,
    position: Position,
}

/// Streams the output of a service: of its current execution, or from a position on.
pub(crate) fn follow(
    app: &App,
    handle: Arc<Handle>,
    since: Option<Position>,
    encoding: Option<Encoding>,
    follows: bool,
    origin: Origin,
) -> Result<EventStream, ApiError> {
    let snapshot = handle.snapshot();
    if since.is_some_and(|since| since.attempt > snapshot.attempt) {
        let why = "the cursor is beyond the last execution; use one from an event of this stream";
        return Err(ApiError::invalid("since", why));
    }
    let step = match since {
        Some(Position { attempt, cursor: None }) => Step::Next { after: attempt },
        Some(Position { attempt, cursor }) => Step::Open { from: attempt, cursor },
        None => Step::Open { from: snapshot.attempt, cursor: None },
    };
    let position = since.unwrap_or(Position { attempt: snapshot.attempt, cursor: Some(Cursor::default()) });
    let feed = ServiceFeed {
        app: App::clone(app),
        handle,
        encoding,
        follows,
        origin: origin.clone(),
        step,
        position,
    };
    let items = stream::unfold(feed, |mut feed| async move { Some((feed.next().await?, feed)) });
    Ok(EventStream::new(items, origin))
}

impl ServiceFeed {
    async fn next(&mut self) -> Option<Item> {
        loop {
            match &mut self.step {
                Step::Open { from, cursor } => {
                    let (from, cursor) = (*from, *cursor);
                    if let Some(item) = self.open(from, cursor).await {
                        return Some(item);
                    }
                }
                Step::Output { attempt, items } => {
                    let attempt = *attempt;
                    match Pin::new(items).next().await {
                        Some(item) => {
                            if let Some(item) = self.translate(attempt, item) {
                                return Some(item);
                            }
                        }
                        None => self.step = Step::Next { after: attempt },
                    }
                }
                Step::Next { after } => {
                    let after = *after;
                    if let Some(item) = self.wait(after).await {
                        return Some(item);
                    }
                }
                Step::Over => return None,
            }
        }
    }

    /// The first execution from a number on that has a record.
    fn find(&self, snapshot: &Snapshot, from: u64) -> Option<(u64, Execution)> {
        // Older ones than those that are listed are left to retention; they are found by their ids only.
        let oldest = snapshot.attempt.saturating_sub(super::record::MAX_LISTED_EXECUTIONS as u64);
        (from.max(oldest)..=snapshot.attempt).find_map(|attempt| {
            let id = snapshot.execution_id(attempt)?;
            Some((attempt, self.app.sandbox.engine.execution(&id)?))
        })
    }

    /// Opens the first execution from a number on. A client that resumes in it has its first event.
    async fn open(&mut self, from: u64, cursor: Option<Cursor>) -> Option<Item> {
        let snapshot = self.handle.snapshot();
        let Some((attempt, execution)) = self.find(&snapshot, from) else {
            self.step = Step::Next { after: snapshot.attempt };
            if snapshot.attempt == from && !snapshot.is_over() && self.follows {
                // It is about to start.
                let id = snapshot.execution_id(from);
                self.await_start(id.as_ref().map(sandcrab_engine::ExecutionId::as_str), from).await;
            }
            return None;
        };
        let cursor = cursor.filter(|_| attempt == from);
        let encoding = crate::routes::logs::encoding(&execution, self.encoding);
        // The first event of a process is replaced by that of the execution.
        let since = Some(cursor.unwrap_or_default());
        let origin = self.origin.clone();
        let feed =
            Feed::new(&self.app, &execution, StreamKind::Process, since, encoding, self.follows, origin)
                .await;
        match feed {
            Ok(feed) => self.step = Step::Output { attempt, items: feed.into_events().into_items() },
            Err(error) => return Some(self.fail(&error)),
        }
        if cursor.is_some() {
            return None;
        }
        self.position = Position { attempt, cursor: Some(Cursor::default()) };
        Some(self.event(ServiceEvent::Execution(ServiceExecutionEvent {
            service_id: snapshot.service.id.clone(),
            execution_id: execution.id().to_string(),
            restarts: snapshot.service.restarts,
            timestamp: Timestamp::now(),
        })))
    }

    /// Waits until the execution has a record, or the service has changed.
    async fn await_start(&mut self, id: Option<&str>, attempt: u64) {
        let changed = self.handle.until(|snapshot| {
            snapshot.is_over()
                || snapshot.attempt > attempt
                || (snapshot.service.execution_id.as_deref() == id
                    && !matches!(snapshot.service.state, ServiceState::Starting))
        });
        tokio::select! {
            _ = changed => {}
            () = tokio::time::sleep(HEARTBEAT) => {}
            () = self.app.stopping.begun() => {}
        }
        self.step = Step::Next { after: attempt - 1 };
    }

    /// Waits for an execution after this one, or for the end of the service.
    async fn wait(&mut self, after: u64) -> Option<Item> {
        let snapshot = self.handle.snapshot();
        if self.find(&snapshot, after + 1).is_some() {
            self.step = Step::Open { from: after + 1, cursor: None };
            return None;
        }
        let event = ServiceEndEvent {
            service_id: snapshot.service.id.clone(),
            state: snapshot.service.state,
            timestamp: Timestamp::now(),
        };
        if !self.follows {
            self.step = Step::Over;
            return Some(self.event(ServiceEvent::CaughtUp(event)));
        }
        if snapshot.is_over() {
            self.step = Step::Over;
            return Some(self.event(ServiceEvent::End(event)));
        }
        let has_next = |snapshot: &Snapshot| {
            snapshot.is_over()
                || snapshot.attempt > after && !matches!(snapshot.service.state, ServiceState::Starting)
        };
        let handle = Arc::clone(&self.handle);
        tokio::select! {
            found = handle.until(has_next) => {
                let is_gone = !found.is_over() && self.find(&found, after + 1).is_none();
                if is_gone {
                    // Its record was removed; the one after it is waited for.
                    self.step = Step::Next { after: found.attempt };
                }
                None
            }
            () = tokio::time::sleep(HEARTBEAT) => Some(Item::Heartbeat),
            () = self.app.stopping.begun() => Some(self.fail(&ApiError::shutting_down())),
        }
    }

    /// The event of the service for an event of its execution.
    fn translate(&mut self, attempt: u64, item: Item) -> Option<Item> {
        let Item::Event(event) = item else { return Some(item) };
        let Event { id, payload: Payload::Process(payload) } = *event else { return None };
        if let Some(EventId::Execution(cursor)) = id {
            let is_end = matches!(payload, ProcessEvent::Exit(_));
            self.position = Position { attempt, cursor: (!is_end).then_some(cursor) };
        }
        let event = match payload {
            ProcessEvent::Stdout(event) => ServiceEvent::Stdout(event),
            ProcessEvent::Stderr(event) => ServiceEvent::Stderr(event),
            ProcessEvent::Gap(event) => ServiceEvent::Gap(event),
            ProcessEvent::Exit(event) => ServiceEvent::Exit(event),
            ProcessEvent::Error(event) => {
                self.step = Step::Over;
                ServiceEvent::Error(event)
            }
            ProcessEvent::ProcessInfo(_) | ProcessEvent::CaughtUp(_) => return None,
        };
        Some(self.event(event))
    }

    fn fail(&mut self, error: &ApiError) -> Item {
        self.origin.log("a stream", error);
        self.step = Step::Over;
        self.event(ServiceEvent::Error(error.event()))
    }

    fn event(&self, event: ServiceEvent) -> Item {
        let id = Some(EventId::Service(self.position));
        Item::Event(Box::new(Event { id, payload: event.into() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_round_trip() {
        let cursor = Cursor { position: 12, held: [2, 0] };
        for (text, cursor) in [("3/12:2:0", Some(cursor)), ("3/end", None)] {
            let position = Position { attempt: 3, cursor };
            assert_eq!(position.to_string(), text);
            assert_eq!(text.parse::<Position>().unwrap(), position);
        }
        for text in ["", "3", "/1", "3/", "3/x", "x/1", "-1/1", "3/1/1"] {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }
}
