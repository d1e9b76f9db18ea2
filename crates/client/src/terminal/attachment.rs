//! [`Attachment`]: a viewer of a terminal that reconnects and resumes.

use std::fmt;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use sandcrab_api::terminal::{
    TerminalClientFrame, TerminalClientFrameKind, TerminalErrorFrame, TerminalExitFrame, TerminalFrame,
    TerminalInputResponse,
};
use sandcrab_api::{ErrorBody, ErrorCode};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::tungstenite::Message;

use super::connect::Socket;
use super::outgoing::{Outgoing, PasteProgress};
use super::routes::checked_terminal;
use crate::error::body_without_response;
use crate::retry::Retry;
use crate::{Client, ClientError};

/// A ping is sent after this silence of the server.
const PING_AFTER: Duration = Duration::from_secs(10);
/// A connection that is silent for longer is lost.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);
/// How long the end of a connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// The types of frames. Others come from a newer server, and are skipped.
const FRAME_TYPES: [&str; 5] = ["repaint", "ready", "resize", "exit", "error"];

/// How to attach to a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttachOptions {
    /// Columns and rows of the viewer. The terminal gets this size. `None`: the terminal keeps its size.
    pub size: Option<(u16, u16)>,
    /// Resume after this cursor. `None`: begin with a repaint of the screen. A new terminal has the cursor 0.
    pub since: Option<u64>,
    /// Only watch: send no input and no size. Queries of the program are answered by the server or by another viewer.
    pub read_only: bool,
}

/// What a viewer receives.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TerminalEvent {
    /// Bytes to show, as they are.
    Output(Bytes),
    /// Bytes that show the whole screen. They replace everything that was shown before.
    Repaint(Bytes),
    /// Everything that was missed has been received.
    Ready,
    /// The size of the terminal was changed by another client.
    Resized {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// The program has ended. The last event.
    Exit(TerminalExitFrame),
    /// Something failed, such as input that the program does not read. The viewer stays attached.
    Failed(TerminalErrorFrame),
    /// The connection was lost. The viewer reconnects.
    Disconnected,
    /// Input may be lost: a connection ended before the server confirmed it. The rest of a paste is dropped, because it would
    /// continue after a gap.
    InputLost,
}

/// A viewer of a terminal. After a lost connection it reconnects and continues with the output that it missed, or with a
/// repaint of the screen. It fails when the server is unreachable for [`crate::RESUME_WINDOW`].
///
/// Input that was sent to a lost connection is not repeated, because it may have arrived. [`TerminalEvent::InputLost`] says so.
/// Input that was not sent yet waits for the next connection.
///
/// ```no_run
/// # use sandcrab_client::{AttachOptions, Client, ClientError, TerminalEvent};
/// # use sandcrab_client::api::terminal::TerminalRequest;
/// # async fn example(client: Client) -> Result<(), ClientError> {
/// let terminal = client.create_terminal(&TerminalRequest::default()).await?;
/// let mut viewer = client.attach(&terminal.id, &AttachOptions::default()).await?;
/// viewer.send("echo hello; exit\r");
/// while let Some(event) = viewer.next().await? {
///     match event {
///         TerminalEvent::Output(bytes) | TerminalEvent::Repaint(bytes) => println!("{bytes:?}"),
///         TerminalEvent::Exit(exit) => println!("exit code {}", exit.exit_code),
///         _ => (),
///     }
/// }
/// # Ok(()) }
/// ```
pub struct Attachment {
    client: Client,
    id: String,
    size: Option<(u16, u16)>,
    read_only: bool,
    /// The cursor of the next output; `None` until the first frame with one.
    cursor: Option<u64>,
    /// The terminal to which the cursor belongs: the id may be used again.
    incarnation: Option<String>,
    link: Link,
    /// The cursor after the repaint that the next binary message is. Until it has arrived, the viewer resumes before it.
    repaint: Option<u64>,
    outgoing: Outgoing,
    pasting: Option<PastePiece>,
    heard: Instant,
    is_pinged: bool,
    retry: Retry,
    has_ended: bool,
}

