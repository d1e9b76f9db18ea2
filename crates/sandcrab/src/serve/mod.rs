//! `sandcrab serve`: a server, and a tiny parent above it.
//!
//! # Theory of operation
//!
//! ```text
//!  sandcrab serve           parent: one thread; reaps, forwards signals, starts the server again
//!   └─ sandcrab-server      the server: HTTP, the engine; started with the same words and variables
//!       └─ zygote           forks supervisors; when the server is gone, they are the parent's
//! ```
//!
//! **Lifeline** (`lifeline.rs`). The server's standard input is a socket to its parent. Over it the parent says why it
//! starts the server, and gives it the listening socket of the server before; the server says that it listens,
//! and gives the parent that socket to keep. So who connects while there is no server waits, and is not refused. The end
//! of the lifeline tells the server that its parent is gone: it stops at once, as if it had crashed, so that
//! the port and the state directory are free for another `serve`; what it ran goes on.
//!
//! **Ends.** The parent is a subreaper, or PID 1: what a crashed server leaves comes to it and is reaped. A server that
//! crashed is started again, at once the first time, after growing pauses when it goes on (`crashes.rs`). One that
//! exits with 0, or with 2 (it cannot run as it is configured), or that never came to listen, is not. The parent exits with
//! the server's code. A server that crashes while it stops is started again, too, to do it properly.
//!
//! **Signals.** The server is in a process group of its own, so that a terminal's Ctrl-C reaches the parent alone.
//! The parent forwards signals when the server listens, which is when the server can handle them; a second one
//! does not wait for that.

mod config_file;
mod crashes;
mod lifeline;
mod log;
mod parent;
mod server;
mod settings;
mod start_lines;
mod token;

pub(crate) use lifeline::is_started_by_parent;
pub(crate) use log::LogFormat;
pub(crate) use parent::run as parent;
pub(crate) use server::run as server;

/// The exit code of a server that cannot run as it is configured, so that to start it again makes no sense.
const CANNOT_RUN: u8 = 2;
