//! [`Feed`]: the record of an execution as events, read from the journal as the client reads.

use std::collections::VecDeque;
use std::future::ready;
use std::ops::Range;

use futures_util::stream;
use sandcrab_api::Timestamp;
use sandcrab_api::event::{
    CaughtUpEvent, CompleteEvent, ErrorEvent, ExecuteEvent, ExitEvent, GapEvent, OutputEvent, ProcessEvent,
    ProcessInfoEvent, StartEvent,
};
use sandcrab_api::execute::Encoding;
use sandcrab_engine::{
    End, Entry, Event as EngineEvent, Execution, Follower, ReadAt, ReadError, ReaderRole, Stream,
};
use tokio::time::Instant;

use crate::app::App;
use crate::convert;
use crate::cursor::Cursor;
use crate::error::ApiError;
use crate::events::{Event, EventStream, HEARTBEAT, Item, Payload};
use crate::launch::{DisconnectGuard, Launch};
use crate::origin::Origin;
use crate::outgoing::{Outgoing, UnsentBytes};
use crate::summary::{self, READ_RETRY_INTERVAL, READ_RETRY_TIMEOUT};
use crate::text::{Decoder, REPLACEMENT, encode_base64};

/// The kind of events of a stream.
#[derive(Debug)]
pub(crate) enum StreamKind {
    /// [`ExecuteEvent`]s: the client waits for this command.
    Command(Box<(Launch, DisconnectGuard)>),
    /// [`ProcessEvent`]s.
    Process,
}

impl StreamKind {
    /// The role of the stream for a command that waits for its reader.
    fn role(&self) -> ReaderRole {
        match self {
            Self::Command(_) => ReaderRole::Command,
            Self::Process => ReaderRole::Viewer,
        }
    }

    /// Detaches the command from this stream.
    fn release(&mut self) {
        if let Self::Command(command) = self {
            command.1.release();
        }
    }
}

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Feed {
    app: App,
    outgoing: Outgoing,
    read_ahead: Option<UnsentBytes>,
    execution: Execution,
    follower: Follower,
    kind: StreamKind,
    encoding: Encoding,
    decoders: [Decoder; 2],
    /// The journal's cursor after the produced events. The follower may be ahead of it.
    position: u64,
    /// Whether it waits for more.
    follows: bool,
    origin: Origin,
    /// Produced events that were not taken yet.
    ready: VecDeque<Item>,
    is_opened: bool,
    is_over: bool,
    /// Deadline of read retries, while the machine lacks resources.
    retry_until: Option<Instant>,
}

impl Feed {
    pub(crate) async fn new(
        app: &App,
        execution: &Execution,
        mut kind: StreamKind,
        since: Option<Cursor>,
        encoding: Encoding,
        follows: bool,
        origin: Origin,
    ) -> Result<Self, ApiError> {
        let (cursor, role) = (since.unwrap_or_default(), kind.role());
        let opening = async {
            cursor.check_with_retries(execution).await?;
            let follow = || {
                let mut follower = execution.follow(cursor.position)?;
                if follows {
                    follower.attach(role)?;
                }
                Ok((follower, held_bytes(execution, cursor)?))
            };
            Ok::<_, ApiError>(summary::with_retries(|| ready(follow())).await?)
        };
        let (follower, held) = opening.await.inspect_err(|_| kind.release())?;
        let mut feed = Self {
            app: app.clone(),
            outgoing: app.outgoing.clone(),
            read_ahead: None,
            execution: execution.clone(),
            follower,
            kind,
            encoding,
            decoders: Default::default(),
            position: cursor.position,
            follows,
            origin,
            ready: VecDeque::new(),
            // A client that resumes already has the first event.
            is_opened: since.is_some(),
            is_over: false,
            retry_until: None,
        };
        feed.restore_held(held);
        Ok(feed)
    }

    /// Restores the beginnings of characters that an earlier stream had read and not sent. Bytes that cannot wait for
    /// the rest of their character are sent at once.
    fn restore_held(&mut self, held: [PartialCharacter; 2]) {
        let mut at_once = Vec::new();
        let mut lost = 0;
        for (stream, held) in [Stream::Stdout, Stream::Stderr].into_iter().zip(held) {
            match held {
                PartialCharacter::Nothing => {}
                PartialCharacter::Bytes { bytes, .. } if self.encoding == Encoding::Utf8 => {
                    self.decoders[index(stream)].hold(&bytes);
                }
                PartialCharacter::Bytes { bytes, .. } => at_once.push((stream, encode_base64(&bytes), false)),
                PartialCharacter::Dropped { .. } if self.encoding == Encoding::Utf8 => {
                    at_once.push((stream, REPLACEMENT.to_owned(), true));
                }
                // Exact bytes have no replacement.
                PartialCharacter::Dropped { count } => lost += count,
            }
        }
        if lost > 0 {
            self.gap(GapEvent { from: self.position - lost, to: self.position, timestamp: Timestamp::now() });
        }
        for (stream, data, is_invalid) in at_once {
            self.send_output(stream, data, is_invalid, Timestamp::now());
        }
    }

