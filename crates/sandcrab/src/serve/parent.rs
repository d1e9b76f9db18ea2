//! The parent: starts the server, reaps, forwards signals, and starts it again when it crashes.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, set_child_subreaper, wait};
use tokio::signal::unix::{self, SignalKind, signal};

use super::CANNOT_RUN;
use super::crashes::{Crashes, FIRST_PAUSE, LONGEST_PAUSE, TOO_MANY};
use super::lifeline::{self, Lifeline, SERVER};

/// The exit code of a server that failed with an error message.
const FAILED: u8 = 1;

/// Starts the server and exits with its exit code.
pub(crate) fn run() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let code = runtime.and_then(|runtime| runtime.block_on(async { Parent::new()?.serve().await }));
    match code {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say(format_args!("failed to start the server: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a message on standard error, which may be closed.
fn say(text: fmt::Arguments<'_>) {
    drop(writeln!(io::stderr(), "sandcrab: {text}"));
}

/// How a server ended.
#[derive(Debug, Clone, Copy)]
struct End(WaitStatus);

impl End {
    /// The exit code as a shell reports it.
    fn code(self) -> u8 {
        let code = self.0.exit_status().or(self.0.terminating_signal().map(|signal| 128 + signal));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.terminating_signal() {
            Some(signal) => write!(f, "was ended by signal {signal}"),
            None => write!(f, "exited with code {}", self.code()),
        }
    }
}

/// The state of the parent, kept from one server to the next.
#[derive(Debug)]
struct Parent {
    signals: Signals,
    crashes: Crashes,
    /// The listening socket, once a server has opened it.
    socket: Option<OwnedFd>,
    /// A signal to forward when the server listens.
    held: Option<Signal>,
    /// A stop signal that no server has handled yet.
    wish: Option<Signal>,
    /// Failed restarts in a row.
    failed_starts: u32,
}

/// A server that was started.
#[derive(Debug)]
struct Server {
    pid: Pid,
    lifeline: Option<Lifeline>,
    is_listening: bool,
}

impl Parent {
    fn new() -> io::Result<Self> {
        // Not needed as PID 1.
        set_child_subreaper(Some(rustix::process::getpid()))?;
        let _ = rustix::thread::set_name(c"sandcrab-parent");
        Ok(Self {
            signals: Signals::new()?,
            crashes: Crashes::default(),
            socket: None,
            held: None,
            wish: None,
            failed_starts: 0,
        })
    }

    async fn serve(mut self) -> io::Result<u8> {
        let mut reason = String::new();
        loop {
            let server = match self.start(&reason) {
                Ok(server) => server,
                Err(e) if self.socket.is_none() => return Err(e),
                Err(e) => {
                    if !self.try_later(format_args!("failed to start the server again: {e}")).await {
                        return Ok(FAILED);
                    }
                    continue;
                }
            };
            let (end, has_listened) = self.watch(server).await;
            let is_crash = !matches!(end.code(), 0 | CANNOT_RUN) && self.socket.is_some();
            if !is_crash {
                return Ok(end.code());
            }
            if !has_listened && end.code() == FAILED {
                if !self.try_later(format_args!("the server {end} before it listened")).await {
                    return Ok(end.code());
                }
                continue;
            }
            self.failed_starts = 0;
            let Some(pause) = self.crashes.count(Instant::now()) else {
                say(format_args!(
                    "the server {end}, for the {TOO_MANY}th time within a minute; giving up. Running commands continue, \
                     and the next `sandcrab serve` adopts them"
                ));
                return Ok(end.code());
            };
            // A server that crashes while it stops may not have ended all commands.
            self.held = self.wish;
            self.pause(pause).await;
            reason = format!("the server before this one {end}");
        }
    }

    /// Waits after a failed restart, for example while the machine is out of memory. Returns whether to try again, which is
    /// false after a stop signal.
    async fn try_later(&mut self, why: fmt::Arguments<'_>) -> bool {
        if self.wish.is_some() {
            say(format_args!("{why}; giving up because of a stop signal"));
            return false;
        }
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.failed_starts)).min(LONGEST_PAUSE);
        self.failed_starts += 1;
        say(format_args!("{why}; trying again in {pause:?}"));
        self.pause(pause).await;
        true
    }

    /// Starts a server with the arguments and the environment of this process.
    fn start(&self, reason: &str) -> io::Result<Server> {
        let (ours, theirs) = UnixStream::pair()?;
        lifeline::send(&ours, reason, self.socket.as_ref().map(AsFd::as_fd))?;
        let child = Command::new("/proc/self/exe")
            .arg0(SERVER)
            .args(std::env::args_os().skip(1))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .process_group(0)
            .spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Server { pid, lifeline: Some(Lifeline::new(ours)?), is_listening: false })
    }

    /// Waits for the server to end, forwards signals and reaps meanwhile. Also returns whether it has listened.
    async fn watch(&mut self, mut server: Server) -> (End, bool) {
        loop {
            if let Some(end) = reap(server.pid) {
                return (End(end), server.is_listening);
            }
            tokio::select! {
                event = self.signals.next() => {
                    if let Event::Signal(signal) = event {
                        self.forward(&server, signal);
                    }
                }
                message = next(server.lifeline.as_ref()) => match message {
                    Some(message) => {
                        self.socket = message.socket.or(self.socket.take());
                        server.is_listening = true;
                        if let Some(signal) = self.held.take() {
                            self.forward(&server, signal);
                        }
                    }
                    // It is about to end.
                    None => server.lifeline = None,
                }
            }
        }
    }

    fn forward(&mut self, server: &Server, signal: Signal) {
        if is_stop(signal) {
            self.wish = Some(signal);
        }
        if !server.is_listening && self.held.is_none() {
            self.held = Some(signal);
            return;
        }
        // A child that is not reaped keeps its process id.
        let _ = kill_process(server.pid, signal);
    }

    /// Reaps during a pause. A stop signal ends the pause, and is handled by the next server.
    async fn pause(&mut self, pause: Duration) {
        let over = tokio::time::sleep(pause);
        tokio::pin!(over);
        while self.held.is_none() {
            tokio::select! {
                () = &mut over => return,
                event = self.signals.next() => match event {
                    Event::Signal(signal) if is_stop(signal) => {
                        (self.wish, self.held) = (Some(signal), Some(signal));
                    }
                    Event::Signal(_) => {}
                    Event::Child => drop(reap(rustix::process::getpid())),
                }
            }
        }
    }
}

