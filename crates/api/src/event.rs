//! What streams carry: one JSON object an event, with its `type`. Every variant has a type of its own, so that
//! generated clients get names.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::execute::{End, ProcessName, Replaced, RestoredFrom, Usage};
use crate::process::{Process, ProcessStatus};
use crate::{ErrorCode, Timestamp};

/// It runs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartEvent {
    /// The command.
    pub command: String,
    /// Its id.
    pub execution_id: String,
    /// Its process id; for a session's command that of the shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The finished execution that had the same id before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replaced>,
    /// When.
    pub timestamp: Timestamp,
}

/// It wrote something.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputEvent {
    /// What; in base64 if that was asked for.
    pub data: String,
    /// The process, in the stream of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    /// Whether bytes that are not UTF-8 were replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub invalid_utf8: bool,
    /// When it was read.
    pub timestamp: Timestamp,
}

/// Bytes that were dropped to keep the journal's bound.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GapEvent {
    /// The cursor of the first byte that is missing.
    pub from: u64,
    /// The cursor of the first byte that is there again.
    pub to: u64,
    /// When.
    pub timestamp: Timestamp,
}

/// What a command did, without its output.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Whether it returned 0.
    pub success: bool,
    /// Its exit code.
    pub exit_code: i32,
    /// The command.
    pub command: String,
    /// How long it took, in milliseconds.
    pub duration: f64,
    /// Its id.
    pub execution_id: String,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What it left running; the first 32 of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<Vec<ProcessName>>,
    /// How many processes it left running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftover_count: Option<u32>,
    /// Whether the session's shell had to be restored before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_restarted: Option<bool>,
    /// How old the restored state was, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_state_age_ms: Option<f64>,
    /// Where the restored state came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_from: Option<RestoredFrom>,
    /// Whether the command ended its session's shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell_ended: Option<bool>,
    /// When it ended.
    pub timestamp: Timestamp,
}

/// It is over.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompleteEvent {
    /// Its exit code.
    pub exit_code: i32,
    /// How it ended.
    pub end: End,
    /// What it used.
    pub usage: Usage,
    /// The same and more, without the output.
    pub result: Summary,
    /// When.
    pub timestamp: Timestamp,
}

/// The stream ends with an error.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorEvent {
    /// What happened, in a sentence.
    pub error: String,
    /// The same; what clients of the reference read.
    pub data: String,
    /// Which error it is.
    pub code: ErrorCode,
    /// The exit code, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The execution, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// When.
    pub timestamp: Timestamp,
}

/// What the stream of a command carries: `start`, output, and then `complete` or `error`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ExecuteEvent {
    /// It runs.
    Start(StartEvent),
    /// It wrote to standard output.
    Stdout(OutputEvent),
    /// It wrote to standard error.
    Stderr(OutputEvent),
    /// Bytes were dropped.
    Gap(GapEvent),
    /// It is over.
    Complete(Box<CompleteEvent>),
    /// It ended in an error.
    Error(ErrorEvent),
}

/// Which process a stream is of.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessInfoEvent {
    /// Its id.
    pub process_id: String,
    /// The command.
    pub command: String,
    /// Where it stands.
    pub status: ProcessStatus,
    /// When.
    pub timestamp: Timestamp,
}

/// A process is over.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExitEvent {
    /// Its id.
    pub process_id: String,
    /// Its exit code.
    pub exit_code: i32,
    /// Empty; clients of the reference expect it on every event.
    pub data: String,
    /// How it ended.
    pub end: End,
    /// What it used.
    pub usage: Usage,
    /// When.
    pub timestamp: Timestamp,
}

/// With `follow=false`: that is all there is so far.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaughtUpEvent {
    /// Its id.
    pub process_id: String,
    /// When.
    pub timestamp: Timestamp,
}

/// What the stream of a process carries: `process_info`, output, and then `exit`, `caught_up` or `error`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ProcessEvent {
    /// Which process it is.
    ProcessInfo(ProcessInfoEvent),
    /// It wrote to standard output.
    Stdout(OutputEvent),
    /// It wrote to standard error.
    Stderr(OutputEvent),
    /// Bytes were dropped.
    Gap(GapEvent),
    /// It is over.
    Exit(ExitEvent),
    /// There is no more for now, and nobody waits for it.
    CaughtUp(CaughtUpEvent),
    /// The stream ends with an error.
    Error(ErrorEvent),
}

/// An execution has started or ended.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ExecutionChangeEvent {
    /// As it is now.
    pub process: Process,
    /// When.
    pub timestamp: Timestamp,
}

/// The record of an execution was removed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionRemovedEvent {
    /// Its id.
    pub execution_id: String,
    /// When.
    pub timestamp: Timestamp,
}

/// Something happened to a session.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionChangeEvent {
    /// Its id.
    pub session_id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When.
    pub timestamp: Timestamp,
}

/// The reader was too slow for some events: look at the lists again.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct MissedEvent {
    /// How many were missed.
    pub count: u64,
    /// When.
    pub timestamp: Timestamp,
}

/// The stream is open: what happens from now on is in it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct HelloEvent {
    /// When.
    pub timestamp: Timestamp,
}

/// The server is stopping.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ByeEvent {
    /// When.
    pub timestamp: Timestamp,
}

/// What `/api/events` carries.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerEvent {
    /// The stream is open.
    Hello(HelloEvent),
    /// An execution has started.
    ExecutionStarted(ExecutionChangeEvent),
    /// An execution has ended.
    ExecutionEnded(ExecutionChangeEvent),
    /// A record was removed.
    ExecutionRemoved(ExecutionRemovedEvent),
    /// A session was made.
    SessionCreated(SessionChangeEvent),
    /// A session's shell was replaced.
    SessionRestarted(SessionChangeEvent),
    /// A session was deleted.
    SessionDeleted(SessionChangeEvent),
    /// Some events were missed.
    Missed(MissedEvent),
    /// The server is stopping; nothing more comes.
    Bye(ByeEvent),
}