    /// The events, as the response of a handler.
    pub(crate) fn into_events(self) -> EventStream {
        let origin = self.origin.clone();
        let items = stream::unfold(self, |mut feed| async move {
            let item = feed.next().await?;
            feed.follower.limit_entries(feed.outgoing.piece_bytes());
            if !feed.outgoing.read_ahead(&mut feed.read_ahead) {
                feed.follower.release();
            }
            Some((item, feed))
        });
        EventStream::new(items, origin)
    }

    /// The next item; `None` after the terminal event.
    async fn next(&mut self) -> Option<Item> {
        if !self.is_opened {
            self.is_opened = true;
            self.open();
        }
        let heartbeat = Instant::now() + HEARTBEAT;
        loop {
            if self.is_over {
                // A client that has the last event may reuse the id at once.
                self.follower.finish();
            }
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if self.is_over {
                return None;
            }
            let next = match self.follower.try_next() {
                Ok(None) if self.follows => {
                    // A waiting stream reads nothing ahead.
                    self.read_ahead = None;
                    let stopping = self.app.stopping.clone();
                    tokio::select! {
                        biased;
                        next = self.follower.next() => next,
                        () = tokio::time::sleep_until(heartbeat) => return Some(Item::Heartbeat),
                        () = stopping.cut_off() => {
                            self.fail(&ApiError::shutting_down(), None);
                            continue;
                        }
                    }
                }
                next => next,
            };
            if !matches!(next, Err(ReadError::OutOf(_))) {
                self.retry_until = None;
            }
            match next {
                Ok(Some(entry)) => self.entry(entry),
                Ok(None) => self.finished().await,
                Err(ReadError::OutOf(_)) if self.may_retry() => tokio::time::sleep(READ_RETRY_INTERVAL).await,
                Err(e) => self.fail(&e.into(), None),
            }
        }
    }

    /// Whether reading is retried.
    fn may_retry(&mut self) -> bool {
        let now = Instant::now();
        now < *self.retry_until.get_or_insert(now + READ_RETRY_TIMEOUT)
    }

    fn open(&mut self) {
        if matches!(self.kind, StreamKind::Process) {
            let info = self.execution.info();
            self.send(ProcessEvent::ProcessInfo(ProcessInfoEvent {
                process_id: info.id.to_string(),
                command: info.command.clone(),
                status: convert::status(&info.status),
                timestamp: Timestamp::now(),
            }));
        }
    }

    fn entry(&mut self, entry: Entry) {
        let timestamp = Timestamp::from(entry.time);
        if let EngineEvent::Gap { .. } = entry.event {
            // With the cursor before the gap: a client that has only this must get the gap when it resumes.
            self.flush(timestamp);
        }
        self.position = entry.cursor;
        match entry.event {
            EngineEvent::Started { pid } => {
                if let StreamKind::Command(command) = &self.kind {
                    let launch = &command.0;
                    self.send(ExecuteEvent::Start(StartEvent {
                        command: launch.command.clone(),
                        execution_id: self.execution.id().to_string(),
                        pid: Some(pid),
                        session_id: launch.session.clone(),
                        replaced: convert::replaced(&self.execution.info()),
                        timestamp,
                    }));
                }
            }
            EngineEvent::Output { stream, bytes, .. } => self.output(stream, &bytes, timestamp),
            EngineEvent::Gap { from, to } => self.gap(GapEvent { from, to, timestamp }),
            EngineEvent::Ended(end) => self.ended(&end, timestamp),
            _ => {}
        }
    }

    fn gap(&mut self, gap: GapEvent) {
        match self.kind {
            StreamKind::Command(_) => self.send(ExecuteEvent::Gap(gap)),
            StreamKind::Process => self.send(ProcessEvent::Gap(gap)),
        }
    }

    fn output(&mut self, stream: Stream, bytes: &[u8], timestamp: Timestamp) {
        match self.encoding {
            Encoding::Base64 => self.send_output(stream, encode_base64(bytes), false, timestamp),
            Encoding::Utf8 => {
                let decoder = &mut self.decoders[index(stream)];
                let mut text = String::with_capacity(bytes.len());
                decoder.decode(bytes, |part| text.push_str(part));
                let invalid = decoder.replaced;
                self.send_output(stream, text, invalid, timestamp);
            }
        }
    }

