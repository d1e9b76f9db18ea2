//! [`Events`]: a stream of events that reconnects and resumes.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use reqwest::RequestBuilder;
use sandcrab_api::ErrorCode;
use sandcrab_api::event::{ErrorEvent, ExecuteEvent, ProcessEvent, ServerEvent};
use sandcrab_api::file::FileEvent;
use sandcrab_api::git::GitEvent;
use sandcrab_api::port::PortWatchEvent;
use sandcrab_api::search::SearchEvent;
use sandcrab_api::service::ServiceEvent;
use sandcrab_api::watch::{ResyncReason, WatchEvent, WatchResyncEvent};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use crate::connections::ResponseGuard;
use crate::retry::Retry;
use crate::sse::{Event, Parser};
use crate::{Client, ClientError};

/// Timeout of a silent connection. A server sends a comment every 15 seconds.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);
const LAST_EVENT_ID: &str = "last-event-id";

/// An event of a stream that can be resumed.
pub trait StreamEvent: DeserializeOwned {
    /// The known types. Events of other types come from a newer server, and are skipped.
    const TYPES: &[&str];
    /// Whether a stream continues on another connection. If not, a lost connection is an error.
    const RESUMES: bool = true;
    /// Whether the stream starts what it reports. If so, a limit of the server is an error at once.
    const STARTS: bool = false;

    /// Whether it is the first event of a stream. It is skipped after a resume.
    fn is_opening(&self) -> bool;

    /// The event that follows this one after a lost connection, if it then means that events may be missing.
    fn gap(&self) -> Option<Self> {
        None
    }

    /// Whether it is the last event of a stream.
    fn is_last(&self) -> bool;

    /// Whether it reports that the server is stopping. The execution continues, and the stream is resumed.
    fn is_server_stop(&self) -> bool;
}

fn is_stop_error(error: &ErrorEvent) -> bool {
    error.code == ErrorCode::ShuttingDown
}

impl StreamEvent for ExecuteEvent {
    const TYPES: &[&str] = &["start", "stdout", "stderr", "gap", "complete", "error"];
    const STARTS: bool = true;

    fn is_opening(&self) -> bool {
        matches!(self, Self::Start(_))
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Complete(_) | Self::Error(_))
    }

    fn is_server_stop(&self) -> bool {
        matches!(self, Self::Error(error) if is_stop_error(error))
    }
}

impl StreamEvent for ProcessEvent {
    const TYPES: &[&str] = &["process_info", "stdout", "stderr", "gap", "exit", "caught_up", "error"];

    fn is_opening(&self) -> bool {
        matches!(self, Self::ProcessInfo(_))
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Exit(_) | Self::CaughtUp(_) | Self::Error(_))
    }

    fn is_server_stop(&self) -> bool {
        matches!(self, Self::Error(error) if is_stop_error(error))
    }
}

/// An `execution` event is sent once for each execution, also after a resume.
impl StreamEvent for ServiceEvent {
    const TYPES: &[&str] = &["execution", "stdout", "stderr", "gap", "exit", "end", "caught_up", "error"];

    fn is_opening(&self) -> bool {
        false
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::End(_) | Self::CaughtUp(_) | Self::Error(_))
    }

    fn is_server_stop(&self) -> bool {
        matches!(self, Self::Error(error) if is_stop_error(error))
    }
}

/// A watch begins again after a lost connection.
impl StreamEvent for PortWatchEvent {
    const TYPES: &[&str] = &["watching", "ready", "process_exited", "error"];

    fn is_opening(&self) -> bool {
        matches!(self, Self::Watching(_))
    }

    fn is_last(&self) -> bool {
        !self.is_opening()
    }

    fn is_server_stop(&self) -> bool {
        matches!(self, Self::Error(error) if is_stop_error(error))
    }
}

/// These have no cursor: a `hello` after a lost connection means that events may be missing.
impl StreamEvent for ServerEvent {
    const TYPES: &[&str] = &[
        "hello",
        "execution_started",
        "execution_ended",
        "execution_removed",
        "session_created",
        "session_restarted",
        "session_deleted",
        "service_changed",
        "service_removed",
        "missed",
    ];

