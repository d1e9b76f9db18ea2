//! Processes: requests and responses about executions by id.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::execute::{Encoding, End, ProcessName, Replaced, Truncated, Usage};
use crate::wire_enum::wire_enum;

wire_enum! {
    /// Status of a process.
    pub enum ProcessStatus {
        /// The process was accepted but has not started, for example because it is queued in a session.
        Starting = "starting",
        /// The process is running.
        Running = "running",
        /// The process ended with exit code 0.
        Completed = "completed",
        /// The process ended with another exit code, or by a signal that the server did not send.
        Failed = "failed",
        /// The process was ended through the API, by a timeout or by a limit.
        Killed = "killed",
        /// The outcome of the process is unknown.
        Error = "error",
        else Unknown
    }
}

wire_enum! {
    /// What a running process is waiting for.
    pub enum Waiting {
        /// The process is reading from its standard input, which is empty.
        Input = "input",
        else Unknown
    }
}

/// Resource usage of all live processes of an execution at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessMetrics {
    /// Number of processes.
    pub processes: u64,
    /// Number of threads.
    pub threads: u64,
    /// Number of open descriptors.
    pub open_files: u64,
    /// CPU time in user mode, with that of children that were waited for, in milliseconds.
    pub user_ms: f64,
    /// CPU time in the kernel, with that of children that were waited for, in milliseconds.
    pub system_ms: f64,
    /// Sum of the resident set sizes, in bytes. Shared pages count once for each process.
    pub resident_bytes: u64,
    /// Number of bytes read from disks.
    pub read_bytes: u64,
    /// Number of bytes written to disks.
    pub written_bytes: u64,
    /// Number of processes whose I/O and descriptors are not counted, because the server may not see them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<u64>,
}

/// A process.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// Id of the process.
    pub id: String,
    /// Process id, once the process has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The command. A long command is cut off and ends with `…`.
    pub command: String,
    /// Status of the process.
    pub status: ProcessStatus,
    /// Time at which the process was started.
    pub start_time: Timestamp,
    /// Time at which the process ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// Exit code, once the process has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Reason and signal of the end, once the process has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// Id of the session that the process belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// True if the process was started in the background.
    pub background: bool,
    /// What the process is waiting for. Only in responses about a single process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Resources used so far. Only in responses about a single process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Processes that this one left when it ended and that are still running: the first 32. `DELETE` ends
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<Vec<ProcessName>>,
    /// Number of processes that this one left when it ended and that are still running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftover_count: Option<u32>,
    /// Resource usage of all its live processes, daemons and leftovers included. Only with `metrics=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<ProcessMetrics>,
}

wire_enum! {
    /// Tag of a start response.
    pub enum StartedTag = Started {
        /// The process has started.
        Started = "started",
    }
}

/// A started process.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessStarted {
    /// Distinguishes this response from the result of a command.
    #[serde(default, rename = "type")]
    pub answer_type: StartedTag,
    /// Always true.
    pub success: bool,
    /// Id of the process.
    pub process_id: String,
    /// Id of the process, under the name used in all responses about executions.
    pub execution_id: String,
    /// Process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The command. A long command is cut off and ends with `…`.
    pub command: String,
    /// The finished execution that previously had this id, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replaced>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

wire_enum! {
    /// An output stream.
    pub enum StreamName = Stdout {
        /// Standard output.
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
    }
}

/// A list of processes.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ProcessList {
    /// Always true.
    pub success: bool,
    /// The processes, oldest first.
    pub processes: Vec<Process>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A single process.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ProcessResponse {
    /// Always true.
    pub success: bool,
    /// The process.
    pub process: Process,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// An operating system process that was ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KilledProcess {
    /// Process id.
    pub pid: u32,
    /// Command line.
    pub command: String,
    /// The signal that ended it.
    pub signal: i32,
}

/// Result of a kill.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KillResponse {
    /// True if no process is left.
    pub success: bool,
    /// Id of the process that was killed.
    pub process_id: String,
    /// All operating system processes that were ended.
    pub killed: Vec<KilledProcess>,
    /// Operating system processes that could not be ended.
    pub survivors: Vec<ProcessName>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A request without options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyRequest {}

/// Number of processes that were killed or whose records were removed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CleanupResponse {
    /// Always true.
    pub success: bool,
    /// Number of processes that were killed or whose records were removed.
    pub cleaned_count: usize,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A signal to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// The signal: a name (`TERM`, `SIGTERM`) or a number.
    #[schema(schema_with = name_or_number)]
    pub signal: serde_json::Value,
}

fn name_or_number() -> utoipa::openapi::schema::Object {
    use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Integer]))
        .description(Some("The signal: a name (`TERM`, `SIGTERM`) or a number."))
        .examples(["SIGTERM"])
        .build()
}

/// The operation succeeded.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SuccessResponse {
    /// Always true.
    pub success: bool,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// Result of a write to standard input.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StdinResponse {
    /// Always true.
    pub success: bool,
    /// Number of bytes written.
    pub written: u64,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A range of dropped output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Gap {
    /// Cursor of the first missing byte.
    pub from: u64,
    /// Cursor of the first byte after the gap.
    pub to: u64,
}

/// Output of a process.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessLogs {
    /// Standard output. This field and `stderr` come first, so that the server can send long output while it
    /// reads it.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// True if `stdout` or `stderr` contains replacement characters for bytes that were not valid UTF-8.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub invalid_utf8: bool,
    /// Encoding of `stdout` and `stderr`, if it is not `utf8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// Always true.
    pub success: bool,
    /// Id of the process.
    pub process_id: String,
    /// Bytes that were left out of `stdout` and `stderr`, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
    /// With `since`: output directly after that cursor that was dropped because the journal reached its size
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// True if `tail` requested more lines than the response has, because those before them were dropped or exceed the
    /// limit of the response.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tail_is_incomplete: bool,
    /// Cursor after the last byte. Use it as `since` to continue.
    pub cursor: u64,
    /// Time of the response.
    pub timestamp: Timestamp,
}
