//! An async Rust client of a Sandcrab server, on the shared wire types.
//!
//! # What
//!
//! A [`Client`] has one method for each route, in one module for each resource: commands (`execute`), processes (`process`),
//! sessions (`session`), terminals (`terminal`), the server (`service`). Requests and responses are the types of [`api`], which the server uses too.
//!
//! # Usage
//!
//! ```no_run
//! use sandcrab_client::api::execute::CommandRequest;
//! use sandcrab_client::api::session::SessionRequest;
//! use sandcrab_client::{Client, ClientError};
//!
//! # async fn example() -> Result<(), ClientError> {
//! let client = Client::connect("unix:/run/sandcrab.sock", None)?;
//!
//! // A stateless command.
//! let request = CommandRequest { command: "uname -s".into(), ..CommandRequest::default() };
//! let result = client.execute(&request).await?;
//! assert_eq!(result.stdout, "Linux\n");
//!
//! // A session: a shell that keeps its state.
//! let session = client.create_session(&SessionRequest::default()).await?;
//! for command in ["cd /tmp; greet() { echo \"hello from $PWD\"; }", "greet"] {
//!     let session_id = Some(session.id.clone());
//!     let request = CommandRequest { command: command.into(), session_id, ..CommandRequest::default() };
//!     client.execute(&request).await?;
//! }
//! client.delete_session(&session.id).await?;
//!
//! // A background process: standard input and end.
//! let keep_stdin_open = Some(true);
//! let request = CommandRequest { command: "cat".into(), keep_stdin_open, ..CommandRequest::default() };
//! let process = client.start_process(&request).await?;
//! client.write_stdin(&process.process_id, "hello\n", true).await?;
//! assert_eq!(client.wait(&process.process_id, None).await?.exit_code, Some(0));
//! # Ok(()) }
//! ```
//!
//! # Theory of operation
//!
//! A call is one request over a connection pool. Only idempotent requests are repeated after a lost connection.
//!
//! A stream ([`Events`]) outlives its connection. Each event has a cursor. After a lost connection the stream requests the
//! events after the last cursor (`Last-Event-ID`), with exponential backoff, until [`RESUME_WINDOW`] has passed. A streamed
//! command and a started process have an idempotency key, so a repeated request finds the same execution. A connection
//! without data, and without the server's heartbeat, counts as lost.
//!
//! A viewer of a terminal ([`Attachment`]) is a WebSocket, and outlives its connection in the same way: it resumes after the
//! last byte that it has received, or with a repaint of the screen.
//!
//! All errors are [`ClientError`]s: errors of the server with their code, and errors of the connection.
//! [`ClientError::hint`] has advice.
//!
//! # Limits
//!
//! A response has at most 1 GiB and an event 64 MiB. Proxies of the environment are not used, and redirects are not followed:
//! the token is only sent to the given address. `https` is a feature of this crate.

mod address;
mod client;
mod error;
mod execute;
mod file;
mod git;
mod key;
#[cfg(test)]
mod newer;
mod port;
mod process;
mod retry;
mod search;
mod service;
mod session;
mod sse;
mod stream;
mod terminal;
mod watch;

pub use address::{Address, AddressError};
pub use client::Client;
pub use error::ClientError;
pub use file::PutOptions;
pub use process::{FollowOptions, KillOptions, LogOptions, OutputStream, ProcessFilter, RawOutput};
pub use retry::RESUME_WINDOW;
pub use sandcrab_api as api;
pub use stream::{Events, StreamEvent};
pub use terminal::{
    AttachOptions, Attachment, MAX_QUEUED_INPUT_BYTES, Recording, ScreenOptions, TerminalEvent,
};