type Connecting = Pin<Box<dyn Future<Output = Result<Socket, ClientError>> + Send>>;

/// A piece of a paste that is being sent.
struct PastePiece {
    piece: Bytes,
    request: Pin<Box<dyn Future<Output = Result<TerminalInputResponse, ClientError>> + Send>>,
}

enum Link {
    Connected(Box<Socket>),
    Connecting(Connecting),
    /// Until the next attempt.
    Waiting,
}

impl Client {
    /// Attaches to a terminal. A server that cannot be reached, or refuses the request, is an error at once.
    pub async fn attach(&self, id: &str, options: &AttachOptions) -> Result<Attachment, ClientError> {
        let mut attachment = Attachment {
            client: self.clone(),
            id: checked_terminal(id)?.to_owned(),
            size: options.size,
            read_only: options.read_only,
            cursor: options.since,
            incarnation: None,
            link: Link::Waiting,
            repaint: None,
            outgoing: Outgoing::default(),
            pasting: None,
            heard: Instant::now(),
            is_pinged: false,
            retry: self.retry(),
            has_ended: false,
        };
        let socket = attachment.connect().await?;
        attachment.link = Link::Connected(Box::new(socket));
        Ok(attachment)
    }
}

impl Attachment {
    /// The id of the terminal.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The cursor after the last output; `None` before it is known.
    pub fn cursor(&self) -> Option<u64> {
        self.cursor
    }

    /// Queues input, which [`Attachment::next`] sends as fast as the program reads it. Returns whether it was accepted: not if
    /// more than [`crate::MAX_QUEUED_INPUT_BYTES`] wait.
    pub fn send(&mut self, input: impl AsRef<[u8]>) -> bool {
        self.outgoing.push(input.as_ref())
    }

    /// Sends input such as Ctrl-C at once: input that still waits is dropped, as a terminal does.
    pub fn interrupt(&mut self, input: impl AsRef<[u8]>) {
        self.outgoing.discard();
        self.pasting = None;
        self.outgoing.push(input.as_ref());
    }

    /// Whether input waits because the program does not read.
    pub fn has_queued_input(&self) -> bool {
        self.outgoing.has_input()
    }

    /// Changes the size of the viewer, and of the terminal.
    pub fn resize(&mut self, cols: u16, rows: u16) {
        self.size = Some((cols, rows));
        if !self.read_only {
            let frame = TerminalClientFrame { kind: TerminalClientFrameKind::Resize, cols, rows };
            self.outgoing.resize(serde_json::to_string(&frame).unwrap_or_default());
        }
    }

    /// Connects again, and begins with a repaint of the whole screen.
    pub fn repaint(&mut self) {
        self.cursor = None;
        self.link = Link::Waiting;
        self.retry.works();
    }

