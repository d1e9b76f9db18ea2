//! [`EndSignals`]: the signals that end this program, for commands that must do something before.

use std::io;

use rustix::process::{getpid, kill_process};
use tokio::signal::unix::{Signal, SignalKind, signal};

const HANGUP: u8 = 1;
pub(crate) const INTERRUPT: u8 = 2;
pub(crate) const QUIT: u8 = 3;
const TERMINATE: u8 = 15;
/// Has no effect on a program that does not listen to it.
const MARKER: rustix::process::Signal = rustix::process::Signal::URG;

/// SIGHUP, SIGINT, SIGQUIT and SIGTERM, except those that this program was started to ignore. From [`EndSignals::listen`] on, they
/// do not end it by themselves.
#[derive(Debug)]
pub(crate) struct EndSignals([Option<Signal>; 4]);

impl EndSignals {
    /// Starts to listen.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored_signals();
        let listen = |number: u8| {
            // nohup, or a shell that started this program in the background.
            let is_ignored = ignored & (1 << (number - 1)) != 0;
            (!is_ignored).then(|| signal(SignalKind::from_raw(number.into()))).transpose()
        };
        Ok(Self([listen(HANGUP)?, listen(INTERRUPT)?, listen(QUIT)?, listen(TERMINATE)?]))
    }

    /// Starts to listen to signals that are sent from now on.
    pub(crate) async fn listen_from_now_on() -> io::Result<Self> {
        // A new listener would also hear of an earlier signal that tokio has not reported yet. The kernel delivers signals
        // with lower numbers first, so they have been reported when this one is.
        let mut marker = signal(SignalKind::from_raw(MARKER.as_raw()))?;
        kill_process(getpid(), MARKER)?;
        marker.recv().await;
        Self::listen()
    }

    /// The number of the next signal; never, if all are ignored. Cancel safe.
    pub(crate) async fn next(&mut self) -> u8 {
        let [hangup, interrupt, quit, terminate] = &mut self.0;
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
            () = heard(quit) => QUIT,
            () = heard(terminate) => TERMINATE,
        }
    }
}

/// The signals that this program was started to ignore, a bit each.
pub(crate) fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
