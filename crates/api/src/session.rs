//! Sessions: shells that keep their state between commands.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::execute::{ProcessName, Variables};
use crate::process::KilledProcess;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// Response to a command that ends its session's shell.
    pub enum OnShellExit = Terminate {
        /// 410 `SESSION_TERMINATED`. The shell is restored for the next command.
        Terminate = "terminate",
        /// The result, as for other commands. The shell is restored for the next command.
        Restore = "restore",
    }
}

/// Options of a new session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SessionRequest {
    /// Id of the session. Default: a generated id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Changes to the environment: a string sets a variable, `null` unsets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Option<String>>>)]
    pub env: Option<Variables>,
    /// Initial working directory. Default: the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// User to run the shell as: a name, a user id or `UID:GID`. Requires that the server runs as root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Default timeout of the session's commands in milliseconds. 0 disables the server's default timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_timeout_ms: Option<u64>,
    /// Default `maxOutputBytes` of the session's commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_size_bytes: Option<u64>,
    /// Response to a command that ends the shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_shell_exit: Option<OnShellExit>,
}

/// A created session.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedSession {
    /// Id of the session.
    pub id: String,
    /// Working directory.
    pub cwd: String,
    /// Time at which the session was created.
    pub created_at: Timestamp,
}

/// Response to `session/create` and `session/{id}/fork`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionCreated {
    /// Always true.
    pub success: bool,
    /// Id of the session.
    pub id: String,
    /// The session.
    pub data: CreatedSession,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A session.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Id of the session.
    pub id: String,
    /// Display name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Current working directory, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Time at which the session was created.
    pub created_at: Timestamp,
    /// True if a command is running.
    pub busy: bool,
    /// Number of queued commands.
    pub queued: usize,
    /// Number of times that the shell was restarted.
    pub restarts: u32,
}

/// A list of sessions.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    /// Always true.
    pub success: bool,
    /// Ids of the sessions, oldest first.
    pub data: Vec<String>,
    /// The sessions, oldest first.
    pub sessions: Vec<Session>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A single session.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionResponse {
    /// Always true.
    pub success: bool,
    /// The session.
    pub session: Session,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// The session to delete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteSessionRequest {
    /// Id of the session.
    pub session_id: String,
}

/// Processes that were ended with a session or by an interrupt.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEnded {
    /// True if no process is left.
    pub success: bool,
    /// Id of the session.
    pub session_id: String,
    /// All operating system processes that were ended.
    pub killed: Vec<KilledProcess>,
    /// Operating system processes that could not be ended.
    pub survivors: Vec<ProcessName>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// Options of an interrupt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct InterruptRequest {
    /// First signal to send, by name or number. Default: `SIGINT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub signal: Option<serde_json::Value>,
    /// Grace period in milliseconds before SIGKILL. Default: 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// Options of a fork.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ForkRequest {
    /// Id of the new session. Default: a generated id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Options of a reset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResetRequest {
    /// True to restore the state of the old shell in the new one. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore: Option<bool>,
}

/// Changes to an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvRequest {
    /// The variables: a string sets a variable, `null` unsets it.
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    #[serde(alias = "envVars")]
    pub vars: Variables,
}
