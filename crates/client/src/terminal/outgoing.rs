//! [`Outgoing`]: what a viewer sends, in order and no faster than the program reads.
//!
//! Keys are messages, sent at once. The server answers a ping when it has handled everything before it, so each message is
//! followed by a ping. A paste begins when all keys before it are handled. Its pieces are requests, whose response says how much
//! the terminal has accepted; the rest is sent again. Keys after a paste wait for its end.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Sink;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::connect::Socket;

/// The most input that waits to be sent.
pub const MAX_QUEUED_INPUT_BYTES: usize = 16 << 20;
/// The largest piece of a paste.
const PIECE_BYTES: usize = 16 << 10;
/// Input up to this size is sent without waiting for the input before it.
const KEYS_BYTES: usize = 1 << 10;
/// How long a program that does not read is left alone.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// What became of a piece of a paste.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PasteProgress {
    /// The terminal has accepted it, or needs it no more.
    All,
    /// The terminal has accepted this many bytes.
    Part(usize),
    /// It may have been accepted or not.
    Unknown,
}

#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Sizes and pings.
    control: VecDeque<Message>,
    input: BytesMut,
    /// Bytes of input that were sent, and of those that were handled.
    sent: u64,
    handled: u64,
    /// Whether a piece of a paste is being sent.
    is_pasting: bool,
    /// What the terminal has not accepted of the last piece, and the time to send it again.
    rest: Bytes,
    not_before: Option<Instant>,
    pause: Duration,
}

impl Outgoing {
    /// Queues input; false if there is no room.
    pub(super) fn push(&mut self, input: &[u8]) -> bool {
        let has_room = self.input.len() + input.len() <= MAX_QUEUED_INPUT_BYTES;
        if has_room {
            self.input.extend_from_slice(input);
        }
        has_room
    }

    /// Drops queued input.
    pub(super) fn discard(&mut self) {
        self.input.clear();
        (self.rest, self.is_pasting, self.not_before) = (Bytes::new(), false, None);
    }

    /// Whether input waits.
    pub(super) fn has_input(&self) -> bool {
        self.is_pasting || !self.rest.is_empty() || !self.input.is_empty()
    }

    pub(super) fn resize(&mut self, frame: String) {
        // Only the last size matters, and the queue stays bounded.
        self.control.retain(|message| !message.is_text());
        self.control.push_back(Message::text(frame));
    }

    pub(super) fn ping(&mut self) {
        self.control.push_back(Message::Ping(self.sent.to_be_bytes().to_vec().into()));
    }

    /// The connection is a new one: what was sent to the last one may have arrived, and is not sent again. Returns whether all
    /// of it is known to have arrived.
    pub(super) fn reconnected(&mut self) -> bool {
        self.control.clear();
        std::mem::replace(&mut self.handled, self.sent) == self.sent
    }

    /// The server has handled everything before this ping.
    pub(super) fn pong(&mut self, payload: &[u8]) {
        if let Ok(number) = payload.try_into() {
            self.handled = self.handled.max(u64::from_be_bytes(number)).min(self.sent);
        }
    }

    /// The next piece of a paste, if one may be sent.
    pub(super) fn take_piece(&mut self) -> Option<Bytes> {
        let is_held = self.not_before.is_some_and(|at| at > Instant::now());
        if self.is_pasting || is_held || self.sent > self.handled || self.are_keys() {
            return None;
        }
        (self.is_pasting, self.not_before) = (true, None);
        let rest = std::mem::take(&mut self.rest);
        Some(if rest.is_empty() {
            self.input.split_to(self.input.len().min(PIECE_BYTES)).freeze()
        } else {
            rest
        })
    }

    /// A piece was sent. What the terminal has not accepted is sent again after a pause. Returns whether it is known what it has
    /// accepted; if not, all queued input is dropped.
    pub(super) fn pasted(&mut self, piece: &Bytes, pasted: PasteProgress) -> bool {
        self.is_pasting = false;
        let accepted = match pasted {
            PasteProgress::All => piece.len(),
            PasteProgress::Part(accepted) => accepted.min(piece.len()),
            PasteProgress::Unknown => {
                self.discard();
                return false;
            }
        };
        self.rest = piece.slice(accepted..);
        if self.rest.is_empty() {
            self.pause = Duration::ZERO;
            return true;
        }
        self.pause =
            if accepted > 0 { FIRST_PAUSE } else { (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE) };
        self.not_before = Some(Instant::now() + self.pause);
        true
    }

    /// When to send again, if something waits for that.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        self.not_before
    }

    /// Sends what may be sent. Ready when it is sent.
    pub(super) fn poll_send(&mut self, socket: &mut Socket, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut socket = Pin::new(socket);
        loop {
            if self.control.is_empty() && !self.has_keys() {
                return socket.as_mut().poll_flush(cx);
            }
            ready!(socket.as_mut().poll_ready(cx))?;
            // Only now: keys for which a lost connection has no room wait for the next connection.
            let message = self.control.pop_front().unwrap_or_else(|| self.take_keys());
            socket.as_mut().start_send(message)?;
        }
    }

    /// Whether there are keys that need not wait.
    fn has_keys(&self) -> bool {
        !self.is_pasting && !self.input.is_empty() && self.are_keys()
    }

    /// The keys as a message. A ping follows it.
    fn take_keys(&mut self) -> Message {
        let keys = self.input.split().freeze();
        self.sent += keys.len() as u64;
        self.ping();
        Message::Binary(keys)
    }

    /// Whether the queued input is short enough to be keys.
    fn are_keys(&self) -> bool {
        self.rest.is_empty() && self.sent - self.handled + self.input.len() as u64 <= KEYS_BYTES as u64
    }
}
