//! Ctrl-C, Ctrl-\, SIGTERM and SIGHUP: signals to this program become requests to end the command.

use std::cell::Cell;
use std::time::{Duration, Instant};

use sandcrab_api::ErrorCode;
use sandcrab_api::signal::name as signal_name;
use sandcrab_client::{Client, ClientError, KillOptions};
use tokio::sync::watch;

use super::Progress;
use crate::end_signals::{EndSignals, INTERRUPT, QUIT};
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// Grace period between the first signal and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);

/// How long a server may be unreachable. A crashed one is back within two seconds.
const SERVER_TIMEOUT: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Why this program exits before the command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlyExit {
    /// It received three signals.
    Insisted,
    /// The server cannot be reached.
    NoServer,
}

/// Signals to this program, except those that it was started to ignore.
#[derive(Debug)]
pub(super) struct Interrupts {
    signals: EndSignals,
    output: Output,
}

impl Interrupts {
    /// Starts to listen.
    pub(super) fn listen(output: Output) -> Result<Self, Failure> {
        let signals = EndSignals::listen()?;
        Ok(Self { signals, output })
    }

    /// Passes signals on to a command: the first unchanged, the second as SIGKILL. Sets the exit code at the first.
    /// Returns when this program should exit without waiting for the command.
    pub(super) async fn pass_on(
        mut self,
        client: &Client,
        id: &str,
        mut progress: watch::Receiver<Progress>,
        exit_code: &Cell<Option<u8>>,
    ) -> EarlyExit {
        let first = self.signals.next().await;
        exit_code.set(Some(128 + first));
        self.output.note(&format!(
            "{} was sent to the command; it has {} to end before SIGKILL. {} kills it now",
            signal_name(first.into()),
            table::duration(GRACE),
            match first {
                INTERRUPT => "Ctrl-C again",
                QUIT => "Ctrl-\\ again",
                _ => "A second signal",
            },
        ));
        let ask = KillOptions { signal: Some(first.to_string()), grace: Some(GRACE) };
        let force = KillOptions { signal: Some("SIGKILL".into()), grace: Some(Duration::ZERO) };
        let passed_on = tokio::select! {
            passed_on = end(client, id, &ask, &mut progress) => passed_on,
            _ = self.signals.next() => {
                self.output.note("killing the command");
                tokio::select! {
                    passed_on = end(client, id, &force, &mut progress) => passed_on,
                    _ = self.signals.next() => return EarlyExit::Insisted,
                }
            }
        };
        if !passed_on {
            return EarlyExit::NoServer;
        }
        // The command has ended, and the rest of its output is about to arrive.
        self.signals.next().await;
        EarlyExit::Insisted
    }
}

/// Ends the command as soon as the server has accepted it, and waits until it has ended. Returns whether the server was
/// reachable.
async fn end(
    client: &Client,
    id: &str,
    options: &KillOptions,
    progress: &mut watch::Receiver<Progress>,
) -> bool {
    let deadline = Instant::now() + SERVER_TIMEOUT;
    loop {
        let seen = *progress.borrow_and_update();
        match client.kill(id, options).await {
            Err(error) if error.code() == Some(ErrorCode::ProcessNotFound) && seen == Progress::Sent => {
                // Its request has not arrived yet.
                if progress.changed().await.is_err() {
                    return true;
                }
            }
            Err(ClientError::Unreachable { .. } | ClientError::ConnectionLost { .. }) => {
                if Instant::now() >= deadline {
                    return false;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            // Other errors of the server are reported by the stream.
            _ => return true,
        }
    }
}
