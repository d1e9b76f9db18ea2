//! One file per command, or per group of commands (`session`, `terminal`): the arguments, whose doc comments are the help, and the
//! function that runs it.

pub(crate) mod attach;
pub(crate) mod cat;
pub(crate) mod chmod;
pub(crate) mod cleanup;
pub(crate) mod completions;
pub(crate) mod cp;
pub(crate) mod env;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod health;
pub(crate) mod inspect;
pub(crate) mod kill;
pub(crate) mod logs;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod mkdir;
pub(crate) mod mv;
pub(crate) mod play;
pub(crate) mod ports;
pub(crate) mod ps;
pub(crate) mod record;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod shell;
pub(crate) mod signal;
pub(crate) mod start;
pub(crate) mod stat;
pub(crate) mod stdin;
pub(crate) mod terminal;
pub(crate) mod wait;
pub(crate) mod write;
