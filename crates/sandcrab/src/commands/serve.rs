//! `sandcrab serve`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::quantity::{ByteSize, DurationArg};
use crate::serve::{self, CompatMode, LogFormat};

/// Start the server, and run it until it receives a signal.
///
/// Each option can also be set by an environment variable or, --config excepted, by a key of the configuration file: the
/// name of the option without the dashes. An option overrides a variable, and a variable overrides the file.
///
/// SIGTERM, SIGINT and SIGHUP stop the server: new requests are refused and running requests finish. A second signal stops
/// it at once. SIGUSR1 logs its state. Exit codes: 0 after a signal, 2 if the configuration, the address or the state
/// directory cannot be used, that of a main program that failed, otherwise that of a server that crashed repeatedly.
// The command line, the environment and the file are read into the same type; `serve::settings` combines them.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct ServeArgs {
    /// Configuration file (TOML). Default: sandcrab/config.toml in $XDG_CONFIG_HOME or ~/.config, else
    /// /etc/sandcrab/config.toml, if it exists.
    #[arg(long, env = "SANDCRAB_CONFIG", value_name = "PATH")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,

    /// Imitate another server. sandbox-sdk: the container server of the Sandbox SDK; implies --listen 0.0.0.0:3000, --no-auth
    /// and --trust-network unless they are given. See docs/sandbox-sdk.md. Default: none.
    #[arg(long, env = "SANDCRAB_COMPAT", value_name = "MODE")]
    pub(crate) compat: Option<CompatMode>,

    /// Address to listen on: HOST:PORT or unix:PATH. Default: 127.0.0.1:7070.
    #[arg(long, env = "SANDCRAB_LISTEN", value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,

    /// State directory: records, output, sessions and the token. Default: /var/lib/sandcrab for root, else sandcrab in
    /// $XDG_STATE_HOME or ~/.local/state.
    #[arg(long, env = "SANDCRAB_STATE_DIR", value_name = "PATH")]
    pub(crate) state_dir: Option<PathBuf>,

    /// Default working directory of commands. Default: /workspace if it exists, else the current directory.
    #[arg(long, env = "SANDCRAB_WORKSPACE", value_name = "PATH")]
    pub(crate) workspace: Option<PathBuf>,

    /// User that commands run as: a name, a user id or UID:GID. Selecting another user requires root. Recommended
    /// if the server runs as root: commands can then neither read the token and the state directory nor signal or trace
    /// the server. Default: the user of the server.
    #[arg(long, env = "SANDCRAB_RUN_AS", value_name = "USER")]
    pub(crate) run_as: Option<String>,

    /// Require no token: every client that can connect can run commands. An address that other machines can reach also
    /// requires --trust-network. Default: false.
    #[arg(long, env = "SANDCRAB_NO_AUTH", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub(crate) no_auth: Option<bool>,

    /// With --no-auth: allow an address that other machines can reach. Default: false.
    #[arg(long, env = "SANDCRAB_TRUST_NETWORK", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub(crate) trust_network: Option<bool>,

    /// File with the token, readable by this user only. Created on the first start. Default: token in the state
    /// directory.
    #[arg(long, env = "SANDCRAB_TOKEN_FILE", value_name = "PATH")]
    pub(crate) token_file: Option<PathBuf>,

    /// Host names that requests may use, beside IP addresses and localhost; separated by commas. Default: none.
    #[arg(long, env = "SANDCRAB_ALLOW_HOST", value_name = "NAME", value_delimiter = ',')]
    pub(crate) allow_host: Option<Vec<String>>,

    /// Origins whose web pages may call the server, * for all; separated by commas. Default: none.
    #[arg(long, env = "SANDCRAB_ALLOW_ORIGIN", value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) allow_origin: Option<Vec<String>>,

    /// Name of this sandbox in the addresses of previews: lowercase letters, digits and hyphens. Default: local.
    #[arg(long, env = "SANDCRAB_NAME", value_name = "SANDBOX")]
    pub(crate) name: Option<String>,

    /// Parent domain of the host names of previews: DOMAIN or DOMAIN:PORT. Its subdomains must resolve to this server.
    /// Default: localhost with the port of --listen.
    #[arg(long, env = "SANDCRAB_PREVIEW_HOST", value_name = "HOST")]
    pub(crate) preview_host: Option<String>,

    /// Scheme of the addresses of previews. https: a proxy in front of the server terminates TLS. Default: http.
    #[arg(long, env = "SANDCRAB_PREVIEW_SCHEME", value_name = "SCHEME")]
    pub(crate) preview_scheme: Option<PreviewSchemeArg>,

    /// Default timeout of commands; 0s for none. Default: the value of COMMAND_TIMEOUT_MS, else 0s.
    #[arg(long, env = "SANDCRAB_COMMAND_TIMEOUT", value_name = "DURATION")]
    pub(crate) command_timeout: Option<DurationArg>,

    /// Default maximum of output in a response, for each stream. Default: the value of MAX_OUTPUT_SIZE_BYTES, else 10MiB.
    #[arg(long, env = "SANDCRAB_MAX_OUTPUT_BYTES", value_name = "SIZE")]
    pub(crate) max_output_bytes: Option<ByteSize>,

    /// Maximum time for running requests to finish when the server stops. Default: 10s.
    #[arg(long, env = "SANDCRAB_DRAIN_WINDOW", value_name = "DURATION")]
    pub(crate) drain_window: Option<DurationArg>,

    /// End all running commands when the server stops. Otherwise they continue, and the next server adopts them.
    /// Default: true if the server is the first process of its container (PID 1), else false.
    #[arg(long, env = "SANDCRAB_STOP_EXECUTIONS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub(crate) stop_executions: Option<bool>,

    /// Grace period before SIGKILL with --stop-executions. Default: 15m.
    #[arg(long, env = "SANDCRAB_STOP_GRACE", value_name = "DURATION")]
    pub(crate) stop_grace: Option<DurationArg>,

    /// Maximum age of finished executions. Default: 24h.
    #[arg(long, env = "SANDCRAB_RETENTION_AGE", value_name = "DURATION")]
    pub(crate) retention_age: Option<DurationArg>,

    /// Maximum number of finished executions. Default: 1000.
    #[arg(long, env = "SANDCRAB_RETENTION_COUNT", value_name = "COUNT")]
    pub(crate) retention_count: Option<usize>,

    /// Maximum size on disk of finished executions. Default: 4GiB.
    #[arg(long, env = "SANDCRAB_RETENTION_BYTES", value_name = "SIZE")]
    pub(crate) retention_bytes: Option<ByteSize>,

    /// Maximum output on disk of one execution. Default: 64MiB.
    #[arg(long, env = "SANDCRAB_JOURNAL_BYTES", value_name = "SIZE")]
    pub(crate) journal_bytes: Option<ByteSize>,

    /// Number of shells kept ready. Default: 4.
    #[arg(long, env = "SANDCRAB_READY_SHELLS", value_name = "COUNT")]
    pub(crate) ready_shells: Option<usize>,

    /// Maximum number of running executions. Default: 10000.
    #[arg(long, env = "SANDCRAB_MAX_EXECUTIONS", value_name = "COUNT")]
    pub(crate) max_executions: Option<usize>,

    /// Maximum number of sessions. Default: 20000.
    #[arg(long, env = "SANDCRAB_MAX_SESSIONS", value_name = "COUNT")]
    pub(crate) max_sessions: Option<usize>,

    /// Maximum number of running terminals. Default: 2000.
    #[arg(long, env = "SANDCRAB_MAX_TERMINALS", value_name = "COUNT")]
    pub(crate) max_terminals: Option<usize>,

    /// Maximum number of connections; further clients wait. Default: 16384.
    #[arg(long, env = "SANDCRAB_MAX_CONNECTIONS", value_name = "COUNT")]
    pub(crate) max_connections: Option<usize>,

    /// Maximum size of a request body. Default: 128MiB.
    #[arg(long, env = "SANDCRAB_MAX_BODY_BYTES", value_name = "SIZE")]
    pub(crate) max_body_bytes: Option<ByteSize>,

    /// Log level: error, warn, info, debug, trace, or a list such as info,sandcrab_server=debug. Default: info.
    #[arg(long, env = "SANDCRAB_LOG", value_name = "LEVEL")]
    pub(crate) log: Option<String>,

    /// Log format. Default: text.
    #[arg(long, env = "SANDCRAB_LOG_FORMAT", value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,

    /// Main program to run beside the server, after `--`. Signals are passed to it. If it fails, the server stops with
    /// its exit code; if it succeeds, the server stays.
    #[arg(last = true, value_name = "COMMAND")]
    #[serde(skip)]
    pub(crate) command: Vec<OsString>,
}