    /// The next event; `None` after [`TerminalEvent::Exit`]. Sends queued input meanwhile. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<TerminalEvent>, ClientError> {
        if self.has_ended {
            return Ok(None);
        }
        loop {
            match &mut self.link {
                Link::Waiting => {
                    self.retry.pause().await;
                    self.link = Link::Connecting(self.connect());
                }
                Link::Connecting(connecting) => match connecting.await {
                    Ok(socket) => {
                        self.link = Link::Connected(Box::new(socket));
                        (self.heard, self.is_pinged, self.repaint) = (Instant::now(), false, None);
                        // The request had the size.
                        if !self.outgoing.reconnected() {
                            return Ok(Some(TerminalEvent::InputLost));
                        }
                    }
                    Err(error) => {
                        self.link = Link::Waiting;
                        self.retry.failed(error)?;
                    }
                },
                Link::Connected(_) => match self.exchange().await {
                    Ok(Some(event)) => return Ok(Some(event)),
                    Ok(None) => (),
                    Err(error) => {
                        self.link = Link::Waiting;
                        self.retry.failed(error)?;
                        return Ok(Some(TerminalEvent::Disconnected));
                    }
                },
            }
        }
    }

    /// Ends the connection. The terminal continues.
    pub async fn detach(mut self) {
        let Link::Connected(socket) = &mut self.link else { return };
        let sent = async {
            // Keys that were typed before are still sent. A failure to say goodbye changes nothing.
            drop(std::future::poll_fn(|cx| self.outgoing.poll_send(socket, cx)).await);
            drop(socket.close(None).await);
        };
        drop(tokio::time::timeout(CLOSE_TIMEOUT, sent).await);
    }

    fn connect(&self) -> Connecting {
        let size = self.size.filter(|_| !self.read_only);
        let query = [
            ("terminalId", Some(self.id.clone())),
            ("cols", size.map(|(cols, _)| cols.to_string())),
            ("rows", size.map(|(_, rows)| rows.to_string())),
            ("since", self.cursor.map(|cursor| cursor.to_string())),
            ("incarnation", self.incarnation.clone().filter(|_| self.cursor.is_some())),
            ("readOnly", self.read_only.then(|| "true".to_owned())),
        ];
        let client = self.client.clone();
        Box::pin(async move { client.open_terminal(&query).await })
    }

    /// Sends what is queued and receives a message. `None`: one that is not an event. The error is temporary if the
    /// connection was lost.
    async fn exchange(&mut self) -> Result<Option<TerminalEvent>, ClientError> {
        if let Some(piece) = self.outgoing.take_piece() {
            let (client, id, bytes) = (self.client.clone(), self.id.clone(), piece.clone());
            let request = Box::pin(async move { client.write_terminal(&id, bytes).await });
            self.pasting = Some(PastePiece { piece, request });
        }
        let Link::Connected(socket) = &mut self.link else { return Ok(None) };
        let silent_at = self.heard + if self.is_pinged { LONGEST_SILENCE } else { PING_AFTER };
        let wakes_at = self.outgoing.wakes_at().map_or(silent_at, |at| at.min(silent_at));
        let received = tokio::select! {
            received = std::future::poll_fn(|cx| {
                // A lost connection is noticed before keys are sent to it: they wait for the next one.
                let received = Pin::new(&mut **socket).poll_next(cx);
                if matches!(received, Poll::Ready(None | Some(Err(_) | Ok(Message::Close(_))))) {
                    return received;
                }
                match (self.outgoing.poll_send(socket, cx), received) {
                    (Poll::Ready(Err(error)), Poll::Pending) => Poll::Ready(Some(Err(error))),
                    (_, received) => received,
                }
            }) => received,
            sent = pasted(&mut self.pasting) => {
                let Some(PastePiece { piece, .. }) = self.pasting.take() else { return Ok(None) };
                let is_known = self.outgoing.pasted(&piece, pasted_of(&sent));
                return Ok((!is_known).then_some(TerminalEvent::InputLost));
            }
            () = sleep_until(wakes_at) => {
                if Instant::now() < silent_at {
                    return Ok(None);
                }
                if self.is_pinged {
                    return Err(self.client.connection_lost("the server does not respond"));
                }
                self.is_pinged = true;
                self.outgoing.ping();
                return Ok(None);
            }
        };
        (self.heard, self.is_pinged) = (Instant::now(), false);
        match received {
            None | Some(Ok(Message::Close(_))) => Err(self.client.connection_lost("the server closed it")),
            Some(Err(error)) => Err(self.client.connection_lost(&error.to_string())),
            Some(Ok(Message::Binary(bytes))) => {
                if let Some(cursor) = self.repaint.take() {
                    self.cursor = Some(cursor);
                    return Ok(Some(TerminalEvent::Repaint(bytes)));
                }
                let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                self.cursor = self.cursor.map(|cursor| cursor.saturating_add(length));
                Ok(Some(TerminalEvent::Output(bytes)))
            }
            Some(Ok(Message::Text(text))) => self.control(text.as_str()),
            Some(Ok(Message::Pong(payload))) => {
                self.outgoing.pong(&payload);
                Ok(None)
            }
            Some(Ok(_)) => Ok(None),
        }
    }

    fn control(&mut self, text: &str) -> Result<Option<TerminalEvent>, ClientError> {
        let frame = match serde_json::from_str(text) {
            Ok(frame) => frame,
            Err(_) if is_of_another_type(text) => return Ok(None),
            Err(e) => return Err(self.client.invalid_response(format!("a frame is invalid: {e}"))),
        };
        Ok(Some(match frame {
            TerminalFrame::Repaint(frame) => {
                self.repaint = Some(frame.cursor);
                return Ok(None);
            }
            TerminalFrame::Ready(frame) => {
                self.retry.works();
                self.cursor = Some(frame.cursor);
                self.incarnation = Some(frame.incarnation).filter(|known| !known.is_empty());
                TerminalEvent::Ready
            }
            TerminalFrame::Resize(frame) => TerminalEvent::Resized { cols: frame.cols, rows: frame.rows },
            TerminalFrame::Exit(frame) => {
                self.has_ended = true;
                TerminalEvent::Exit(frame)
            }
            TerminalFrame::Error(frame) if is_fatal(frame.code) => {
                return Err(ClientError::Api(Box::new(body_of(frame))));
            }
            TerminalFrame::Error(frame) => TerminalEvent::Failed(frame),
        }))
    }
}

