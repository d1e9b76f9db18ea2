//! The server process, started by the parent.

use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::Pid;
use sandcrab_engine::OpenError;
use sandcrab_server::{Listening, ServeError, Server};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::CANNOT_RUN;
use super::compat;
use super::control_socket::{self, ControlSocket, LISTENING, Message, SOCKET};
use super::mcp;
use super::message::{ERROR, print_message};
use super::settings::{Settings, SettingsError, unknown_variables};
use super::{log, start_lines};
use crate::address_file::AddressFile;
use crate::commands::serve::ServeArgs;
use crate::runtime::{self, NO_THREAD};

/// How long dropped tasks may take to end.
const RUNTIME_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Why the server failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("this process must be started by `sandcrab serve`: {0}")]
    NoParent(io::Error),
    #[error("failed to {doing}: {source}")]
    Os { doing: &'static str, source: io::Error },
}

impl Failure {
    /// The exit code, from which the parent decides whether to restart.
    fn code(&self) -> u8 {
        match self {
            // The machine may be out of a resource for a while.
            Self::Settings(SettingsError::StateDir(OpenError::StateDir { .. })) => 1,
            Self::Settings(_)
            | Self::NoParent(_)
            | Self::Serve(
                ServeError::Engine(OpenError::InUse { .. } | OpenError::Untrusted(_) | OpenError::RunAs(_))
                | ServeError::Listen { .. }
                | ServeError::NotASocket(_)
                | ServeError::Environment(_)
                | ServeError::Previews(_),
            ) => CANNOT_RUN,
            _ => 1,
        }
    }
}

/// Serves until a signal stops it.
pub(crate) fn run(args: ServeArgs) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            print_message(ERROR, format_args!("{failure}"));
            ExitCode::from(failure.code())
        }
    }
}

fn serve(args: ServeArgs) -> Result<(), Failure> {
    let (control, message) = control_socket::take().map_err(Failure::NoParent)?;
    // It was executed through /proc, and would be called `exe`.
    let _ = rustix::thread::set_name(c"sandcrab-server");
    let is_below_init = rustix::process::getppid() == Some(Pid::INIT);
    let mut settings = Settings::resolve(args, is_below_init)?;
    log::start(std::mem::take(&mut settings.log), settings.log_format);
    for name in unknown_variables() {
        tracing::warn!("unknown variable {name}; `sandcrab serve --help` lists the known ones");
    }
    let runtime = start_runtime()?;
    let served = runtime.block_on(async {
        let watched = |source| Failure::Os { doing: "watch the parent", source };
        let control = ControlSocket::new(control).map_err(watched)?;
        serve_below(&control, message, settings).await
    });
    runtime.shutdown_timeout(RUNTIME_SHUTDOWN_TIMEOUT);
    served
}

fn start_runtime() -> Result<Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.max_blocking_threads(std::thread::available_parallelism().map_or(1, NonZero::get));
    let runtime = runtime::start(&mut builder, 1, || print_message(ERROR, format_args!("{NO_THREAD}")));
    runtime.map_err(|source| Failure::Os { doing: "start the runtime", source })
}

async fn serve_below(control: &ControlSocket, message: Message, settings: Settings) -> Result<(), Failure> {
    let Settings { server: config, token_file, .. } = settings;
    let handled = |source| Failure::Os { doing: "handle signals", source };
    let mut stops = StopSignals::new().map_err(handled)?;
    let user = signal(SignalKind::user_defined1()).map_err(handled)?;
    let access = config.access.clone();
    let warning = compat::warning(&config);
    let state_dir = config.engine.state_dir.clone();
    let is_first = message.text.is_empty();
    let mut server = match message.socket {
        Some(socket) => start_on(config, socket).await?,
        None => Server::start(config).await?,
    };
    // The API works without the tools for models.
    if let Err(error) = mcp::mount(&mut server, access.token.as_deref()) {
        tracing::warn!(%error, "failed to offer {}", mcp::PATH);
    }
    let told = |source| Failure::Os { doing: "tell the parent", source };
    // At once: from now on clients can connect, so the next server must use the same socket.
    let shared = server.listening().share().map_err(told)?;
    control.send(SOCKET, Some(shared.as_fd())).map_err(told)?;
    drop(shared);
    // Without the file, clients need --url. A full disk is no reason not to serve.
    let noted = AddressFile::write(&state_dir, server.address());
    let _noted = noted
        .inspect_err(|error| tracing::warn!(%error, "failed to write the address file; clients need --url"))
        .ok();
    let mut announcement = String::new();
    if is_first {
        announcement = start_lines::lines(server.address(), &access, &token_file);
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
    } else {
        let running = server.engine().health().running;
        tracing::warn!(running, "{}; running commands are adopted", message.text);
    }
    control.send(&(announcement + LISTENING), None).map_err(told)?;
    let health = server.engine().health();
    if let Some(reason) = health.shell_driver_reason {
        tracing::warn!(reason, "sessions use the portable driver: {}", health.shell_driver);
    }
    sandcrab_engine::release_start();
    let states = write_state(user, server.engine().clone(), server.connections());
    let (counter, count) = watch::channel(0);
    let before_drop = server.before_drop();
    tokio::select! {
        served = server.run_until(counted(count.clone(), 1), counted(count, 2)) => Ok(served?),
        () = stops.count(counter) => Ok(()),
        () = states => Ok(()),
        // As after a crash: running commands continue.
        () = async { control.ended().await; before_drop() } => {
            tracing::error!("the parent process has ended; stopping at once");
            Ok(())
        }
    }
}

/// Uses the socket of the previous server, or a new one if the configuration has changed.
async fn start_on(config: sandcrab_server::ServerConfig, socket: OwnedFd) -> Result<Server, ServeError> {
    match Listening::inherited(socket, &config.listen) {
        Ok(listening) => Server::start_on(config, listening).await,
        Err(_) => Server::start(config).await,
    }
}

/// Logs the server's state at each SIGUSR1; never returns.
async fn write_state(
    mut user: Signal,
    engine: sandcrab_engine::Engine,
    connections: std::sync::Arc<std::sync::atomic::AtomicUsize>,
) {
    loop {
        user.recv().await;
        let health = engine.health();
        let connections = connections.load(Ordering::Relaxed);
        let (running, sessions) = (health.running, health.sessions);
        tracing::info!(running, sessions, connections, "state of the server");
    }
}

/// The signals that stop a server.
#[derive(Debug)]
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl StopSignals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }

    /// Counts stop signals; never returns.
    async fn count(&mut self, counter: watch::Sender<u32>) {
        loop {
            let signal = self.next().await;
            counter.send_modify(|count| *count = count.saturating_add(1));
            match *counter.borrow() {
                1 => tracing::info!(signal, "stopping"),
                _ => tracing::warn!(signal, "stopping at once"),
            }
        }
    }
}

/// Waits for a number of stop signals.
async fn counted(mut counter: watch::Receiver<u32>, many: u32) {
    // The sender lives as long as the server.
    drop(counter.wait_for(|count| *count >= many).await);
}
