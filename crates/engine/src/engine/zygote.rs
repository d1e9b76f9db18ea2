//! The engine's connection to the zygote.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use super::config::SupervisorProgram;
use super::error::OpenError;
use crate::process_tree::Nonce;
use crate::protocol::{Capabilities, FrameBuffer, Refusal, Settings, ZygoteReply, ZygoteRequest, frame};
use crate::supervisor::zygote::ZYGOTE;

/// Time without a reply after which the zygote may have been stopped by a command.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// Maximum time for a reply after that, for a busy machine.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// The zygote. It is started with the engine, and again if it is killed. When this is dropped, it forks no more
/// supervisors, and exits after its last one.
#[derive(Debug)]
pub(super) struct Zygote {
    program: PathBuf,
    state_dir: PathBuf,
    running: Mutex<Running>,
}

/// The process of a zygote.
#[derive(Debug)]
struct Running {
    stream: UnixStream,
    frames: FrameBuffer,
    /// The settings of its supervisors.
    settings: Settings,
    /// Held open for the lifetime of the engine; idle supervisors watch the other end.
    _lifeline: OwnedFd,
    child: Reaper,
}

/// Reaps the zygote. Its socket is closed when this is dropped, so the zygote exits after its last supervisor.
#[derive(Debug)]
struct Reaper(Option<Child>);

impl Reaper {
    fn pid(&self) -> Option<Pid> {
        self.0.as_ref().map(Pid::from_child)
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        if matches!(child.try_wait(), Ok(None)) {
            // It may have been stopped. It is our child and not reaped, so the process id is valid.
            let _ = kill_process(Pid::from_child(&child), Signal::CONT);
            // Without a thread it stays a zombie until this process exits.
            let thread = std::thread::Builder::new().name("sandcrab-reap".into()).stack_size(64 << 10);
            drop(thread.spawn(move || child.wait()));
        }
    }
}

impl Zygote {
    pub(super) async fn start(
        program: &SupervisorProgram,
        state_dir: &Path,
        settings: Settings,
    ) -> Result<(Self, Capabilities), OpenError> {
        let program = match program {
            SupervisorProgram::ThisProgram => PathBuf::from("/proc/self/exe"),
            SupervisorProgram::At(path) => path.clone(),
        };
        match Running::start(&program, state_dir, settings).await {
            Ok((running, capabilities)) => {
                let running = Mutex::new(running);
                Ok((Self { program, state_dir: state_dir.to_owned(), running }, capabilities))
            }
            Err(e) => Err(OpenError::Zygote { program, why: e.to_string() }),
        }
    }

    /// Forks a supervisor. Returns its nonce and its process id.
    pub(super) async fn fork(&self) -> Result<(u64, u32), Refusal> {
        let mut running = self.running.lock().await;
        let mut nonce = Nonce::random().value();
        let mut answer = running.call(&ZygoteRequest::Fork(nonce)).await;
        // A zygote whose limits a command has lowered forks no more; its supervisors continue.
        if matches!(answer, Err(_) | Ok(ZygoteReply::Refused(Refusal::LimitsLowered))) {
            let settings = running.settings.clone();
            let started = Running::start(&self.program, &self.state_dir, settings).await;
            *running = started.map_err(|e| Refusal::os(&e, "start the zygote again"))?.0;
            // A killed zygote may already have forked, so another nonce is used.
            nonce = Nonce::random().value();
            answer = running.call(&ZygoteRequest::Fork(nonce)).await;
        }
        match answer {
            Ok(ZygoteReply::Forked(pid)) => Ok((nonce, pid)),
            Ok(ZygoteReply::Refused(why)) => Err(why),
            Ok(other) => Err(Refusal::Os { errno: libc::EPROTO, doing: format!("fork: {other:?}") }),
            Err(e) => Err(Refusal::os(&e, "reach the zygote")),
        }
    }

    /// Changes the settings of supervisors forked from now on.
    pub(super) async fn configure(&self, settings: Settings) -> io::Result<Capabilities> {
        let mut running = self.running.lock().await;
        match running.configure(settings.clone()).await {
            Ok(capabilities) => Ok(capabilities),
            Err(_) => {
                let (new, capabilities) = Running::start(&self.program, &self.state_dir, settings).await?;
                *running = new;
                Ok(capabilities)
            }
        }
    }
}

impl Running {
    async fn start(program: &Path, state_dir: &Path, settings: Settings) -> io::Result<(Self, Capabilities)> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let (watched, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        let child = Command::new(program)
            .arg0(ZYGOTE)
            .arg(state_dir)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(watched))
            .stderr(Stdio::null())
            .spawn()?;
        let mut running = Self {
            stream: UnixStream::from_std(ours.into())?,
            frames: FrameBuffer::default(),
            settings: settings.clone(),
            _lifeline: lifeline,
            child: Reaper(Some(child)),
        };
        let capabilities = running.configure(settings).await?;
        Ok((running, capabilities))
    }

    async fn configure(&mut self, settings: Settings) -> io::Result<Capabilities> {
        match self.call(&ZygoteRequest::Configure(Box::new(settings.clone()))).await? {
            ZygoteReply::Configured(capabilities) => {
                self.settings = settings;
                Ok(capabilities)
            }
            other => Err(io::Error::other(format!("it answered {other:?}"))),
        }
    }

    /// Sends a request and waits for its reply, with a timeout. A zygote that a command has stopped is continued; one
    /// that still does not reply is given up.
    async fn call(&mut self, request: &ZygoteRequest) -> io::Result<ZygoteReply> {
        let zygote = self.child.pid();
        let ask = self.exchange(request);
        tokio::pin!(ask);
        if let Ok(answer) = tokio::time::timeout(ANSWER_TIME, &mut ask).await {
            return answer;
        }
        // It is our child and not reaped, so the process id is valid.
        let _ = zygote.map(|zygote| kill_process(zygote, Signal::CONT));
        let late = || io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
        tokio::time::timeout(REPLY_TIMEOUT, ask).await.unwrap_or_else(|_| Err(late()))
    }

    /// Sends a request and waits for its reply. Replies come in the order of the requests.
    async fn exchange(&mut self, request: &ZygoteRequest) -> io::Result<ZygoteReply> {
        self.stream.write_all(&frame(1, request)).await?;
        let mut chunk = [0; 4 << 10];
        loop {
            if let Some(envelope) = self.frames.next::<ZygoteReply>().map_err(io::Error::other)? {
                return Ok(envelope.body);
            }
            let n = self.stream.read(&mut chunk).await?;
            if n == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended"));
            }
            self.frames.extend(&chunk[..n]);
        }
    }
}
