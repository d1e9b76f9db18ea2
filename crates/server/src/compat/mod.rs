//! Imitation of other servers: [`Compat`].
//!
//! A mode replaces some routes and translates the responses of the others. Only [`crate::router`] reads
//! which mode is configured. `docs/sandbox-sdk.md` lists the differences from the native API, and the
//! reasons.

mod commands;
mod errors;
mod pty;
mod requests;
mod sessions;
mod turns;

use std::ffi::OsString;
use std::sync::Arc;

use axum::middleware::from_fn;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use sandcrab_api::Timestamp;
use serde::Serialize;

use crate::app::App;
use crate::files::FileRules;
use turns::SessionLocks;

/// The version of the Sandbox SDK whose container server is imitated.
const SDK_VERSION: &str = "0.12.7";

/// The server whose behaviour is imitated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compat {
    /// The container server of the Sandbox SDK, 0.12.
    SandboxSdk(SandboxSdk),
}

impl Compat {
    /// The container server of the Sandbox SDK, configured by its environment variables.
    pub fn sandbox_sdk_from(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let text = |name| Some(variable(name)?.to_string_lossy().into_owned());
        Self::SandboxSdk(SandboxSdk {
            version: text("SANDBOX_VERSION").unwrap_or_else(|| SDK_VERSION.to_owned()),
            placement: text("CLOUDFLARE_PLACEMENT_ID"),
            home: text("HOME").unwrap_or_else(|| "/root".to_owned()),
        })
    }

    /// Returns the routes of this mode, in front of the native ones. `layered` adds the layers of all routes.
    pub(crate) fn router(&self, native: Router<App>, layered: impl Fn(Router<App>) -> Router) -> Router {
        let Self::SandboxSdk(sdk) = self;
        sdk.router(native, layered)
    }
}

/// Settings of the imitated container server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSdk {
    /// Version in `/api/version`: `SANDBOX_VERSION`.
    version: String,
    /// Id of this container: `CLOUDFLARE_PLACEMENT_ID`.
    placement: Option<String>,
    /// Working directory of a session if the requested one does not exist: `HOME`.
    home: String,
}

/// The reference creates a session that a path names, and decides by the name of a file whether it is binary.
const FILE_RULES: FileRules = FileRules { unknown_session_is_none: true, type_by_name: true };

/// State shared by the routes of this mode. A handle.
#[derive(Debug, Clone)]
struct Mode(Arc<ModeState>);

/// See [`Mode`].
#[derive(Debug)]
struct ModeState {
    sdk: SandboxSdk,
    turns: SessionLocks,
}

impl SandboxSdk {
    fn router(&self, native: Router<App>, layered: impl Fn(Router<App>) -> Router) -> Router {
        let mode = Mode(Arc::new(ModeState { sdk: self.clone(), turns: SessionLocks::default() }));
        let own = Router::new()
            .route("/api/execute", post(commands::execute))
            .route("/api/execute/stream", post(commands::execute_stream))
            .route("/api/process/start", post(commands::start))
            .route("/api/session/create", post(sessions::create))
            .route("/api/session/delete", post(sessions::delete))
            .route("/api/version", get(version))
            .route("/ws/pty", get(pty::open))
            .method_not_allowed_fallback(crate::router::method_not_allowed)
            .layer(from_fn(errors::translate))
            .layer(Extension(mode));
        let native = native.layer(from_fn(errors::translate)).layer(Extension(FILE_RULES));
        // Added after the layers, because the native routes have their own.
        layered(own).fallback_service(layered(native))
    }
}

/// Response of `/api/version`.
#[derive(Debug, Serialize)]
struct Version {
    success: bool,
    version: String,
    timestamp: Timestamp,
}

async fn version(Extension(Mode(mode)): Extension<Mode>) -> Json<Version> {
    Json(Version { success: true, version: mode.sdk.version.clone(), timestamp: Timestamp::now() })
}
