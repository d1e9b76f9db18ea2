//! An async Rust client of a Sandcrab server, on the shared wire types.
//!
//! # What
//!
//! | noun | what it is | made by |
//! |---|---|---|
//! | [`Sandbox`] | a server and a token; holds no state of the server | [`Sandbox::connect`], [`Sandbox::from_env`] |
//! | [`Session`] | a shell that keeps its state; its calls are bound to it | [`Sandbox::create_session`] |
//! | [`Process`] | a command in the background | [`Scope::start_process`] |
//! | [`Service`] | a process that is restarted and checked | [`Scope::start_service`] |
//! | [`Terminal`] | a pseudo-terminal with its screen | [`Scope::terminal`] |
//! | [`ExecResult`] | the end of a command, also after a timeout | [`Scope::exec`] |
//! | [`ClientError`] | why a call failed, with the code of the server | |
//!
//! [`Scope`] has the calls that a sandbox and a session share: commands, files, searches, Git, backups, ports. Below it is
//! [`Client`], with one method for each route. Requests and responses are the types of [`api`], which the server uses too.
//!
//! # Usage
//!
//! ```no_run
//! use sandcrab_client::api::session::SessionRequest;
//! use sandcrab_client::{ClientError, Sandbox};
//!
//! # async fn example() -> Result<(), ClientError> {
//! // The address is in SANDCRAB_URL, the token in SANDCRAB_TOKEN.
//! let sandbox = Sandbox::from_env()?;
//! let result = sandbox.exec("echo hello; exit 3").await?;
//! assert_eq!((result.stdout.as_str(), result.exit_code), ("hello\n", 3));
//!
//! let request = SessionRequest { cwd: Some("/usr".into()), ..SessionRequest::default() };
//! let session = sandbox.create_session(request).await?;
//! session.exec("cd share; NAME=value").await?;
//! assert_eq!(session.exec("echo $NAME in $PWD").await?.stdout, "value in /usr/share\n");
//! session.delete().await?;
//!
//! let worker = sandbox.start_process("echo ready; sleep 1000").await?;
//! assert_eq!(worker.wait_for_log("ready", None).await?.line, "ready");
//! worker.kill().await?;
//! # Ok(()) }
//! ```
//!
//! # Theory of operation
//!
//! A call is one request over a connection pool. A [`Sandbox`] sends reads, and starts of commands and services, again after
//! a lost connection, for [`RESUME_WINDOW`] ([`Sandbox::with_reconnect_timeout`]); a start has a key, so that it happens once.
//! Other calls are not repeated. The answer of a proxy in place of the server (502, 503, 504) is a lost connection.
//!
//! The server owns every command, session and file. An object is an id: dropping it ends nothing. Only [`Scope::exec`] and
//! [`Scope::exec_stream`] own their command, and dropping them ends it ([`Command::kill_on_drop`]). The connection of `exec`
//! does this: the server ends the command when it is closed. A dropped stream sends a request in a task of the runtime. So
//! does a start that is dropped before its answer, unless the program has chosen the id.
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
//! A client has at most [`MAX_CONNECTIONS`] connections. Further requests wait in order, except those that end a command or
//! give it input, which have connections of their own. A response has at most 1 GiB and an event 64 MiB. Proxies of the environment are not used, and redirects are not followed:
//! the token is only sent to the given address. `https` is a feature of this crate.

/// The program in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod address;
mod backup;
mod client;
mod connections;
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
mod sandbox;
mod search;
mod server;
mod service;
mod session;
mod sse;
mod stream;
mod terminal;
mod watch;

pub use address::{Address, AddressError};
pub use client::Client;
pub use connections::MAX_CONNECTIONS;
pub use error::ClientError;
pub use file::PutOptions;
pub use process::{FollowOptions, KillOptions, LogOptions, OutputStream, ProcessFilter, RawOutput};
pub use retry::RESUME_WINDOW;
pub use sandbox::{
    Command, ExecResult, ExecStream, LogMatch, Process, PtyOptions, Sandbox, Scope, Service, Session, Socket,
    SocketMessage, Terminal,
};
pub use sandcrab_api as api;
pub use stream::{Events, StreamEvent};
pub use terminal::{
    AttachOptions, Attachment, MAX_QUEUED_INPUT_BYTES, Recording, ScreenOptions, TerminalEvent,
};
