//! A viewer: one WebSocket on one terminal.
//!
//! One task owns the socket. It prepares a repaint, sends it, and then sends the bytes of the journal as they are written. It reads
//! the journal only when the socket has accepted the last piece. So a client that does not read costs [`MAX_VIEWER_UNSENT_BYTES`]; a client
//! that has fallen far behind is repainted when it reads again.

mod actions;
mod outbox;
mod output;
mod reports;
mod sizes;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::SplitStream;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use sandcrab_api::ErrorCode;
use sandcrab_api::terminal::{TerminalErrorFrame, TerminalFrame, TerminalReadyFrame, TerminalRepaintFrame};
use sandcrab_engine::{ReadError, TerminalSize};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use self::actions::Done;
use self::outbox::Outbox;
use self::output::{Output, Piece, exit_frame};
use self::sizes::KnownSizes;
use super::hub::{Hub, ViewerGuard};
use super::repaint::{self, Repaint, Start};
use crate::app::App;
use crate::outgoing::PIECE_BYTES;
use crate::socket::{
    CLOSE_TIME, CountingReader, Liveness, LivenessCheck, READ_BUFFER_BYTES, Received, truncated,
};

/// Maximum size of a message of a client.
pub(crate) const MAX_INPUT_MESSAGE_BYTES: usize = 1 << 20;
/// Size of the write buffer of a socket.
const WRITE_BUFFER_BYTES: usize = 16 << 10;
/// Maximum number of unsent bytes of a viewer, apart from its repaint.
pub(crate) const MAX_VIEWER_UNSENT_BYTES: usize = WRITE_BUFFER_BYTES + 2 * PIECE_BYTES;
/// Time after which the rest of a repaint is dropped if the client does not read: others wait for its memory.
const REPAINT_STALL: Duration = Duration::from_secs(5);

/// What a viewer is told whose terminal has output that is not recorded.
const UNRECORDED: &str = "the disk of the server's state is full; output is not shown until there is space";

/// A WebSocket whose incoming bytes are counted.
type Socket = WebSocketStream<CountingReader<TokioIo<Upgraded>>>;

/// Which client it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `/ws/terminal`.
    Native,
    /// `/ws/pty`: unknown control frames are ignored, as in the reference.
    Reference,
}

/// How a viewer attaches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attachment {
    /// The cursor up to which the client has the output.
    pub(crate) since: Option<u64>,
    /// The size of the client.
    pub(crate) size: Option<TerminalSize>,
    /// Whether the client only watches: it sends neither input nor sizes, and does not answer queries.
    pub(crate) is_watcher: bool,
    pub(crate) dialect: Dialect,
}

/// Why a viewer ends.
#[derive(Debug)]
enum Ending {
    /// The client has closed the socket, or has disconnected.
    Gone,
    /// The server closes it with this reason.
    Close(CloseCode, String),
}

impl Ending {
    fn stopping() -> Self {
        Self::Close(CloseCode::Away, "the server is stopping".into())
    }
}

