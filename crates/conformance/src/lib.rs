//! The HTTP conformance suite, fixture programs that misbehave on purpose, and the benchmark with its floors.
//!
//! # The suite
//!
//! [`cases`] define the behaviour of a server, independent of its implementation. They use HTTP through
//! [`http`], and take the server's address. The program `conformance --url http://…` runs them against any
//! server. The tests run each case against its own server; those in `tests/http` also crash, fill and flood
//! it.
//!
//! # Fixtures and the benchmark
//!
//! The tests run the other programs in `src/bin`. Each has one kind of misbehaviour, which its name
//! describes. Each exits by itself after [`fixture::LIFETIME_VARIABLE`] seconds, so that a failing test does
//! not leave one behind for long.
//!
//! [`fixture`] contains the code that they share, and the output that tests expect of them.
//! [`bench`](mod@bench) measures the floors to which the figures in `SPECIFICATION.md` are compared.

pub mod bench;
pub mod cases;
pub mod fixture;
pub mod http;
pub mod shape;
