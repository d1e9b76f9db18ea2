//! [`OpenMessage`]: a message that is written in fragments, as the client reads.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Body as _;
use sandcrab_api::execute::Encoding;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::request::BodyKind;
use crate::outgoing::PIECE_BYTES;
use crate::text::StringWriter;

/// Maximum length of one byte in a JSON string.
const MAX_ESCAPE_BYTES: usize = 6;

/// The unwritten rest of a message.
enum UnwrittenPart {
    /// Complete text.
    Text(Bytes),
    /// The body of a response, and the encoder if it is not JSON.
    Body {
        body: Body,
        /// The available part that is not written yet.
        piece: Bytes,
        string: Option<StringWriter>,
        is_begun: bool,
    },
    Nothing,
}

/// A message that is being written in fragments.
pub(super) struct OpenMessage {
    rest: UnwrittenPart,
    /// Written before the rest: the beginning of the frame's JSON.
    head: Vec<u8>,
    /// The request whose last frame it is, if it is a response with a body.
    id: Option<Arc<str>>,
    is_first: bool,
}

/// The body of a response broke off after a part of it had been written.
#[derive(Debug)]
pub(super) struct IncompleteBody(pub(super) String);

impl OpenMessage {
    /// A complete message.
    pub(super) fn text(text: Vec<u8>) -> Self {
        Self { rest: UnwrittenPart::Text(text.into()), head: Vec::new(), id: None, is_first: true }
    }

    /// A response frame with this body.
    pub(super) fn response(id: &Arc<str>, status: u16, body: Body, kind: BodyKind) -> Self {
        let string = match kind {
            BodyKind::Json => None,
            BodyKind::Text => Some(StringWriter::new(Encoding::Utf8)),
            BodyKind::Bytes => Some(StringWriter::new(Encoding::Base64)),
        };
        // Never fails: a string and a number are valid JSON.
        let quoted = serde_json::to_string(&**id).unwrap_or_default();
        let encoding = if kind == BodyKind::Bytes { r#","encoding":"base64""# } else { "" };
        let head = format!(r#"{{"type":"response","id":{quoted},"status":{status}{encoding}"#);
        let rest = UnwrittenPart::Body { body, piece: Bytes::new(), string, is_begun: false };
        Self { rest, head: head.into_bytes(), id: Some(Arc::clone(id)), is_first: true }
    }

    /// The next fragment; `None` after the last.
    pub(super) fn poll_fragment(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Message>, IncompleteBody>> {
        let (fragment, is_last) = match &mut self.rest {
            UnwrittenPart::Nothing => return Poll::Ready(Ok(None)),
            UnwrittenPart::Text(text) => {
                let fragment = text.split_to(text.len().min(PIECE_BYTES));
                (fragment, text.is_empty())
            }
            UnwrittenPart::Body { body, piece, string, is_begun } => {
                while piece.is_empty() {
                    match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                        Some(Ok(frame)) => *piece = frame.into_data().unwrap_or_default(),
                        Some(Err(e)) => return Poll::Ready(Err(IncompleteBody(e.to_string()))),
                        None => break,
                    }
                }
                // A complete body is one large piece. A fragment must fit into the write buffer.
                let most = if string.is_some() { PIECE_BYTES / MAX_ESCAPE_BYTES } else { PIECE_BYTES };
                let piece = piece.split_to(piece.len().min(most));
                let piece = (!piece.is_empty()).then_some(piece);
                let is_last = piece.is_none();
                let mut to = std::mem::take(&mut self.head);
                if let Some(piece) = piece {
                    if !std::mem::replace(is_begun, true) {
                        to.extend_from_slice(if string.is_some() { br#","body":""# } else { br#","body":"# });
                    }
                    match string {
                        Some(string) => string.write(&piece, &mut to),
                        // The common case: a piece that is neither first nor last is not copied.
                        None if to.is_empty() => return Poll::Ready(Ok(Some(self.fragment(piece, false)))),
                        None => to.extend_from_slice(&piece),
                    }
                } else {
                    if let Some(string) = string.take()
                        && *is_begun
                    {
                        string.finish(&mut to);
                        to.push(b'"');
                    }
                    to.extend_from_slice(br#","done":true}"#);
                }
                (Bytes::from(to), is_last)
            }
        };
        if is_last {
            self.rest = UnwrittenPart::Nothing;
        }
        Poll::Ready(Ok(Some(self.fragment(fragment, is_last))))
    }

    fn fragment(&mut self, fragment: Bytes, is_last: bool) -> Message {
        let code = if std::mem::replace(&mut self.is_first, false) { Data::Text } else { Data::Continue };
        Message::Frame(Frame::message(fragment, OpCode::Data(code), is_last))
    }

    /// The request that this would have answered, if nothing of it was written yet.
    pub(super) fn unanswered(&self) -> Option<&Arc<str>> {
        self.id.as_ref().filter(|_| self.is_first)
    }
}
