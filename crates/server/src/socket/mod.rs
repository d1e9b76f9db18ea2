//! The multiplexed WebSocket.
//!
//! Each request frame becomes a request to the router that serves HTTP, so the same rules apply. One task owns the
//! socket. It reads frames, runs requests concurrently, and produces the next piece of a response only when the
//! socket has room for it ([`writer`]). So a client that does not read occupies one bounded buffer.
//!
//! Every request gets exactly one last frame: its response, or an error. A cancelled one gets the error
//! `REQUEST_CANCELLED`, unless its last frame was already being sent. After that its id is free.

mod liveness;
mod message;
mod received;
mod request;
mod writer;

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use futures_util::stream::SplitStream;
use futures_util::{FutureExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use sandcrab_api::ErrorCode;
use tokio::io::AsyncReadExt;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tower::ServiceExt;

pub(crate) use self::liveness::{Liveness, LivenessCheck};
pub(crate) use self::received::{CountingReader, Received};
use self::request::{Parsed, Reply, refusal};
pub(crate) use self::request::{limited, truncated};
use self::writer::Writer;
use crate::app::{App, BodyBytes};
use crate::error::ApiError;
use crate::input::INLINE_PARSE_BYTES;
use crate::outgoing::PIECE_BYTES;

/// Maximum size of a message; send larger bodies over HTTP.
pub(crate) const MAX_MESSAGE_BYTES: usize = 8 << 20;
/// Maximum length of the id of a request.
const MAX_FRAME_ID_BYTES: usize = 256;
/// Maximum size of the bodies of running requests on a socket.
const MAX_REQUEST_BYTES: usize = 2 * MAX_MESSAGE_BYTES;
/// Size of a read from the socket.
pub(crate) const READ_BUFFER_BYTES: usize = 16 << 10;
/// Size of the write buffer, and maximum number of bytes that wait in it.
const WRITE_BUFFER_BYTES: usize = 16 << 10;
const MAX_WRITE_BUFFER_BYTES: usize = WRITE_BUFFER_BYTES + 4 * PIECE_BYTES;
/// Time for a client to read a close frame.
pub(crate) const CLOSE_TIME: Duration = Duration::from_secs(2);

type Stream = WebSocketStream<CountingReader<TokioIo<Upgraded>>>;

/// The routes, for requests over a socket.
#[derive(Debug, Clone)]
pub(crate) struct SocketRoutes(pub(crate) Router);

/// Why a socket ends.
enum Ending {
    /// The client has closed it, or has disconnected.
    Gone,
    /// The server closes it with this reason.
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
    let received = Received::new(&app);
    let stream = CountingReader::new(TokioIo::new(stream), received.clone());
    let stream = Stream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (sink, incoming) = stream.split();
    let mut connection = Connection {
        app,
        router,
        incoming,
        received,
        parsing: None,
        parsed_text: None,
        tasks: JoinSet::new(),
        writer: Writer::new(sink),
        limit,
    };
    if let Ending::Close(code, reason) = connection.run().await {
        connection.close(code, &reason).await;
    }
}

struct Connection {
    app: App,
    router: Router,
    incoming: SplitStream<Stream>,
    received: Received,
    /// A large message that is being parsed. The next one is read afterwards, so that they keep their order.
    parsing: Option<JoinHandle<(Utf8Bytes, Parsed, BodyBytes)>>,
    /// The large message that was parsed last.
    parsed_text: Option<Utf8Bytes>,
    /// The requests whose handlers run, with their serial numbers.
    tasks: JoinSet<(String, u64, Reply)>,
    writer: Writer,
    limit: usize,
}

impl Connection {
    async fn run(&mut self) -> Ending {
        let stopping = self.app.stopping.clone();
        let mut liveness = Liveness::new(&self.app.limits);
        let mut is_stopping = false;
        loop {
            let is_reading = self.parsing.is_none() && self.writer.has_room();
            tokio::select! {
                // Unread frames limit the number that the client may send.
                message = next(&mut self.incoming, &mut self.parsed_text), if is_reading => {
                    liveness.heard();
                    match message {
                        Some(Ok(Message::Text(text))) => self.receive(text),
                        Some(Ok(Message::Binary(_))) => {
                            drop(self.received.finish_message());
                            self.writer.error(refusal(None, ErrorCode::ValidationFailed, "expected a text frame with JSON"));
                        }
                        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                        Some(Ok(Message::Close(_))) | None => {
                            // The reply to a close frame is written by further reading.
                            drop(timeout(CLOSE_TIME, self.incoming.next()).await);
                            return Ending::Gone;
                        }
                        Some(Err(error)) => return self.failed(&error),
                    }
                }
                parsed = joined(&mut self.parsing), if self.parsing.is_some() => {
                    self.parsing = None;
                    match parsed {
                        Ok((text, parsed, held)) => {
                            self.parsed_text = Some(text);
                            self.parsed(parsed, held);
                        }
                        Err(e) => {
                            let error = ApiError::internal(e);
                            tracing::error!(why = error.internal_message(), "failed to parse a message of a WebSocket");
                            self.writer.error(refusal(None, error.code(), error.message()));
                        }
                    }
                }
                // If there is room again for frames of the client, the next round reads them.
                written = self.writer.drive(is_stopping) => if let Err(ending) = written {
                    return ending;
                },
                Some(joined) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => match joined {
                    Ok((_, (id, serial, reply))) => self.writer.reply(&id, serial, reply),
                    Err(e) if e.is_panic() => self.writer.panicked(e.id(), e.into_panic().as_ref()),
                    Err(_) => {}
                },
                () = sleep_until(liveness.deadline()) => {
                    // It is not read now, but it reads waiting data.
                    if !is_reading && self.writer.take_progress() {
                        liveness.heard();
                    }
                    match liveness.check(&self.received, is_reading) {
                        LivenessCheck::Alive => {}
                        LivenessCheck::Ping => self.writer.ping(),
                        LivenessCheck::Dead => return Ending::Gone,
                        LivenessCheck::Stalled(time) => {
                            let why = format!("no data of an unfinished message for {time:?}; send it again");
                            return Ending::Close(CloseCode::Policy, why);
                        }
                    }
                }
                () = stopping.begun(), if !is_stopping => is_stopping = true,
                () = stopping.cut_off() => return Ending::stopping(),
            }
        }
    }

    fn receive(&mut self, text: Utf8Bytes) {
        let held = self.received.finish_message();
        if text.len() <= INLINE_PARSE_BYTES {
            return self.parsed(request::parse(&text), held);
        }
        self.parsing = Some(tokio::task::spawn_blocking(move || {
            let parsed = request::parse(&text);
            (text, parsed, held)
        }));
    }

    fn parsed(&mut self, parsed: Parsed, mut held: BodyBytes) {
        let (id, request, bytes) = match parsed {
            Parsed::Invalid(frame) => return self.writer.error(frame),
            Parsed::Cancel(id) => return self.writer.cancel(id),
            Parsed::Request { id, request, body_bytes } => (id, request, body_bytes),
        };
        // The text of the message is not kept.
        held.shrink_to(bytes);
        let problem = if self.writer.is_under_way(&id) {
            "a request with this id is running; use another id"
        } else if self.writer.requests() >= self.app.limits.requests_per_socket {
            "too many concurrent requests on this socket; wait for some to end"
        } else if bytes > 0 && bytes + self.writer.request_bytes() > MAX_REQUEST_BYTES {
            "the running requests on this socket are too large together; wait for some to end, or send it over HTTP"
        } else {
            return self.start(id, *request, held);
        };
        // With the id: a client that uses an id twice takes it as the response to either.
        self.writer.error(refusal(Some(id), ErrorCode::LimitExceeded, problem));
    }

    fn start(&mut self, id: String, request: Request, held: BodyBytes) {
        let router = self.router.clone();
        let serial = self.writer.next_serial();
        let answer = router.oneshot(request).map(|response| match response {
            Ok(response) => response,
            Err(never) => match never {},
        });
        let own = id.clone();
        let task = self.tasks.spawn(async move { (own, serial, Reply::new(answer.await)) });
        self.writer.began(id, serial, task, held);
    }

    fn failed(&self, error: &Error) -> Ending {
        match error {
            Error::Capacity(CapacityError::MessageTooLong { .. }) => {
                let limit = self.limit;
                let why = format!(
                    "the message is too large, at most {limit} bytes are allowed; send larger bodies over HTTP"
                );
                Ending::Close(CloseCode::Size, why)
            }
            Error::Capacity(e) => Ending::Close(CloseCode::Size, e.to_string()),
            Error::Utf8(_) => Ending::Close(CloseCode::Invalid, "the text is not valid UTF-8".into()),
            Error::Protocol(e) => Ending::Close(CloseCode::Protocol, e.to_string()),
            Error::Io(e) if e.kind() == io::ErrorKind::OutOfMemory => {
                let why = "too many concurrent requests with large bodies; wait for some to end";
                Ending::Close(CloseCode::Again, why.into())
            }
            _ => Ending::Gone,
        }
    }

    /// Closes the socket, and gives the client time to read the reason: unread data would reset the connection.
    async fn close(mut self, code: CloseCode, reason: &str) {
        self.tasks.abort_all();
        let closing = async {
            let mut sink = self.writer.into_sink();
            if !writer::close(&mut sink, code, reason).await {
                return;
            }
            let Ok(stream) = sink.reunite(self.incoming) else { return };
            let mut stream = stream.into_inner().into_inner();
            let mut buffer = vec![0; READ_BUFFER_BYTES];
            while stream.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
        };
        drop(timeout(CLOSE_TIME, closing).await);
    }
}

/// The next message. `before` is dropped once the reading has begun: the buffer of which it is a part is then not
/// used again, which would keep it as long as the socket.
async fn next(
    incoming: &mut SplitStream<Stream>,
    before: &mut Option<Utf8Bytes>,
) -> Option<Result<Message, Error>> {
    poll_fn(|cx| {
        let polled = incoming.poll_next_unpin(cx);
        drop(before.take());
        polled
    })
    .await
}

/// The result of a task, if there is one.
async fn joined<T>(task: &mut Option<JoinHandle<T>>) -> Result<T, tokio::task::JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}
