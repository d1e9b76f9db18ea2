//! [`Connections`]: accepts, serves and lets go of clients.
//!
//! Every connection is a tracked task and holds one of a bounded number of places; beyond that, who connects waits in
//! the kernel's queue. A socket is counted until it is closed, also after a WebSocket took it over.

mod vanished;

use std::convert::Infallible;
use std::future::Future;
use std::io;
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

use crate::dispatch::Dispatch;
use crate::listening::{Accepted, Listening};
use crate::newcomers::{Newcomers, Standing};
use crate::self_waking::SelfWaking;
use crate::stopping::Stopping;
use vanished::VanishedWatch;

/// How long the first request of a connection may take to arrive.
const FIRST_REQUEST_TIME: Duration = Duration::from_secs(30);
/// How long a client that has shown no token yet keeps its place when places are scarce.
const NEWCOMER_TIME: Duration = Duration::from_secs(1);
/// How long the head of a later one may take, idling included: longer than clients keep idle connections, so that it
/// is they who close them and no request meets a closed one.
const NEXT_REQUEST_TIME: Duration = Duration::from_secs(120);
/// How long to wait when the machine has no descriptor or memory for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long those have who came while the server was stopping, once it has nothing else to wait for.
const LAST_ANSWERS_TIME: Duration = Duration::from_secs(1);

/// What an HTTP/1 connection gathers before it is written, and the longest head of a request.
const CONNECTION_BUFFER_BYTES: usize = 32 << 10;
/// The most requests at a time on one HTTP/2 connection, and how much of each answer waits to be taken.
const MAX_STREAMS: u32 = 100;
const STREAM_BUFFER_BYTES: usize = 16 << 10;
/// How often an HTTP/2 client is asked whether it is there, and how long it has to answer.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIME: Duration = Duration::from_secs(40);
/// How long after a connection or a large request has ended its memory is given back: others may end as well.
const MEMORY_PAUSE: Duration = Duration::from_secs(1);

/// Whether connections are kept for a next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    Open,
    /// The server is stopping: one request each.
    OneRequest,
}

/// What is done between the wish to stop and the end.
#[derive(Debug)]
pub(crate) struct Drain<F, H> {
    /// Done first; requests that it makes finish get their answers.
    pub(crate) first: F,
    /// How long running requests have after that.
    pub(crate) window: Duration,
    /// Done instead of all this when there is no time.
    pub(crate) hurried: H,
}

/// What serves clients.
#[derive(Debug)]
pub(crate) struct Connections {
    dispatch: Dispatch,
    places: Arc<Semaphore>,
    open: Arc<AtomicUsize>,
    stopping: Stopping,
    tasks: TaskTracker,
    freed: Arc<Notify>,
    newcomers: Newcomers,
    /// With this many places left, the oldest newcomer goes for each connection that comes.
    scarce: usize,
}

