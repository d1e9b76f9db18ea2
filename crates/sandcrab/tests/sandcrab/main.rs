//! The program as people use it: real servers, real commands, real signals.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

mod errors;
mod exec;
mod help;
mod processes;
mod resume;
mod run;
mod sessions;
mod signals;
mod terminal;