/// What is being sent.
enum Phase {
    /// A repaint, or the missed output, is being prepared.
    Preparing(BoxFuture<'static, Result<Start, ReadError>>),
    /// A repaint is being sent.
    Painting { repaint: Repaint, is_begun: bool, stalled_at: Instant },
    /// Output is sent as it is written.
    Live(Box<Output>),
    /// The exit frame is the last one.
    Ended,
}

/// A viewer.
struct Viewer {
    app: App,
    hub: Arc<Hub>,
    guard: ViewerGuard,
    dialect: Dialect,
    is_watcher: bool,
    incoming: SplitStream<Socket>,
    received: Received,
    outbox: Outbox,
    phase: Phase,
    is_ready: bool,
    /// What the client has asked for, until it is done. No further message is read meanwhile.
    action: Option<BoxFuture<'static, Done>>,
    /// The size of the client, if it has one.
    own_size: Option<TerminalSize>,
    sizes: KnownSizes,
}

/// Serves a viewer to its end.
pub(crate) async fn serve(app: App, hub: Arc<Hub>, attachment: Attachment, stream: Upgraded) {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_write_buffer_size(WRITE_BUFFER_BYTES + 4 * PIECE_BYTES)
        .max_message_size(Some(MAX_INPUT_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_INPUT_MESSAGE_BYTES));
    let received = Received::new(&app);
    let stream = CountingReader::new(TokioIo::new(stream), received.clone());
    let socket = Socket::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (sink, incoming) = socket.split();
    let guard = hub.attach(attachment.is_watcher);
    let phase = Phase::Preparing(start(&app, &hub, attachment));
    let mut viewer = Viewer {
        outbox: Outbox::new(sink, app.outgoing.clone()),
        app,
        hub,
        guard,
        dialect: attachment.dialect,
        is_watcher: attachment.is_watcher,
        incoming,
        received,
        phase,
        is_ready: false,
        action: None,
        own_size: attachment.size,
        sizes: KnownSizes::default(),
    };
    if let Ending::Close(code, reason) = viewer.run().await {
        viewer.close(code, &reason).await;
    }
}

/// Sets the size of the client, then prepares what it gets first.
fn start(app: &App, hub: &Arc<Hub>, attachment: Attachment) -> BoxFuture<'static, Result<Start, ReadError>> {
    let (hub, outgoing) = (Arc::clone(hub), app.outgoing.clone());
    Box::pin(async move {
        if let Some(size) = attachment.size.filter(|size| *size != hub.terminal.size()) {
            // The screen of a terminal that has ended keeps its size.
            drop(hub.terminal.resize(size).await);
        }
        match attachment.since {
            Some(since) => repaint::resume(&hub, since, &outgoing).await,
            None => repaint::prepare(&hub, &outgoing).await.map(Start::Repaint),
        }
    })
}

impl Viewer {
    async fn run(&mut self) -> Ending {
        let stopping = self.app.stopping.clone();
        let mut liveness = Liveness::new(&self.app.limits);
        loop {
            if self.outbox.is_empty()
                && let Err(ending) = self.produce()
            {
                return ending;
            }
            if matches!(self.phase, Phase::Ended) && self.outbox.is_flushed() {
                return Ending::Close(CloseCode::Normal, "the terminal has ended".into());
            }
            let is_acting = self.action.is_some();
            let is_reading = !is_acting && self.outbox.has_room();
            let stall = match &self.phase {
                Phase::Painting { stalled_at, .. } => Some(*stalled_at),
                _ => None,
            };
            // A repaint is prepared also while frames wait for the client: others wait for the emulator and the memory it uses.
            let is_waiting = self.outbox.is_empty() || matches!(self.phase, Phase::Preparing(_));
            tokio::select! {
                sent = self.outbox.drive(), if !self.outbox.is_flushed() => {
                    if sent.is_err() {
                        return Ending::Gone;
                    }
                    // A piece was accepted, so the client reads.
                    if let Phase::Painting { stalled_at, .. } = &mut self.phase {
                        *stalled_at = Instant::now() + REPAINT_STALL;
                    }
                }
                message = self.incoming.next(), if is_reading => {
                    liveness.heard();
                    match message {
                        Some(Ok(message)) => {
                            let held = self.received.finish_message();
                            if self.receive(message, held) {
                                drop(timeout(CLOSE_TIME, self.incoming.next()).await);
                                return Ending::Gone;
                            }
                        }
                        None => return Ending::Gone,
                        Some(Err(error)) => return failed(&error),
                    }
                }
                done = done(&mut self.action), if is_acting => {
                    self.action = None;
                    self.finish_action(done);
                }
                started = prepared(&mut self.phase), if is_waiting => match started {
                    Prepared::Start(Ok(start)) => self.begin(start),
                    Prepared::Start(Err(e)) => {
                        if let Err(ending) = self.unreadable(&e) {
                            return ending;
                        }
                    }
                    Prepared::Output => {}
                },
                () = sleep_until(stall.unwrap_or_else(Instant::now)), if stall.is_some() => self.abandon_repaint(),
                () = sleep_until(liveness.deadline()) => {
                    if self.outbox.take_progress() {
                        liveness.heard();
                    }
                    match liveness.check(&self.received, is_reading) {
                        LivenessCheck::Alive => {}
                        LivenessCheck::Ping => self.outbox.ping(),
                        LivenessCheck::Dead => return Ending::Gone,
                        LivenessCheck::Stalled(time) => {
                            let why = format!("no data of an unfinished message for {time:?}; send it again");
                            return Ending::Close(CloseCode::Policy, why);
                        }
                    }
                }
                () = stopping.begun() => return Ending::stopping(),
            }
        }
    }

