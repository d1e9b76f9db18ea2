//! Fixture programs that misbehave on purpose, and the benchmark with its floors.
//!
//! The programs in `src/bin` are what the tests run: each does one thing a well-behaved program would
//! not, and its name is a sentence about it. All of them end by themselves after
//! [`fixture::LIFETIME_VARIABLE`] seconds, so that a failing test cannot leave one behind for long.
//!
//! [`fixture`] holds what they share, and what a test needs to know what they will write.
//! [`bench`](mod@bench) measures the floors that every figure in `SPECIFICATION.md` is compared with.

pub mod bench;
pub mod fixture;
