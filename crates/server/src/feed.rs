//! [`Feed`]: the record of an execution as server-sent events, read as the client takes them.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use sandcrab_api::event::{
    CaughtUpEvent, CompleteEvent, ErrorEvent, ExecuteEvent, ExitEvent, GapEvent, OutputEvent, ProcessEvent,
    ProcessInfoEvent, StartEvent,
};
use sandcrab_api::execute::Encoding;
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_engine::{End, Entry, Event, Execution, Follower, ReadAt, ReadError, Stream};
use serde::Serialize;
use tokio::time::Instant;

use crate::app::App;
use crate::convert;
use crate::cursor::Cursor;
use crate::error::ApiError;
use crate::launch::{Keeper, Launch};
use crate::summary;
use crate::text::{Decoder, base64_to, escape};

/// How long a stream may be silent before a comment keeps proxies from cutting it.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);
/// Events are gathered up to this size.
const CHUNK_BYTES: usize = 64 << 10;
/// How an event of output that has none begins its data; the output is put in between.
const NO_DATA: &str = r#""data":"","#;
const END_OF_EVENT: &[u8] = b"\n\n";

/// What is told about an execution, and in which words.
#[derive(Debug)]
pub(crate) enum Story {
    /// As a command that somebody waits for.
    Command(Box<(Launch, Keeper)>),
    /// As a process.
    Process,
}

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Feed {
    app: App,
    execution: Execution,
    follower: Follower,
    story: Story,
    encoding: Encoding,
    decoders: [Decoder; 2],
    /// Bytes of each stream that an earlier reader got, but did not send.
    owed: [u8; 2],
    /// Whether it waits for more.
    follows: bool,
    /// Written and not sent.
    chunk: Vec<u8>,
    /// The output of one event as it stands in JSON. Kept for its room.
    data: Vec<u8>,
    opened: bool,
    over: bool,
}

impl Feed {
    pub(crate) fn new(
        app: &App,
        execution: &Execution,
        story: Story,
        since: Option<Cursor>,
        encoding: Encoding,
        follows: bool,
    ) -> Result<Self, ApiError> {
        let cursor = since.unwrap_or_default();
        cursor.check(execution)?;
        Ok(Self {
            app: app.clone(),
            execution: execution.clone(),
            follower: execution.follow(cursor.position)?,
            story,
            encoding,
            decoders: Default::default(),
            owed: if encoding == Encoding::Utf8 { cursor.held } else { [0; 2] },
            follows,
            chunk: Vec::new(),
            data: Vec::new(),
            // Whoever resumes knows what it is.
            opened: since.is_some(),
            over: false,
        })
    }

    pub(crate) fn respond(self) -> Response {
        let pieces = stream::unfold(self, |mut feed| async move {
            let chunk = feed.next_chunk().await?;
            Some((Ok::<_, std::convert::Infallible>(chunk), feed))
        });
        events_response(Body::from_stream(pieces))
    }

