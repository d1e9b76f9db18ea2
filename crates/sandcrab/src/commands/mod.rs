//! One file per subcommand: its arguments, whose comments are its help, and what it does.

pub(crate) mod completions;
pub(crate) mod exec;
pub(crate) mod health;
pub(crate) mod kill;
pub(crate) mod logs;
pub(crate) mod ps;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod wait;
