//! Responses about the server itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;

/// The server is up.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Pong {
    /// Always true.
    pub success: bool,
    /// Always `healthy`.
    pub status: String,
    /// Always `pong`.
    pub message: String,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// Version of the server.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// Always true.
    pub success: bool,
    /// Version of the server.
    pub version: String,
    /// Version of the reference API that the server is compatible with.
    pub compatible: String,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// The shell driver of sessions.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ShellHealth {
    /// `loaded`, `portable`, or `none` if the machine has no usable bash.
    pub driver: String,
    /// Why the driver is not `loaded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Counts of the server's objects and events.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Executions that have not ended.
    pub running: usize,
    /// Executions that have a record.
    pub executions: usize,
    /// Sessions.
    pub sessions: usize,
    /// Open connections.
    pub connections: usize,
    /// Supervisors that ended unexpectedly since the server started.
    pub lost_supervisors: u64,
    /// Sessions whose shell was restored since the server started.
    pub restored_sessions: u64,
    /// Lines in `supervisor-failures.log` in the state directory.
    pub logged_failures: u64,
}

/// A problem of the server.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Code of the problem: `state_directory_missing`, `disk_full`, `no_shell`, `driver_fallback` or
    /// `supervisors_lost`.
    pub code: String,
    /// Description of the problem.
    pub message: String,
    /// What to do about it.
    pub suggestion: String,
}

/// Current condition of the state directory.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateDirectory {
    /// False if the directory was moved or removed after the server started.
    pub present: bool,
    /// Free disk space in bytes.
    pub free_bytes: u64,
}

/// Health and capabilities of the server.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Always true.
    pub success: bool,
    /// `healthy`, `degraded` if there are problems, or `stopping`.
    pub status: String,
    /// Current problems, most severe first.
    pub problems: Vec<Problem>,
    /// Current condition of the state directory.
    pub state_directory: StateDirectory,
    /// Default user of commands. Absent if commands run as the server's own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as: Option<String>,
    /// Version of the server.
    pub version: String,
    /// Time since the server started, in milliseconds.
    pub uptime_ms: u64,
    /// The shell driver of sessions.
    pub shell: ShellHealth,
    /// What cgroups are used for.
    pub cgroups: String,
    /// True if the kernel supports Landlock.
    pub landlock: bool,
    /// Version of git, if it is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
    /// True if pseudo-terminals are available.
    pub pty: bool,
    /// Default working directory of commands.
    pub workspace: String,
    /// Counts of the server's objects and events.
    pub counts: Counts,
    /// Time of the response.
    pub timestamp: Timestamp,
}
