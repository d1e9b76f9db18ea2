//! Running a command: request options and results.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::wire_enum::wire_enum;

/// Changes to an environment: a string sets a variable, `null` unsets it.
pub type Variables = BTreeMap<String, Option<String>>;

wire_enum! {
    /// Encoding of bytes in JSON.
    pub enum Encoding = Utf8 {
        /// As text. Bytes that are not valid UTF-8 are replaced, and `invalidUtf8` is set.
        Utf8 = "utf8" | "utf-8",
        /// As base64, without loss.
        Base64 = "base64",
    }
}

wire_enum! {
    /// What happens to processes that a command leaves running.
    pub enum Leftovers = Keep {
        /// They continue to run.
        Keep = "keep",
        /// They are ended.
        Kill = "kill",
        /// Each becomes a process with its own id, which can be listed and killed.
        Adopt = "adopt",
    }
}

wire_enum! {
    /// What happens to a command when the client that waits for it disconnects.
    pub enum OnDisconnect = Keep {
        /// The command continues.
        Keep = "keep",
        /// The command is killed.
        Kill = "kill",
    }
}

wire_enum! {
    /// What happens to unread output when the journal is full.
    pub enum Overflow = Drop {
        /// The oldest output is dropped. A stream reports this with a `gap` event.
        Drop = "drop",
        /// The command is blocked until the client that streams its output reads on. If no client has been
        /// connected for 30 s, output is dropped.
        Wait = "wait",
    }
}

wire_enum! {
    /// What happens to a process started from a session when the session is deleted.
    pub enum OnSessionEnd = Kill {
        /// The process is killed.
        Kill = "kill",
        /// The process continues.
        Keep = "keep",
    }
}

/// Resource limits. A field that is missing means no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    /// Memory in bytes. With a cgroup: of the whole process tree; otherwise: address space of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// CPU time of each process in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    /// Number of processes in the process tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Number of open files of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Size of each written file in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size_bytes: Option<u64>,
    /// Output in bytes, both streams together. The command is ended when it exceeds this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
}

/// Maximum number of arguments. In memory, arguments take many times their size on the wire.
pub const MAX_ARGS: usize = 65_536;

/// Reads arguments, and stops with an error at more than [`MAX_ARGS`].
pub(crate) fn bounded_args<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    struct ArgsVisitor;
    impl<'de> Visitor<'de> for ArgsVisitor {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MAX_ARGS} strings")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut words: A) -> Result<Vec<String>, A::Error> {
            let mut all = Vec::new();
            while let Some(word) = words.next_element()? {
                if all.len() == MAX_ARGS {
                    return Err(de::Error::invalid_length(all.len() + 1, &self));
                }
                all.push(word);
            }
            Ok(all)
        }
    }
    struct Optional;
    impl<'de> Visitor<'de> for Optional {
        type Value = Option<Vec<String>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            ArgsVisitor.expecting(f)
        }

        fn visit_none<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_seq(ArgsVisitor).map(Some)
        }
    }
    deserializer.deserialize_option(Optional)
}

/// A command and its options, for `execute`, `execute/stream` and `process/start`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandRequest {
    /// Shell text or, with `args`, the program.
    pub command: String,
    /// Arguments. Without a session, the program runs without a shell. In a session, the shell runs it with
    /// each argument quoted.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "bounded_args")]
    #[schema(max_items = 65536)]
    pub args: Option<Vec<String>>,
    /// Session to run the command in. Without one, the command is stateless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Id of the execution. Default: a generated id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// Same as `executionId`, for processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    /// Timeout of the command in milliseconds. 0 disables the default timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Ends the command if it writes no output for this many milliseconds. 0 means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Grace period in milliseconds between SIGTERM and SIGKILL, after a timeout (default: 1,000) and after a disconnect with
    /// `onDisconnect: "kill"` (default: 5,000). 0 kills at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 600000)]
    pub grace_ms: Option<u64>,
    /// Changes to the environment: a string sets a variable, `null` unsets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Option<String>>>)]
    pub env: Option<Variables>,
    /// Working directory. Default: that of the session, or the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// User to run the command as: a name, a user id or `UID:GID`. Requires that the server runs as root. Not
    /// allowed with a session, which has its own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Respond when the command has started instead of when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    /// Standard input. Default: empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Encoding of `stdin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_encoding: Option<Encoding>,
    /// Keep standard input open after `stdin` was written. More can be written, and it can be closed, later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_stdin_open: Option<bool>,
    /// Encoding of the output in the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// Maximum number of bytes per stream in the response. If there is more, the response has its beginning
    /// and end. All recorded output can be read with `process/{id}/output`. Default: 10 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// What happens to output that no stream has read when the journal is full. Not allowed for `execute`,
    /// which does not stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<Overflow>,
    /// Resource limits.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub limits: Option<Limits>,
    /// What happens to processes that the command leaves running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<Leftovers>,
    /// What happens to the command when this client disconnects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_disconnect: Option<OnDisconnect>,
    /// What happens to a process started from a session when the session is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_session_end: Option<OnSessionEnd>,
    /// With `false`, the record of the finished process is kept until it is removed with `process/cleanup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_cleanup: Option<bool>,
    /// Accepted for compatibility with clients of the reference. Has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

