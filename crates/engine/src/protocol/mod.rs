//! The messages between engine, zygote and supervisors.
//!
//! Messages are frames over unix stream sockets: a little-endian `u32` length, then one CBOR value. Every field and
//! variant has a number that is never reused. Fields are only added, and an older side skips unknown ones. A request
//! that it cannot read is answered with [`Response::Refused`]. `Hello` negotiates the version: the lower one of both
//! sides.

mod command;
mod frames;
mod supervisor;
#[cfg(test)]
mod tests;
mod zygote;

pub(crate) use command::{
    Bytes, Command, OpenSession, TerminalOptions, Variable, WireProgram, WireStdin, variables,
};
pub(crate) use frames::{Envelope, FrameBuffer, FrameError, frame};
pub(crate) use supervisor::{
    Inspection, Refusal, Request, Response, Role, STATE_TOO_LARGE, Stage, StreamLengths, SupervisedExecution,
};
pub(crate) use zygote::{Capabilities, CgroupSetting, DriverChoice, Settings, ZygoteReply, ZygoteRequest};

/// The version of this code.
pub(crate) const VERSION: u16 = 6;
/// The oldest supported version of supervisors.
pub(crate) const OLDEST: u16 = 1;
/// Maximum length of a frame, in bytes: a command, its environment and its standard input at their limits.
pub(crate) const MAX_FRAME: usize = 96 << 20;

/// A number that identifies a supervisor: its socket, its cgroup and the tags of its processes.
pub(crate) type Nonce = u64;