/// Whether an error is about the terminal, and not about one message to it: the viewer then stays attached. If the terminal
/// has ended, an exit frame follows.
fn is_fatal(code: ErrorCode) -> bool {
    !matches!(
        code,
        ErrorCode::TerminalInputFull
            | ErrorCode::ValidationFailed
            | ErrorCode::ProcessEnded
            | ErrorCode::ExecutionLost
            | ErrorCode::LimitExceeded
            | ErrorCode::NotSupported
            | ErrorCode::InternalError
            | ErrorCode::NoSpace
    )
}

/// The error as other requests have it.
fn body_of(frame: TerminalErrorFrame) -> ErrorBody {
    body_without_response(frame.code, frame.message)
}

/// What became of a piece of a paste.
fn pasted_of(sent: &Result<TerminalInputResponse, ClientError>) -> PasteProgress {
    match sent {
        Ok(_) => PasteProgress::All,
        Err(ClientError::Api(body)) if body.code == ErrorCode::TerminalInputFull => {
            let written = body.context.get("written").and_then(serde_json::Value::as_u64);
            written
                .and_then(|written| usize::try_from(written).ok())
                .map_or(PasteProgress::Unknown, PasteProgress::Part)
        }
        Err(ClientError::Api(body)) if body.code == ErrorCode::ProcessEnded => PasteProgress::All,
        // The request was refused, or did not reach the server.
        Err(ClientError::Unreachable { .. }) => PasteProgress::Part(0),
        Err(error @ ClientError::Api(_)) if error.is_temporary() => PasteProgress::Part(0),
        Err(_) => PasteProgress::Unknown,
    }
}

/// The result of a paste, if there is one.
async fn pasted(pasting: &mut Option<PastePiece>) -> Result<TerminalInputResponse, ClientError> {
    match pasting {
        Some(pasting) => (&mut pasting.request).await,
        None => std::future::pending().await,
    }
}

fn is_of_another_type(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Tag<'a> {
        r#type: &'a str,
    }
    serde_json::from_str(text).is_ok_and(|Tag { r#type }| !FRAME_TYPES.contains(&r#type))
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the queue: it holds what was typed.
        f.debug_struct("Attachment")
            .field("id", &self.id)
            .field("cursor", &self.cursor)
            .field("has_ended", &self.has_ended)
            .finish_non_exhaustive()
    }
}
