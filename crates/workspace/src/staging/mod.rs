//! Work under a temporary name: a directory that gets its name when it is complete ([`Staging`]), and a record of
//! temporary names that survives a SIGKILL of the process ([`Records`]).

mod directory;
mod record;

pub use directory::Staging;
pub use record::{Leftover, MAX_RECORDS, Record, Records, Recovered};
