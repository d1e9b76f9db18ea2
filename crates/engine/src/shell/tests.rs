//! Runs shells as a supervisor does, over both drivers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod harness;
mod more;
mod table;
