//! Running a command: what a request may ask for and what comes back.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::wire_enum::wire_enum;

/// Changes to the environment: set to a string, or unset with `null`.
pub type Variables = BTreeMap<String, Option<String>>;

wire_enum! {
    /// How bytes are written in JSON.
    pub enum Encoding = Utf8 {
        /// As text; what is not UTF-8 is replaced, and the answer says so.
        Utf8 = "utf8" | "utf-8",
        /// As base64, exactly.
        Base64 = "base64",
    }
}

wire_enum! {
    /// What becomes of processes that a command left running.
    pub enum Leftovers = Keep {
        /// They go on.
        Keep = "keep",
        /// They are ended.
        Kill = "kill",
        /// Each becomes a process of its own, listed and to be killed like one.
        Adopt = "adopt",
    }
}

wire_enum! {
    /// What becomes of a command when the client that waits for it goes away.
    pub enum OnDisconnect = Keep {
        /// It goes on.
        Keep = "keep",
        /// It is killed.
        Kill = "kill",
    }
}

wire_enum! {
    /// What becomes of output that was not read yet when the journal is full.
    pub enum Overflow = Drop {
        /// The oldest of it is dropped, and a `gap` event says so.
        Drop = "drop",
        /// The command waits for the client that streams its output. 30 s after the last one has gone, output is dropped.
        Wait = "wait",
    }
}

wire_enum! {
    /// What becomes of a process that was started from a session when the session is deleted.
    pub enum OnSessionEnd = Kill {
        /// It is killed.
        Kill = "kill",
        /// It goes on.
        Keep = "keep",
    }
}

/// Limits on what a command may use. What is left out is not limited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    /// Memory of the whole tree with a cgroup, address space of each process without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// CPU seconds of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    /// Processes in the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Open files of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Size of each file written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size_bytes: Option<u64>,
    /// Output, both streams together; reaching it ends the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
}

/// The most arguments of a command. As strings they take many times the room they have on the wire.
pub const MAX_ARGS: usize = 65_536;

/// Reads arguments, and gives up when there are too many.
pub(crate) fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    struct Few;
    impl<'de> Visitor<'de> for Few {
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
            Few.expecting(f)
        }

        fn visit_none<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_seq(Few).map(Some)
        }
    }
    deserializer.deserialize_option(Optional)
}

/// A command and how to run it. One shape for `execute`, `execute/stream` and `process/start`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandRequest {
    /// Shell text; or, with `args`, the program.
    pub command: String,
    /// Arguments. Without a session the program is run without a shell; with one, the shell runs it with each word
    /// quoted.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "few")]
    #[schema(max_items = 65536)]
    pub args: Option<Vec<String>>,
    /// The session to run it in. Without one, the command is stateless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The id to run under; one is made if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// The same for a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    /// The longest it may run; 0 for no limit, whatever the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The longest it may be silent; 0 for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Grace period between SIGTERM at either deadline and SIGKILL. Default: 1,000; 0 kills at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 600000)]
    pub grace_ms: Option<u64>,
    /// Changes to its environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Option<String>>>)]
    pub env: Option<Variables>,
    /// The folder to run it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The user to run it as: a name, a user id or `UID:GID`. Only where the server runs as root, and not with a session,
    /// whose commands run as its own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Answer when it has started, not when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    /// Its standard input, `/dev/null` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// How `stdin` is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_encoding: Option<Encoding>,
    /// Leave standard input open after `stdin`, to be written to and closed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_stdin_open: Option<bool>,
    /// How its output is written in the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// The most bytes of each stream in the answer: head and tail are kept. The journal has the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// What becomes of output that a stream has not read yet when the journal is full. Not for `execute`, whose answer
    /// does not come before the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<Overflow>,
    /// Limits on what it may use.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub limits: Option<Limits>,
    /// What becomes of what it leaves running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<Leftovers>,
    /// What becomes of it when this client goes away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_disconnect: Option<OnDisconnect>,
    /// For a process started from a session: what the session's end means to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_session_end: Option<OnSessionEnd>,
    /// `false` keeps the finished record until it is cleaned up explicitly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_cleanup: Option<bool>,
    /// Sent by clients of the reference, and without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

