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
}

/// What works here.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Always true.
    pub success: bool,
    /// `healthy`, or `stopping`.
    pub status: String,
    /// The server's version.
    pub version: String,
    /// How long it has been running, in milliseconds.
    pub uptime: u64,
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
