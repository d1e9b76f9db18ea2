//! `sandcrab serve`: a server, and a small parent process that restarts it.
//!
//! # Theory of operation
//!
//! ```text
//!  sandcrab serve           parent: one thread; reaps, forwards signals, starts the server again
//!   └─ sandcrab-server      the server: HTTP, the engine; started with the same arguments and environment
//!       └─ zygote           forks supervisors, which the parent inherits when the server ends
//! ```
//!
//! **Control socket** (`control_socket.rs`). The server's standard input is a socket to its parent. The parent sends the reason
//! of the start and the listening socket of the previous server. The server reports that it listens, and gives the parent
//! that socket to keep: clients that connect while there is no server wait, and are not refused. The end of the control socket
//! tells the server that its parent has ended. It then stops at once, as after a crash, so that the port and the state
//! directory are free for another `serve`; running commands continue.
//!
//! **Restarts.** The parent is a subreaper, or PID 1: it reaps the orphans of a crashed server. It restarts a crashed server
//! at once the first time, and then after growing delays (`crashes.rs`). It does not restart one that exits with 0 or 2
//! (invalid configuration), or that has never listened. The parent exits with the server's exit code. A server that crashes
//! while it stops is restarted, too, to stop properly.
//!
//! **Signals.** The server is in a process group of its own, so that a terminal's Ctrl-C reaches the parent alone.
//! The parent forwards signals when the server listens and can handle them; it forwards a second signal at once.
//!
//! **Main program** (`main_program.rs`). The command after `--` is the parent's child: a restart of the server does not
//! touch it. If it fails, the parent stops the server and exits with its code.

mod compat;
mod config_file;
mod control_socket;
mod crashes;
mod log;
mod main_program;
mod mcp;
mod message;
mod parent;
mod server;
mod settings;
mod start_lines;
mod token;

pub(crate) use compat::CompatMode;
pub(crate) use control_socket::is_started_by_parent;
pub(crate) use log::LogFormat;
pub(crate) use parent::run as parent;
pub(crate) use server::run as server;

/// The exit code of a server with an invalid configuration, which is not restarted.
const CANNOT_RUN: u8 = 2;
