//! Processes: whatever was started, by its id.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::execute::{Encoding, End, ProcessName, Replaced, Truncated, Usage};
use crate::wire_enum::wire_enum;

wire_enum! {
    /// Where a process stands.
    pub enum ProcessStatus {
        /// Accepted; in a session it may wait for its turn.
        Starting = "starting",
        /// Running.
        Running = "running",
        /// It returned 0.
        Completed = "completed",
        /// It returned something else, or died of a signal of its own.
        Failed = "failed",
        /// It was killed: through the API, by a deadline or by a limit.
        Killed = "killed",
        /// What became of it is not known.
        Error = "error",
        else Unknown
    }
}

wire_enum! {
    /// What a running process waits for.
    pub enum Waiting {
        /// For somebody to write to its standard input.
        Input = "input",
        else Unknown
    }
}

/// A process.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// Its id.
    pub id: String,
    /// Its process id, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The command.
    pub command: String,
    /// Where it stands.
    pub status: ProcessStatus,
    /// When it was started.
    pub start_time: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// Its exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// The session it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Whether it was started in the background.
    pub background: bool,
    /// What it waits for. Only in the answer about one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// What it used, so far. Only in the answer about one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What it left when it ended and is still running; the first 32 of them. `DELETE` ends them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<Vec<ProcessName>>,
    /// How many processes that it left are still running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftover_count: Option<u32>,
}

wire_enum! {
    /// The tag of a start.
    pub enum StartedTag = Started {
        /// The process has started.
        Started = "started",
    }
}

/// A process that has started.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessStarted {
    /// Tells it from the result of a command.
    #[serde(default, rename = "type")]
    pub answer_type: StartedTag,
    /// Always true.
    pub success: bool,
    /// Its id.
    pub process_id: String,
    /// The same, under the name that every execution's answer has it.
    pub execution_id: String,
    /// Its process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The command.
    pub command: String,
    /// The finished execution that had the same id before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replaced>,
    /// When.
    pub timestamp: Timestamp,
}

wire_enum! {
    /// One of the two streams.
    pub enum StreamName = Stdout {
        /// Standard output.
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
    }
}

/// Processes.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ProcessList {
    /// Always true.
    pub success: bool,
    /// The oldest first.
    pub processes: Vec<Process>,
    /// When.
    pub timestamp: Timestamp,
}

/// One process.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ProcessResponse {
    /// Always true.
    pub success: bool,
    /// The process.
    pub process: Process,
    /// When.
    pub timestamp: Timestamp,
}

/// One process that a kill ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KilledProcess {
    /// Its process id.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// The signal that ended it.
    pub signal: i32,
}

/// What a kill did.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KillResponse {
    /// Whether nobody is left.
    pub success: bool,
    /// The process that was killed.
    pub process_id: String,
    /// Every process of the machine that was ended.
    pub killed: Vec<KilledProcess>,
    /// Those that could not be ended.
    pub survivors: Vec<ProcessName>,
    /// When.
    pub timestamp: Timestamp,
}

/// A request without options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyRequest {}

/// How many processes something was done to.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CleanupResponse {
    /// Always true.
    pub success: bool,
    /// How many.
    pub cleaned_count: usize,
    /// When.
    pub timestamp: Timestamp,
}

/// A signal to send, by name (`TERM`, `SIGTERM`) or number, as a string or a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// The signal.
    #[schema(schema_with = name_or_number)]
    pub signal: serde_json::Value,
}

fn name_or_number() -> utoipa::openapi::schema::Object {
    use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Integer]))
        .description(Some("The signal."))
        .examples(["SIGTERM"])
        .build()
}

/// Something was done.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SuccessResponse {
    /// Always true.
    pub success: bool,
    /// When.
    pub timestamp: Timestamp,
}

/// Bytes were written to standard input.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StdinResponse {
    /// Always true.
    pub success: bool,
    /// How many.
    pub written: u64,
    /// When.
    pub timestamp: Timestamp,
}

/// Bytes that were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Gap {
    /// The cursor of the first byte that is missing.
    pub from: u64,
    /// The cursor of the first byte that is there again.
    pub to: u64,
}

/// What a process has written.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessLogs {
    /// Standard output. First, with `stderr`, so that a long one can be sent while it is read.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Whether bytes that are not UTF-8 were replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub invalid_utf8: bool,
    /// How `stdout` and `stderr` are written, if not as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// Always true.
    pub success: bool,
    /// The process.
    pub process_id: String,
    /// What was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
    /// With `since`: bytes right after it that were dropped to keep the journal's bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// The cursor after the last byte, for `since`.
    pub cursor: u64,
    /// When.
    pub timestamp: Timestamp,
}
