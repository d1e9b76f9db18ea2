//! Starts bash for a driver.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Resource};

use super::ShellConfig;
use crate::spawn::{Spawn, Stdio, environment};

/// Descriptors that bash inherits have numbers from here on, where users do not use them...
const HIGH: RawFd = 400;
/// ...unless that is beyond the limit. As many numbers above are for our own copies before the fork.
const ROOM: RawFd = 16;

/// The lowest number for the descriptors that bash inherits.
pub(super) fn high() -> RawFd {
    let limit = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    RawFd::try_from(limit).unwrap_or(RawFd::MAX).saturating_sub(2 * ROOM).clamp(10, HIGH)
}

/// Starts bash without these variables. Its output is discarded.
pub(super) fn start_bash(
    config: &ShellConfig<'_>,
    args: &[&str],
    left_out: &[&str],
    stdin: BorrowedFd<'_>,
    inherited: &[(BorrowedFd<'_>, RawFd)],
) -> io::Result<Pid> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let argv = std::iter::once(&"bash").chain(args).map(|arg| CString::new(*arg));
    let kept = config.env.iter().filter(|(name, _)| !left_out.iter().any(|out| name == OsStr::new(out)));
    let spawn = Spawn {
        program: config.bash,
        argv: argv.collect::<Result<_, _>>()?,
        env: environment(kept)?,
        cwd: config.cwd,
        stdio: Stdio::Streams { stdin, stdout: null.as_fd(), stderr: null.as_fd() },
        inherited,
        setup: config.setup,
    };
    spawn.start().map_err(|failure| failure.source)
}