    /// The next events; `None` after the last.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        if !self.opened {
            self.opened = true;
            if matches!(self.story, Story::Process) {
                let info = self.execution.info();
                let event = ProcessEvent::ProcessInfo(ProcessInfoEvent {
                    process_id: info.id.to_string(),
                    command: info.command.clone(),
                    status: convert::status(&info.status),
                    timestamp: Timestamp::now(),
                });
                self.send(&event);
                return Some(self.take());
            }
        }
        let heartbeat = Instant::now() + HEARTBEAT;
        while self.chunk.is_empty() && !self.over {
            let next = if self.follows {
                let stopping = self.app.stopping.clone();
                tokio::select! {
                    biased;
                    next = self.follower.next() => next,
                    () = tokio::time::sleep_until(heartbeat) => return Some(Bytes::from_static(b": still here\n\n")),
                    () = stopping.cut_off() => {
                        self.fail(&ApiError::shutting_down(), None);
                        break;
                    }
                }
            } else {
                self.follower.try_next()
            };
            self.write(next).await;
            while self.chunk.len() < CHUNK_BYTES && !self.over && !self.chunk.is_empty() {
                match self.follower.try_next() {
                    Ok(None) => break,
                    next => self.write(next).await,
                }
            }
        }
        (!self.chunk.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.chunk))
    }

    async fn write(&mut self, next: Result<Option<Entry>, ReadError>) {
        match next {
            Ok(Some(entry)) => self.entry(entry),
            Ok(None) => self.finished().await,
            Err(e) => self.fail(&e.into(), None),
        }
    }

    fn entry(&mut self, entry: Entry) {
        let timestamp = Timestamp::from(entry.time);
        match entry.event {
            Event::Started { pid } => {
                if let Story::Command(command) = &self.story {
                    let launch = &command.0;
                    let event = ExecuteEvent::Start(StartEvent {
                        command: launch.command.clone(),
                        execution_id: self.execution.id().to_string(),
                        pid: Some(pid),
                        session_id: launch.session.clone(),
                        timestamp,
                    });
                    self.send(&event);
                }
            }
            Event::Output { stream, position, bytes } => self.output(stream, position, &bytes, timestamp),
            Event::Gap { from, to } => {
                self.flush(timestamp);
                let gap = GapEvent { from, to, timestamp };
                match self.story {
                    Story::Command(_) => self.send(&ExecuteEvent::Gap(gap)),
                    Story::Process => self.send(&ProcessEvent::Gap(gap)),
                }
            }
            Event::Ended(end) => self.ended(&end, timestamp),
            _ => {}
        }
    }

    fn output(&mut self, stream: Stream, position: u64, bytes: &[u8], timestamp: Timestamp) {
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        let mut invalid = false;
        match self.encoding {
            Encoding::Base64 => base64_to(bytes, &mut data),
            Encoding::Utf8 => {
                self.pay(stream, position);
                let decoder = &mut self.decoders[index(stream)];
                decoder.decode(bytes, |text| escape(text.as_bytes(), &mut data));
                invalid = decoder.replaced;
            }
        }
        self.send_output(stream, &data, invalid, timestamp);
        self.data = data;
    }

    /// Reads again what an earlier reader held back, now that the position in the stream is known.
    fn pay(&mut self, stream: Stream, position: u64) {
        let owed = std::mem::take(&mut self.owed[index(stream)]);
        if owed == 0 || u64::from(owed) > position {
            return;
        }
        let mut bytes = [0; 3];
        let bytes = &mut bytes[..usize::from(owed)];
        let from = position - u64::from(owed);
        if let Ok(mut reader) = self.execution.reader()
            && let Ok(ReadAt::Bytes(n)) = reader.read(stream, from, bytes)
        {
            self.decoders[index(stream)].hold(&bytes[..n]);
        }
    }

    /// What waits for the rest of a character will wait forever.
    fn flush(&mut self, timestamp: Timestamp) {
        if self.owed != [0; 2]
            && let Ok((stdout, stderr)) = self.execution.reader().and_then(|reader| reader.totals())
        {
            self.pay(Stream::Stdout, stdout);
            self.pay(Stream::Stderr, stderr);
        }
        for stream in [Stream::Stdout, Stream::Stderr] {
            let mut text = Vec::new();
            self.decoders[index(stream)].finish(|part| escape(part.as_bytes(), &mut text));
            self.send_output(stream, &text, true, timestamp);
        }
    }

    /// Sends output, if there is some. `json` is the inside of a JSON string.
    fn send_output(&mut self, stream: Stream, json: &[u8], invalid_utf8: bool, timestamp: Timestamp) {
        if json.is_empty() {
            return;
        }
        let process_id = matches!(self.story, Story::Process).then(|| self.execution.id().to_string());
        let empty = OutputEvent { data: String::new(), process_id, invalid_utf8, timestamp };
        let event = match (&self.story, stream) {
            (Story::Command(_), Stream::Stdout) => serde_json::to_string(&ExecuteEvent::Stdout(empty)),
            (Story::Command(_), Stream::Stderr) => serde_json::to_string(&ExecuteEvent::Stderr(empty)),
            (Story::Process, Stream::Stdout) => serde_json::to_string(&ProcessEvent::Stdout(empty)),
            (Story::Process, Stream::Stderr) => serde_json::to_string(&ProcessEvent::Stderr(empty)),
        };
        // Never fails: the wire's types have string keys only.
        let event = event.unwrap_or_default();
        let Some((before, after)) = event.split_once(NO_DATA) else { return };
        let id = self.cursor();
        self.chunk.reserve(json.len() + event.len() + 64);
        begin_event(&mut self.chunk, Some(&id));
        for part in [before.as_bytes(), br#""data":""#, json, br#"","#, after.as_bytes(), END_OF_EVENT] {
            self.chunk.extend_from_slice(part);
        }
    }

    fn ended(&mut self, end: &End, timestamp: Timestamp) {
        self.flush(timestamp);
        match &mut self.story {
            Story::Process => {
                let event = ProcessEvent::Exit(ExitEvent {
                    process_id: self.execution.id().to_string(),
                    exit_code: convert::exit_code(end),
                    data: String::new(),
                    end: convert::end(end),
                    usage: convert::usage(&end.usage),
                    timestamp,
                });
                self.send(&event);
            }
            Story::Command(command) => {
                let (launch, keeper) = &mut **command;
                keeper.release();
                if let Some(error) = summary::refusal(launch, end) {
                    return self.fail(&error, Some(convert::exit_code(end)));
                }
                let event = ExecuteEvent::Complete(Box::new(CompleteEvent {
                    exit_code: convert::exit_code(end),
                    end: convert::end(end),
                    usage: convert::usage(&end.usage),
                    result: summary::summary(launch, end, timestamp),
                    timestamp,
                }));
                self.send(&event);
            }
        }
        self.over = true;
    }

    /// Nothing more is there: it was never started, or nobody wants to wait.
    async fn finished(&mut self) {
        if let Some(end) = self.execution.status().end().cloned() {
            return self.ended(&end, Timestamp::now());
        }
        if self.follows {
            let error = match self.execution.wait().await {
                Ok(end) => return self.ended(&end, Timestamp::now()),
                Err(e) => e.into(),
            };
            return self.fail(&error, None);
        }
        let timestamp = Timestamp::now();
        let process_id = self.execution.id().to_string();
        self.send(&ProcessEvent::CaughtUp(CaughtUpEvent { process_id, timestamp }));
        self.over = true;
    }

    fn fail(&mut self, error: &ApiError, exit_code: Option<i32>) {
        if error.code() == ErrorCode::InternalError {
            tracing::error!(why = error.internal_message(), "a stream failed");
        }
        let event = ErrorEvent {
            error: error.message().into(),
            data: error.message().into(),
            code: error.code(),
            exit_code,
            execution_id: Some(self.execution.id().to_string()),
            timestamp: Timestamp::now(),
        };
        match self.story {
            Story::Command(_) => self.send(&ExecuteEvent::Error(event)),
            Story::Process => self.send(&ProcessEvent::Error(event)),
        }
        self.over = true;
    }

    fn send(&mut self, event: &impl Serialize) {
        let id = self.cursor();
        write_event(&mut self.chunk, Some(&id), event);
    }

    /// Where whoever has read this far goes on.
    fn cursor(&self) -> String {
        let held = std::array::from_fn(|at| self.decoders[at].held() + self.owed[at]);
        Cursor { position: self.follower.cursor(), held }.to_string()
    }
}

fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Stderr)
}

fn begin_event(to: &mut Vec<u8>, id: Option<&str>) {
    if let Some(id) = id {
        to.extend_from_slice(b"id: ");
        to.extend_from_slice(id.as_bytes());
        to.push(b'\n');
    }
    to.extend_from_slice(b"data: ");
}

/// Appends one event.
pub(crate) fn write_event(to: &mut Vec<u8>, id: Option<&str>, event: &impl Serialize) {
    begin_event(to, id);
    // Never fails: the wire's types have string keys only, and a Vec takes everything.
    drop(serde_json::to_writer(&mut *to, event));
    to.extend_from_slice(END_OF_EVENT);
}

/// An answer that is a stream of events.
pub(crate) fn events_response(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        // Proxies that gather answers are asked not to.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}
