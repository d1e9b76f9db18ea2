//! [`Server`]: listens, serves, drains.

use std::future::{Future, pending};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use sandcrab_engine::{Engine, OpenError, StopSummary};

use crate::app::{App, AppState};
use crate::config::{Listen, ServerConfig};
use crate::connections::{Connections, Drain};
use crate::dispatch::Dispatch;
use crate::listening::Listening;
use crate::preview::Previews;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// Number of descriptors that connections leave to executions and sessions: a quarter of the process's limit, within
/// these bounds.
const MIN_RESERVED_DESCRIPTORS: usize = 256;
const MAX_RESERVED_DESCRIPTORS: usize = 4_096;
/// Time for background work of requests when the server stops.
const LAST_TASKS_TIME: Duration = Duration::from_secs(1);

/// Why a server could not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The engine could not be opened.
    #[error(transparent)]
    Engine(#[from] OpenError),
    /// The address cannot be used.
    #[error(
        "failed to listen on {listen}: {source}; choose another address, or stop the process that uses it"
    )]
    Listen {
        /// The address.
        listen: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// The stored changes of `/api/env` cannot be read.
    #[error("failed to read environment.json in the state directory: {0}; repair or remove it")]
    Environment(io::Error),
    /// The stored exposed ports cannot be read.
    #[error("failed to read previews.json in the state directory: {0}; repair or remove it")]
    Previews(io::Error),
    /// The path of the socket is taken by another kind of file.
    #[error("{} exists and is not a socket; choose another path", .0.display())]
    NotASocket(PathBuf),
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    app: App,
    dispatch: Dispatch,
    listening: Listening,
    config: ServerConfig,
}

impl Server {
    /// Opens the state directory and listens.
    pub async fn start(config: ServerConfig) -> Result<Self, ServeError> {
        // In this order: a conflict about the state directory is a better error than one about the port.
        let engine = open_engine(&config).await?;
        let listening = Listening::bind(&config.listen).await?;
        Self::new(engine, listening, config).await
    }

    /// Opens the state directory and continues with an inherited listening socket.
    pub async fn start_on(config: ServerConfig, listening: Listening) -> Result<Self, ServeError> {
        let engine = open_engine(&config).await?;
        Self::new(engine, listening, config).await
    }

    async fn new(engine: Engine, listening: Listening, mut config: ServerConfig) -> Result<Self, ServeError> {
        config.listen = listening.address().clone();
        let previews = Previews::open(&config).map_err(ServeError::Previews)?;
        let app = AppState::new(engine, &config, previews);
        let remove_leftovers = crate::files::recover_leftovers(&app.sandbox).await;
        crate::terminal::adopt(&app);
        let started = Arc::clone(&app);
        app.tasks.spawn(async move {
            // In this order: git must not write to what is removed.
            crate::git::clone::end_interrupted(&started).await;
            // Without leftovers, nothing waits for it.
            let _ = remove_leftovers.send(());
        });
        crate::unrecorded::adopt(&app);
        crate::preview::adopt(&app);
        crate::services::adopt(&app);
        // Before the first backup begins.
        app.backups.clean_up();
        app.tasks.spawn(crate::backups::run_expiry(Arc::clone(&app)));
        let dispatch = Dispatch::of(&app, crate::router::router(&app, config.compat.as_ref()));
        Ok(Self { app, dispatch, listening, config })
    }

    /// The address, with the actual port.
    pub fn address(&self) -> &Listen {
        self.listening.address()
    }

    /// The listening socket.
    pub fn listening(&self) -> &Listening {
        &self.listening
    }

    /// Serves an application at a path, besides the native API. It gets requests that passed the checks of host, origin and
    /// token. A server that imitates another one does not serve it, because the application uses the native API.
    pub fn mount(&mut self, path: &'static str, application: axum::Router) {
        self.dispatch.mount(path, application);
    }

    /// A token that is cancelled when the server begins to stop.
    pub fn stop_token(&self) -> tokio_util::sync::CancellationToken {
        self.app.stopping.token()
    }

    /// A function to be called before the server is dropped while it runs. Otherwise the connections that end with it count
    /// as clients that disconnect, and commands with `onDisconnect: "kill"` are ended.
    pub fn before_drop(&self) -> impl FnOnce() + Send + 'static {
        let stopping = self.app.stopping.clone();
        move || stopping.begin()
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.app.sandbox.engine
    }

    /// The number of open connections, updated live.
    pub fn connections(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.app.connections)
    }

    /// Serves until `stop` is ready, then drains: refuses new work, and lets running requests finish within the drain
    /// window.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), ServeError> {
        self.run_until(stop, pending()).await
    }

    /// The same; when `stop_now` is ready, it stops without waiting.
    pub async fn run_until(
        self,
        stop: impl Future<Output = ()> + Send,
        stop_now: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        let Self { app, dispatch, listening, config } = self;
        let connections = Arc::clone(&app.connections);
        let (most, freed) = (places(config.limits.connections), Arc::clone(&app.freed));
        let clients = Connections::new(dispatch, most, connections, freed, app.stopping.clone());
        let drain = Drain {
            window: config.drain_window,
            first: end_executions(&app.sandbox.engine, SIGTERM, config.stop_executions),
            at_once: end_executions(
                &app.sandbox.engine,
                SIGKILL,
                config.stop_executions.map(|_| Duration::ZERO),
            ),
        };
        clients.run(listening, stop, drain, stop_now).await;
        app.tasks.close();
        drop(tokio::time::timeout(LAST_TASKS_TIME, app.tasks.wait()).await);
        Ok(())
    }
}

/// Maximum number of connections: as configured, but leaving descriptors for work.
fn places(configured: usize) -> usize {
    let limit = sandcrab_engine::descriptor_limit();
    let reserved = (limit / 4).clamp(MIN_RESERVED_DESCRIPTORS, MAX_RESERVED_DESCRIPTORS).min(limit / 2);
    configured.min(limit - reserved)
}

/// Opens the engine with the stored environment.
async fn open_engine(config: &ServerConfig) -> Result<Engine, ServeError> {
    let mut config = config.engine.clone();
    crate::environment::restore(&config.state_dir, &mut config.env).map_err(ServeError::Environment)?;
    Ok(Engine::open(config).await?)
}

/// Ends all executions, if there is a grace period for it.
async fn end_executions(engine: &Engine, signal: i32, grace: Option<Duration>) {
    if let Some(grace) = grace {
        let StopSummary { ended, survivors } = engine.stop_all(signal, grace).await;
        tracing::info!(ended, survivors, "ended running executions");
    }
}