impl Connections {
    /// Room for so many connections; `open` shows how many there are. `freed` is told when much memory has been freed.
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
            newcomers: Newcomers::default(),
            scarce: most / 8,
        }
    }

    /// Serves until `stop` is ready, then drains; in a hurry when `hurry` is ready.
    ///
    /// While it drains it goes on to accept, so that clients are told why they are refused, and can still look. What
    /// came before has the window to finish; a connection that idles is closed at once.
    pub(crate) async fn run(
        &self,
        listening: Listening,
        stop: impl Future<Output = ()>,
        drain: Drain<impl Future<Output = ()>, impl Future<Output = ()>>,
        hurry: impl Future<Output = ()>,
    ) {
        // Whoever drops this future wants the connections gone, too.
        let cut = CutOnDrop(&self.stopping);
        let (early, late) = (TaskTracker::new(), TaskTracker::new());
        early.close();
        late.close();
        tokio::select! {
            () = self.accept(&listening, Keep::Open, &early, stop) => {}
            never = self.give_memory_back() => match never {},
        }
        self.stopping.begin();
        let patient = async {
            drain.first.await;
            drop(timeout(drain.window, early.wait()).await);
        };
        let drained = async {
            tokio::select! {
                () = patient => true,
                () = hurry => {
                    drain.hurried.await;
                    false
                }
            }
        };
        let is_patient = self.accept(&listening, Keep::OneRequest, &late, drained).await;
        listening.close();
        if is_patient {
            drop(timeout(LAST_ANSWERS_TIME, late.wait()).await);
        }
        drop(cut);
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Gives back what connections and requests held, a moment after some have ended.
    async fn give_memory_back(&self) -> Infallible {
        loop {
            self.freed.notified().await;
            tokio::time::sleep(MEMORY_PAUSE).await;
            sandcrab_engine::release_memory();
        }
    }

    /// Accepts and serves until `until` is ready, and returns what it gives. Sockets are tracked by `sockets`.
    async fn accept<T>(
        &self,
        listening: &Listening,
        keep: Keep,
        sockets: &TaskTracker,
        until: impl Future<Output = T>,
    ) -> T {
        let mut until = pin!(until);
        let accepting = async {
            let mut is_failing = false;
            loop {
                if self.places.available_permits() <= self.scarce {
                    self.newcomers.evict_oldest(NEWCOMER_TIME);
                }
                // Looked at again after a while: newcomers are there for longer then.
                let place = Arc::clone(&self.places).acquire_owned();
                let Ok(place) = timeout(NEWCOMER_TIME, place).await else { continue };
                // Never closed.
                let Ok(place) = place else { return };
                match listening.accept().await {
                    Ok(accepted) => {
                        is_failing = false;
                        self.open.fetch_add(1, Ordering::Relaxed);
                        let (open, freed) = (Arc::clone(&self.open), Arc::clone(&self.freed));
                        let open = Open { open, freed, _place: place, _socket: sockets.token() };
                        let standing = self.newcomers.add(self.open.load(Ordering::Relaxed));
                        self.serve(accepted, keep, open, standing);
                    }
                    Err(error) if is_of_one_client(&error) => {}
                    Err(error) => {
                        if !is_failing {
                            tracing::warn!(%error, "failed to accept a connection; trying on");
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

    fn serve(&self, accepted: Accepted, keep: Keep, open: Open, standing: Arc<Standing>) {
        let (dispatch, stopping) = (self.dispatch.clone(), self.stopping.clone());
        let serving = Serving { dispatch, stopping, keep, standing };
        let builder = builder(&self.tasks, keep);
        match accepted {
            Accepted::Tcp(stream) => {
                self.tasks.spawn(serve_one(builder, Counted::new(stream, open), serving));
            }
            Accepted::Unix(stream) => {
                self.tasks.spawn(serve_one(builder, Counted::new(stream, open), serving));
            }
        }
    }
}

/// Cuts the connections off when it goes.
#[derive(Debug)]
struct CutOnDrop<'a>(&'a Stopping);

impl Drop for CutOnDrop<'_> {
    fn drop(&mut self) {
        self.0.cut();
    }
}

/// Whether it is this one client's trouble and not ours.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn builder(tasks: &TaskTracker, keep: Keep) -> Builder<Tracked> {
    let mut builder = Builder::new(Tracked(tasks.clone()));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(NEXT_REQUEST_TIME)
        .max_buf_size(CONNECTION_BUFFER_BYTES)
        .keep_alive(keep == Keep::Open);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIME)
        .max_send_buf_size(STREAM_BUFFER_BYTES);
    builder
}

/// What serves one connection.
struct Serving {
    dispatch: Dispatch,
    stopping: Stopping,
    keep: Keep,
    standing: Arc<Standing>,
}

/// Serves one client until it is done, or has to go.
async fn serve_one<S>(builder: Builder<Tracked>, stream: Counted<S>, serving: Serving)
where
    S: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static,
{
    let Serving { dispatch, stopping, keep, standing } = serving;
    let has_asked = Arc::new(AtomicBool::new(false));
    let asks = Arc::clone(&has_asked);
    let shown = Arc::clone(&standing);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        asks.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(Arc::clone(&shown));
        dispatch.clone().answer(request)
    });
    let connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let (cut_off, begun) = (pin!(stopping.cut_off()), pin!(stopping.begun()));
    let mut connection = SelfWaking::new(connection);
    let (mut cut_off, mut begun) = (SelfWaking::new(cut_off), SelfWaking::new(begun));
    let evicted = pin!(standing.evicted());
    let mut evicted = SelfWaking::new(evicted);
    let mut is_told = keep == Keep::OneRequest;
    let mut first_request = pin!(tokio::time::sleep(FIRST_REQUEST_TIME));
    let mut is_first_due = true;
    let mut cut_at = None;
    loop {
        tokio::select! {
            // What goes wrong on a connection is its client's to know.
            _ = &mut connection => return,
            () = &mut evicted => return,
            () = &mut cut_off, if cut_at.is_none() => {
                // Whoever waits is told why he waits no longer.
                is_told = true;
                is_first_due = false;
                cut_at = Some(Instant::now() + LAST_ANSWERS_TIME);
                connection.change(|connection| connection.as_mut().graceful_shutdown());
            }
            () = tokio::time::sleep_until(cut_at.unwrap_or_else(Instant::now)), if cut_at.is_some() => return,
            () = &mut begun, if !is_told => {
                is_told = true;
                if has_asked.load(Ordering::Relaxed) {
                    connection.change(|connection| connection.as_mut().graceful_shutdown());
                } else {
                    // The request may be on its way, and shall be answered.
                    is_first_due = true;
                    first_request.as_mut().reset(Instant::now() + LAST_ANSWERS_TIME);
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

/// Runs what HTTP/2 does at the same time as tracked tasks.
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

/// A connection's place.
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

/// A socket that has a place until it is closed, whoever holds it then.
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
