//! The engine through its public API, with real shells and real processes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod neighbourhood;
mod processes;
mod stage;
mod support;

mod bad_input;
mod ids;
mod kill;
mod leftovers;
mod previous;
mod retention;
mod runs;
mod traps;
