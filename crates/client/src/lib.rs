//! An async Rust client of a Sandcrab server, on the shared wire types.
//!
//! # What
//!
//! A [`Client`] has one method a route, in one module a resource: running commands (`execute`), what was started
//! (`process`), persistent shells (`session`), the server about itself (`service`). Requests and answers are the types of
//! [`api`], the same that the server uses.
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
//! // A command in a shell of its own.
//! let request = CommandRequest { command: "uname -s".into(), ..CommandRequest::default() };
//! let result = client.execute(&request).await?;
//! assert_eq!(result.stdout, "Linux\n");
//!
//! // A shell that keeps its state.
//! let session = client.create_session(&SessionRequest::default()).await?;
//! for command in ["cd /tmp; greet() { echo \"hello from $PWD\"; }", "greet"] {
//!     let session_id = Some(session.id.clone());
//!     let request = CommandRequest { command: command.into(), session_id, ..CommandRequest::default() };
//!     client.execute(&request).await?;
//! }
//! client.delete_session(&session.id).await?;
//!
//! // A process in the background: its output as it comes, its standard input, its end.
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
//! A call is one request over a pool of kept connections. Nothing is sent twice unless sending it twice is the same as
//! sending it once.
//!
//! A stream ([`Events`]) is more than its connection. Every event brings a cursor; when the connection is cut, the
//! stream asks for what comes after the last cursor (`Last-Event-ID`), with growing pauses, until the server is back or
//! [`RESUME_WINDOW`] has passed. A command that is streamed is started under a key of its own, so that asking again finds
//! the same execution. A connection that is silent for longer than the server's heartbeat allows counts as cut.
//!
//! Errors are of one type, [`ClientError`]: the server's own refusals with their code, and what can happen on the way;
//! [`ClientError::hint`] says what may help.
//!
//! # Limits
//!
//! An answer has 1 GiB at most and an event 64 MiB; what may be larger is streamed. Proxies of the environment are not
//! used, and redirects are not followed: the token goes to the address it was given for. `https` is a feature of this
//! crate.

mod address;
mod client;
mod error;
mod execute;
mod key;
mod process;
mod retry;
mod service;
mod session;
mod sse;
mod stream;

pub use address::{Address, AddressError};
pub use client::Client;
pub use error::ClientError;
pub use process::{FollowOptions, KillOptions, LogOptions, OutputStream, ProcessFilter, RawOutput};
pub use retry::RESUME_WINDOW;
pub use sandcrab_api as api;
pub use stream::{Events, StreamEvent};
