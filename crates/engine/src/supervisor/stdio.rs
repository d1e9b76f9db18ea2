//! The standard streams of a command, and what those of the next one are made from.
//!
//! Making two pipes and opening `/dev/null` takes longer than running `true`. So the one file is opened once, and the
//! pipes are made while the command before runs.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{CWD, Gid, Mode, OFlags, Uid, fchown, openat};
use rustix::io::ioctl_fionbio;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::sys::Credentials;

/// The ends of a command's streams that the command gets.
#[derive(Debug)]
pub(crate) struct Stdio {
    pub(crate) stdin: Arc<OwnedFd>,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// The two pipes that a command's output goes through.
#[derive(Debug)]
pub(crate) struct Pipes {
    /// Our ends, which never block: of standard output and of standard error.
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

/// What the streams of commands are made from.
#[derive(Debug)]
pub(crate) struct PipeSupply {
    null: Arc<OwnedFd>,
    /// Made ahead of time. Pipes are used once: what a command left behind may hold its own for ever.
    next: Option<Pipes>,
    owner: Option<Owner>,
}

/// The user that pipes belong to: it can open them again through `/dev/stdout`, which only the owner may.
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

    /// Has pipes belong to this user from now on.
    pub(crate) fn set_owner(&mut self, owner: Option<&Credentials>) {
        self.owner = owner.map(|owner| (Uid::from_raw(owner.user), Gid::from_raw(owner.group)));
        self.release();
    }

    /// Makes the pipes of the command that probably comes next. Without them it makes its own.
    pub(crate) fn prepare(&mut self) {
        if self.next.is_none() {
            self.next = Pipes::new(self.owner).ok();
        }
    }

    /// Gives back what was prepared: the kernel allows a user so many pages of pipes, and thousands of idle
    /// sessions must not use them up.
    pub(crate) fn release(&mut self) {
        self.next = None;
    }
}
