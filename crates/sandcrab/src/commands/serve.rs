//! `sandcrab serve`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::BoolishValueParser;
use serde::Deserialize;

use crate::quantity::{Size, Span};
use crate::serve::{self, LogFormat};

/// Serve the API until told to stop.
///
/// Every option can also be given as a variable or as a key of the configuration file, which is the option's name without
/// the dashes. An option counts before a variable, a variable before the file.
///
/// SIGTERM, SIGINT and SIGHUP stop it: new work is refused, running requests finish; a second one does not wait.
/// SIGUSR1 writes a line about its state to the log. Exit codes: 0 stopped as asked, 2 it cannot run as it is
/// configured, anything else is the code of a server that failed again and again.
// The same type is what the command line, the environment and the file say; see `serve::settings` for what follows.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct ServeArgs {
    /// The configuration file (TOML). Default: sandcrab/config.toml in $XDG_CONFIG_HOME or ~/.config, else
    /// /etc/sandcrab/config.toml, if there is one.
    #[arg(long, env = "SANDCRAB_CONFIG", value_name = "PATH")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,

    /// Where to listen: HOST:PORT or unix:PATH. Default: 127.0.0.1:7070.
    #[arg(long, env = "SANDCRAB_LISTEN", value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,

    /// Where everything is kept. Default: /var/lib/sandcrab for root, for others sandcrab in $XDG_STATE_HOME or
    /// ~/.local/state.
    #[arg(long, env = "SANDCRAB_STATE_DIR", value_name = "PATH")]
    pub(crate) state_dir: Option<PathBuf>,

    /// Where commands run that do not say. Default: /workspace if it is there, else the current folder.
    #[arg(long, env = "SANDCRAB_WORKSPACE", value_name = "PATH")]
    pub(crate) workspace: Option<PathBuf>,

    /// The user that commands run as: a name, a user id or UID:GID. Only root can name another user than itself. Recommended
    /// where the server runs as root: commands can then neither read the token and the state directory nor signal or trace
    /// the server. Default: the server's own user.
    #[arg(long, env = "SANDCRAB_RUN_AS", value_name = "USER")]
    pub(crate) run_as: Option<String>,

    /// Ask for no token: whoever can connect may run commands. On an address that others can reach,
    /// --trust-network has to be given as well. Default: false.
    #[arg(long, env = "SANDCRAB_NO_AUTH", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub(crate) no_auth: Option<bool>,

    /// With --no-auth: everybody who can reach the address may run commands. Default: false.
    #[arg(long, env = "SANDCRAB_TRUST_NETWORK", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub(crate) trust_network: Option<bool>,

    /// The file with the token, for this user alone. It is made on the first start. Default: token in the state
    /// directory.
    #[arg(long, env = "SANDCRAB_TOKEN_FILE", value_name = "PATH")]
    pub(crate) token_file: Option<PathBuf>,

    /// A name under which the server may be called, beside addresses and localhost; several with commas. Default:
    /// none.
    #[arg(long, env = "SANDCRAB_ALLOW_HOST", value_name = "NAME", value_delimiter = ',')]
    pub(crate) allow_host: Option<Vec<String>>,

    /// An origin whose web pages may call the server, * for all; several with commas. Default: none.
    #[arg(long, env = "SANDCRAB_ALLOW_ORIGIN", value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) allow_origin: Option<Vec<String>>,

    /// The longest a command may run that does not say; 0s for no limit. Default: what COMMAND_TIMEOUT_MS says, else
    /// 0s.
    #[arg(long, env = "SANDCRAB_COMMAND_TIMEOUT", value_name = "DURATION")]
    pub(crate) command_timeout: Option<Span>,

    /// The most bytes of each stream that an answer carries, unless the request says. Default: what
    /// MAX_OUTPUT_SIZE_BYTES says, else 10MiB.
    #[arg(long, env = "SANDCRAB_MAX_OUTPUT_BYTES", value_name = "SIZE")]
    pub(crate) max_output_bytes: Option<Size>,

    /// How long running requests have to finish when the server stops. Default: 10s.
    #[arg(long, env = "SANDCRAB_DRAIN_WINDOW", value_name = "DURATION")]
    pub(crate) drain_window: Option<Span>,

    /// End what runs when the server stops. Without it everything goes on, and the next server takes it over.
    /// Default: true if it is the first process of its container (PID 1), else false.
    #[arg(long, env = "SANDCRAB_STOP_EXECUTIONS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub(crate) stop_executions: Option<bool>,

    /// How long what runs has between SIGTERM and SIGKILL then. Default: 15m.
    #[arg(long, env = "SANDCRAB_STOP_GRACE", value_name = "DURATION")]
    pub(crate) stop_grace: Option<Span>,

    /// The longest a finished execution is kept. Default: 24h.
    #[arg(long, env = "SANDCRAB_RETENTION_AGE", value_name = "DURATION")]
    pub(crate) retention_age: Option<Span>,

    /// The most finished executions that are kept. Default: 1000.
    #[arg(long, env = "SANDCRAB_RETENTION_COUNT", value_name = "COUNT")]
    pub(crate) retention_count: Option<usize>,

    /// The most bytes of finished executions that are kept. Default: 4GiB.
    #[arg(long, env = "SANDCRAB_RETENTION_BYTES", value_name = "SIZE")]
    pub(crate) retention_bytes: Option<Size>,

    /// The most output of one execution that is kept on disk. Default: 64MiB.
    #[arg(long, env = "SANDCRAB_JOURNAL_BYTES", value_name = "SIZE")]
    pub(crate) journal_bytes: Option<Size>,

    /// How many shells are kept ready. Default: 4.
    #[arg(long, env = "SANDCRAB_READY_SHELLS", value_name = "COUNT")]
    pub(crate) ready_shells: Option<usize>,

    /// The most executions at a time. Default: 10000.
    #[arg(long, env = "SANDCRAB_MAX_EXECUTIONS", value_name = "COUNT")]
    pub(crate) max_executions: Option<usize>,

    /// The most sessions at a time. Default: 20000.
    #[arg(long, env = "SANDCRAB_MAX_SESSIONS", value_name = "COUNT")]
    pub(crate) max_sessions: Option<usize>,

    /// The most connections at a time; beyond that, clients wait. Default: 16384.
    #[arg(long, env = "SANDCRAB_MAX_CONNECTIONS", value_name = "COUNT")]
    pub(crate) max_connections: Option<usize>,

    /// The largest body of a request. Default: 128MiB.
    #[arg(long, env = "SANDCRAB_MAX_BODY_BYTES", value_name = "SIZE")]
    pub(crate) max_body_bytes: Option<Size>,

    /// What to log: error, warn, info, debug, trace, or a list such as info,sandcrab_server=debug. Default: info.
    #[arg(long, env = "SANDCRAB_LOG", value_name = "LEVEL")]
    pub(crate) log: Option<String>,

    /// How to log. Default: text.
    #[arg(long, env = "SANDCRAB_LOG_FORMAT", value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
}

impl ServeArgs {
    /// What these say, and where they say nothing, what the others do.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            config: self.config.or(others.config),
            listen: self.listen.or(others.listen),
            state_dir: self.state_dir.or(others.state_dir),
            workspace: self.workspace.or(others.workspace),
            run_as: self.run_as.or(others.run_as),
            no_auth: self.no_auth.or(others.no_auth),
            trust_network: self.trust_network.or(others.trust_network),
            token_file: self.token_file.or(others.token_file),
            allow_host: self.allow_host.or(others.allow_host),
            allow_origin: self.allow_origin.or(others.allow_origin),
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
            max_connections: self.max_connections.or(others.max_connections),
            max_body_bytes: self.max_body_bytes.or(others.max_body_bytes),
            log: self.log.or(others.log),
            log_format: self.log_format.or(others.log_format),
        }
    }
}

/// Serves: as the parent, or as the server that the parent has started.
pub(crate) fn run(args: ServeArgs) -> ExitCode {
    if serve::is_started_by_parent() {
        serve::server(args)
    } else {
        // The parent keeps nothing that the server can find out itself.
        drop(args);
        serve::parent()
    }
}
