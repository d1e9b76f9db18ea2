//! HTTP, SSE and WebSocket over the engine: routes, access, limits, metrics. This crate makes no system
//! calls.
//!
//! # Usage
//!
//! [`Server::start`] opens the engine's state directory and listens. [`Server::run`] serves until it is signalled
//! to stop, and drains.
//!
//! # Theory of operation
//!
//! A request passes the checks of `access`, is parsed into a type of `sandcrab-api`, and becomes a call of
//! the engine. The result is converted to a type of `sandcrab-api` again. The server has no state that a
//! restart would lose: data about an execution or a session is a note in the engine's record.
//!
//! Output is never held whole in memory. Responses and streams are read from the journal as the client reads,
//! so a slow client occupies one buffer and delays no other.

mod access;
mod admission;
mod app;
mod archive;
mod backups;
mod body;
mod compat;
mod config;
mod connections;
mod convert;
mod cursor;
mod dispatch;
mod document;
mod environment;
mod error;
mod events;
mod feed;
mod file_threads;
mod files;
mod framing;
mod git;
mod input;
mod json_list;
mod launch;
mod layer;
mod listening;
mod metrics;
mod nearest;
mod note;
mod operations;
mod options;
mod origin;
mod outgoing;
mod ports;
mod preview;
mod query;
mod response_output;
mod router;
mod routes;
mod sandbox;
mod searches;
mod self_waking;
mod server;
mod services;
mod signal;
mod socket;
mod stopping;
mod summary;
mod terminal;
mod text;
mod unrecorded;

pub use compat::{Compat, SandboxSdk};
pub use config::{Access, Defaults, Listen, ServerConfig, ServerLimits};
pub use listening::Listening;
pub use preview::{PreviewScheme, PreviewSettings, PreviewSettingsError};
pub use server::{ServeError, Server};

/// Returns the OpenAPI 3.1 document of this server, as served at `/openapi.json` and committed in the
/// repository.
pub fn openapi_json() -> String {
    router::openapi_json()
}