    /// Sends incomplete characters as replacements: their rest does not follow.
    fn flush(&mut self, timestamp: Timestamp) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let mut text = String::new();
            self.decoders[index(stream)].finish(|part| text.push_str(part));
            self.send_output(stream, text, true, timestamp);
        }
    }

    /// Sends output, if there is some.
    fn send_output(&mut self, stream: Stream, data: String, invalid_utf8: bool, timestamp: Timestamp) {
        if data.is_empty() {
            return;
        }
        let process_id = matches!(self.kind, StreamKind::Process).then(|| self.execution.id().to_string());
        let output = OutputEvent { data, process_id, invalid_utf8, timestamp };
        match (&self.kind, stream) {
            (StreamKind::Command(_), Stream::Stdout) => self.send(ExecuteEvent::Stdout(output)),
            (StreamKind::Command(_), Stream::Stderr) => self.send(ExecuteEvent::Stderr(output)),
            (StreamKind::Process, Stream::Stdout) => self.send(ProcessEvent::Stdout(output)),
            (StreamKind::Process, Stream::Stderr) => self.send(ProcessEvent::Stderr(output)),
        }
    }

    fn ended(&mut self, end: &End, timestamp: Timestamp) {
        self.flush(timestamp);
        match &mut self.kind {
            StreamKind::Process => self.send(ProcessEvent::Exit(ExitEvent {
                process_id: self.execution.id().to_string(),
                exit_code: convert::exit_code(end),
                data: String::new(),
                end: convert::end(end),
                usage: convert::usage(&end.usage),
                timestamp,
            })),
            StreamKind::Command(command) => {
                let (launch, guard) = &mut **command;
                guard.release();
                if let Some(error) = summary::session_error(launch, end) {
                    return self.fail(&error, Some(convert::exit_code(end)));
                }
                let event = ExecuteEvent::Complete(Box::new(CompleteEvent {
                    exit_code: convert::exit_code(end),
                    end: convert::end(end),
                    usage: convert::usage(&end.usage),
                    result: summary::summary(launch, end, timestamp),
                    timestamp,
                }));
                self.send(event);
            }
        }
        self.is_over = true;
    }

    /// The journal has no more: the command was never started, or the client does not want to wait.
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
        self.send(ProcessEvent::CaughtUp(CaughtUpEvent { process_id, timestamp }));
        self.is_over = true;
    }

    fn fail(&mut self, error: &ApiError, exit_code: Option<i32>) {
        self.origin.log("a stream", error);
        let execution_id = Some(self.execution.id().to_string());
        let event = ErrorEvent { exit_code, execution_id, ..error.event() };
        // The stream has ended, but not by the client.
        self.kind.release();
        match self.kind {
            StreamKind::Command(_) => self.send(ExecuteEvent::Error(event)),
            StreamKind::Process => self.send(ProcessEvent::Error(event)),
        }
        self.is_over = true;
    }

    fn send(&mut self, event: impl Into<Payload>) {
        let event = Event { id: Some(self.cursor().into()), payload: event.into() };
        self.ready.push_back(Item::Event(Box::new(event)));
    }

    /// The cursor from which a client that has read this far resumes.
    fn cursor(&self) -> Cursor {
        Cursor { position: self.position, held: std::array::from_fn(|at| self.decoders[at].held()) }
    }
}

/// The beginning of a character before a cursor, which an earlier stream had read and not sent.
#[derive(Debug)]
pub(crate) enum PartialCharacter {
    Nothing,
    Bytes {
        bytes: Vec<u8>,
        /// Their place in the output stream.
        range: Range<u64>,
    },
    /// It was dropped meanwhile.
    Dropped {
        /// Number of its bytes.
        count: u64,
    },
}

/// Reads the bytes of incomplete characters before the cursor.
pub(crate) fn held_bytes(execution: &Execution, cursor: Cursor) -> Result<[PartialCharacter; 2], ReadError> {
    if cursor.held == [0; 2] {
        return Ok([PartialCharacter::Nothing, PartialCharacter::Nothing]);
    }
    let mut reader = execution.reader()?;
    let ends = reader.totals_at(cursor.position)?;
    let mut read = |stream, end: Option<u64>| -> Result<PartialCharacter, ReadError> {
        let count = cursor.held[index(stream)];
        if count == 0 {
            return Ok(PartialCharacter::Nothing);
        }
        let Some(range) = end.and_then(|end| Some(end.checked_sub(count.into())?..end)) else {
            return Ok(PartialCharacter::Dropped { count: count.into() });
        };
        let mut bytes = vec![0; count.into()];
        let is_whole = reader.read(stream, range.start, &mut bytes)? == ReadAt::Bytes(bytes.len());
        let dropped = PartialCharacter::Dropped { count: count.into() };
        Ok(if is_whole { PartialCharacter::Bytes { bytes, range } } else { dropped })
    };
    Ok([
        read(Stream::Stdout, ends.map(|(stdout, _)| stdout))?,
        read(Stream::Stderr, ends.map(|(_, stderr)| stderr))?,
    ])
}

/// The stream of a started command whose output cannot be read now. A client that resumes with the id of its event
/// continues where it was.
pub(crate) fn failed(
    execution: &Execution,
    error: &ApiError,
    since: Option<Cursor>,
    origin: Origin,
) -> EventStream {
    origin.log("a stream", error);
    let execution_id = Some(execution.id().to_string());
    let event = ExecuteEvent::Error(ErrorEvent { execution_id, ..error.event() });
    let event = Event { id: Some(since.unwrap_or_default().into()), payload: event.into() };
    EventStream::new(stream::iter([Item::Event(Box::new(event))]), origin)
}

fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Stderr)
}