wire_enum! {
    /// Who asks, in the words of the reference.
    pub enum Origin {
        /// A user of the client.
        User = "user",
        /// The client itself.
        Internal = "internal",
    }
}

/// A finished execution whose id was used again, and whose record is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replaced {
    /// Its exit code.
    pub exit_code: i32,
    /// How it ended.
    pub end: End,
}

wire_enum! {
    /// Why an execution ended.
    pub enum EndReason {
        /// The program returned.
        Exited = "exited",
        /// The program died of a signal that the server did not send.
        Signaled = "signaled",
        /// The wall timeout passed.
        Timeout = "timeout",
        /// It was silent for longer than the idle timeout.
        IdleTimeout = "idle_timeout",
        /// It was killed or interrupted through the API.
        Killed = "killed",
        /// The kernel killed it for want of memory.
        Oom = "oom",
        /// It wrote more than it may.
        OutputLimit = "output_limit",
        /// Its session was deleted or reset.
        SessionEnded = "session_ended",
        /// Its supervisor died, or the machine restarted.
        Lost = "lost",
        else Unknown
    }
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct End {
    /// Why.
    pub reason: EndReason,
    /// The signal it died of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// What an execution used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// CPU time in user mode, in milliseconds.
    pub user_ms: f64,
    /// CPU time in the kernel, in milliseconds.
    pub system_ms: f64,
    /// From start to end, in milliseconds.
    pub wall_ms: f64,
    /// The largest resident set of one process.
    pub max_rss_bytes: u64,
}

/// A process of the machine, as people know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessName {
    /// Its process id.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

/// How many bytes of each stream an answer left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Truncated {
    /// Bytes of standard output that were left out.
    pub stdout_bytes: u64,
    /// Where: after that many bytes of it.
    pub stdout_after_bytes: u64,
    /// Bytes of standard error that were left out.
    pub stderr_bytes: u64,
    /// Where: after that many bytes of it.
    pub stderr_after_bytes: u64,
}

wire_enum! {
    /// The tag of a result.
    pub enum ResultTag = Result {
        /// The command has ended.
        Result = "result",
    }
}

/// What a command did.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecuteResult {
    /// What it wrote to standard output. First, with `stderr`, so that a long one can be sent while it is read.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// Tells it from the answer to `background`.
    #[serde(default, rename = "type")]
    pub answer_type: ResultTag,
    /// Whether bytes that are not UTF-8 were replaced in `stdout` or `stderr`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub invalid_utf8: bool,
    /// Whether it returned 0.
    pub success: bool,
    /// Its exit code: its own, 128 + n for a death by signal n, 124 for a timeout, 137 for too much output, 255 if it is not known.
    pub exit_code: i32,
    /// How `stdout` and `stderr` are written, if not as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// The command. Of a long one the beginning, then `…`: with `args` at most 16 KiB.
    pub command: String,
    /// Its arguments, if it had any, and they are short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// How long it took, in milliseconds.
    pub duration: f64,
    /// When it ended.
    pub timestamp: Timestamp,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Its id.
    pub execution_id: String,
    /// How it ended.
    pub end: End,
    /// What it used.
    pub usage: Usage,
    /// What was left out of `stdout` and `stderr`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
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
    /// The finished execution that had the same id before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replaced>,
    /// The cursor after the last byte.
    pub cursor: u64,
}

wire_enum! {
    /// Where the state of a restored shell came from.
    pub enum RestoredFrom {
        /// The shell before it, when it ended: nothing is missing.
        Exit = "exit",
        /// The snapshot taken last, since the shell died without warning: what was done after it is missing.
        Snapshot = "snapshot",
        else Unknown
    }
}

/// The answer to `execute`: the result, or with `background` the start. Only the document has this type.
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
