//! The floors: a pseudo-terminal without a server, and a WebSocket server without a terminal.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use futures_util::{SinkExt, StreamExt};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::bench::FigureError;
use crate::bench::http::Program;

/// The environment variable that makes [`init`] become the bare WebSocket server.
const ECHO_VARIABLE: &str = "SANDCRAB_BENCH_WEBSOCKET";

/// A program on a pseudo-terminal with a raw line discipline, and nothing else. It is killed when it is dropped.
pub(super) struct BarePty {
    controller: File,
    child: Child,
}

impl BarePty {
    pub(super) fn start(command: &mut Command) -> Result<Self, FigureError> {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&controller)?;
        unlockpt(&controller)?;
        let name = ptsname(&controller, Vec::new())?;
        let terminal: OwnedFd = open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
        let mut settings = tcgetattr(&terminal)?;
        settings.make_raw();
        tcsetattr(&terminal, OptionalActions::Now, &settings)?;
        let child = command.stdin(terminal.try_clone()?).stdout(terminal).spawn()?;
        // The command keeps the terminal's descriptors until they are replaced.
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        Ok(Self { controller: File::from(controller), child })
    }

    /// Sends one byte and reads until it has come back.
    pub(super) fn echo(&mut self) -> io::Result<()> {
        self.controller.write_all(b"x")?;
        self.controller.read_exact(&mut [0])
    }

    /// Reads to the end; how many bytes there were.
    pub(super) fn read_to_end(mut self) -> io::Result<usize> {
        let mut buffer = vec![0; 64 << 10];
        let mut total = 0;
        loop {
            match self.controller.read(&mut buffer) {
                // EIO: the program has closed its side.
                Ok(0) | Err(_) => return Ok(total),
                Ok(count) => total += count,
            }
        }
    }

    /// The side of the terminal that reads output and writes input.
    pub(super) fn controller(&self) -> io::Result<File> {
        self.controller.try_clone()
    }
}

impl Drop for BarePty {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts a WebSocket server that returns each message, in a process of its own.
pub(super) fn bare_websocket() -> Result<Program, FigureError> {
    let mut command = Command::new("/proc/self/exe");
    command.env(ECHO_VARIABLE, "1");
    Program::start(command)
}

/// Becomes the bare WebSocket server if that is what this process was started for.
pub(crate) fn init() {
    if std::env::var_os(ECHO_VARIABLE).is_some() {
        let served = tokio::runtime::Runtime::new().and_then(|runtime| runtime.block_on(serve()));
        crate::fixture::end(i32::from(served.is_err()));
    }
}

async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    writeln!(io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        connections.spawn(async move {
            let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
            while let Some(Ok(message)) = socket.next().await {
                if socket.send(message).await.is_err() {
                    return;
                }
            }
        });
        while connections.try_join_next().is_some() {}
    }
}
