//! HTTP, SSE and WebSocket over the engine: routes, access, limits, metrics. Knows nothing of system calls.
//!
//! # Usage
//!
//! [`Server::start`] opens the engine's state directory and listens; [`Server::run`] serves until it is told to
//! stop, and drains.
//!
//! # Theory of operation
//!
//! A request passes `access` (who may ask), is parsed into a type of `sandcrab-api`, becomes a call of the engine, and the
//! answer is one of the wire's types again. The server keeps nothing that a restart would lose: what must be remembered
//! of an execution or a session is a note in the engine's own record of it.
//!
//! Output never passes through memory as a whole: answers and streams are read from the journal as the client takes
//! them, so that a slow client costs one buffer and delays nobody.

mod access;
mod admission;
mod app;
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
mod framing;
mod input;
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
mod response_output;
mod router;
mod routes;
mod sandbox;
mod self_waking;
mod server;
mod signal;
mod socket;
mod stopping;
mod summary;
mod text;

pub use compat::{Compat, SandboxSdk};
pub use config::{Access, Defaults, Listen, ServerConfig, ServerLimits};
pub use listening::Listening;
pub use server::{ServeError, Server};

/// The OpenAPI 3.1 document of this server, as it is served at `/openapi.json` and committed beside the code.
pub fn openapi_json() -> String {
    router::openapi_json()
}
