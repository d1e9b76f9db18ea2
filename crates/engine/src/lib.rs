//! Runs commands, keeps shells, records every byte, and ends what it started.

mod command;
mod end;
mod id;
mod sys;

pub use command::{
    CommandSpec, LeftoverPolicy, Limits, MAX_COMMAND_BYTES, MAX_ENV_BYTES, MAX_STDIN_BYTES, Program,
    SessionEndPolicy, Stdin,
};
pub use end::{End, EndReason, KillReceipt, Killed, Leftover, Usage};
pub use id::{ExecutionId, IdError, MAX_ID_BYTES, SessionId};

/// Call this first in `main`, before any thread is started.
pub fn init() {}
