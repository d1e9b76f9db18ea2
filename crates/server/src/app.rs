//! [`App`]: the state shared by all routes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use sandcrab_engine::Engine;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::access::AccessPolicy;
use crate::archive::Archives;
use crate::backups::Store;
use crate::config::ServerLimits;
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::outgoing::Outgoing;
use crate::ports::monitor::PortMonitor;
use crate::preview::Previews;
use crate::routes::watch::Watches;
use crate::sandbox::Sandbox;
use crate::searches::Searches;
use crate::services::Services;
use crate::stopping::Stopping;
use crate::terminal::Terminals;

/// Number of freed bytes above which memory is returned to the system.
const NOTIFY_FREED_BYTES: usize = 1 << 20;

/// The state shared by all routes. A handle.
pub(crate) type App = Arc<AppState>;

/// See [`App`].
#[derive(Debug)]
pub(crate) struct AppState {
    pub(crate) sandbox: Sandbox,
    pub(crate) access: AccessPolicy,
    pub(crate) limits: ServerLimits,
    pub(crate) stopping: Stopping,
    pub(crate) metrics: Metrics,
    /// Background work of requests.
    pub(crate) tasks: TaskTracker,
    pub(crate) started: Instant,
    pub(crate) connections: Arc<AtomicUsize>,
    /// Terminals that clients use.
    pub(crate) terminals: Terminals,
    /// Running searches, finds and replacements.
    pub(crate) searches: Searches,
    /// Archives that are packed or unpacked.
    pub(crate) archives: Archives,
    /// Services.
    pub(crate) services: Services,
    /// Backups that are kept.
    pub(crate) backups: Store,
    /// Notified when a backup was created.
    pub(crate) backup_created: Notify,
    /// Watches of directories.
    pub(crate) watches: Watches,
    /// Exposed ports.
    pub(crate) previews: Previews,
    /// Events of ports.
    pub(crate) port_monitor: PortMonitor,
    /// Unsent data.
    pub(crate) outgoing: Outgoing,
    /// Size of bodies, and of messages over WebSockets, in memory.
    held: AtomicUsize,
    /// Notified when much memory has been freed.
    pub(crate) freed: Arc<Notify>,
}

impl AppState {
    pub(crate) fn new(engine: Engine, config: &crate::ServerConfig, previews: Previews) -> App {
        Arc::new(Self {
            previews,
            port_monitor: PortMonitor::default(),
            sandbox: Sandbox::new(engine, config),
            access: AccessPolicy::new(&config.access, &config.listen),
            limits: config.limits.clone(),
            stopping: Stopping::default(),
            metrics: Metrics::default(),
            tasks: TaskTracker::new(),
            started: Instant::now(),
            connections: Arc::default(),
            terminals: Terminals::default(),
            searches: Searches::default(),
            archives: Archives::default(),
            services: Services::default(),
            backups: Store::new(&config.engine.state_dir),
            backup_created: Notify::new(),
            watches: Watches::default(),
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

    /// Counts bytes of a body until the guard is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> BodyBytes {
        BodyBytes { app: Arc::clone(self), bytes: 0 }
    }
}

/// Bytes of clients in memory, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct BodyBytes {
    app: App,
    bytes: usize,
}

impl BodyBytes {
    /// Counts more bytes; refuses when all requests together exceed the limit.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.count(bytes);
        if self.exceeds_limit() {
            return Err(ApiError::too_many("concurrent requests with large bodies; wait for some to end"));
        }
        Ok(())
    }

    /// Counts more bytes, which are already in memory.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.app.held.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }

    /// Whether all requests together exceed the limit.
    pub(crate) fn exceeds_limit(&self) -> bool {
        self.app.held.load(Ordering::Relaxed) > self.app.limits.held_body_bytes
    }

    /// Sets the count, which may have been an estimate.
    pub(crate) fn set(&mut self, bytes: usize) {
        self.count(bytes.saturating_sub(self.bytes));
        self.shrink_to(bytes);
    }

    /// Reduces the count to this.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let freed = self.bytes.saturating_sub(bytes);
        self.app.held.fetch_sub(freed, Ordering::Relaxed);
        self.bytes -= freed;
        if freed >= NOTIFY_FREED_BYTES {
            self.app.freed.notify_one();
        }
    }

    /// The count.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Moves the count to a new guard.
    pub(crate) fn take(&mut self) -> Self {
        Self { app: Arc::clone(&self.app), bytes: std::mem::take(&mut self.bytes) }
    }
}

impl Drop for BodyBytes {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}
