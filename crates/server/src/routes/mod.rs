//! The routes, one file per resource.

pub(crate) mod backup;
pub(crate) mod environment;
pub(crate) mod events;
pub(crate) mod execute;
pub(crate) mod exposure;
pub(crate) mod file;
pub(crate) mod find;
pub(crate) mod git;
pub(crate) mod logs;
pub(crate) mod output;
pub(crate) mod port;
pub(crate) mod process;
pub(crate) mod recording;
pub(crate) mod replace;
pub(crate) mod screen;
pub(crate) mod search;
pub(crate) mod server;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod socket;
pub(crate) mod stdin;
pub(crate) mod terminal;
pub(crate) mod terminal_input;
pub(crate) mod terminal_socket;
pub(crate) mod watch;