fn is_stop(signal: Signal) -> bool {
    [Signal::TERM, Signal::INT, Signal::HUP].contains(&signal)
}

async fn next(lifeline: Option<&Lifeline>) -> Option<lifeline::Message> {
    match lifeline {
        Some(lifeline) => lifeline.next().await,
        None => std::future::pending().await,
    }
}

/// Reaps all ended children; returns how the server ended, if it has.
fn reap(server: Pid) -> Option<WaitStatus> {
    let mut end = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == server {
            end = Some(status);
        }
    }
    end
}

/// What woke the parent.
#[derive(Debug)]
enum Event {
    Child,
    Signal(Signal),
}

/// The signals that the parent waits for.
#[derive(Debug)]
struct Signals {
    child: unix::Signal,
    terminate: unix::Signal,
    user: unix::Signal,
    /// Signals that the process may have been started to ignore, by `nohup` or a shell.
    interrupt: Option<unix::Signal>,
    hangup: Option<unix::Signal>,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let unless_ignored = |kind: SignalKind| {
            let is_ignored = is_ignored(kind.as_raw_value());
            if is_ignored { Ok(None) } else { signal(kind).map(Some) }
        };
        Ok(Self {
            child: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            user: signal(SignalKind::user_defined1())?,
            interrupt: unless_ignored(SignalKind::interrupt())?,
            hangup: unless_ignored(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.child.recv() => Event::Child,
            _ = self.terminate.recv() => Event::Signal(Signal::TERM),
            _ = self.user.recv() => Event::Signal(Signal::USR1),
            () = arrived(self.interrupt.as_mut()) => Event::Signal(Signal::INT),
            () = arrived(self.hangup.as_mut()) => Event::Signal(Signal::HUP),
        }
    }
}

async fn arrived(signal: Option<&mut unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether a signal is ignored by this process.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}
