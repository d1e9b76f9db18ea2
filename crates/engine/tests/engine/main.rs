//! The engine through its public API, with real shells and real processes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod stage;
mod support;

mod bad_input;
mod crash;
mod ids;
mod restart;
mod retention;
mod runs;
mod supervisors;
