//! One health check.

use std::sync::Arc;
use std::time::Duration;

use sandcrab_engine::{CommandSpec, EndReason, Execution, LeftoverPolicy, ListeningPort};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::registry::Services;
use crate::app::App;
use crate::error::ApiError;
use crate::ports::probe::{self, Expected};
use crate::unrecorded::{Abandoned, Unrecorded};

/// Maximum number of checks at the same time. Others wait.
pub(super) const MAX_CONCURRENT_CHECKS: usize = 16;
/// Maximum size of the output of a check command in an error.
const MAX_ERROR_BYTES: usize = 512;
/// Maximum size of the output of a check command that is read, for each stream.
const MAX_OUTPUT_BYTES: usize = 4 << 10;
/// Minimum time between two lists of ports.
const LIST_INTERVAL: Duration = Duration::from_millis(250);
/// Time for which it is known that a port belongs to an execution.
const OWNER_KNOWN_FOR: Duration = Duration::from_secs(60);

/// A health check.
#[derive(Debug, Clone)]
pub(super) struct Check {
    pub(super) probe: Probe,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    pub(super) retries: u32,
    pub(super) start_period: Duration,
}

/// What is checked.
#[derive(Debug, Clone)]
pub(super) enum Probe {
    /// A port of this machine.
    Port { port: u16, expected: Expected },
    /// The exit code of shell text.
    Command(String),
}

/// What all checks of a server share.
#[derive(Debug)]
pub(super) struct Checks {
    permits: Arc<Semaphore>,
    /// The newest list of ports, and the time before it was made.
    ports: Mutex<Option<(Instant, Arc<[ListeningPort]>)>>,
}

impl Default for Checks {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_CONCURRENT_CHECKS)), ports: Mutex::default() }
    }
}

impl Checks {
    /// A list of ports that was made after `since`. Concurrent callers share one, because it reads the open files of all
    /// processes.
    async fn ports(&self, app: &App, since: Instant) -> Arc<[ListeningPort]> {
        let mut newest = self.ports.lock().await;
        if let Some((made_at, ports)) = &*newest
            && *made_at >= since
        {
            return Arc::clone(ports);
        }
        if let Some((made_at, _)) = &*newest {
            // Callers that wait meanwhile share the next list.
            tokio::time::sleep_until(*made_at + LIST_INTERVAL).await;
        }
        let made_at = Instant::now();
        let ports: Arc<[_]> = app.sandbox.engine.listening_ports().await.into();
        *newest = Some((made_at, Arc::clone(&ports)));
        ports
    }
}

/// The checks of one execution.
#[derive(Debug)]
pub(super) struct Checker {
    pub(super) app: App,
    pub(super) check: Check,
    pub(super) execution: Execution,
    /// The command, user, environment and directory of a check command.
    pub(super) command: Option<CommandSpec>,
    /// When the owner of the port was last found to be the execution.
    owner_known_at: Option<Instant>,
}

impl Checker {
    pub(super) fn new(app: App, check: Check, execution: Execution, command: Option<CommandSpec>) -> Self {
        Self { app, check, execution, command, owner_known_at: None }
    }

    /// Checks once. The error says what is wrong.
    pub(super) async fn run(&mut self) -> Result<(), String> {
        let app = App::clone(&self.app);
        let Services { checks, .. } = &app.services;
        // The semaphore is never closed.
        let permit = Arc::clone(&checks.permits).acquire_owned().await.ok();
        match self.check.probe.clone() {
            Probe::Port { port, expected } => {
                let begun = Instant::now();
                probe::try_probe(port, &expected, self.check.timeout).await.inspect_err(|_| {
                    self.owner_known_at = None;
                })?;
                if self.owner_known_at.is_some_and(|at| at.elapsed() < OWNER_KNOWN_FOR) {
                    return Ok(());
                }
                self.check_owner(port, &checks.ports(&self.app, begun).await)?;
                self.owner_known_at = Some(begun);
                Ok(())
            }
            Probe::Command(_) => self.run_command(permit).await,
        }
    }

    /// Refuses a port on which only other processes listen. A listener that the server cannot see is accepted.
    fn check_owner(&self, port: u16, ports: &[ListeningPort]) -> Result<(), String> {
        let mut of_others = None;
        for found in ports.iter().filter(|found| found.address.port() == port) {
            match found.pid {
                _ if found.execution.as_ref() == Some(self.execution.id()) => return Ok(()),
                None => return Ok(()),
                Some(pid) => of_others = Some(pid),
            }
        }
        match of_others {
            Some(pid) => {
                Err(format!("port {port} belongs to process {pid}, which is not part of this service"))
            }
            None => Ok(()),
        }
    }

    /// Runs the command. If this is cancelled, the command is ended, and its permit is free only then.
    async fn run_command(&self, permit: Option<OwnedSemaphorePermit>) -> Result<(), String> {
        let Some(spec) = self.command.clone() else { return Ok(()) };
        let mut spec = spec;
        spec.timeout = Some(self.check.timeout);
        spec.timeout_grace = Duration::ZERO;
        spec.leftovers = LeftoverPolicy::Kill;
        spec.background = false;
        let failed = |error: ApiError| format!("the check failed to start: {}", error.message());
        // Records of checks would fill the list of executions.
        let command = Unrecorded::start(&self.app, spec, Abandoned::Ends, permit).await.map_err(failed)?;
        let end = command.wait().await.map_err(|error| failed(error.into()))?;
        let output = command.output(MAX_OUTPUT_BYTES).unwrap_or_default();
        command.finish().await;
        if end.exit_code == Some(0) && end.reason == EndReason::Exited {
            return Ok(());
        }
        let how = match (end.reason, end.exit_code) {
            (EndReason::Timeout, _) => format!("the check command took longer than {:?}", self.check.timeout),
            (_, Some(code)) => format!("the check command exited with code {code}"),
            (_, None) => "the check command ended for an unknown reason".to_owned(),
        };
        let [stderr, stdout] =
            [&output.stderr.bytes, &output.stdout.bytes].map(|bytes| String::from_utf8_lossy(bytes));
        let said = if stderr.trim().is_empty() { stdout } else { stderr };
        let said = said.trim();
        let said = &said[..said.floor_char_boundary(MAX_ERROR_BYTES)];
        Err(if said.is_empty() { how } else { format!("{how}: {said}") })
    }
}
