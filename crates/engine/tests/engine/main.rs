//! The engine through its public API, with real shells and real processes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

mod bad_input;
mod cgroups;
mod crash;
mod deadlines;
mod ends;
mod errors;
mod events;
mod full_disk;
mod history;
mod ids;
mod kill;
mod leftovers;
mod limits;
mod lowered_limits;
mod notes;
mod output;
mod overflow;
mod ports;
mod previous;
mod restart;
mod retention;
mod runs;
mod session_state;
mod sessions;
mod soak;
mod stop;
mod supervisors;
mod terminals;
mod traps;
mod untagged;
mod users;
mod waiting;
