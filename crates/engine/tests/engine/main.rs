//! The engine through its public API, with real shells and real processes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

mod output;
mod runs;
mod soak;
