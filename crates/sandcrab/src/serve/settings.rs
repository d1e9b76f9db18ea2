//! [`Settings`]: the configuration of a server, combined from options, variables and the file.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::CommandFactory;
use sandcrab_engine::trusted::TrustedDir;
use sandcrab_engine::{MIN_JOURNAL_BYTES, OpenError, Retention, User, UserError};
use sandcrab_server::{
    Access, Defaults, Listen, PreviewScheme, PreviewSettings, PreviewSettingsError, ServerConfig,
};
use tracing_subscriber::EnvFilter;

use super::compat::CompatMode;
use super::config_file::{self, FileError};
use super::log::{self, LogFormat};
use super::token::{self, TokenError};
use crate::cli::Cli;
use crate::commands::serve::{PreviewSchemeArg, ServeArgs};
use crate::connection::TOKEN_VARIABLE;
use crate::default_paths;
use crate::quantity::{ByteSize, DurationArg};

const DEFAULT_LISTEN: &str = "127.0.0.1:7070";
/// The grace period of the reference's platform.
const DEFAULT_STOP_GRACE: Duration = Duration::from_secs(15 * 60);
/// Name of a sandbox in the addresses of previews.
const DEFAULT_NAME: &str = "local";
const DEFAULT_LOG: &str = "info";

