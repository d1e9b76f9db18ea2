//! Events as server-sent events: the body of an HTTP response.

use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Frame;

use super::{Event, Item, Items};
use crate::outgoing::Outgoing;

const HEARTBEAT_COMMENT: &[u8] = b": still here\n\n";

/// Turns a response into an event stream.
pub(crate) fn respond(response: &mut Response, items: Items, outgoing: Outgoing) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Tells proxies not to buffer the events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    *response.body_mut() = Body::new(SseBody { items, outgoing, is_over: false });
}

/// A body that takes items when the connection has room for them.
struct SseBody {
    items: Items,
    outgoing: Outgoing,
    is_over: bool,
}

impl hyper::body::Body for SseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let mut chunk = Vec::new();
        let most = self.outgoing.piece_bytes();
        while chunk.len() < most {
            match self.items.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => write(&item, &mut chunk),
                Poll::Ready(None) => {
                    self.is_over = true;
                    break;
                }
                Poll::Pending if chunk.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        if chunk.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(self.outgoing.count(chunk)))))
    }
}

/// Appends one item.
fn write(item: &Item, to: &mut Vec<u8>) {
    let Item::Event(event) = item else {
        return to.extend_from_slice(HEARTBEAT_COMMENT);
    };
    let Event { id, payload } = &**event;
    if let Some(id) = id {
        // Never fails: writing to a Vec cannot.
        drop(writeln!(to, "id: {id}"));
    }
    to.extend_from_slice(b"data: ");
    payload.write_json(to);
    to.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use sandcrab_api::Timestamp;
    use sandcrab_api::event::{ExecuteEvent, OutputEvent};

    use super::*;
    use crate::cursor::Cursor;

    #[test]
    fn an_event_is_its_id_and_one_line_of_json() {
        let event = OutputEvent {
            data: "a\n\n\u{2028}\"\r".into(),
            process_id: None,
            invalid_utf8: false,
            timestamp: Timestamp::now(),
        };
        let id = Some(Cursor { position: 7, held: [1, 0] }.into());
        let mut text = Vec::new();
        let event = Box::new(Event { id, payload: ExecuteEvent::Stdout(event).into() });
        write(&Item::Event(event), &mut text);
        write(&Item::Heartbeat, &mut text);
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<_> = text.split('\n').collect();
        assert_eq!((lines[0], &lines[2..]), ("id: 7:1:0", &["", ": still here", "", ""][..]));
        let json: serde_json::Value = serde_json::from_str(lines[1].strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!((&json["type"], &json["data"]), (&"stdout".into(), &"a\n\n\u{2028}\"\r".into()));
    }
}
