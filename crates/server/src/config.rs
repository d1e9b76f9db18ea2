//! How a server is set up.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use sandcrab_engine::EngineConfig;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// On an address; port 0 takes a free one.
    Tcp(SocketAddr),
    /// On a socket in the file system, for this user alone.
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

/// Who may ask.
#[derive(Clone, Default)]
pub struct Access {
    /// The bearer token; without one everybody who can connect may do everything.
    pub token: Option<String>,
    /// Names under which the server may be called, beside addresses and `localhost`.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call it, beside its own; `*` for all.
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

/// What commands get that do not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The longest they may run; forever if `None`.
    pub timeout: Option<Duration>,
    /// The most bytes of each stream in an answer; [`sandcrab_api::DEFAULT_OUTPUT_BYTES`] if `None`.
    pub max_output_bytes: Option<u64>,
}

/// What bounds a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// The largest body of a request.
    pub body_bytes: usize,
    /// The most bytes of bodies that are held at a time, all requests together.
    pub held_body_bytes: usize,
    /// How long the next piece of a body may take: what has come is held meanwhile.
    pub body_patience: Duration,
    /// How many bytes of answers may wait for clients to take them before pieces become small.
    pub outgoing_bytes: usize,
    /// The most connections at a time.
    pub connections: usize,
    /// The most requests under way on one WebSocket.
    pub requests_per_socket: usize,
    /// How long the client of a WebSocket may be silent before it is sent a ping. After three times as long it is taken
    /// for dead.
    pub socket_ping_after: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_bytes: 128 << 20,
            held_body_bytes: 512 << 20,
            body_patience: Duration::from_secs(60),
            outgoing_bytes: 64 << 20,
            connections: 16_384,
            requests_per_socket: 1_024,
            socket_ping_after: Duration::from_secs(20),
        }
    }
}

/// How a server is set up. Made with [`ServerConfig::new`], then refined.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where it listens.
    pub listen: Listen,
    /// How its engine is set up; `cwd` is the workspace.
    pub engine: EngineConfig,
    /// Who may ask.
    pub access: Access,
    /// What commands get that do not say.
    pub defaults: Defaults,
    /// What bounds it.
    pub limits: ServerLimits,
    /// How long running requests have to finish when it stops.
    pub drain_window: Duration,
    /// End what runs when the server stops: SIGTERM, this long, SIGKILL. Without it, everything goes on.
    pub stop_executions: Option<Duration>,
}

impl ServerConfig {
    /// The defaults: on a free port of the loopback address, for whoever has this token.
    pub fn new(state_dir: impl Into<PathBuf>, token: impl Into<String>) -> Self {
        Self {
            listen: Listen::Tcp(([127, 0, 0, 1], 0).into()),
            engine: EngineConfig::new(state_dir),
            access: Access { token: Some(token.into()), ..Access::default() },
            defaults: Defaults::default(),
            limits: ServerLimits::default(),
            drain_window: Duration::from_secs(10),
            stop_executions: None,
        }
    }
}
