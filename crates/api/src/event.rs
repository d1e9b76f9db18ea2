//! Stream events. Each event is one JSON object with a `type` field. Each variant has its own struct, so that
//! generated clients get named types.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::execute::{End, ProcessName, Replaced, RestoredFrom, Usage};
use crate::port::Port;
use crate::process::{Process, ProcessStatus};
use crate::service::{ServiceChangeEvent, ServiceRemovedEvent};
use crate::{ErrorCode, Timestamp};

/// The command has started.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartEvent {
    /// The command. A long command is cut off and ends with `…`.
    pub command: String,
    /// Id of the execution.
    pub execution_id: String,
    /// Process id of the command. For a command in a session, the process id of its shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Id of the session, if the command runs in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The finished execution that previously had this id, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replaced>,
    /// Time at which the command started.
    pub timestamp: Timestamp,
}

/// Output of the command.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputEvent {
    /// The output, as UTF-8 text or base64 (see `encoding` in the request).
    pub data: String,
    /// Id of the process. Only in process streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    /// True if `data` contains replacement characters for bytes that were not valid UTF-8.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub invalid_utf8: bool,
    /// Time at which the supervisor read the output.
    pub timestamp: Timestamp,
}

/// Output was dropped because the journal reached its size limit.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GapEvent {
    /// Cursor of the first missing byte.
    pub from: u64,
    /// Cursor of the first byte after the gap.
    pub to: u64,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// Result of a command, without its output.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// True if the exit code is 0.
    pub success: bool,
    /// Exit code of the command.
    pub exit_code: i32,
    /// The command. A long command is cut off and ends with `…`.
    pub command: String,
    /// Run time in milliseconds.
    pub duration: f64,
    /// Id of the execution.
    pub execution_id: String,
    /// Id of the session, if the command ran in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Processes that the command left running: the first 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<Vec<ProcessName>>,
    /// Number of processes that the command left running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftover_count: Option<u32>,
    /// True if the session's shell was restored before this command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_restarted: Option<bool>,
    /// Age of the restored state in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_state_age_ms: Option<f64>,
    /// Source of the restored state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_from: Option<RestoredFrom>,
    /// True if the command ended its session's shell, for example with `exit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell_ended: Option<bool>,
    /// Time at which the command ended.
    pub timestamp: Timestamp,
}

/// The command has ended. Last event of the stream.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompleteEvent {
    /// Exit code of the command.
    pub exit_code: i32,
    /// Reason and signal of the end.
    pub end: End,
    /// Resources that the command used.
    pub usage: Usage,
    /// Full result, without the output.
    pub result: Summary,
    /// Time at which the command ended.
    pub timestamp: Timestamp,
}

/// The stream failed. Last event of the stream.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorEvent {
    /// Error message.
    pub error: String,
    /// Error message, under the name that clients of the reference read.
    pub data: String,
    /// Error code.
    pub code: ErrorCode,
    /// Exit code, if the command has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Id of the execution, if one was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// An event of a command stream: `start`, then output, then `complete` or `error`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ExecuteEvent {
    /// The command has started.
    Start(StartEvent),
    /// The command wrote to standard output.
    Stdout(OutputEvent),
    /// The command wrote to standard error.
    Stderr(OutputEvent),
    /// Output was dropped because the journal reached its size limit.
    Gap(GapEvent),
    /// The command has ended. Last event of the stream.
    Complete(Box<CompleteEvent>),
    /// The stream failed. Last event of the stream.
    Error(ErrorEvent),
}

/// First event of a process stream: the process and its status.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessInfoEvent {
    /// Id of the process.
    pub process_id: String,
    /// The command. A long command is cut off and ends with `…`.
    pub command: String,
    /// Status of the process when the stream was opened.
    pub status: ProcessStatus,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// The process has ended. Last event of the stream.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExitEvent {
    /// Id of the process.
    pub process_id: String,
    /// Exit code of the process.
    pub exit_code: i32,
    /// Always empty. Clients of the reference expect this field in every event.
    pub data: String,
    /// Reason and signal of the end.
    pub end: End,
    /// Resources that the process used.
    pub usage: Usage,
    /// Time at which the process ended.
    pub timestamp: Timestamp,
}

/// All output recorded so far has been sent. Last event of a stream with `follow=false` if the process still
/// runs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaughtUpEvent {
    /// Id of the process.
    pub process_id: String,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// An event of a process stream: `process_info`, then output, then `exit`, `caught_up` or `error`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ProcessEvent {
    /// First event of a process stream: the process and its status.
    ProcessInfo(ProcessInfoEvent),
    /// The process wrote to standard output.
    Stdout(OutputEvent),
    /// The process wrote to standard error.
    Stderr(OutputEvent),
    /// Output was dropped because the journal reached its size limit.
    Gap(GapEvent),
    /// The process has ended. Last event of the stream.
    Exit(ExitEvent),
    /// All output recorded so far has been sent. Last event of a stream with `follow=false` if the process
    /// still runs.
    CaughtUp(CaughtUpEvent),
    /// The stream failed. Last event of the stream.
    Error(ErrorEvent),
}

/// An execution has started or ended.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ExecutionChangeEvent {
    /// The execution after the change.
    pub process: Process,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// The record of an execution was removed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionRemovedEvent {
    /// Id of the execution.
    pub execution_id: String,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// A session was created, restarted or deleted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionChangeEvent {
    /// Id of the session.
    pub session_id: String,
    /// Name of the session, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// A program has begun or ceased to listen on a port.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PortChangeEvent {
    /// The port, with its owner as last seen.
    pub port: Port,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// A port was exposed, or is no longer exposed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PortExposureEvent {
    /// The port.
    pub port: u16,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// The client read too slowly and missed events. List processes and sessions again to get the current state.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct MissedEvent {
    /// Number of missed events.
    pub count: u64,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// First event: the stream is open and contains all later changes.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct HelloEvent {
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// The server is stopping. Last event of the stream.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ByeEvent {
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// An event of `/api/events`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerEvent {
    /// First event: the stream is open and contains all later changes.
    Hello(HelloEvent),
    /// An execution has started.
    ExecutionStarted(ExecutionChangeEvent),
    /// An execution has ended.
    ExecutionEnded(ExecutionChangeEvent),
    /// The record of an execution was removed.
    ExecutionRemoved(ExecutionRemovedEvent),
    /// A session was created.
    SessionCreated(SessionChangeEvent),
    /// A session's shell was restarted.
    SessionRestarted(SessionChangeEvent),
    /// A session was deleted.
    SessionDeleted(SessionChangeEvent),
    /// A program listens on a port.
    PortOpened(PortChangeEvent),
    /// A listening port was closed.
    PortClosed(PortChangeEvent),
    /// A port was exposed.
    PortExposed(PortExposureEvent),
    /// A port is no longer exposed.
    PortUnexposed(PortExposureEvent),
    /// A service has changed its state, or its current execution.
    ServiceChanged(Box<ServiceChangeEvent>),
    /// A service was deleted.
    ServiceRemoved(ServiceRemovedEvent),
    /// The client read too slowly and missed events.
    Missed(MissedEvent),
    /// The server is stopping. Last event of the stream.
    Bye(ByeEvent),
}