    fn is_opening(&self) -> bool {
        false
    }

    fn is_last(&self) -> bool {
        false
    }

    fn is_server_stop(&self) -> bool {
        false
    }
}

/// These have no cursor: after a lost connection, a second `watching` and a `resync` tell that changes may be missing.
impl StreamEvent for WatchEvent {
    const TYPES: &[&str] = &["watching", "event", "resync", "stopped", "error"];

    fn is_opening(&self) -> bool {
        false
    }

    fn gap(&self) -> Option<Self> {
        let Self::Watching(watching) = self else { return None };
        let timestamp = watching.timestamp;
        Some(Self::Resync(WatchResyncEvent { reason: ResyncReason::Reconnected, timestamp }))
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Stopped(_) | Self::Error(_))
    }

    fn is_server_stop(&self) -> bool {
        matches!(self, Self::Error(error) if is_stop_error(error))
    }
}

/// A result that is sent in pieces, once.
macro_rules! sent_once {
    ($($event:ident $types:expr, last: $($last:ident)|+;)+) => {
        $(impl StreamEvent for $event {
            const TYPES: &[&str] = &$types;
            const RESUMES: bool = false;

            fn is_opening(&self) -> bool {
                false
            }

            fn is_last(&self) -> bool {
                matches!(self, $(Self::$last(_))|+)
            }

            fn is_server_stop(&self) -> bool {
                false
            }
        })+
    };
}

sent_once! {
    FileEvent ["metadata", "chunk", "complete", "error"], last: Complete | Error;
    SearchEvent ["match", "complete", "error"], last: Complete | Error;
    GitEvent ["progress", "complete", "error"], last: Complete | Error;
}

/// A stream of events. After a lost connection it reconnects and resumes after the last event, without gaps or duplicates.
/// It fails when the server is unreachable for [`crate::RESUME_WINDOW`] ([`Client::with_reconnect_timeout`]).
///
/// ```no_run
/// # use sandcrab_client::{Client, ClientError};
/// # use sandcrab_client::api::{event::ExecuteEvent, execute::CommandRequest};
/// # async fn example(client: Client) -> Result<(), ClientError> {
/// let request = CommandRequest { command: "make".into(), ..CommandRequest::default() };
/// let mut events = client.execute_stream(&request).await?;
/// while let Some(event) = events.next().await? {
///     match event {
///         ExecuteEvent::Stdout(output) => print!("{}", output.data),
///         ExecuteEvent::Stderr(output) => eprint!("{}", output.data),
///         ExecuteEvent::Complete(complete) => println!("exit code {}", complete.exit_code),
///         _ => (),
///     }
/// }
/// # Ok(()) }
/// ```
pub struct Events<T> {
    client: Client,
    /// Sent for every connection. The idempotency key of a start makes it happen once.
    request: RequestBuilder,
    response: Option<ResponseGuard>,
    parser: Parser,
    ready: VecDeque<Event>,
    cursor: Option<String>,
    has_begun: bool,
    has_ended: bool,
    retry: Retry,
    /// When the last attempt to connect began.
    begun: Instant,
    /// To be returned next.
    gap: Option<T>,
}

impl<T: StreamEvent> Events<T> {
    /// Connects. A server that cannot be reached, or refuses the request, is an error at once.
    pub(crate) async fn open(
        client: Client,
        request: RequestBuilder,
        cursor: Option<String>,
    ) -> Result<Self, ClientError> {
        let mut events = Self {
            retry: client.retry(),
            client,
            request,
            response: None,
            parser: Parser::default(),
            ready: VecDeque::new(),
            cursor,
            has_begun: false,
            has_ended: false,
            begun: Instant::now(),
            gap: None,
        };
        let may_repeat = if T::STARTS { Client::may_repeat } else { Client::may_repeat_read };
        match events.connect().await {
            Ok(()) => (),
            // The request may have arrived, or the server is restarting.
            Err(error) if T::RESUMES && may_repeat(&events.client, &error) => events.retry.failed(error)?,
            Err(error) => return Err(error),
        }
        Ok(events)
    }

