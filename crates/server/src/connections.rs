//! [`Connections`]: accepts, serves and closes connections.
//!
//! Every connection is a tracked task and holds one of a bounded number of slots; further clients wait in the
//! kernel's queue. A socket is counted until it is closed, also after a WebSocket took it over.

mod vanished;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::admission::{Admission, UnauthorizedConnections};
use crate::dispatch::Dispatch;
use crate::listening::{Accepted, Listening};
use crate::self_waking::SelfWaking;
use crate::stopping::Stopping;
use vanished::VanishedWatch;

/// Maximum time until the first request of a connection.
const FIRST_REQUEST_TIME: Duration = Duration::from_secs(30);
/// Minimum age of a connection without an authorized request before it is closed when slots are scarce.
const UNAUTHORIZED_MIN_AGE: Duration = Duration::from_secs(1);
/// Maximum time until the head of a later request, idle time included. It is longer than clients keep idle
/// connections, so that they close them and no request meets a closed one.
const NEXT_REQUEST_TIME: Duration = Duration::from_secs(120);
/// Delay when the machine has no descriptor or memory for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for connections that were accepted while the server was stopping, once it has nothing else to wait for.
const LAST_RESPONSES_TIMEOUT: Duration = Duration::from_secs(1);

/// Size of the write buffer of an HTTP/1 connection, and maximum size of the head of a request.
const CONNECTION_BUFFER_BYTES: usize = 32 << 10;
/// Maximum number of concurrent requests on an HTTP/2 connection, and of unsent bytes of each response.
const MAX_STREAMS: u32 = 100;
const STREAM_BUFFER_BYTES: usize = 16 << 10;
/// Interval of pings to an HTTP/2 client, and its time to answer.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIME: Duration = Duration::from_secs(40);
/// Delay between the end of a connection or a large request and the release of its memory: others may end as well.
const MEMORY_PAUSE: Duration = Duration::from_secs(1);

/// Whether connections are kept for another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeepAlive {
    Open,
    /// The server is stopping: one request each.
    OneRequest,
}

/// The actions of a shutdown.
#[derive(Debug)]
pub(crate) struct Drain<F, H> {
    /// The first action; requests that it completes get their responses.
    pub(crate) first: F,
    /// The drain window after that.
    pub(crate) window: Duration,
    /// The action instead of these after a second signal.
    pub(crate) at_once: H,
}

/// Accepts and serves clients.
#[derive(Debug)]
pub(crate) struct Connections {
    dispatch: Dispatch,
    places: Arc<Semaphore>,
    open: Arc<AtomicUsize>,
    stopping: Stopping,
    tasks: TaskTracker,
    freed: Arc<Notify>,
    unauthorized: UnauthorizedConnections,
    /// Number of free slots below which each new connection closes the oldest unauthorized one.
    scarce: usize,
}

