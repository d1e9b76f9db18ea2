//! [`Sandbox`]: the sandbox of a request.
//!
//! A server has one sandbox today. Its extractor is the only place that selects it.

use std::convert::Infallible;
use std::ffi::OsString;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use sandcrab_engine::{Engine, User};
use sandcrab_workspace::staging::{Leftover, Records};
use sandcrab_workspace::{WORKSPACE, is_directory_without_waiting};

use crate::app::App;
use crate::config::{Defaults, ServerConfig};
use crate::file_threads::FileThreads;

/// Name of the file with the temporary names in use, in the state directory.
const STAGED: &str = "staged";

/// The sandbox of a request. A handle.
#[derive(Debug, Clone)]
pub(crate) struct Sandbox(Arc<SandboxState>);

/// See [`Sandbox`].
#[derive(Debug)]
pub(crate) struct SandboxState {
    pub(crate) engine: Engine,
    /// Default working directory of commands.
    pub(crate) workspace: String,
    /// The same, as it is on the disk.
    pub(crate) workspace_path: PathBuf,
    /// The state directory of the engine.
    pub(crate) state_dir: PathBuf,
    /// Default user of commands; `None` for the user of the server.
    pub(crate) run_as: Option<User>,
    /// Threads for operations on files.
    pub(crate) file_threads: FileThreads,
    /// Temporary names in use.
    pub(crate) records: Records,
    /// What an earlier server left behind, until it is removed.
    pub(crate) leftovers: Mutex<Vec<Leftover>>,
    /// Default limits of commands.
    pub(crate) defaults: Defaults,
    /// The initial environment of the server.
    pub(crate) given_env: Vec<(OsString, OsString)>,
    /// Held during a change of the environment.
    pub(crate) environment: tokio::sync::Mutex<()>,
}

impl Sandbox {
    pub(crate) fn new(engine: Engine, config: &ServerConfig) -> Self {
        let (records, leftovers) =
            Records::open(&config.engine.state_dir.join(STAGED)).unwrap_or_else(|error| {
                tracing::warn!(%error, "temporary files will stay after a crash");
                (Records::none(), Vec::new())
            });
        Self(Arc::new(SandboxState {
            engine,
            records,
            leftovers: Mutex::new(leftovers),
            workspace: config.engine.cwd.to_string_lossy().into_owned(),
            workspace_path: config.engine.cwd.clone(),
            state_dir: config.engine.state_dir.clone(),
            run_as: config.engine.run_as.clone(),
            file_threads: FileThreads::default(),
            defaults: config.defaults.clone(),
            given_env: config.engine.env.clone(),
            environment: tokio::sync::Mutex::new(()),
        }))
    }

    /// Whether `/workspace` is a directory of the machine. It may be created at any time.
    pub(crate) fn has_workspace_directory(&self) -> bool {
        self.workspace_path == Path::new(WORKSPACE) || is_directory_without_waiting(Path::new(WORKSPACE))
    }

    /// The working directory that a command names. `/workspace` means the workspace if the machine has no such
    /// directory.
    pub(crate) fn working_directory(&self, given: String) -> PathBuf {
        match Path::new(&given).strip_prefix(WORKSPACE) {
            Ok(below) if !self.has_workspace_directory() => match below.as_os_str().is_empty() {
                true => self.workspace_path.clone(),
                false => self.workspace_path.join(below),
            },
            _ => given.into(),
        }
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
