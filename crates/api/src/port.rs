//! Ports: the TCP ports on which programs listen, and waiting for one.

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
    /// Longest time between two attempts, in milliseconds. Default: 500. Values
    /// outside of 10 to 10,000 become the nearest of these. The first attempts follow each other faster.
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
