//! The parent: starts the server, reaps, forwards signals, and starts it again when it crashes.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::task::Poll;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, set_child_subreaper, wait};
use tokio::signal::unix::{self, SignalKind, signal};

use super::CANNOT_RUN;
use super::control_socket::{self, ControlSocket, LISTENING, Message, SERVER};
use super::crashes::{CrashWindow, FIRST_PAUSE, LONGEST_PAUSE, TOO_MANY};
use super::main_program::{MainProgram, STOP_GRACE};
use super::message::{ERROR, WARNING, print_message};
use crate::end_signals::ignored_signals;

/// The exit code of a server that failed with an error message.
const FAILED: u8 = 1;

/// Starts the server and exits with its exit code. `command` is the main program to run beside it, if any.
pub(crate) fn run(command: Vec<OsString>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let code = runtime.and_then(|runtime| runtime.block_on(async { Parent::new(command)?.serve().await }));
    match code {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            print_message(ERROR, format_args!("failed to start the server: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// How a server or the main program ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct End(pub(super) WaitStatus);

impl End {
    /// Whether a signal ended it.
    fn is_by_signal(self) -> bool {
        self.0.terminating_signal().is_some()
    }

    /// The exit code as a shell reports it.
    pub(super) fn code(self) -> u8 {
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
    crashes: CrashWindow,
    /// The listening socket, once a server has opened it.
    socket: Option<OwnedFd>,
    /// A signal to forward when the server listens.
    held: Option<Signal>,
    /// A stop signal that no server has handled yet.
    stop_signal: Option<Signal>,
    /// Whether a server has printed the address.
    is_announced: bool,
    /// Failed restarts in a row.
    failed_starts: u32,
    program: MainProgram,
}

/// A server that was started.
#[derive(Debug)]
struct Server {
    pid: Pid,
    control: Option<ControlSocket>,
    is_listening: bool,
}

impl Parent {
    fn new(command: Vec<OsString>) -> io::Result<Self> {
        // Not needed as PID 1.
        set_child_subreaper(Some(rustix::process::getpid()))?;
        let _ = rustix::thread::set_name(c"sandcrab-parent");
        let program = MainProgram::new(command);
        Ok(Self {
            signals: Signals::new(program.is_pending())?,
            crashes: CrashWindow::default(),
            socket: None,
            held: None,
            stop_signal: None,
            is_announced: false,
            failed_starts: 0,
            program,
        })
    }

    /// Serves until the server has ended for good; then ends the main program.
    async fn serve(mut self) -> io::Result<u8> {
        let served = self.serve_until_end().await;
        self.end_program().await;
        // It is why the server was stopped.
        self.program.failed().map_or(served, Ok)
    }

    /// Ends the main program, if it runs.
    async fn end_program(&mut self) {
        self.program.signal(Signal::TERM);
        self.stop_signal.get_or_insert(Signal::TERM);
        let over = tokio::time::sleep(STOP_GRACE);
        tokio::pin!(over);
        while self.program.is_running() {
            tokio::select! {
                () = &mut over => self.program.signal(Signal::KILL),
                event = self.signals.next() => match event {
                    Event::Child => {
                        self.reap(None);
                    }
                    // The second one.
                    Event::Signal(signal) if is_stop(signal) => self.program.signal(Signal::KILL),
                    Event::Signal(_) => {}
                }
            }
        }
    }

    async fn serve_until_end(&mut self) -> io::Result<u8> {
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
            // A first server that exits before it listens has said why. One that was killed may have had clients.
            let is_crash =
                !matches!(end.code(), 0 | CANNOT_RUN) && (self.socket.is_some() || end.is_by_signal());
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
                print_message(
                    ERROR,
                    format_args!(
                        "the server {end}, for the {TOO_MANY}th time within a minute; giving up. Running commands continue, \
                     and the next `sandcrab serve` adopts them"
                    ),
                );
                return Ok(end.code());
            };
            // A server that crashes while it stops may not have ended all commands.
            self.held = self.stop_signal;
            self.pause(pause).await;
            // Without a reason, the next server is the first one for the user: it prints the address.
            if self.is_announced {
                reason = format!("the previous server {end}");
            } else {
                print_message(WARNING, format_args!("the server {end} while it started; starting it again"));
            }
        }
    }

    /// Waits after a failed restart, for example while the machine is out of memory. Returns whether to try again, which is
    /// false after a stop signal.
    async fn try_later(&mut self, why: fmt::Arguments<'_>) -> bool {
        if self.stop_signal.is_some() {
            print_message(ERROR, format_args!("{why}; giving up because of a stop signal"));
            return false;
        }
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.failed_starts)).min(LONGEST_PAUSE);
        self.failed_starts += 1;
        print_message(WARNING, format_args!("{why}; trying again in {pause:?}"));
        self.pause(pause).await;
        true
    }

    /// Starts a server with the arguments and the environment of this process.
    fn start(&self, reason: &str) -> io::Result<Server> {
        let (ours, theirs) = UnixStream::pair()?;
        control_socket::send(&ours, reason, self.socket.as_ref().map(AsFd::as_fd))?;
        let child = Command::new("/proc/self/exe")
            .arg0(SERVER)
            .args(std::env::args_os().skip(1))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .process_group(0)
            .spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Server { pid, control: Some(ControlSocket::new(ours)?), is_listening: false })
    }

    /// Waits for the server to end, forwards signals and reaps meanwhile. Also returns whether it has listened.
    async fn watch(&mut self, mut server: Server) -> (End, bool) {
        loop {
            let end = self.reap(Some(server.pid));
            if self.program.failed().is_some() && self.stop_signal.is_none() {
                self.forward(&server, Signal::TERM);
            }
            if let Some(end) = end {
                // What it sent before it ended. Its process id may be that of another process now: no signals.
                while let Some(message) = server.control.as_ref().and_then(ControlSocket::received) {
                    self.take(message, &mut server);
                }
                return (End(end), server.is_listening);
            }
            tokio::select! {
                event = self.signals.next() => {
                    if let Event::Signal(signal) = event {
                        self.forward(&server, signal);
                    }
                }
                message = next(server.control.as_ref()) => match message {
                    Some(message) => {
                        self.take(message, &mut server);
                        if server.is_listening {
                            match self.held.take() {
                                Some(signal) => self.forward_to_server(&server, signal),
                                None => self.program.start(),
                            }
                        }
                    }
                    // It is about to end.
                    None => server.control = None,
                }
            }
        }
    }

    /// Takes a message of the server: its socket, or that it listens, with the lines to print.
    fn take(&mut self, message: Message, server: &mut Server) {
        self.socket = message.socket.or(self.socket.take());
        if let Some(lines) = message.text.strip_suffix(LISTENING) {
            // Before the main program starts: its output follows them. Standard output may be closed.
            drop(io::stdout().write_all(lines.as_bytes()).and_then(|()| io::stdout().flush()));
            server.is_listening = true;
            self.is_announced = true;
        }
    }

    fn forward(&mut self, server: &Server, signal: Signal) {
        if signal == Signal::USR1 {
            // Its default action would end a program that does not expect it.
            return self.forward_to_server(server, signal);
        }
        self.program.signal(signal);
        if is_stop(signal) {
            self.stop_signal = Some(signal);
            self.forward_to_server(server, signal);
        }
    }

    fn forward_to_server(&mut self, server: &Server, signal: Signal) {
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
                        self.program.signal(signal);
                        (self.stop_signal, self.held) = (Some(signal), Some(signal));
                    }
                    Event::Signal(_) => {}
                    Event::Child => {
                        self.reap(None);
                        if self.program.failed().is_some() && self.stop_signal.is_none() {
                            (self.stop_signal, self.held) = (Some(Signal::TERM), Some(Signal::TERM));
                        }
                    }
                }
            }
        }
    }

    /// Reaps all ended children; returns how the server ended, if it has.
    fn reap(&mut self, server: Option<Pid>) -> Option<WaitStatus> {
        let mut end = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if Some(pid) == server {
                end = Some(status);
            }
            self.program.reaped(pid, status, self.stop_signal.is_some());
        }
        end
    }
}

