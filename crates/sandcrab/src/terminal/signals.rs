//! [`Signals`]: signals to this program while it shows a terminal.

use std::io;

use rustix::process::{Signal as Number, getpid, kill_process};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::end_signals::ignored_signals;

const END: [u8; 4] = [1, 2, 3, 15];
const STOP: u8 = 20;
const CONTINUE: u8 = 18;
const WINDOW_CHANGE: u8 = 28;

/// The signals that matter, except those that this program was started to ignore.
#[derive(Debug)]
pub(super) struct Signals {
    end: [Option<Signal>; 4],
    stop: Option<Signal>,
    resume: Option<Signal>,
    resize: Option<Signal>,
}

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    /// SIGHUP, SIGINT, SIGQUIT or SIGTERM, by number.
    End(u8),
    /// SIGTSTP.
    Stop,
    /// SIGCONT: the terminal may have been used by another program.
    Continue,
    /// SIGWINCH.
    Resize,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored_signals();
        let listen = |number: u8| {
            // nohup, or a shell without job control.
            let is_ignored = ignored & (1 << (number - 1)) != 0;
            (!is_ignored).then(|| signal(SignalKind::from_raw(number.into()))).transpose()
        };
        let [hangup, interrupt, quit, terminate] = END;
        Ok(Self {
            end: [listen(hangup)?, listen(interrupt)?, listen(quit)?, listen(terminate)?],
            stop: listen(STOP)?,
            resume: listen(CONTINUE)?,
            resize: listen(WINDOW_CHANGE)?,
        })
    }

    /// The next signal. Cancel safe.
    pub(super) async fn next(&mut self) -> Received {
        let [hangup, interrupt, quit, terminate] = &mut self.end;
        tokio::select! {
            () = heard(hangup) => Received::End(END[0]),
            () = heard(interrupt) => Received::End(END[1]),
            () = heard(quit) => Received::End(END[2]),
            () = heard(terminate) => Received::End(END[3]),
            () = heard(&mut self.stop) => Received::Stop,
            () = heard(&mut self.resume) => Received::Continue,
            () = heard(&mut self.resize) => Received::Resize,
        }
    }
}

async fn heard(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Stops this program, as SIGTSTP does without a handler. Returns when it is continued.
pub(super) fn stop_this_program() {
    // It cannot fail for a process of this user. If it does, the program continues.
    let _ = kill_process(getpid(), Number::STOP);
}