    /// Puts the next message into the outbox, if one is available.
    fn produce(&mut self) -> Result<(), Ending> {
        match &mut self.phase {
            Phase::Preparing(_) | Phase::Ended => {}
            Phase::Painting { repaint, is_begun, .. } => {
                // A copy: a part would keep the whole repaint in memory while the client does not read it.
                let piece = repaint.bytes.split_to(repaint.bytes.len().min(PIECE_BYTES)).to_vec();
                let piece = self.app.outgoing.count(piece);
                let is_last = repaint.bytes.is_empty();
                self.outbox.fragment(piece, !*is_begun, is_last);
                *is_begun = true;
                if is_last {
                    self.painted();
                }
            }
            Phase::Live(output) => match output.next_piece(self.app.outgoing.piece_bytes()) {
                Ok(None) => self.outbox.release_memory(),
                Ok(Some(Piece::Bytes(bytes))) => {
                    let cursor = output.cursor();
                    self.outbox.binary(bytes);
                    self.guard.received_to(cursor);
                }
                Ok(Some(Piece::Size(size))) => self.resized(size),
                Ok(Some(Piece::Behind)) => self.repaint_again(),
                Ok(Some(Piece::Unrecorded)) => self.error(ErrorCode::NoSpace, UNRECORDED),
                Ok(Some(Piece::Ended(frame))) => {
                    self.outbox.frame(&TerminalFrame::Exit(frame));
                    // The id may be used again, whether this client reads or not.
                    self.phase = Phase::Ended;
                }
                Err(e) => return self.unreadable(&e),
            },
        }
        Ok(())
    }

    /// What the client gets first, or again, is prepared.
    fn begin(&mut self, start: Start) {
        match start {
            Start::Repaint(repaint) => {
                let TerminalSize { cols, rows } = repaint.size;
                self.sizes.repaint(repaint.size);
                self.guard.receives_from(repaint.cursor);
                let frame = TerminalRepaintFrame { cursor: repaint.cursor, cols, rows };
                self.outbox.frame(&TerminalFrame::Repaint(frame));
                let stalled_at = Instant::now() + REPAINT_STALL;
                self.phase = Phase::Painting { repaint, is_begun: false, stalled_at };
            }
            Start::Resume { missed, from, size, follower } => {
                self.sizes.sent(size);
                let cursor = from + missed.len() as u64;
                self.guard.receives_from(cursor);
                if !missed.is_empty() {
                    self.outbox.binary(missed);
                }
                self.live(Output::new(&self.hub, *follower, cursor));
            }
        }
    }

    /// The repaint is sent.
    fn painted(&mut self) {
        if let Phase::Painting { repaint, .. } = std::mem::replace(&mut self.phase, Phase::Ended) {
            self.live(Output::new(&self.hub, *repaint.follower, repaint.cursor));
        }
    }

    fn live(&mut self, output: Output) {
        if !std::mem::replace(&mut self.is_ready, true) {
            let TerminalSize { cols, rows } = self.sizes.known().unwrap_or_else(|| self.hub.terminal.size());
            let (id, cursor) = (self.hub.terminal.id().to_string(), output.cursor());
            let incarnation = self.hub.terminal.incarnation();
            let frame = TerminalReadyFrame { id, cursor, cols, rows, incarnation };
            self.outbox.frame(&TerminalFrame::Ready(frame));
        }
        self.phase = Phase::Live(Box::new(output));
    }

    /// The client is far behind: it gets the present screen instead of the history.
    fn repaint_again(&mut self) {
        let (hub, outgoing) = (Arc::clone(&self.hub), self.app.outgoing.clone());
        self.phase =
            Phase::Preparing(Box::pin(
                async move { repaint::prepare(&hub, &outgoing).await.map(Start::Repaint) },
            ));
    }

