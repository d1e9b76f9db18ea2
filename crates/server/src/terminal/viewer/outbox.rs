//! [`Outbox`]: the messages on their way to a viewer.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::stream::SplitSink;
use futures_util::{Sink, SinkExt};
use sandcrab_api::terminal::TerminalFrame;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};

use super::Socket;
use crate::outgoing::{Outgoing, UnsentBytes};

/// Maximum length of the reason of a close frame: a control frame has 125 bytes, two of them for the code.
const MAX_REASON_BYTES: usize = 123;

/// Number of unsent control frames at which no more messages of the client are read: each may cause another frame.
pub(super) const MAX_UNSENT_FRAMES: usize = 16;

/// The messages on their way to a viewer. Output is added only when it is empty, so it holds one piece and few control frames.
pub(super) struct Outbox {
    sink: SplitSink<Socket, Message>,
    outgoing: Outgoing,
    messages: VecDeque<Message>,
    /// Control frames that wait for the end of a fragmented message: between its fragments they would be invalid.
    delayed: Vec<Message>,
    is_unflushed: bool,
    /// Whether a fragmented message is not finished.
    is_in_message: bool,
    has_progressed: bool,
    /// Memory of the unsent data.
    held: Option<UnsentBytes>,
}

impl Outbox {
    pub(super) fn new(sink: SplitSink<Socket, Message>, outgoing: Outgoing) -> Self {
        Self {
            sink,
            outgoing,
            messages: VecDeque::new(),
            delayed: Vec::new(),
            is_unflushed: false,
            is_in_message: false,
            has_progressed: false,
            held: None,
        }
    }

    /// Whether every message was given to the socket.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether the socket has sent every message.
    pub(super) fn is_flushed(&self) -> bool {
        self.messages.is_empty() && !self.is_unflushed
    }

    /// Whether the client has read something since the last call.
    pub(super) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.has_progressed)
    }

    /// Whether there is room for the frames that another message of the client may cause.
    pub(super) fn has_room(&self) -> bool {
        self.messages.len() + self.delayed.len() < MAX_UNSENT_FRAMES
    }

    pub(super) fn frame(&mut self, frame: &TerminalFrame) {
        // Never fails: the wire's types have string keys only.
        let message = Message::text(serde_json::to_string(frame).unwrap_or_default());
        if self.is_in_message {
            self.delayed.push(message);
        } else {
            self.messages.push_back(message);
        }
    }

    pub(super) fn binary(&mut self, bytes: Vec<u8>) {
        if self.held.is_none() {
            self.held = Some(self.outgoing.hold(super::MAX_VIEWER_UNSENT_BYTES));
        }
        self.messages.push_back(Message::Binary(bytes.into()));
    }

    /// A part of a binary message.
    pub(super) fn fragment(&mut self, bytes: Bytes, is_first: bool, is_last: bool) {
        let code = if is_first { Data::Binary } else { Data::Continue };
        self.messages.push_back(Message::Frame(Frame::message(bytes, OpCode::Data(code), is_last)));
        self.set_in_message(!is_last);
    }

    fn set_in_message(&mut self, is_in_message: bool) {
        self.is_in_message = is_in_message;
        if !is_in_message {
            self.messages.extend(self.delayed.drain(..));
        }
    }

    /// Finishes an incomplete message.
    pub(super) fn end_message(&mut self) {
        if self.is_in_message {
            let last = Frame::message(Bytes::new(), OpCode::Data(Data::Continue), true);
            self.messages.push_back(Message::Frame(last));
            self.set_in_message(false);
        }
    }

    pub(super) fn ping(&mut self) {
        // Pings may come between the fragments of a message. One that waits is enough.
        if !self.messages.front().is_some_and(Message::is_ping) {
            self.messages.push_front(Message::Ping(Bytes::new()));
        }
    }

    /// There is no more output for now.
    pub(super) fn release_memory(&mut self) {
        if self.is_flushed() {
            self.held = None;
        }
    }

    /// Gives the next message to the socket, and flushes after the last one. Can be cancelled at any time.
    pub(super) async fn drive(&mut self) -> Result<(), ()> {
        let Self { sink, messages, is_unflushed, has_progressed, .. } = self;
        if !messages.is_empty() {
            poll_fn(|cx| Pin::new(&mut *sink).poll_ready(cx)).await.map_err(drop)?;
        }
        if let Some(message) = messages.pop_front() {
            // The kernel also accepts a ping for a client that has vanished.
            *has_progressed |= !message.is_ping();
            *is_unflushed = true;
            Pin::new(&mut *sink).start_send(message).map_err(drop)?;
        }
        if messages.is_empty() {
            let flushed = poll_fn(|cx| Pin::new(&mut *sink).poll_flush(cx)).await;
            *is_unflushed = false;
            *has_progressed = true;
            return flushed.map_err(drop);
        }
        Ok(())
    }

    /// Sends a close frame. Control frames that wait are sent before it; the rest of an incomplete message is not.
    pub(super) async fn close(mut self, code: CloseCode, reason: &str) -> Option<SplitSink<Socket, Message>> {
        for message in std::mem::take(&mut self.messages) {
            if message.is_text() && !self.is_in_message {
                self.sink.feed(message).await.ok()?;
            }
        }
        let reason = &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)];
        let close = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
        self.sink.send(close).await.ok()?;
        Some(self.sink)
    }
}
