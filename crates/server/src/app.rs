//! [`App`]: what every route can reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use sandcrab_engine::Engine;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::access::Gate;
use crate::config::ServerLimits;
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::outgoing::Outgoing;
use crate::sandbox::Sandbox;
use crate::stopping::Stopping;

/// How many bytes are worth being given back to the system once they are free.
const MUCH_BYTES: usize = 1 << 20;

/// What every route can reach. A handle.
pub(crate) type App = Arc<AppState>;

/// See [`App`].
#[derive(Debug)]
pub(crate) struct AppState {
    pub(crate) sandbox: Sandbox,
    pub(crate) gate: Gate,
    pub(crate) limits: ServerLimits,
    pub(crate) stopping: Stopping,
    pub(crate) metrics: Metrics,
    /// What goes on after its request is over.
    pub(crate) tasks: TaskTracker,
    pub(crate) started: Instant,
    pub(crate) connections: Arc<AtomicUsize>,
    /// What waits for clients to take it.
    pub(crate) outgoing: Outgoing,
    /// Bytes of bodies, and of messages over WebSockets, that are held now.
    held: AtomicUsize,
    /// Told when much memory has been freed.
    pub(crate) freed: Arc<Notify>,
}

impl AppState {
    pub(crate) fn new(engine: Engine, config: &crate::ServerConfig) -> App {
        Arc::new(Self {
            sandbox: Sandbox::new(engine, config),
            gate: Gate::new(&config.access, &config.listen),
            limits: config.limits.clone(),
            stopping: Stopping::default(),
            metrics: Metrics::default(),
            tasks: TaskTracker::new(),
            started: Instant::now(),
            connections: Arc::default(),
            outgoing: Outgoing::new(config.limits.outgoing_bytes),
            held: AtomicUsize::new(0),
            freed: Arc::default(),
        })
    }

    /// Refuses new work while the server stops.
    pub(crate) fn check_open(&self) -> Result<(), ApiError> {
        if self.stopping.is_stopping() {
            return Err(ApiError::shutting_down());
        }
        Ok(())
    }

    /// Holds some bytes of a body until the guard is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> Held {
        Held { app: Arc::clone(self), bytes: 0 }
    }
}

/// Bytes that came from clients and are held, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    app: App,
    bytes: usize,
}

impl Held {
    /// Counts some more; refuses when all requests together hold too much.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.count(bytes);
        if self.is_too_much() {
            return Err(ApiError::too_many("concurrent requests with large bodies; wait for some to end"));
        }
        Ok(())
    }

    /// Counts some more, which are there already.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.app.held.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }

    /// Whether all requests together hold more than they may.
    pub(crate) fn is_too_much(&self) -> bool {
        self.app.held.load(Ordering::Relaxed) > self.app.limits.held_body_bytes
    }

    /// Counts no more than this.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let freed = self.bytes.saturating_sub(bytes);
        self.app.held.fetch_sub(freed, Ordering::Relaxed);
        self.bytes -= freed;
        if freed >= MUCH_BYTES {
            self.app.freed.notify_one();
        }
    }

    /// How many bytes it counts.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Hands over what it counts, and goes on with nothing.
    pub(crate) fn take(&mut self) -> Self {
        Self { app: Arc::clone(&self.app), bytes: std::mem::take(&mut self.bytes) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}