    /// The client does not read its repaint: the message ends here, and another repaint follows when it reads.
    fn abandon_repaint(&mut self) {
        if let Phase::Painting { is_begun, .. } = self.phase {
            if is_begun {
                self.outbox.end_message();
            }
            // The memory is free now. The next repaint is prepared when the outbox is empty, which is when the client reads.
            self.phase = Phase::Live(Box::new(Output::behind(&self.hub)));
        }
    }

    /// The output cannot be read any more. If the terminal has ended, its record may be removed; its end is known all the same.
    fn unreadable(&mut self, error: &ReadError) -> Result<(), Ending> {
        let end = self.hub.terminal.execution().status().end().cloned();
        if end.is_none() || !matches!(error, ReadError::Removed) {
            tracing::warn!(%error, "the output of a terminal cannot be read");
        }
        let Some(end) = end else {
            let why = "the output of the terminal can no longer be read; attach again";
            return Err(Ending::Close(CloseCode::Error, why.into()));
        };
        self.outbox.frame(&TerminalFrame::Exit(exit_frame(&end)));
        self.phase = Phase::Ended;
        Ok(())
    }

    fn error(&mut self, code: ErrorCode, message: &str) {
        if matches!(self.phase, Phase::Ended) {
            // The exit frame is the last one.
            return;
        }
        let frame = TerminalErrorFrame { code, message: truncated(message) };
        self.outbox.frame(&TerminalFrame::Error(frame));
    }

    /// Closes the socket, and gives the client time to read the reason.
    async fn close(self, code: CloseCode, reason: &str) {
        let Self { outbox, incoming, guard, .. } = self;
        // It does not count as a viewer any more.
        drop(guard);
        let closing = async {
            let Some(sink) = outbox.close(code, reason).await else { return };
            let mut incoming = incoming;
            // The client confirms the close frame, and expects that the server closes the connection then.
            loop {
                match incoming.next().await {
                    Some(Ok(Message::Close(_)) | Err(Error::ConnectionClosed)) => return,
                    Some(Ok(_)) => {}
                    // Nothing more is parsed after an error.
                    Some(Err(_)) | None => break,
                }
            }
            // After an error of the protocol, the reason must not be lost by closing a socket with unread data.
            let Ok(stream) = sink.reunite(incoming) else { return };
            let mut stream = stream.into_inner().into_inner();
            let mut buffer = vec![0; READ_BUFFER_BYTES];
            while stream.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
        };
        drop(timeout(CLOSE_TIME, closing).await);
    }
}

/// What a phase without a message waits for.
enum Prepared {
    Start(Result<Start, ReadError>),
    /// Output can be read.
    Output,
}

async fn prepared(phase: &mut Phase) -> Prepared {
    match phase {
        Phase::Preparing(start) => Prepared::Start(start.await),
        Phase::Live(output) => {
            output.wait().await;
            Prepared::Output
        }
        Phase::Painting { .. } | Phase::Ended => std::future::pending().await,
    }
}

/// The result of an action, if there is one.
async fn done(action: &mut Option<BoxFuture<'static, Done>>) -> Done {
    match action {
        Some(action) => action.await,
        None => std::future::pending().await,
    }
}

fn failed(error: &Error) -> Ending {
    match error {
        Error::Capacity(_) => {
            let why = format!("a message has at most {MAX_INPUT_MESSAGE_BYTES} bytes; send less at a time");
            Ending::Close(CloseCode::Size, why)
        }
        Error::Utf8(_) => Ending::Close(CloseCode::Invalid, "the text is not valid UTF-8".into()),
        Error::Protocol(e) => Ending::Close(CloseCode::Protocol, e.to_string()),
        Error::Io(e) if e.kind() == io::ErrorKind::OutOfMemory => {
            Ending::Close(CloseCode::Again, "too much incoming data; retry later".into())
        }
        _ => Ending::Gone,
    }
}

/// A message that only keeps the connection alive.
fn is_control(message: &Message) -> bool {
    matches!(message, Message::Ping(_) | Message::Pong(_) | Message::Frame(_))
}
