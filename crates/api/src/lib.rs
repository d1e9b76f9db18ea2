//! The wire contract of Sandcrab: requests, responses, events and error codes.
//!
//! # Contents
//!
//! Every type that crosses the wire is defined here once, for the server, the Rust client and the OpenAPI
//! document. This crate does no I/O.
//!
//! - [`execute`]: running a command; [`process`]: started executions; [`session`]: persistent shells.
//! - [`terminal`]: programs with a screen; [`file`](mod@file): files of the sandbox; [`search`]: search in them; [`watch`]: their
//!   changes.
//! - [`backup`]: backups of folders.
//! - [`event`]: stream events; [`frame`]: the frames of the multiplexed WebSocket.
//! - [`service`]: programs that are kept running; [`server`]: the server itself.
//! - [`error`]: the [`ErrorCode`]s, each with one HTTP status.
//!
//! # Conventions
//!
//! Names on the wire are camelCase, durations are milliseconds, times are ISO 8601 in UTC ([`Timestamp`]).
//! Requests are read strictly: an unknown field or value is refused, and the error names it. Responses are
//! read leniently: a client ignores unknown fields, and reads unknown enum values as `Unknown`.

pub mod backup;
pub mod error;
pub mod event;
pub mod execute;
pub mod file;
pub mod frame;
pub mod git;
mod json_error;
mod message;
mod object;
pub mod port;
pub mod process;
pub mod search;
pub mod server;
pub mod service;
pub mod session;
mod shorthand;
pub mod signal;
pub mod terminal;
mod time;
pub mod watch;
mod wire_enum;

pub use error::{ErrorBody, ErrorCode};
pub use json_error::JsonProblem;
pub use message::without_error_number;
pub use object::Object;
pub use time::Timestamp;

/// Session id that stands for "no session".
pub const NO_SESSION: &str = "__DISABLE_SESSION__";
/// Header with the session id, used if the body has none.
pub const SESSION_HEADER: &str = "x-session-id";
/// Header with the request id, in requests and responses.
pub const REQUEST_ID_HEADER: &str = "x-request-id";
/// Header with the id of the last event that the client received.
pub const LAST_EVENT_ID_HEADER: &str = "last-event-id";
/// Header with the idempotency key of a start.
pub const IDEMPOTENCY_HEADER: &str = "idempotency-key";
/// Default maximum of bytes per stream in a response.
pub const DEFAULT_OUTPUT_BYTES: u64 = 10 << 20;
