//! [`Writer`]: produces the messages of a socket as the client reads.
//!
//! Responses and streams take turns, message by message; streams take turns among each other. The protocol requires
//! that a message is finished before the next one; pings and the close frame come in between.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use futures_util::stream::{self, BoxStream, SelectAll, SplitSink};
use futures_util::{Sink, SinkExt, Stream as _, StreamExt};
use hyper::body::Body as _;
use sandcrab_api::ErrorCode;
use sandcrab_api::frame::{ErrorFrame, ResponseFrame, ServerFrame};
use tokio::task::AbortHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::message::{IncompleteBody, OpenMessage};
use super::request::{BodyKind, Content, Reply, refusal};
use super::{Ending, Stream};
use crate::app::BodyBytes;
use crate::error::ApiError;
use crate::events::frames::stream_frame;
use crate::events::{Item, Items};

/// Number of waiting error frames above which no more frames are read.
const MAX_WAITING_ERRORS: usize = 64;
/// Number of waiting bytes of responses above which no more frames are read.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// Maximum length of the reason of a close frame: a control frame has 125 bytes, two of them for the code.
const MAX_REASON_BYTES: usize = 123;

type SocketSink = SplitSink<Stream, Message>;

/// A request by its id.
struct Request {
    serial: u64,
    stage: Stage,
    /// Its body. The handler may keep all of it, such as a long command.
    body: BodyBytes,
}

enum Stage {
    /// Its handler runs.
    Running(AbortHandle),
    /// Its response waits to be written.
    Waiting,
    /// Its events are being written.
    Streaming { status: u16, items: SharedItems, among: stream::AbortHandle },
}

/// A waiting response.
struct PendingResponse {
    id: Arc<str>,
    status: u16,
    body: Body,
    kind: BodyKind,
    /// Size of the part that is in memory while it waits.
    bytes: usize,
}

/// An item of the stream that answers a request; `None` is its end.
type StreamItem = (Arc<str>, u64, Option<Item>);

/// Produces the messages of a socket.
pub(super) struct Writer {
    sink: SocketSink,
    requests: HashMap<String, Request>,
    serial: u64,
    control: VecDeque<Message>,
    errors: VecDeque<ErrorFrame>,
    answers: VecDeque<PendingResponse>,
    streams: SelectAll<BoxStream<'static, StreamItem>>,
    open: Option<OpenMessage>,
    /// Whether a response is next.
    is_answers_turn: bool,
    is_unflushed: bool,
    /// Whether the client has read something since the last call.
    has_progressed: bool,
}

impl Writer {
    pub(super) fn new(sink: SocketSink) -> Self {
        Self {
            sink,
            requests: HashMap::new(),
            serial: 0,
            control: VecDeque::new(),
            errors: VecDeque::new(),
            answers: VecDeque::new(),
            streams: SelectAll::new(),
            open: None,
            is_answers_turn: true,
            is_unflushed: false,
            has_progressed: false,
        }
    }

    pub(super) fn into_sink(self) -> SocketSink {
        self.sink
    }

    /// Whether another frame may be read, which may have to be refused.
    pub(super) fn has_room(&self) -> bool {
        let waiting = || self.answers.iter().map(|answer| answer.bytes).sum::<usize>();
        self.errors.len() < MAX_WAITING_ERRORS && waiting() < MAX_WAITING_BYTES
    }

    /// Size of the bodies of all requests without a last frame.
    pub(super) fn request_bytes(&self) -> usize {
        self.requests.values().map(|request| request.body.bytes()).sum()
    }

