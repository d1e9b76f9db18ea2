//! The server about itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;

/// The server is there.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Pong {
    /// Always true.
    pub success: bool,
    /// Always `healthy`.
    pub status: String,
    /// Always `pong`.
    pub message: String,
    /// When.
    pub timestamp: Timestamp,
}

/// Which server it is.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// Always true.
    pub success: bool,
    /// The version.
    pub version: String,
    /// The version of the reference API that it speaks.
    pub compatible: String,
    /// When.
    pub timestamp: Timestamp,
}

/// How sessions drive their shells.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ShellHealth {
    /// `loaded`, `portable`, or `none` if there is no bash.
    pub driver: String,
    /// Why it is not the loaded driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What there is, in numbers.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Executions that have not ended.
    pub running: usize,
    /// Executions there is a record of.
    pub executions: usize,
    /// Sessions.
    pub sessions: usize,
    /// Open connections.
    pub connections: usize,
    /// Supervisors that died without being told to, since the server started.
    pub lost_supervisors: u64,
    /// Sessions whose shell was brought back, since the server started.
    pub restored_sessions: u64,
    /// Lines in `supervisor-failures.log` in the state directory.
    pub logged_failures: u64,
}

/// Something that is wrong.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Its name: `state_directory_missing`, `disk_full`, `no_shell`, `driver_fallback` or `supervisors_lost`.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub suggestion: String,
}

/// The state directory, as it is now.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateDirectory {
    /// Whether it is where it was when the server started.
    pub present: bool,
    /// The bytes that can be written there.
    pub free_bytes: u64,
}

/// What works here.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Always true.
    pub success: bool,
    /// `healthy`, `degraded` if there are problems, or `stopping`.
    pub status: String,
    /// What is wrong, worst first.
    pub problems: Vec<Problem>,
    /// The state directory, as it is now.
    pub state_directory: StateDirectory,
    /// The user that commands run as that name none; missing if that is the server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as: Option<String>,
    /// The server's version.
    pub version: String,
    /// How long it has been running, in milliseconds.
    pub uptime_ms: u64,
    /// How sessions drive their shells.
    pub shell: ShellHealth,
    /// What cgroups are used for.
    pub cgroups: String,
    /// Whether the kernel has Landlock.
    pub landlock: bool,
    /// The version of git, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
    /// Whether pseudo-terminals can be made.
    pub pty: bool,
    /// Where commands run that do not say.
    pub workspace: String,
    /// What there is, in numbers.
    pub counts: Counts,
    /// When.
    pub timestamp: Timestamp,
}