wire_enum! {
    /// Origin of a request, as defined by the reference.
    pub enum Origin {
        /// A user of the client.
        User = "user",
        /// The client itself.
        Internal = "internal",
    }
}

/// A finished execution whose record was removed because its id was used again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replaced {
    /// Exit code of the execution.
    pub exit_code: i32,
    /// Reason and signal of the end.
    pub end: End,
}

wire_enum! {
    /// Reason for the end of an execution.
    pub enum EndReason {
        /// The program exited.
        Exited = "exited",
        /// The program was ended by a signal that the server did not send.
        Signaled = "signaled",
        /// The timeout passed.
        Timeout = "timeout",
        /// The program wrote no output for longer than the idle timeout.
        IdleTimeout = "idle_timeout",
        /// It was killed or interrupted through the API.
        Killed = "killed",
        /// The kernel killed it because it ran out of memory.
        Oom = "oom",
        /// It exceeded the output limit.
        OutputLimit = "output_limit",
        /// Its session was deleted or reset.
        SessionEnded = "session_ended",
        /// Its supervisor was killed, or the machine restarted.
        Lost = "lost",
        else Unknown
    }
}

/// End of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct End {
    /// Reason of the end.
    pub reason: EndReason,
    /// Number of the signal that ended the program, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// Resources used by an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// CPU time in user mode, in milliseconds.
    pub user_ms: f64,
    /// CPU time in the kernel, in milliseconds.
    pub system_ms: f64,
    /// Time from start to end, in milliseconds.
    pub wall_ms: f64,
    /// Largest resident set size of a single process, in bytes.
    pub max_rss_bytes: u64,
}

/// An operating system process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessName {
    /// Process id.
    pub pid: u32,
    /// Command line.
    pub command: String,
}

/// Bytes that were left out of a response. Output that a running process caused to be dropped while the response was sent
/// is counted, too, also if it is missing at another place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Truncated {
    /// Number of bytes of standard output that were left out.
    pub stdout_bytes: u64,
    /// Number of bytes of standard output before the omitted ones.
    pub stdout_after_bytes: u64,
    /// Number of bytes of standard error that were left out.
    pub stderr_bytes: u64,
    /// Number of bytes of standard error before the omitted ones.
    pub stderr_after_bytes: u64,
}

wire_enum! {
    /// Tag of a result.
    pub enum ResultTag = Result {
        /// The command has ended.
        Result = "result",
    }
}

/// Result of a command.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecuteResult {
    /// Standard output. This field and `stderr` come first, so that the server can send long output while it
    /// reads it.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Distinguishes this response from that to a request with `background`.
    #[serde(default, rename = "type")]
    pub answer_type: ResultTag,
    /// True if `stdout` or `stderr` contains replacement characters for bytes that were not valid UTF-8.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub invalid_utf8: bool,
    /// True if the exit code is 0.
    pub success: bool,
    /// Exit code: that of the program, 128 + n if signal n ended it, 124 after a timeout, 137 if it exceeded
    /// the output limit, 255 if unknown.
    pub exit_code: i32,
    /// Encoding of `stdout` and `stderr`, if it is not `utf8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// The command. A long command is cut off and ends with `…`. Command and `args` together have at most 16 KiB.
    pub command: String,
    /// Arguments. Absent if there are none or they are too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Run time in milliseconds.
    pub duration: f64,
    /// Time at which the command ended.
    pub timestamp: Timestamp,
    /// Id of the session, if the command ran in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Id of the execution.
    pub execution_id: String,
    /// Reason and signal of the end.
    pub end: End,
    /// Resources that the command used.
    pub usage: Usage,
    /// Bytes that were left out of `stdout` and `stderr`, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
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
    /// The finished execution that previously had this id, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replaced>,
    /// Cursor after the last byte of output.
    pub cursor: u64,
}

impl ExecuteResult {
    /// Whether the timeout or the idle timeout ended the command.
    pub fn timed_out(&self) -> bool {
        matches!(self.end.reason, EndReason::Timeout | EndReason::IdleTimeout)
    }
}

wire_enum! {
    /// Source of a restored shell's state.
    pub enum RestoredFrom {
        /// The previous shell when it ended. The state is complete.
        Exit = "exit",
        /// The last snapshot, because the previous shell was killed or crashed. Later changes are lost.
        Snapshot = "snapshot",
        else Unknown
    }
}

/// Response to `execute`: the result or, with `background`, the start. Only used in the OpenAPI document.
#[derive(Debug)]
pub enum ExecuteResponse {}

impl utoipa::PartialSchema for ExecuteResponse {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let one = |name: &str| utoipa::openapi::Ref::from_schema_name(name);
        let either = utoipa::openapi::schema::OneOfBuilder::new();
        either.item(one("ExecuteResult")).item(one("ProcessStarted")).into()
    }
}

impl ToSchema for ExecuteResponse {
    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        use crate::process::ProcessStarted;
        schemas
            .push((ExecuteResult::name().into_owned(), <ExecuteResult as utoipa::PartialSchema>::schema()));
        schemas
            .push((ProcessStarted::name().into_owned(), <ProcessStarted as utoipa::PartialSchema>::schema()));
        <ExecuteResult as ToSchema>::schemas(schemas);
        <ProcessStarted as ToSchema>::schemas(schemas);
    }
}