/// Why a configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum SettingsError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    StateDir(#[from] OpenError),
    #[error("invalid address {text:?}: {why}; use HOST:PORT or unix:PATH, as in {DEFAULT_LISTEN}")]
    Listen { text: String, why: String },
    #[error(
        "--no-auth on {0} allows every machine that can reach it to run commands; listen on a loopback address or a unix \
         socket, or add --trust-network"
    )]
    Exposed(SocketAddr),
    #[error("there is no default state directory because HOME is not set; use --state-dir")]
    NoStateDir,
    #[error("invalid workspace {}: {why}; use an existing directory", path.display())]
    Workspace { path: PathBuf, why: String },
    #[error(transparent)]
    Previews(#[from] PreviewSettingsError),
    #[error("--run-as: {0}")]
    RunAs(#[from] UserError),
    #[error("--journal-bytes {given} is too small; the minimum is {MIN_JOURNAL_BYTES}")]
    Journal { given: u64 },
    #[error("the variable {name} is {value:?}; expected a whole number")]
    Variable { name: &'static str, value: String },
    #[error("--{option} has no effect without --{needed}; add --{needed}, or remove --{option}")]
    WithoutEffect { option: &'static str, needed: &'static str },
    #[error("--{0} must be at least 1")]
    Zero(&'static str),
    #[error("{0}")]
    Log(String),
}

/// The configuration of a server.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) server: ServerConfig,
    pub(super) token_file: PathBuf,
    pub(super) log: EnvFilter,
    pub(super) log_format: LogFormat,
}

impl Settings {
    /// Reads the file, combines everything, and creates the state directory and the token if they do not exist.
    pub(super) fn resolve(args: ServeArgs, is_below_init: bool) -> Result<Self, SettingsError> {
        let file = config_file::read(args.config.as_deref())?;
        let given = args.clone();
        let args = args.or(file);
        check_effects(&given, &args, is_below_init)?;
        let implied = args.compat.map(|mode| mode.implied(&args));
        let args = args.or(implied.unwrap_or_default());
        let listen = parse_listen(args.listen.as_deref().unwrap_or(DEFAULT_LISTEN))?;
        let log = log::filter(args.log.as_deref().unwrap_or(DEFAULT_LOG)).map_err(SettingsError::Log)?;
        let log_format = args.log_format.unwrap_or_default();
        check_exposed(&listen, &args)?;
        let previews = previews(&args)?;
        let state_dir = absolute(
            args.state_dir.clone().or_else(default_paths::state_dir).ok_or(SettingsError::NoStateDir)?,
        );
        let workspace = workspace(args.workspace.clone())?;
        let defaults = defaults(&args)?;
        TrustedDir::open_private(&state_dir).map_err(OpenError::from)?;
        let token_file = absolute(args.token_file.clone().unwrap_or_else(|| state_dir.join("token")));
        let token = match args.no_auth {
            Some(true) => None,
            _ => Some(token::read_or_make(&token_file)?),
        };
        let mut server = ServerConfig::new(state_dir, "");
        server.listen = listen;
        server.access = Access {
            token,
            allowed_hosts: args.allow_host.clone().unwrap_or_default(),
            allowed_origins: args.allow_origin.clone().unwrap_or_default(),
        };
        server.compat = args.compat.map(CompatMode::server);
        server.defaults = defaults;
        server.previews = previews;
        server.engine.cwd = workspace;
        if let Some(name) = &args.run_as {
            server.engine.run_as(User::find(name)?);
        }
        let is_ending = args.stop_executions.unwrap_or(is_below_init);
        server.stop_executions = is_ending.then(|| args.stop_grace.map_or(DEFAULT_STOP_GRACE, |span| span.0));
        apply_limits(&mut server, &args)?;
        Ok(Self { server, token_file, log, log_format })
    }
}

/// Refuses options that need another one. `given` are those of the command line and the environment, which may turn off what
/// the file, and so `args`, turns on.
fn check_effects(given: &ServeArgs, args: &ServeArgs, is_below_init: bool) -> Result<(), SettingsError> {
    let check = |option, is_given: bool, is_in_args: bool, needed, enabled: Option<bool>| {
        let is_without_effect = is_in_args && enabled.is_none() || is_given && enabled == Some(false);
        if is_without_effect { Err(SettingsError::WithoutEffect { option, needed }) } else { Ok(()) }
    };
    let is_ending = args.stop_executions.or(is_below_init.then_some(true));
    check("stop-grace", given.stop_grace.is_some(), args.stop_grace.is_some(), "stop-executions", is_ending)?;
    let no_auth = args.no_auth.or(args.compat.is_some().then_some(true));
    let is_trusted = |args: &ServeArgs| args.trust_network == Some(true);
    check("trust-network", is_trusted(given), is_trusted(args), "no-auth", no_auth)
}

fn previews(args: &ServeArgs) -> Result<PreviewSettings, SettingsError> {
    let scheme = match args.preview_scheme {
        Some(PreviewSchemeArg::Https) => PreviewScheme::Https,
        Some(PreviewSchemeArg::Http) | None => PreviewScheme::Http,
    };
    let name = args.name.as_deref().unwrap_or(DEFAULT_NAME);
    Ok(PreviewSettings::new(name, args.preview_host.as_deref(), scheme)?)
}

fn apply_limits(server: &mut ServerConfig, args: &ServeArgs) -> Result<(), SettingsError> {
    let size = |size: ByteSize| usize::try_from(size.0).unwrap_or(usize::MAX);
    set(&mut server.drain_window, args.drain_window.map(|span| span.0));
    set(&mut server.limits.connections, args.max_connections);
    set(&mut server.limits.body_bytes, args.max_body_bytes.map(size));
    // One body of the maximum size must always fit.
    server.limits.held_body_bytes = server.limits.held_body_bytes.max(server.limits.body_bytes);
    let engine = &mut server.engine;
    set(&mut engine.journal_bytes, args.journal_bytes.map(|size| size.0));
    set(&mut engine.ready_shells, args.ready_shells);
    set(&mut engine.max_executions, args.max_executions);
    set(&mut engine.max_sessions, args.max_sessions);
    set(&mut engine.max_terminals, args.max_terminals);
    let Retention { max_age, max_count, max_total_bytes, .. } = &mut engine.retention;
    set(max_age, args.retention_age.map(|span| span.0));
    set(max_count, args.retention_count);
    set(max_total_bytes, args.retention_bytes.map(|size| size.0));
    if engine.journal_bytes < MIN_JOURNAL_BYTES {
        return Err(SettingsError::Journal { given: engine.journal_bytes });
    }
    if server.limits.connections == 0 {
        return Err(SettingsError::Zero("max-connections"));
    }
    Ok(())
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// An absolute path, which does not depend on the working directory.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

fn workspace(given: Option<PathBuf>) -> Result<PathBuf, SettingsError> {
    let path = absolute(given.or_else(default_paths::workspace).unwrap_or_else(|| "/".into()));
    let refused = |why: String| SettingsError::Workspace { path: path.clone(), why };
    let found = std::fs::metadata(&path).map_err(|error| refused(error.to_string()))?;
    if found.is_dir() { Ok(path) } else { Err(refused("it is not a directory".into())) }
}

/// Defaults of commands: from the options, else from the variables of the reference.
fn defaults(args: &ServeArgs) -> Result<Defaults, SettingsError> {
    let millis = || variable("COMMAND_TIMEOUT_MS");
    let timeout = match args.command_timeout {
        Some(DurationArg(timeout)) => Some(timeout),
        None => millis()?.map(Duration::from_millis),
    };
    let max_output_bytes = match args.max_output_bytes {
        Some(size) => Some(size.0),
        None => variable("MAX_OUTPUT_SIZE_BYTES")?,
    };
    Ok(Defaults { timeout: timeout.filter(|timeout| !timeout.is_zero()), max_output_bytes })
}

fn variable(name: &'static str) -> Result<Option<u64>, SettingsError> {
    let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    value.parse().map(Some).map_err(|_| SettingsError::Variable { name, value })
}

/// Unknown variables that begin with `SANDCRAB_`: a misspelt one would silently have no effect.
pub(super) fn unknown_variables() -> Vec<String> {
    let mut known = BTreeSet::from([OsString::from(TOKEN_VARIABLE)]);
    let mut commands = vec![Cli::command()];
    while let Some(command) = commands.pop() {
        known.extend(command.get_arguments().filter_map(|arg| arg.get_env()).map(OsStr::to_owned));
        commands.extend(command.get_subcommands().cloned());
    }
    let ours = std::env::vars_os().map(|(name, _)| name).filter(|name| !known.contains(name));
    ours.map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with("SANDCRAB_"))
        .collect()
}

fn parse_listen(text: &str) -> Result<Listen, SettingsError> {
    let refused = |why: &str| SettingsError::Listen { text: text.to_owned(), why: why.to_owned() };
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return Err(refused("the path is missing"));
        }
        return Ok(Listen::Unix(absolute(Path::new(path).to_owned())));
    }
    let mut addresses = text.to_socket_addrs().map_err(|error| refused(&error.to_string()))?;
    addresses.next().map(Listen::Tcp).ok_or_else(|| refused("the name has no address"))
}

fn check_exposed(listen: &Listen, args: &ServeArgs) -> Result<(), SettingsError> {
    match listen {
        Listen::Tcp(address)
            if args.no_auth == Some(true)
                && args.trust_network != Some(true)
                && !address.ip().to_canonical().is_loopback() =>
        {
            Err(SettingsError::Exposed(*address))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
