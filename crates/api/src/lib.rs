//! The wire contract of Sandcrab: requests, answers, events and error codes.
//!
//! # What
//!
//! Every type that crosses the wire, once, for the server, the Rust client and the OpenAPI document. Nothing here reads
//! or writes anything.
//!
//! - [`execute`]: running a command; [`process`]: what was started; [`session`]: persistent shells.
//! - [`terminal`]: programs with a screen.
//! - [`event`]: what streams carry; [`frame`]: the frames of the multiplexed WebSocket.
//! - [`service`]: the server about itself.
//! - [`error`]: the closed list of [`ErrorCode`]s, each with one HTTP status.
//!
//! # Conventions
//!
//! Names on the wire are camelCase, durations are milliseconds, times are ISO 8601 in UTC ([`Timestamp`]). Requests are
//! read strictly: a field or a value that is not known is refused, and the refusal names it. Answers are read leniently: a client
//! passes over fields that it does not know, and reads words that it does not know as `Unknown`.

pub mod error;
pub mod event;
pub mod execute;
pub mod frame;
mod object;
pub mod process;
pub mod service;
pub mod session;
pub mod signal;
pub mod terminal;
mod time;
mod wire_enum;

pub use error::{ErrorBody, ErrorCode};
pub use object::Object;
pub use time::Timestamp;

/// The id that, in place of a session's, asks for no session.
pub const NO_SESSION: &str = "__DISABLE_SESSION__";
/// The header that names a session where the body does not.
pub const SESSION_HEADER: &str = "x-session-id";
/// The header that carries a request's id, both ways.
pub const REQUEST_ID_HEADER: &str = "x-request-id";
/// The header that names the last event a client has received of a stream.
pub const LAST_EVENT_ID_HEADER: &str = "last-event-id";
/// The header that makes a start happen once.
pub const IDEMPOTENCY_HEADER: &str = "idempotency-key";
/// The most bytes of each stream that an answer carries unless the request says otherwise.
pub const DEFAULT_OUTPUT_BYTES: u64 = 10 << 20;
