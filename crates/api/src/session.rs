//! Sessions: shells that keep their state.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::execute::{ProcessName, Variables};
use crate::process::KilledProcess;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// What a command that ends its session's shell is answered with.
    pub enum OnShellExit = Terminate {
        /// With 410 `SESSION_TERMINATED`; the next command finds the shell restored.
        Terminate = "terminate",
        /// With its result, like any other command.
        Restore = "restore",
    }
}

/// What a session is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SessionRequest {
    /// The id; one is made if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Changes to its environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Option<String>>>)]
    pub env: Option<Variables>,
    /// The folder to start in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The user to run its shell as: a name, a user id or `UID:GID`. Only where the server runs as root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The timeout of commands that do not bring their own; 0 for none, whatever the server's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_timeout_ms: Option<u64>,
    /// `maxOutputBytes` of commands that do not bring their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_size_bytes: Option<u64>,
    /// What a command that ends the shell is answered with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_shell_exit: Option<OnShellExit>,
}

/// A session that was made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedSession {
    /// Its id.
    pub id: String,
    /// The folder it is in.
    pub cwd: String,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The answer to making a session.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionCreated {
    /// Always true.
    pub success: bool,
    /// Its id.
    pub id: String,
    /// The session.
    pub data: CreatedSession,
    /// When.
    pub timestamp: Timestamp,
}

/// A session.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The folder it is in, if it can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Whether a command runs.
    pub busy: bool,
    /// How many commands wait for their turn.
    pub queued: usize,
    /// How often its shell was replaced.
    pub restarts: u32,
}

/// Sessions.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    /// Always true.
    pub success: bool,
    /// Their ids, the oldest first.
    pub data: Vec<String>,
    /// The same, with more to tell.
    pub sessions: Vec<Session>,
    /// When.
    pub timestamp: Timestamp,
}

/// One session.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionResponse {
    /// Always true.
    pub success: bool,
    /// The session.
    pub session: Session,
    /// When.
    pub timestamp: Timestamp,
}

/// Which session to delete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteSessionRequest {
    /// Its id.
    pub session_id: String,
}

/// What ended with a session, or with a command that was interrupted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEnded {
    /// Whether nobody is left.
    pub success: bool,
    /// The session.
    pub session_id: String,
    /// Every process of the machine that was ended.
    pub killed: Vec<KilledProcess>,
    /// Those that could not be ended.
    pub survivors: Vec<ProcessName>,
    /// When.
    pub timestamp: Timestamp,
}

/// How to interrupt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct InterruptRequest {
    /// The signal to begin with, by name or number; `SIGINT` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub signal: Option<serde_json::Value>,
    /// How long what runs has before it is killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// What to call the copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ForkRequest {
    /// The id; one is made if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// How to reset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResetRequest {
    /// Whether the new shell gets the state of the old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore: Option<bool>,
}

/// Changes to an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvRequest {
    /// The variables: a string sets, `null` unsets.
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    #[serde(alias = "envVars")]
    pub vars: Variables,
}
