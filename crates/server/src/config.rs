//! Settings of a server.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use sandcrab_engine::EngineConfig;

use crate::compat::Compat;
use crate::preview::PreviewSettings;

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address; port 0 selects a free one.
    Tcp(SocketAddr),
    /// A unix socket, private to this user.
    Unix(PathBuf),
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Access control.
#[derive(Clone, Default)]
pub struct Access {
    /// The bearer token; without one, every client that can connect may do everything.
    pub token: Option<String>,
    /// Host names of the server that requests may use, besides addresses and `localhost`.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call it, besides its own; `*` for all.
    pub allowed_origins: Vec<String>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { token, allowed_hosts, allowed_origins } = self;
        let token = token.as_ref().map(|_| "…");
        f.debug_struct("Access")
            .field("token", &token)
            .field("allowed_hosts", allowed_hosts)
            .field("allowed_origins", allowed_origins)
            .finish()
    }
}

/// Defaults of commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defaults {
    /// Default timeout; none if `None`.
    pub timeout: Option<Duration>,
    /// Default maximum number of output bytes per stream in a response; [`sandcrab_api::DEFAULT_OUTPUT_BYTES`] if
    /// `None`.
    pub max_output_bytes: Option<u64>,
}

/// Limits of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// Maximum size of a request body.
    pub body_bytes: usize,
    /// Maximum size of all request bodies in memory.
    pub held_body_bytes: usize,
    /// Maximum pause within a body.
    pub body_timeout: Duration,
    /// Number of unsent bytes of all responses above which pieces become small.
    pub outgoing_bytes: usize,
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of concurrent requests on one WebSocket.
    pub requests_per_socket: usize,
    /// Time without data after which the client of a WebSocket is pinged. After three times as long it is
    /// disconnected.
    pub socket_ping_after: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_bytes: 128 << 20,
            held_body_bytes: 512 << 20,
            body_timeout: Duration::from_secs(60),
            outgoing_bytes: 64 << 20,
            connections: 16_384,
            requests_per_socket: 1_024,
            socket_ping_after: Duration::from_secs(20),
        }
    }
}

/// Settings of a server. Created with [`ServerConfig::new`].
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The address.
    pub listen: Listen,
    /// The server whose behaviour is imitated, if any.
    pub compat: Option<Compat>,
    /// Settings of its engine; `cwd` is the workspace.
    pub engine: EngineConfig,
    /// Access control.
    pub access: Access,
    /// Defaults of commands.
    pub defaults: Defaults,
    /// Limits.
    pub limits: ServerLimits,
    /// Names of previews.
    pub previews: PreviewSettings,
    /// The drain window: maximum time for running requests to finish when it stops.
    pub drain_window: Duration,
    /// Grace period between SIGTERM and SIGKILL for all executions when the server stops. `None` lets them continue.
    pub stop_executions: Option<Duration>,
}

impl ServerConfig {
    /// Creates settings with defaults: a free port of the loopback address, and this token.
    pub fn new(state_dir: impl Into<PathBuf>, token: impl Into<String>) -> Self {
        Self {
            listen: Listen::Tcp(([127, 0, 0, 1], 0).into()),
            engine: EngineConfig::new(state_dir),
            access: Access { token: Some(token.into()), ..Access::default() },
            defaults: Defaults::default(),
            limits: ServerLimits::default(),
            previews: PreviewSettings::default(),
            drain_window: Duration::from_secs(10),
            compat: None,
            stop_executions: None,
        }
    }
}
