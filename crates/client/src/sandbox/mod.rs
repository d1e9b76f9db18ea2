//! [`Sandbox`] and its objects: one file for each noun. They hold an id and a [`crate::Client`], whose methods do the work.

mod backups;
mod command;
mod ending;
mod exec;
mod files;
mod git;
mod handle;
mod ports;
mod process;
mod processes;
mod scope;
mod searches;
mod service;
mod services;
mod session;
mod socket;
mod terminal;

pub use command::Command;
pub use exec::ExecStream;
pub use handle::Sandbox;
pub use process::{LogMatch, Process};
pub use sandcrab_api::execute::ExecuteResult as ExecResult;
pub use scope::Scope;
pub use service::Service;
pub use session::Session;
pub use socket::{PtyOptions, Socket, SocketMessage};
pub use terminal::Terminal;
