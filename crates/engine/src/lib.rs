//! Runs commands, keeps shells, records every byte, and ends what it started.

mod command;
mod end;
mod engine;
mod id;
mod journal;
mod process_tree;
mod protocol;
mod record;
mod shell;
mod supervisor;
mod sys;
mod wire;

pub use command::{
    CommandSpec, LeftoverPolicy, Limits, MAX_COMMAND_BYTES, MAX_ENV_BYTES, MAX_STDIN_BYTES, Program,
    SessionEndPolicy, Stdin,
};
pub use end::{End, EndReason, KillReceipt, Killed, Leftover, MAX_LEFTOVERS, Usage};
pub use engine::{
    CgroupUse, ControlError, DEFAULT_GRACE, Engine, EngineConfig, Entry, Event, Execution, ExecutionInfo,
    Follower, Health, Inspection, OUTCOME_BYTES, OpenError, Outcome, Output, ReadError, Retention, Session,
    SessionError, SessionInfo, SessionSpec, ShellDriver, StartError, Status, Stream, StreamOutput,
    SupervisorProgram,
};
pub use id::{ExecutionId, IdError, MAX_ID_BYTES, SessionId};

/// Call this first in `main`, before any thread is started.
pub fn init() {
    supervisor::zygote::enter_if_asked();
}
