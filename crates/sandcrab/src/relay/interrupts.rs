//! Ctrl-C, SIGTERM and SIGHUP: signals to this program become requests to end the command.

use std::cell::Cell;
use std::time::{Duration, Instant};

use sandcrab_api::ErrorCode;
use sandcrab_api::signal::name as signal_name;
use sandcrab_client::{Client, ClientError, KillOptions};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::Progress;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// Grace period between the first signal and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);

/// How long a server may be unreachable. A crashed one is back within two seconds.
const SERVER_TIMEOUT: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_millis(100);

/// Why this program exits before the command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// It received three signals.
    Insisted,
    /// The server cannot be reached.
    NoServer,
}

/// The signals that end a command.
const HANGUP: u8 = 1;
const INTERRUPT: u8 = 2;
const TERMINATE: u8 = 15;

/// Signals to this program, except those that it was started to ignore.
#[derive(Debug)]
pub(super) struct Interrupts {
    signals: [Option<Signal>; 3],
    output: Output,
}

impl Interrupts {
    /// Starts to listen.
    pub(super) fn listen(output: Output) -> Result<Self, Failure> {
        let ignored = ignored_signals();
        let listen = |number: u8| {
            // nohup, or a shell that started this program in the background.
            let is_ignored = ignored & (1 << (number - 1)) != 0;
            (!is_ignored).then(|| signal(SignalKind::from_raw(number.into()))).transpose()
        };
        let signals = [listen(HANGUP)?, listen(INTERRUPT)?, listen(TERMINATE)?];
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
    ) -> Leave {
        let first = self.next().await;
        exit_code.set(Some(128 + first));
        self.output.note(&format!(
            "{} was sent to the command; it has {} to end before SIGKILL. {} kills it now",
            signal_name(first.into()),
            table::duration(GRACE),
            if first == INTERRUPT { "Ctrl-C again" } else { "A second signal" },
        ));
        let ask = KillOptions { signal: Some(first.to_string()), grace: Some(GRACE) };
        let force = KillOptions { signal: Some("SIGKILL".into()), grace: Some(Duration::ZERO) };
        let passed_on = tokio::select! {
            passed_on = end(client, id, &ask, &mut progress) => passed_on,
            _ = self.next() => {
                self.output.note("killing the command");
                tokio::select! {
                    passed_on = end(client, id, &force, &mut progress) => passed_on,
                    _ = self.next() => return Leave::Insisted,
                }
            }
        };
        if !passed_on {
            return Leave::NoServer;
        }
        // The command has ended, and the rest of its output is about to arrive.
        self.next().await;
        Leave::Insisted
    }

    /// The next signal; never, if all are ignored.
    async fn next(&mut self) -> u8 {
        let [hangup, interrupt, terminate] = &mut self.signals;
        let heard = async |signal: &mut Option<Signal>| {
            if let Some(signal) = signal {
                signal.recv().await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = heard(hangup) => HANGUP,
            () = heard(interrupt) => INTERRUPT,
            () = heard(terminate) => TERMINATE,
        }
    }
}

/// Ends the command as soon as the server knows it, and waits until it has ended. Returns whether the server was
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
                tokio::time::sleep(AGAIN).await;
            }
            // Other errors of the server are reported by the stream.
            _ => return true,
        }
    }
}

/// The signals that this program was started to ignore, a bit each.
pub(crate) fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
