//! The requests and responses of `/api/terminal`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::execute::{End, Limits, ProcessName, Variables};
use crate::process::KilledProcess;
use crate::wire_enum::wire_enum;

/// A terminal to create.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TerminalRequest {
    /// The id; one is generated if absent. If a terminal with this id is running, the response describes that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Shell text; or, with `args`, the program. Default: an interactive bash that is not a login shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Arguments. The program is run without a shell.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::execute::bounded_args")]
    #[schema(max_items = 65536)]
    pub args: Option<Vec<String>>,
    /// The working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Changes to its environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Option<String>>>)]
    pub env: Option<Variables>,
    /// The user to run it as: a name, a user id or `UID:GID`. Only where the server runs as root, and not with a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Number of columns. Default: 80.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub cols: Option<u16>,
    /// Number of rows. Default: 24.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub rows: Option<u16>,
    /// The value of `TERM`. Default: `xterm-256color`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<String>,
    /// The session whose state it starts from: working directory, variables, functions, aliases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Limits on the resources of its processes.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub limits: Option<Limits>,
    /// Maximum time without input and output, in milliseconds; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Maximum run time in milliseconds; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// The response to creating a terminal.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TerminalCreated {
    /// Always true.
    pub success: bool,
    /// Id of the terminal.
    pub id: String,
    /// The id of its execution, for the routes of processes. Equal to `id`.
    pub execution_id: String,
    /// The process id of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Number of columns.
    pub cols: u16,
    /// Number of rows.
    pub rows: u16,
    /// Whether this request created it. `false`: it was already running.
    pub created: bool,
    /// Time of the response.
    pub timestamp: Timestamp,
}

wire_enum! {
    /// The state of a terminal.
    pub enum TerminalStatus {
        /// Its program is running.
        Running = "running",
        /// Its program has ended. The screen can still be read.
        Exited = "exited",
        else Unknown
    }
}

/// A terminal.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Terminal {
    /// Id of the terminal.
    pub id: String,
    /// The id of its execution, for the routes of processes. Equal to `id`.
    pub execution_id: String,
    /// The process id of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The command.
    pub command: String,
    /// Number of columns.
    pub cols: u16,
    /// Number of rows.
    pub rows: u16,
    /// The title that the program has set; empty if none. In a list, the title as last known to the server.
    pub title: String,
    /// Status of the terminal.
    pub status: TerminalStatus,
    /// The exit code of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How its program ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// The session whose state it started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Number of attached viewers.
    pub viewers: usize,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of the last output, or of its creation if there was none.
    pub last_activity: Timestamp,
}

/// All terminals.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TerminalList {
    /// Always true.
    pub success: bool,
    /// The terminals, the oldest first.
    pub terminals: Vec<Terminal>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// One terminal.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TerminalResponse {
    /// Always true.
    pub success: bool,
    /// The terminal.
    pub terminal: Terminal,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// The response to deleting a terminal.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TerminalDeleted {
    /// Whether no process of the terminal is left.
    pub success: bool,
    /// Id of the terminal.
    pub id: String,
    /// The processes that were ended.
    pub killed: Vec<KilledProcess>,
    /// The processes that could not be ended.
    pub survivors: Vec<ProcessName>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// The new size of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizeRequest {
    /// Number of columns.
    #[schema(minimum = 1, maximum = 1000)]
    pub cols: u16,
    /// Number of rows.
    #[schema(minimum = 1, maximum = 1000)]
    pub rows: u16,
}

/// The size that a terminal has now.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResizeResponse {
    /// Always true.
    pub success: bool,
    /// Number of columns.
    pub cols: u16,
    /// Number of rows.
    pub rows: u16,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// Input for a terminal: the text, then the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TerminalInputRequest {
    /// Text, sent unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Keys by name: `enter`, `tab`, `escape`, `backspace`, `delete`, `insert`, `space`, `up`, `down`, `left`, `right`, `home`,
    /// `end`, `pageup`, `pagedown`, `f1` to `f12`, or one character. Modifiers come first: `ctrl-c`, `alt-x`, `shift-tab`,
    /// `ctrl-alt-left`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 4096)]
    pub keys: Option<Vec<String>>,
}

/// The response to input.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TerminalInputResponse {
    /// Always true.
    pub success: bool,
    /// Number of accepted bytes.
    pub written: u64,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// The condition to wait for: exactly one of `text`, `regex` and `idleMs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TerminalWaitRequest {
    /// Text that the screen must contain. A line that the terminal has wrapped counts as one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Regular expression that must match on the screen; `^` and `$` match at lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// Time without a change of the screen, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// Maximum time to wait, in milliseconds. Default: no limit; 0 checks once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// The response to waiting.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TerminalWaitResponse {
    /// Always true.
    pub success: bool,
    /// Always true: without a match the response is an error.
    pub matched: bool,
    /// The row of the match, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<u16>,
    /// The column of the match, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub col: Option<u16>,
    /// The matched text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Time of the response.
    pub timestamp: Timestamp,
}