    /// Whether the server has accepted the request, and the connection still exists.
    pub(crate) fn is_connected(&self) -> bool {
        self.response.is_some()
    }

    /// The cursor after the last event that [`Events::next`] returned. A later stream can start from it.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The next event; `None` after the last. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<T>, ClientError> {
        while !self.has_ended {
            if let Some(event) = self.take_ready()? {
                return Ok(Some(event));
            }
            let worked = match self.response {
                Some(_) => self.receive().await,
                None => self.connect().await,
            };
            if let Err(error) = worked {
                self.response = None;
                if !T::RESUMES {
                    self.has_ended = true;
                    return Err(error);
                }
                self.retry.attempt_failed(self.begun, error)?;
            }
        }
        Ok(None)
    }

    /// The same as a [`Stream`], which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<T, ClientError>> {
        futures_util::stream::unfold(Some(self), async |events| {
            let mut events = events?;
            match events.next().await {
                Ok(Some(event)) => Some((Ok(event), Some(events))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        self.retry.pause().await;
        self.begun = Instant::now();
        let mut request = self.client.repeated(&self.request)?;
        if let Some(cursor) = &self.cursor {
            request = request.header(LAST_EVENT_ID, cursor);
        }
        self.response = Some(self.client.send(request).await?);
        // Drop an incomplete event of the previous connection.
        self.parser = Parser::default();
        Ok(())
    }

    async fn receive(&mut self) -> Result<(), ClientError> {
        let Some(response) = &mut self.response else { return Ok(()) };
        let chunk: Option<Bytes> = match timeout(LONGEST_SILENCE, response.chunk()).await {
            Ok(read) => read.map_err(|e| self.client.failed(&e))?,
            Err(_) => return Err(self.client.connection_lost("no data for too long")),
        };
        // The stream is only read until its last event.
        let chunk = chunk.ok_or_else(|| self.client.connection_lost("it ended before the last event"))?;
        let pushed = self.parser.push(&chunk, &mut self.ready);
        pushed.map_err(|_| self.client.invalid_response("an event is too long"))?;
        Ok(())
    }

    fn take_ready(&mut self) -> Result<Option<T>, ClientError> {
        if let Some(gap) = self.gap.take() {
            return Ok(Some(gap));
        }
        while let Some(Event { data, id, .. }) = self.ready.pop_front() {
            if !id.is_empty() {
                self.cursor = Some(id);
            }
            let event: T = match serde_json::from_str(&data) {
                Ok(event) => event,
                Err(_) if is_of_another_type::<T>(&data) => continue,
                Err(e) => return Err(self.client.invalid_response(format!("an event is invalid: {e}"))),
            };
            if event.is_server_stop() {
                self.ready.clear();
                self.response = None;
                let stopping = self.client.connection_lost("the server is stopping");
                self.retry.attempt_failed(self.begun, stopping)?;
                continue;
            }
            self.retry.works();
            if event.is_opening() && std::mem::replace(&mut self.has_begun, true) {
                continue;
            }
            if let Some(gap) = event.gap() {
                self.gap = Some(gap).filter(|_| std::mem::replace(&mut self.has_begun, true));
            }
            if event.is_last() {
                self.has_ended = true;
                self.response = None;
            }
            return Ok(Some(event));
        }
        Ok(None)
    }
}

fn is_of_another_type<T: StreamEvent>(data: &str) -> bool {
    #[derive(Deserialize)]
    struct Tag<'a> {
        r#type: &'a str,
    }
    serde_json::from_str(data).is_ok_and(|Tag { r#type }| !T::TYPES.contains(&r#type))
}

impl<T> fmt::Debug for Events<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("client", &self.client)
            .field("cursor", &self.cursor)
            .field("has_ended", &self.has_ended)
            .finish_non_exhaustive()
    }
}