impl Connections {
    /// Creates it with this number of slots; `open` is the number of connections. `freed` is notified when much
    /// memory has been freed.
    pub(crate) fn new(
        dispatch: Dispatch,
        most: usize,
        open: Arc<AtomicUsize>,
        freed: Arc<Notify>,
        stopping: Stopping,
    ) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            dispatch,
            places: Arc::new(Semaphore::new(most)),
            open,
            stopping,
            tasks: TaskTracker::new(),
            freed,
            unauthorized: UnauthorizedConnections::default(),
            scarce: most / 8,
        }
    }

    /// Serves until `stop` is ready, then drains; without waiting when `stop_now` is ready.
    ///
    /// While it drains it continues to accept, so that clients get the reason of a refusal, and can still read.
    /// Running requests have the drain window to finish; idle connections are closed at once.
    pub(crate) async fn run(
        &self,
        listening: Listening,
        stop: impl Future<Output = ()>,
        drain: Drain<impl Future<Output = ()>, impl Future<Output = ()>>,
        stop_now: impl Future<Output = ()>,
    ) {
        // If this future is dropped, the connections are closed too.
        let cut = CutOnDrop(&self.stopping);
        let (early, late) = (TaskTracker::new(), TaskTracker::new());
        early.close();
        late.close();
        tokio::select! {
            () = self.accept(&listening, KeepAlive::Open, &early, stop) => {}
            never = self.give_memory_back() => match never {},
        }
        self.stopping.begin();
        let graceful = async {
            drain.first.await;
            drop(timeout(drain.window, early.wait()).await);
        };
        let drained = async {
            tokio::select! {
                () = graceful => true,
                () = stop_now => {
                    drain.at_once.await;
                    false
                }
            }
        };
        let is_graceful = self.accept(&listening, KeepAlive::OneRequest, &late, drained).await;
        listening.close();
        if is_graceful {
            drop(timeout(LAST_RESPONSES_TIMEOUT, late.wait()).await);
        }
        drop(cut);
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Releases the memory of connections and requests, a moment after some have ended.
    async fn give_memory_back(&self) -> Infallible {
        loop {
            self.freed.notified().await;
            tokio::time::sleep(MEMORY_PAUSE).await;
            sandcrab_engine::release_memory();
        }
    }

    /// Accepts and serves until `until` is ready, and returns its result. Sockets are tracked by `sockets`.
    async fn accept<T>(
        &self,
        listening: &Listening,
        keep: KeepAlive,
        sockets: &TaskTracker,
        until: impl Future<Output = T>,
    ) -> T {
        let mut until = pin!(until);
        let accepting = async {
            let mut is_failing = false;
            loop {
                if self.places.available_permits() <= self.scarce {
                    self.unauthorized.evict_oldest(UNAUTHORIZED_MIN_AGE);
                }
                // Checked again after a while, when connections have reached the minimum age.
                let place = Arc::clone(&self.places).acquire_owned();
                let Ok(place) = timeout(UNAUTHORIZED_MIN_AGE, place).await else { continue };
                // The semaphore is never closed.
                let Ok(place) = place else { return };
                match listening.accept().await {
                    Ok(accepted) => {
                        is_failing = false;
                        self.open.fetch_add(1, Ordering::Relaxed);
                        let (open, freed) = (Arc::clone(&self.open), Arc::clone(&self.freed));
                        let open = Open { open, freed, _place: place, _socket: sockets.token() };
                        let admission = self.unauthorized.add(self.open.load(Ordering::Relaxed));
                        self.serve(accepted, keep, open, admission);
                    }
                    Err(error) if is_of_one_client(&error) => {}
                    Err(error) => {
                        if !is_failing {
                            tracing::warn!(%error, "failed to accept a connection; retrying");
                        }
                        is_failing = true;
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            result = &mut until => result,
            () = accepting => until.await,
        }
    }

    fn serve(&self, accepted: Accepted, keep: KeepAlive, open: Open, admission: Arc<Admission>) {
        let (dispatch, stopping) = (self.dispatch.clone(), self.stopping.clone());
        let mut serving = Serving { dispatch, stopping, keep, admission, client: None };
        let builder = builder(&self.tasks, keep);
        match accepted {
            Accepted::Tcp(stream) => {
                serving.client = stream.peer_addr().ok().map(|client| client.ip());
                self.tasks.spawn(serve_one(builder, Counted::new(stream, open), serving));
            }
            Accepted::Unix(stream) => {
                self.tasks.spawn(serve_one(builder, Counted::new(stream, open), serving));
            }
        }
    }
}

/// Closes the connections when dropped.
#[derive(Debug)]
struct CutOnDrop<'a>(&'a Stopping);

impl Drop for CutOnDrop<'_> {
    fn drop(&mut self) {
        self.0.cut();
    }
}

/// Whether the error concerns one client only.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn builder(tasks: &TaskTracker, keep: KeepAlive) -> Builder<Tracked> {
    let mut builder = Builder::new(Tracked(tasks.clone()));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(NEXT_REQUEST_TIME)
        .max_buf_size(CONNECTION_BUFFER_BYTES)
        .keep_alive(keep == KeepAlive::Open);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIME)
        .max_send_buf_size(STREAM_BUFFER_BYTES);
    builder
}

