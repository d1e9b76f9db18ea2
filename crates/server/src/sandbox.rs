//! [`Sandbox`]: the sandbox of a request.
//!
//! A server has one sandbox today. Its extractor is the only place that selects it.

use std::convert::Infallible;
use std::ffi::OsString;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use sandcrab_engine::Engine;

use crate::app::App;
use crate::config::{Defaults, ServerConfig};

/// The sandbox of a request. A handle.
#[derive(Debug, Clone)]
pub(crate) struct Sandbox(Arc<SandboxState>);

/// See [`Sandbox`].
#[derive(Debug)]
pub(crate) struct SandboxState {
    pub(crate) engine: Engine,
    /// Default working directory of commands.
    pub(crate) workspace: String,
    /// Default limits of commands.
    pub(crate) defaults: Defaults,
    /// The initial environment of the server.
    pub(crate) given_env: Vec<(OsString, OsString)>,
    /// Held during a change of the environment.
    pub(crate) environment: tokio::sync::Mutex<()>,
}

impl Sandbox {
    pub(crate) fn new(engine: Engine, config: &ServerConfig) -> Self {
        Self(Arc::new(SandboxState {
            engine,
            workspace: config.engine.cwd.to_string_lossy().into_owned(),
            defaults: config.defaults.clone(),
            given_env: config.engine.env.clone(),
            environment: tokio::sync::Mutex::new(()),
        }))
    }
}

impl Deref for Sandbox {
    type Target = SandboxState;

    fn deref(&self) -> &SandboxState {
        &self.0
    }
}

impl FromRequestParts<App> for Sandbox {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(app.sandbox.clone())
    }
}
