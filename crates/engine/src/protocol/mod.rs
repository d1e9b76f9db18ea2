//! What engine, zygote and supervisors say to each other.
//!
//! Frames over unix stream sockets: a little-endian `u32` length, then one CBOR value. Every field and
//! variant has a number that is never used again for something else. A newer side leaves out nothing
//! an older one needs, and an older side skips fields it does not know; what it cannot read at all it
//! answers with [`Answer::Refused`]. `Hello` settles the version: the lower of the two sides' speaks.

mod command;
mod frames;
mod supervisor;
#[cfg(test)]
mod tests;
mod zygote;

pub(crate) use command::{Bytes, Command, OpenSession, Variable, WireProgram, WireStdin, variables};
pub(crate) use frames::{Envelope, FrameBuffer, FrameError, frame};
pub(crate) use supervisor::{Answer, Held, Inspection, Refusal, Request, Role, Stage, StreamLengths};
pub(crate) use zygote::{Capabilities, CgroupSetting, DriverChoice, Settings, ZygoteAnswer, ZygoteRequest};

/// The version this code speaks.
pub(crate) const VERSION: u16 = 4;
/// The oldest supervisor this engine can serve.
pub(crate) const OLDEST: u16 = 1;
/// The longest frame: a command, its environment and its standard input at their limits.
pub(crate) const MAX_FRAME: usize = 96 << 20;

/// A number that names a supervisor: its socket, its cgroup and the tags of its processes.
pub(crate) type Nonce = u64;
