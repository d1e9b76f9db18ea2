//! The HTTP conformance suite, fixture programs that misbehave on purpose, and the benchmark with its floors.
//!
//! # The suite
//!
//! [`cases`] say what a server has to do, and know nothing of how: they speak HTTP through [`http`], and take the server's
//! address. The program `conformance --url http://…` runs them against any server; the tests run each against a server
//! of its own, and those in `tests/http` also crash, fill and flood it.
//!
//! # Fixtures and the benchmark
//!
//! The other programs in `src/bin` are what the tests run: each does one thing a well-behaved program would
//! not, and its name is a sentence about it. All of them end by themselves after
//! [`fixture::LIFETIME_VARIABLE`] seconds, so that a failing test cannot leave one behind for long.
//!
//! [`fixture`] holds what they share, and what a test needs to know what they will write.
//! [`bench`](mod@bench) measures the floors that every figure in `SPECIFICATION.md` is compared with.

pub mod bench;
pub mod cases;
pub mod fixture;
pub mod http;
pub mod shape;
