//! The tools, one file for each resource.

pub(crate) mod edit;
pub(crate) mod exec;
pub(crate) mod file;
pub(crate) mod lines;
pub(crate) mod port;
pub(crate) mod process;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod terminal;