/// The scheme of the addresses of previews.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PreviewSchemeArg {
    Http,
    Https,
}

impl ServeArgs {
    /// These values, and the others where these have none.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            config: self.config.or(others.config),
            compat: self.compat.or(others.compat),
            listen: self.listen.or(others.listen),
            state_dir: self.state_dir.or(others.state_dir),
            workspace: self.workspace.or(others.workspace),
            run_as: self.run_as.or(others.run_as),
            no_auth: self.no_auth.or(others.no_auth),
            trust_network: self.trust_network.or(others.trust_network),
            token_file: self.token_file.or(others.token_file),
            allow_host: self.allow_host.or(others.allow_host),
            allow_origin: self.allow_origin.or(others.allow_origin),
            name: self.name.or(others.name),
            preview_host: self.preview_host.or(others.preview_host),
            preview_scheme: self.preview_scheme.or(others.preview_scheme),
            command_timeout: self.command_timeout.or(others.command_timeout),
            max_output_bytes: self.max_output_bytes.or(others.max_output_bytes),
            drain_window: self.drain_window.or(others.drain_window),
            stop_executions: self.stop_executions.or(others.stop_executions),
            stop_grace: self.stop_grace.or(others.stop_grace),
            retention_age: self.retention_age.or(others.retention_age),
            retention_count: self.retention_count.or(others.retention_count),
            retention_bytes: self.retention_bytes.or(others.retention_bytes),
            journal_bytes: self.journal_bytes.or(others.journal_bytes),
            ready_shells: self.ready_shells.or(others.ready_shells),
            max_executions: self.max_executions.or(others.max_executions),
            max_sessions: self.max_sessions.or(others.max_sessions),
            max_terminals: self.max_terminals.or(others.max_terminals),
            max_connections: self.max_connections.or(others.max_connections),
            max_body_bytes: self.max_body_bytes.or(others.max_body_bytes),
            log: self.log.or(others.log),
            log_format: self.log_format.or(others.log_format),
            command: self.command,
        }
    }
}

/// Runs as the parent, or as the server that the parent has started.
pub(crate) fn run(args: ServeArgs) -> ExitCode {
    if serve::is_started_by_parent() {
        serve::server(args)
    } else {
        // The server reads the other arguments itself.
        serve::parent(args.command)
    }
}