    /// Whether the client has read something since the last call.
    pub(super) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.has_progressed)
    }

    /// Whether every request has its last frame, and the socket has accepted it.
    fn is_idle(&self) -> bool {
        self.requests.is_empty()
            && self.errors.is_empty()
            && self.answers.is_empty()
            && self.open.is_none()
            && !self.is_unflushed
    }

    /// Number of requests without a last frame.
    pub(super) fn requests(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn is_under_way(&self, id: &str) -> bool {
        self.requests.contains_key(id)
    }

    pub(super) fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// A request is running.
    pub(super) fn began(&mut self, id: String, serial: u64, task: AbortHandle, body: BodyBytes) {
        self.requests.insert(id, Request { serial, stage: Stage::Running(task), body });
    }

    /// A request has a response.
    pub(super) fn reply(&mut self, id: &str, serial: u64, reply: Reply) {
        // A cancelled one does not exist any more, though its id may be in use again.
        let Some(request) = self.requests.get_mut(id).filter(|request| request.serial == serial) else {
            return;
        };
        let (id, status) = (Arc::<str>::from(id), reply.status);
        match reply.content {
            Content::Events(items) => {
                let items = SharedItems::new(items);
                let (among, registration) = stream::AbortHandle::new_pair();
                let whole = items.clone().map(Some).chain(stream::once(std::future::ready(None)));
                let named = whole.map(move |item| (Arc::clone(&id), serial, item));
                self.streams.push(stream::Abortable::new(named, registration).boxed());
                request.stage = Stage::Streaming { status, items, among };
            }
            Content::Body(body, kind) => {
                request.stage = Stage::Waiting;
                let bytes = body.size_hint().exact().and_then(|size| size.try_into().ok()).unwrap_or(0);
                self.answers.push_back(PendingResponse { id, status, body, kind, bytes });
            }
        }
    }

    /// The task of a request panicked.
    pub(super) fn panicked(&mut self, task: tokio::task::Id, payload: &(dyn Any + Send)) {
        let is_its = |request: &Request| matches!(&request.stage, Stage::Running(own) if own.id() == task);
        let found = self.requests.iter().find(|(_, request)| is_its(request));
        let Some(id) = found.map(|(id, _)| id.clone()) else { return };
        self.requests.remove(&id);
        let error = ApiError::panic(payload);
        tracing::error!(why = error.internal_message(), "a request over a WebSocket failed");
        self.error(refusal(Some(id), error.code(), error.message()));
    }

    /// Drops a request as if its client had disconnected, unless its last frame is already being sent.
    pub(super) fn cancel(&mut self, id: String) {
        let Some(request) = self.requests.remove(&id) else { return };
        match request.stage {
            Stage::Running(task) => task.abort(),
            Stage::Waiting => self.answers.retain(|answer| *answer.id != *id),
            Stage::Streaming { items, among, .. } => {
                // At once, also if the socket accepts nothing: the command may have to be killed.
                drop(items.items().take());
                among.abort();
            }
        }
        self.error(refusal(Some(id), ErrorCode::RequestCancelled, "the request was cancelled"));
    }

    pub(super) fn error(&mut self, frame: ErrorFrame) {
        self.errors.push_back(frame);
    }

    pub(super) fn ping(&mut self) {
        self.control.push_back(Message::Ping(Vec::new().into()));
    }

    /// Writes until the socket fails, or must be closed: when the server is stopping, as soon as no
    /// request is running. Also returns when there is room for another frame and there was none.
    pub(super) async fn drive(&mut self, is_stopping: bool) -> Result<(), Ending> {
        let had_room = self.has_room();
        poll_fn(|cx| match self.poll_drive(cx, is_stopping) {
            Poll::Ready(ending) => Poll::Ready(Err(ending)),
            Poll::Pending if !had_room && self.has_room() => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    fn poll_drive(&mut self, cx: &mut Context<'_>, is_stopping: bool) -> Poll<Ending> {
        match ready!(self.poll_write_all(cx)) {
            Ok(()) if is_stopping && self.is_idle() => Poll::Ready(Ending::stopping()),
            Ok(()) => Poll::Pending,
            Err(ending) => Poll::Ready(ending),
        }
    }

    /// Writes pending messages. Ready when the socket has taken all of them.
    fn poll_write_all(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ending>> {
        let gone = |_| Ending::Gone;
        loop {
            ready!(Pin::new(&mut self.sink).poll_ready(cx)).map_err(gone)?;
            let Poll::Ready(message) = self.poll_message(cx) else { break };
            let message = message?;
            // The kernel also accepts a ping for a client that has vanished.
            self.has_progressed |= !message.is_ping();
            Pin::new(&mut self.sink).start_send(message).map_err(gone)?;
            self.is_unflushed = true;
        }
        if self.is_unflushed {
            ready!(Pin::new(&mut self.sink).poll_flush(cx)).map_err(gone)?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// The next message or fragment to write.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, Ending>> {
        loop {
            if let Some(message) = self.control.pop_front() {
                return Poll::Ready(Ok(message));
            }
            if let Some(open) = &mut self.open {
                match ready!(open.poll_fragment(cx)) {
                    Ok(Some(fragment)) => return Poll::Ready(Ok(fragment)),
                    Ok(None) => self.open = None,
                    Err(IncompleteBody(why)) => {
                        if let Some(id) = open.unanswered() {
                            let error = ApiError::internal(why);
                            let id = String::from(&**id);
                            self.open = None;
                            self.error(refusal(Some(id), error.code(), error.message()));
                            continue;
                        }
                        let why = "a response broke off; its output may have been removed meanwhile";
                        return Poll::Ready(Err(Ending::Close(CloseCode::Error, why.into())));
                    }
                }
            }
            match self.poll_next(cx) {
                Poll::Ready(message) => self.open = Some(message),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// The next message to begin.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<OpenMessage> {
        if let Some(frame) = self.errors.pop_front() {
            return Poll::Ready(whole(&ServerFrame::Error(frame)));
        }
        self.is_answers_turn = !self.is_answers_turn;
        if self.is_answers_turn
            && let Some(message) = self.next_answer()
        {
            return Poll::Ready(message);
        }
        while let Poll::Ready(Some((id, serial, item))) = Pin::new(&mut self.streams).poll_next(cx) {
            let request = self.requests.get(&*id).filter(|request| request.serial == serial);
            let Some(Request { stage: Stage::Streaming { status, .. }, .. }) = request else { continue };
            let status = *status;
            return Poll::Ready(match item {
                Some(item) => whole(&stream_frame(&id, &item)),
                None => {
                    self.requests.remove(&*id);
                    let (id, encoding, body) = (String::from(&*id), None, None);
                    whole(&ServerFrame::Response(ResponseFrame { id, status, encoding, body, done: true }))
                }
            });
        }
        self.next_answer().map_or(Poll::Pending, Poll::Ready)
    }

    fn next_answer(&mut self) -> Option<OpenMessage> {
        let PendingResponse { id, status, body, kind, .. } = self.answers.pop_front()?;
        self.requests.remove(&*id);
        Some(OpenMessage::response(&id, status, body, kind))
    }
}

fn whole(frame: &ServerFrame) -> OpenMessage {
    // Never fails: the wire's types have string keys only.
    OpenMessage::text(serde_json::to_vec(frame).unwrap_or_default())
}

/// Sends a close frame. Returns whether it could.
pub(super) async fn close(sink: &mut SocketSink, code: CloseCode, reason: &str) -> bool {
    let reason = &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)];
    sink.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await.is_ok()
}

/// A stream of events that can be dropped while it is among others.
#[derive(Clone)]
struct SharedItems(Arc<Mutex<Option<Items>>>);

impl SharedItems {
    fn new(items: Items) -> Self {
        Self(Arc::new(Mutex::new(Some(items))))
    }

    fn items(&self) -> MutexGuard<'_, Option<Items>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl futures_util::Stream for SharedItems {
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        match &mut *self.items() {
            Some(items) => items.as_mut().poll_next(cx),
            None => Poll::Ready(None),
        }
    }
}
