//! The engine's end of the zygote.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use super::config::SupervisorProgram;
use super::error::OpenError;
use crate::protocol::{Capabilities, FrameBuffer, Refusal, Settings, ZygoteAnswer, ZygoteRequest, frame};
use crate::supervisor::zygote::ZYGOTE;

/// A running zygote. It ends when this is dropped; the supervisors it forked do not.
#[derive(Debug)]
pub(super) struct Zygote {
    connection: Mutex<Connection>,
    /// Held open for as long as the engine lives; supervisors without work watch the other end.
    _lifeline: OwnedFd,
    _child: Reaper,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    frames: FrameBuffer,
}

/// Reaps the zygote when it is dropped: by then its socket is closed, so it ends at once.
#[derive(Debug)]
struct Reaper(Child);

impl Drop for Reaper {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Zygote {
    pub(super) async fn start(
        program: &SupervisorProgram,
        state_dir: &Path,
        settings: Settings,
    ) -> Result<(Self, Capabilities), OpenError> {
        let path = match program {
            SupervisorProgram::ThisProgram => PathBuf::from("/proc/self/exe"),
            SupervisorProgram::At(path) => path.clone(),
        };
        let fail = |why: String| OpenError::Zygote { program: path.clone(), why };
        let started = Self::spawn(&path, state_dir).map_err(|e| fail(e.to_string()))?;
        let request = ZygoteRequest::Configure(Box::new(settings));
        match started.ask(&request).await {
            Ok(ZygoteAnswer::Configured(capabilities)) => Ok((started, capabilities)),
            Ok(other) => Err(fail(format!("it answered {other:?}"))),
            Err(e) => Err(fail(e.to_string())),
        }
    }

    fn spawn(path: &Path, state_dir: &Path) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let (watched, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        let child = Command::new(path)
            .arg0(ZYGOTE)
            .arg(state_dir)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(watched))
            .stderr(Stdio::null())
            .spawn()?;
        let stream = UnixStream::from_std(ours.into())?;
        Ok(Self {
            connection: Mutex::new(Connection { stream, frames: FrameBuffer::default() }),
            _lifeline: lifeline,
            _child: Reaper(child),
        })
    }

    /// Sends a request and waits for its answer. Requests are answered in order.
    async fn ask(&self, request: &ZygoteRequest) -> io::Result<ZygoteAnswer> {
        let mut connection = self.connection.lock().await;
        let Connection { stream, frames } = &mut *connection;
        stream.write_all(&frame(1, request)).await?;
        let mut chunk = [0; 4 << 10];
        loop {
            if let Some(envelope) = frames.next::<ZygoteAnswer>().map_err(io::Error::other)? {
                return Ok(envelope.body);
            }
            let n = stream.read(&mut chunk).await?;
            if n == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended"));
            }
            frames.extend(&chunk[..n]);
        }
    }

    /// Has a supervisor forked that listens under this nonce.
    pub(super) async fn fork(&self, nonce: u64) -> Result<(), Refusal> {
        match self.ask(&ZygoteRequest::Fork(nonce)).await {
            Ok(ZygoteAnswer::Forked(_)) => Ok(()),
            Ok(ZygoteAnswer::Refused(why)) => Err(why),
            Ok(other) => Err(Refusal::Os { errno: libc::EPROTO, doing: format!("fork: {other:?}") }),
            Err(e) => Err(Refusal::os(&e, "reach the zygote")),
        }
    }

    /// Changes what supervisors forked from now on start from.
    pub(super) async fn configure(&self, settings: Settings) -> io::Result<Capabilities> {
        match self.ask(&ZygoteRequest::Configure(Box::new(settings))).await? {
            ZygoteAnswer::Configured(capabilities) => Ok(capabilities),
            other => Err(io::Error::other(format!("the zygote answered {other:?}"))),
        }
    }
}