fn is_stop(signal: Signal) -> bool {
    [Signal::TERM, Signal::INT, Signal::HUP].contains(&signal)
}

async fn next(control: Option<&ControlSocket>) -> Option<Message> {
    match control {
        Some(control) => control.next().await,
        None => std::future::pending().await,
    }
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
    /// Signals for the main program alone.
    passed: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    fn new(has_program: bool) -> io::Result<Self> {
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
            passed: if has_program { passed()? } else { Vec::new() },
        })
    }

    async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.child.recv() => Event::Child,
            _ = self.terminate.recv() => Event::Signal(Signal::TERM),
            _ = self.user.recv() => Event::Signal(Signal::USR1),
            () = arrived(self.interrupt.as_mut()) => Event::Signal(Signal::INT),
            () = arrived(self.hangup.as_mut()) => Event::Signal(Signal::HUP),
            signal = first_of(&mut self.passed) => Event::Signal(signal),
        }
    }
}

/// The signals that are passed to the main program, beside those that stop the server.
fn passed() -> io::Result<Vec<(Signal, unix::Signal)>> {
    let kinds = [
        (Signal::QUIT, SignalKind::quit()),
        (Signal::USR2, SignalKind::user_defined2()),
        (Signal::WINCH, SignalKind::window_change()),
    ];
    kinds.into_iter().map(|(name, kind)| Ok((name, signal(kind)?))).collect()
}

/// The first of several signals to arrive.
async fn first_of(signals: &mut [(Signal, unix::Signal)]) -> Signal {
    std::future::poll_fn(|cx| {
        let arrived =
            signals.iter_mut().find_map(|(name, signal)| signal.poll_recv(cx).is_ready().then_some(*name));
        arrived.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

async fn arrived(signal: Option<&mut unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether a signal is ignored by this process.
fn is_ignored(signal: i32) -> bool {
    ignored_signals() & (1 << (signal - 1)) != 0
}
