//! [`App`]: what every route can reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use sandcrab_engine::Engine;
use tokio_util::task::TaskTracker;

use crate::access::Gate;
use crate::config::ServerLimits;
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::outgoing::Outgoing;
use crate::sandbox::Sandbox;
use crate::stopping::Stopping;

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
    /// Bytes of bodies that are held now.
    held: AtomicUsize,
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

/// Bytes of a body, counted.
#[derive(Debug)]
pub(crate) struct Held {
    app: App,
    bytes: usize,
}

impl Held {
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        let before = self.app.held.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before + bytes > self.app.limits.held_body_bytes {
            return Err(ApiError::too_many("requests with large bodies are under way; wait for some to end"));
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.app.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
