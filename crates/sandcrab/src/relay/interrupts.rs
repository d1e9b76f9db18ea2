//! Ctrl-C and its like: signals to this program become requests to end the command.

use std::cell::Cell;
use std::time::{Duration, Instant};

use sandcrab_api::ErrorCode;
use sandcrab_client::{Client, ClientError, KillOptions};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::Progress;
use crate::failure::Failure;

/// How long a command that was interrupted has to tidy up.
const GRACE: Duration = Duration::from_secs(10);

/// How long a server that is gone may take to be back: a crashed one takes two seconds at most.
const SERVER_PATIENCE: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_millis(100);

/// Why this program should go before the command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// It was interrupted three times.
    Insisted,
    /// Nobody is there to pass the signal to.
    NoServer,
}

/// The signals that end a command.
const HANGUP: u8 = 1;
const INTERRUPT: u8 = 2;
const TERMINATE: u8 = 15;

/// Signals to this program. One that it was started to ignore is none.
#[derive(Debug)]
pub(super) struct Interrupts([Option<Signal>; 3]);

impl Interrupts {
    /// Listens from now on.
    pub(super) fn listen() -> Result<Self, Failure> {
        let ignored = ignored_signals();
        let listen = |number: u8| {
            // Whoever started us wants us to be deaf to it: nohup, or a shell that put us in the background.
            let is_ignored = ignored & (1 << (number - 1)) != 0;
            (!is_ignored).then(|| signal(SignalKind::from_raw(number.into()))).transpose()
        };
        Ok(Self([listen(HANGUP)?, listen(INTERRUPT)?, listen(TERMINATE)?]))
    }

    /// Passes signals on to a command: the first as it is, the second as SIGKILL. Notes the exit code at the first.
    /// Returns when it is time to go, whatever the command does.
    pub(super) async fn pass_on(
        mut self,
        client: &Client,
        id: &str,
        mut progress: watch::Receiver<Progress>,
        exit_code: &Cell<Option<u8>>,
    ) -> Leave {
        let first = self.next().await;
        exit_code.set(Some(128 + first));
        let ask = KillOptions { signal: Some(first.to_string()), grace: Some(GRACE) };
        let force = KillOptions { signal: Some("SIGKILL".into()), grace: Some(Duration::ZERO) };
        let passed_on = tokio::select! {
            passed_on = end(client, id, &ask, &mut progress) => passed_on,
            _ = self.next() => tokio::select! {
                passed_on = end(client, id, &force, &mut progress) => passed_on,
                _ = self.next() => return Leave::Insisted,
            }
        };
        if !passed_on {
            return Leave::NoServer;
        }
        // Nobody is left, and the last of the output is on its way.
        self.next().await;
        Leave::Insisted
    }

    /// The next signal; never, if all are ignored.
    async fn next(&mut self) -> u8 {
        let [hangup, interrupt, terminate] = &mut self.0;
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

/// Ends the command, as soon as the server knows it. Waits until it is gone. Says whether there was a server to ask.
async fn end(
    client: &Client,
    id: &str,
    options: &KillOptions,
    progress: &mut watch::Receiver<Progress>,
) -> bool {
    let patience = Instant::now() + SERVER_PATIENCE;
    loop {
        let seen = *progress.borrow_and_update();
        match client.kill(id, options).await {
            Err(error) if error.code() == Some(ErrorCode::ProcessNotFound) && seen == Progress::Sent => {
                // Its request has not arrived yet.
                if progress.changed().await.is_err() {
                    return true;
                }
            }
            Err(ClientError::Unreachable { .. } | ClientError::Cut { .. }) => {
                if Instant::now() >= patience {
                    return false;
                }
                tokio::time::sleep(AGAIN).await;
            }
            // What is wrong with the server shows in the stream.
            _ => return true,
        }
    }
}

/// The signals that this program was started to ignore, a bit each.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
