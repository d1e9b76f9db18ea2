//! [`Server`]: listens, serves, drains.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sandcrab_engine::{Engine, OpenError};
use tokio::net::{TcpListener, UnixListener};

use crate::app::{App, AppState};
use crate::config::{Listen, ServerConfig};
use crate::stopping::Stopping;

/// Why a server could not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The engine could not be opened.
    #[error(transparent)]
    Engine(#[from] OpenError),
    /// The address is not to be had.
    #[error("failed to listen on {listen}: {source}; choose another address, or stop who has it")]
    Listen {
        /// The address.
        listen: String,
        /// Why.
        source: io::Error,
    },
    /// What `/api/env` has changed cannot be read.
    #[error("failed to read environment.json in the state directory: {0}; mend or remove it")]
    Environment(io::Error),
    /// A socket's path is taken by something that is no socket.
    #[error("{} is there and is not a socket; choose another path", .0.display())]
    NotASocket(PathBuf),
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    app: App,
    engine: Engine,
    listener: Listener,
    address: Listen,
}

impl Server {
    /// Opens the state directory and listens.
    pub async fn start(config: ServerConfig) -> Result<Self, ServeError> {
        let mut engine_config = config.engine.clone();
        crate::environment::restore(&engine_config.state_dir, &mut engine_config.env)
            .map_err(ServeError::Environment)?;
        let engine = Engine::open(engine_config).await?;
        let stopping = Stopping::default();
        let app = AppState::new(engine.clone(), &config, stopping.clone(), Arc::default());
        let failed = |source| ServeError::Listen { listen: config.listen.to_string(), source };
        let (listener, address) = match &config.listen {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).await.map_err(failed)?;
                let address = Listen::Tcp(listener.local_addr().map_err(failed)?);
                (Listener::Tcp(listener), address)
            }
            Listen::Unix(path) => {
                let listener = UnixListener::bind(path).map_err(failed)?;
                (Listener::Unix(listener), config.listen.clone())
            }
        };
        Ok(Self { app, engine, listener, address })
    }

    /// Where it listens, with the port it got.
    pub fn address(&self) -> &Listen {
        &self.address
    }

    /// The engine behind it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Serves until `stop` is ready, then drains: no new work, running requests finish within the window.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), ServeError> {
        let router = crate::router::router(self.app.clone());
        let served = match self.listener {
            Listener::Tcp(listener) => axum::serve(listener, router).with_graceful_shutdown(stop).await,
            Listener::Unix(listener) => axum::serve(listener, router).with_graceful_shutdown(stop).await,
        };
        served.map_err(|source| ServeError::Listen { listen: self.address.to_string(), source })
    }
}