/// The data for serving one connection.
struct Serving {
    dispatch: Dispatch,
    stopping: Stopping,
    keep: KeepAlive,
    admission: Arc<Admission>,
    /// The address of the client. `None` over a unix socket.
    client: Option<IpAddr>,
}

/// Serves one client until it disconnects, or must be disconnected.
async fn serve_one<S>(builder: Builder<Tracked>, stream: Counted<S>, serving: Serving)
where
    S: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static,
{
    let Serving { dispatch, stopping, keep, admission, client } = serving;
    let has_asked = Arc::new(AtomicBool::new(false));
    let asks = Arc::clone(&has_asked);
    let shown = Arc::clone(&admission);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        asks.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(Arc::clone(&shown));
        dispatch.clone().answer(request, client)
    });
    let connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let (cut_off, begun) = (pin!(stopping.cut_off()), pin!(stopping.begun()));
    let mut connection = SelfWaking::new(connection);
    let (mut cut_off, mut begun) = (SelfWaking::new(cut_off), SelfWaking::new(begun));
    let evicted = pin!(admission.evicted());
    let mut evicted = SelfWaking::new(evicted);
    let mut is_told = keep == KeepAlive::OneRequest;
    let mut first_request = pin!(tokio::time::sleep(FIRST_REQUEST_TIME));
    let mut is_first_due = true;
    let mut cut_at = None;
    loop {
        tokio::select! {
            // An error of a connection concerns only its client.
            _ = &mut connection => return,
            was_visitor = &mut evicted, if cut_at.is_none() => {
                if !was_visitor {
                    return;
                }
                is_told = true;
                is_first_due = false;
                cut_at = Some(Instant::now() + LAST_RESPONSES_TIMEOUT);
                connection.change(|connection| connection.as_mut().graceful_shutdown());
            }
            () = &mut cut_off, if cut_at.is_none() => {
                // Waiting requests get a response with the reason.
                is_told = true;
                is_first_due = false;
                cut_at = Some(Instant::now() + LAST_RESPONSES_TIMEOUT);
                connection.change(|connection| connection.as_mut().graceful_shutdown());
            }
            () = tokio::time::sleep_until(cut_at.unwrap_or_else(Instant::now)), if cut_at.is_some() => return,
            () = &mut begun, if !is_told => {
                is_told = true;
                if has_asked.load(Ordering::Relaxed) {
                    connection.change(|connection| connection.as_mut().graceful_shutdown());
                } else {
                    // The request may be in transit, and must be answered.
                    is_first_due = true;
                    first_request.as_mut().reset(Instant::now() + LAST_RESPONSES_TIMEOUT);
                }
            }
            () = first_request.as_mut(), if is_first_due => {
                is_first_due = false;
                if !has_asked.load(Ordering::Relaxed) {
                    return;
                }
                if is_told {
                    connection.change(|connection| connection.as_mut().graceful_shutdown());
                }
            }
        }
    }
}

/// Runs concurrent HTTP/2 work as tracked tasks.
#[derive(Debug, Clone)]
struct Tracked(TaskTracker);

impl<F> hyper::rt::Executor<F> for Tracked
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        drop(self.0.spawn(task));
    }
}

/// The slot of a connection.
#[derive(Debug)]
struct Open {
    open: Arc<AtomicUsize>,
    freed: Arc<Notify>,
    _place: OwnedSemaphorePermit,
    _socket: TaskTrackerToken,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.freed.notify_one();
    }
}

/// A socket that holds its slot until it is closed, whatever task owns it.
#[derive(Debug)]
struct Counted<S> {
    stream: S,
    watch: VanishedWatch,
    _open: Open,
}

impl<S> Counted<S> {
    fn new(stream: S, open: Open) -> Self {
        Self { stream, watch: VanishedWatch::default(), _open: open }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + AsFd + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { stream, watch, .. } = &mut *self;
        let written = Pin::new(&mut *stream).poll_write(cx, bytes);
        watch.watch(written, stream, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, watch, .. } = &mut *self;
        let written = Pin::new(&mut *stream).poll_write_vectored(cx, slices);
        watch.watch(written, stream, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
