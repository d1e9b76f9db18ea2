//! The program as its users meet it: real processes, real signals.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod serve_config;
mod serve_init;
mod serve_restart;
mod serve_start;
mod serve_stop;
mod support;
