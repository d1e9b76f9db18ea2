//! Git: runs the `git` program through the engine ([`command`]), checks URLs ([`url`]), classifies failures
//! ([`failure`]) and parses output ([`parse`]).

pub(crate) mod clone;
pub(crate) mod command;
pub(crate) mod diff;
pub(crate) mod failure;
pub(crate) mod parse;
pub(crate) mod progress;
pub(crate) mod secrets;
pub(crate) mod url;
