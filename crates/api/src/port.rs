//! Ports: the TCP ports on which programs listen, waiting for one, and previews.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::event::ErrorEvent;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// What makes a port ready.
    pub enum PortWatchMode = Http {
        /// A response to `GET` with an expected status.
        Http = "http",
        /// A connection is accepted.
        Tcp = "tcp",
    }
}

wire_enum! {
    /// Whether a program listens on an exposed port.
    pub enum ExposedPortStatus = Active {
        /// A program listens.
        Active = "active",
        /// No program listens.
        Inactive = "inactive",
    }
}

/// A request to wait until a port is ready.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortWatchRequest {
    /// The port on this machine.
    #[schema(minimum = 1, maximum = 65535)]
    pub port: u32,
    /// What makes the port ready. Default: `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PortWatchMode>,
    /// Path and query of the request. Only with `http`. Default: `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Lowest expected status. Only with `http`. Default: 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100, maximum = 599)]
    pub status_min: Option<u16>,
    /// Highest expected status. Only with `http`. Default: 399. Redirects are not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100, maximum = 599)]
    pub status_max: Option<u16>,
    /// Id of the process whose end also ends the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    /// Longest time between two attempts, in milliseconds. Default: 500. Clamped to
    /// 10 to 10,000. The first attempts follow each other faster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<u64>,
}

/// The server watches the port.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PortWatchingEvent {
    /// The port.
    pub port: u16,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// The port is ready.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortReadyEvent {
    /// The port.
    pub port: u16,
    /// Status of the response. Only with `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// The process has ended before the port was ready.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortProcessExitedEvent {
    /// The port.
    pub port: u16,
    /// Exit code of the process, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// An event of a port watch: `watching`, then `ready`, `process_exited` or `error`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PortWatchEvent {
    /// The server watches the port.
    Watching(PortWatchingEvent),
    /// The port is ready. Last event of the stream.
    Ready(PortReadyEvent),
    /// The process has ended before the port was ready. Last event of the stream.
    ProcessExited(PortProcessExitedEvent),
    /// The watch failed. Last event of the stream.
    Error(ErrorEvent),
}

/// A TCP port on which a program listens.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// The port.
    pub port: u16,
    /// The address: `0.0.0.0` and `::` mean all addresses.
    pub address: String,
    /// Always `tcp`.
    pub protocol: String,
    /// A process that has the socket open, if the server may see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Id of the execution of this process, if it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// The same, if the execution is a background process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    /// Address of its preview, if the port is exposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposed: Option<String>,
}

/// The ports on which programs listen.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PortList {
    /// Always true.
    pub success: bool,
    /// The ports, by number and address.
    pub ports: Vec<Port>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A request to expose a port.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExposePortRequest {
    /// The port on this machine.
    #[schema(minimum = 1, maximum = 65535)]
    pub port: u32,
    /// Display name. 1 to 64 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub name: Option<String>,
    /// Secret part of the address: 1 to 24 lowercase letters, digits and underscores. Default: 16 random characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 24, pattern = "^[a-z0-9_]*$")]
    pub token: Option<String>,
    /// Id of the process whose end also ends the exposure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
}

/// An exposed port.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposedPort {
    /// Address of the preview.
    pub url: String,
    /// The port.
    pub port: u16,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Secret part of the address.
    pub token: String,
    /// Id of the process whose end also ends the exposure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    /// Whether a program listens.
    pub status: ExposedPortStatus,
    /// Time at which the port was exposed.
    pub exposed_at: Timestamp,
}

/// The port is exposed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposePortResponse {
    /// Always true.
    pub success: bool,
    /// Address of the preview.
    pub url: String,
    /// The port.
    pub port: u16,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Secret part of the address.
    pub token: String,
    /// Id of the process whose end also ends the exposure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    /// Whether a program listens.
    pub status: ExposedPortStatus,
    /// Time at which the port was exposed.
    pub exposed_at: Timestamp,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A request to end the exposure of a port.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnexposePortRequest {
    /// The port.
    #[schema(minimum = 1, maximum = 65535)]
    pub port: u32,
}

/// The port is no longer exposed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct UnexposePortResponse {
    /// Always true.
    pub success: bool,
    /// The port.
    pub port: u16,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// The exposed ports.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ExposedPortList {
    /// Always true.
    pub success: bool,
    /// The ports, by number.
    pub ports: Vec<ExposedPort>,
    /// Number of ports.
    pub count: usize,
    /// Time of the response.
    pub timestamp: Timestamp,
}
