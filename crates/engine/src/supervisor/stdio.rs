//! The standard streams of commands.
//!
//! Creating two pipes and opening `/dev/null` takes longer than running `true`. So `/dev/null` is opened once, and
//! the pipes of the next command are created while the current one runs.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{CWD, Gid, Mode, OFlags, Uid, fchown, openat};
use rustix::io::ioctl_fionbio;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::sys::Credentials;

/// The command's ends of its streams.
#[derive(Debug)]
pub(crate) struct Stdio {
    pub(crate) stdin: Arc<OwnedFd>,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// The two output pipes of a command.
#[derive(Debug)]
pub(crate) struct Pipes {
    /// Our ends, which are non-blocking: standard output and standard error.
    pub(crate) readers: [OwnedFd; 2],
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

impl Pipes {
    fn new(owner: Option<Owner>) -> rustix::io::Result<Self> {
        let (out, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (err, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        give(&out, owner)?;
        give(&err, owner)?;
        ioctl_fionbio(&out, true)?;
        ioctl_fionbio(&err, true)?;
        Ok(Self { readers: [out, err], stdout, stderr })
    }
}

/// Creates the streams of commands.
#[derive(Debug)]
pub(crate) struct PipeSupply {
    null: Arc<OwnedFd>,
    /// Created in advance. Pipes are used once: leftovers of a command may hold them without limit.
    next: Option<Pipes>,
    owner: Option<Owner>,
}

/// The owner of pipes: only the owner can open them again through `/dev/stdout`.
type Owner = (Uid, Gid);

fn give(pipe: impl AsFd, owner: Option<Owner>) -> rustix::io::Result<()> {
    owner.map_or(Ok(()), |(user, group)| fchown(pipe, Some(user), Some(group)))
}

impl PipeSupply {
    pub(crate) fn open() -> rustix::io::Result<Self> {
        let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { null: Arc::new(null), next: None, owner: None })
    }

    /// `/dev/null`, for reading and writing.
    pub(crate) fn null(&self) -> &Arc<OwnedFd> {
        &self.null
    }

    /// Two unused pipes.
    pub(crate) fn pipes(&mut self) -> rustix::io::Result<Pipes> {
        self.next.take().map_or_else(|| Pipes::new(self.owner), Ok)
    }

    /// A pipe for standard input: the command's end, and ours.
    pub(crate) fn input(&self) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        give(&reader, self.owner)?;
        ioctl_fionbio(&writer, true)?;
        Ok((reader, writer))
    }

    /// Sets the owner of new pipes.
    pub(crate) fn set_owner(&mut self, owner: Option<&Credentials>) {
        self.owner = owner.map(|owner| (Uid::from_raw(owner.user), Gid::from_raw(owner.group)));
        self.release();
    }

    /// Creates the pipes of the next command in advance. Without them the command creates its own.
    pub(crate) fn prepare(&mut self) {
        if self.next.is_none() {
            self.next = Pipes::new(self.owner).ok();
        }
    }

    /// Closes prepared pipes: the kernel limits the pipe pages per user, and thousands of idle sessions must not
    /// exhaust them.
    pub(crate) fn release(&mut self) {
        self.next = None;
    }
}
