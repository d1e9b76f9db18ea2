//! The multiplexed WebSocket.
//!
//! Each request frame becomes a request to the same router that serves HTTP, so there is one set of rules. One task owns
//! the socket. It reads frames, runs requests side by side, and makes the next piece of an answer only when the socket
//! has room for it ([`writer`]), so a client that does not read costs one bounded buffer.
//!
//! Every request gets exactly one last frame: its response, or an error. A cancelled one gets the error
//! `REQUEST_CANCELLED`, unless its last frame was already on its way. After that its id is free.

mod message;
mod request;
mod writer;

use std::time::Duration;

use axum::Router;
use futures_util::stream::SplitStream;
use futures_util::{FutureExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use sandcrab_api::ErrorCode;
use sandcrab_api::frame::{ClientFrame, ClientFrameKind};
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tower::ServiceExt;

use self::request::{Reply, refusal};
use self::writer::Writer;
use crate::app::App;
use crate::outgoing::PIECE_BYTES;

/// The largest message that is taken; larger bodies are for HTTP.
pub(crate) const MAX_MESSAGE_BYTES: usize = 8 << 20;
/// The longest id of a request.
const MAX_FRAME_ID_BYTES: usize = 256;
/// The most bytes of the bodies of requests under way on a socket.
const MAX_REQUEST_BYTES: usize = 2 * MAX_MESSAGE_BYTES;
/// What is read from the socket at a time.
const READ_BUFFER_BYTES: usize = 16 << 10;
/// What is gathered before it is written to the socket, and the most that waits there.
const WRITE_BUFFER_BYTES: usize = 16 << 10;
const MAX_WRITE_BUFFER_BYTES: usize = WRITE_BUFFER_BYTES + 4 * PIECE_BYTES;
/// How long a client may be silent before it is asked whether it is there, and before it is taken for dead.
const PING_AFTER: Duration = Duration::from_secs(20);
const DEAD_AFTER: Duration = Duration::from_secs(60);
/// How long a client has to take a close frame.
const CLOSE_TIME: Duration = Duration::from_secs(2);

type Stream = WebSocketStream<TokioIo<Upgraded>>;

/// The routes, for requests that come over a socket.
#[derive(Debug, Clone)]
pub(crate) struct Inside(pub(crate) Router);

/// Why a socket ends.
enum Ending {
    /// The client has closed it, or is gone.
    Gone,
    /// We close it, and say why.
    Close(CloseCode, String),
}

impl Ending {
    fn stopping() -> Self {
        Self::Close(CloseCode::Away, "the server is stopping".into())
    }
}

/// Serves one socket to its end.
pub(crate) async fn serve(app: App, router: Router, stream: Upgraded) {
    let limit = app.limits.body_bytes.min(MAX_MESSAGE_BYTES);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_write_buffer_size(MAX_WRITE_BUFFER_BYTES)
        .max_message_size(Some(limit))
        .max_frame_size(Some(limit));
    let stream = Stream::from_raw_socket(TokioIo::new(stream), Role::Server, Some(config)).await;
    let (sink, incoming) = stream.split();
    let tasks = JoinSet::new();
    let writer = Writer::new(sink);
    let mut connection = Connection { app, router, incoming, tasks, writer, limit };
    if let Ending::Close(code, reason) = connection.run().await {
        connection.close(code, &reason).await;
    }
}

struct Connection {
    app: App,
    router: Router,
    incoming: SplitStream<Stream>,
    /// The requests whose handlers run, with their serial numbers.
    tasks: JoinSet<(String, u64, Reply)>,
    writer: Writer,
    limit: usize,
}

impl Connection {
    async fn run(&mut self) -> Ending {
        let stopping = self.app.stopping.clone();
        let mut heard = Instant::now();
        let mut is_pinged = false;
        let mut is_stopping = false;
        loop {
            let deadline = heard + if is_pinged { DEAD_AFTER } else { PING_AFTER };
            tokio::select! {
                // Frames that the client does not take bound how many it may send.
                message = self.incoming.next(), if self.writer.has_room() => {
                    (heard, is_pinged) = (Instant::now(), false);
                    match message {
                        Some(Ok(Message::Text(text))) => self.receive(&text),
                        Some(Ok(Message::Binary(_))) => {
                            self.writer.error(refusal(None, ErrorCode::ValidationFailed, "frames are text; send JSON"));
                        }
                        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                        Some(Ok(Message::Close(_))) | None => {
                            // The reply to a close frame is written by reading on.
                            drop(timeout(CLOSE_TIME, self.incoming.next()).await);
                            return Ending::Gone;
                        }
                        Some(Err(error)) => return self.failed(&error),
                    }
                }
                ending = self.writer.drive(is_stopping) => return ending,
                Some(joined) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => match joined {
                    Ok((_, (id, serial, reply))) => self.writer.reply(&id, serial, reply),
                    Err(e) if e.is_panic() => self.writer.panicked(e.id(), e.into_panic().as_ref()),
                    Err(_) => {}
                },
                () = sleep_until(deadline) => {
                    // Nothing is read from it now, but it takes what waits.
                    if !self.writer.has_room() && self.writer.take_progress() {
                        (heard, is_pinged) = (Instant::now(), false);
                        continue;
                    }
                    if is_pinged {
                        return Ending::Gone;
                    }
                    is_pinged = true;
                    self.writer.ping();
                }
                () = stopping.begun(), if !is_stopping => is_stopping = true,
                () = stopping.cut_off() => return Ending::stopping(),
            }
        }
    }

    fn receive(&mut self, text: &str) {
        let frame: ClientFrame = match serde_json::from_str(text) {
            Ok(frame) => frame,
            Err(e) => {
                let why = format!("not a valid frame: {e}");
                return self.writer.error(refusal(None, ErrorCode::ValidationFailed, &why));
            }
        };
        if frame.id.len() > MAX_FRAME_ID_BYTES {
            let why = format!("an id may have {MAX_FRAME_ID_BYTES} bytes at most");
            return self.writer.error(refusal(None, ErrorCode::ValidationFailed, &why));
        }
        if frame.kind == ClientFrameKind::Cancel {
            return self.writer.cancel(frame.id);
        }
        let problem = if self.writer.is_under_way(&frame.id) {
            "a request with this id is under way; use another id"
        } else if self.writer.requests() >= self.app.limits.requests_per_socket {
            "too many requests are under way on this socket; wait for some to end"
        } else if body_bytes(&frame) > 0
            && body_bytes(&frame) + self.writer.request_bytes() > MAX_REQUEST_BYTES
        {
            "the requests under way on this socket are too large together; wait for some to end, or send it over HTTP"
        } else {
            return self.start(frame);
        };
        // With the id: a client that uses one twice takes it for the answer to either.
        self.writer.error(refusal(Some(frame.id), ErrorCode::LimitExceeded, problem));
    }

    fn start(&mut self, frame: ClientFrame) {
        let (id, bytes) = (frame.id.clone(), body_bytes(&frame));
        let request = match request::request(frame) {
            Ok(request) => request,
            Err(why) => return self.writer.error(refusal(Some(id), ErrorCode::ValidationFailed, &why)),
        };
        let router = self.router.clone();
        let serial = self.writer.next_serial();
        let answer = router.oneshot(request).map(|response| match response {
            Ok(response) => response,
            Err(never) => match never {},
        });
        let own = id.clone();
        let task = self.tasks.spawn(async move { (own, serial, Reply::new(answer.await)) });
        self.writer.began(id, serial, task, bytes);
    }

    fn failed(&self, error: &Error) -> Ending {
        match error {
            Error::Capacity(CapacityError::MessageTooLong { .. }) => {
                let limit = self.limit;
                let why = format!("a message may have {limit} bytes at most; send larger bodies over HTTP");
                Ending::Close(CloseCode::Size, why)
            }
            Error::Capacity(e) => Ending::Close(CloseCode::Size, e.to_string()),
            Error::Utf8(_) => Ending::Close(CloseCode::Invalid, "the text is not valid UTF-8".into()),
            Error::Protocol(e) => Ending::Close(CloseCode::Protocol, e.to_string()),
            _ => Ending::Gone,
        }
    }

    /// Closes the socket, and leaves the client some time to read why: data that nobody reads would reset the connection.
    async fn close(mut self, code: CloseCode, reason: &str) {
        self.tasks.abort_all();
        let closing = async {
            let mut sink = self.writer.into_sink();
            if !writer::close(&mut sink, code, reason).await {
                return;
            }
            let Ok(stream) = sink.reunite(self.incoming) else { return };
            let mut stream = stream.into_inner();
            let mut buffer = vec![0; READ_BUFFER_BYTES];
            while stream.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
        };
        drop(timeout(CLOSE_TIME, closing).await);
    }
}

/// The size of a request's body, as it came.
fn body_bytes(frame: &ClientFrame) -> usize {
    frame.body.as_ref().map_or(0, |body| body.get().len())
}
