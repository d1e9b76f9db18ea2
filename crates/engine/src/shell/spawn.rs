//! Forks and executes bash.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, SealFlags};
use rustix::process::{Pid, Resource, Signal};

use crate::sys::{self, Fork, PreparedExec};

/// Descriptors that bash is to inherit have numbers from here on, where a user does not look...
const HIGH: RawFd = 400;
/// ...unless that is beyond the limit. As many numbers above are for our own copies before the fork.
const ROOM: RawFd = 16;

/// The lowest number for the descriptors that bash inherits.
pub(super) fn high() -> RawFd {
    let limit = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    RawFd::try_from(limit).unwrap_or(RawFd::MAX).saturating_sub(2 * ROOM).clamp(10, HIGH)
}

/// A program to be started, with descriptors 0 to 2 and what else it inherits.
pub(super) struct Start<'a> {
    pub(super) bash: &'a Path,
    pub(super) args: &'a [&'a str],
    pub(super) env: Vec<CString>,
    pub(super) cwd: &'a Path,
    pub(super) stdin: BorrowedFd<'a>,
    /// With the number each is to have, at [`high`] or a little above.
    pub(super) inherited: &'a [(BorrowedFd<'a>, RawFd)],
    pub(super) cgroup: Option<BorrowedFd<'a>>,
    pub(super) in_child: &'a mut dyn FnMut(bool) -> io::Result<()>,
}

impl Start<'_> {
    /// Starts it in a session of its own, to be killed when the calling thread ends.
    pub(super) fn start(self) -> io::Result<Pid> {
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let bash = CString::new(self.bash.as_os_str().as_bytes())?;
        let cwd = CString::new(self.cwd.as_os_str().as_bytes())?;
        let mut argv = vec![c"bash".to_owned()];
        for arg in self.args {
            argv.push(CString::new(*arg)?);
        }
        // Copies above all numbers in use below, so that placing one does not overwrite another.
        let above = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, high() + ROOM);
        let mut placed: Vec<(OwnedFd, RawFd)> =
            vec![(above(self.stdin)?, 0), (above(null.as_fd())?, 1), (above(null.as_fd())?, 2)];
        for (fd, number) in self.inherited {
            placed.push((above(*fd)?, *number));
        }
        let program = PreparedExec::new(bash, argv, self.env);
        let (executed, in_child_only) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (side, in_cgroup) = sys::fork_into(self.cgroup)?;
        match side {
            Fork::Parent(pid) => {
                // What is done to it from outside (tag, cgroup, limits) must not be overtaken by what it does
                // to itself. The pipe is closed when it becomes bash, or ends.
                drop(in_child_only);
                while rustix::io::read(&executed, &mut [0; 1]) == Err(rustix::io::Errno::INTR) {}
                Ok(pid)
            }
            Fork::Child => {
                let mut child = || -> io::Result<()> {
                    sys::reset_signals();
                    rustix::process::setsid()?;
                    rustix::process::chdir(&*cwd)?;
                    for (fd, number) in &placed {
                        sys::place(fd.as_fd(), *number)?;
                    }
                    (self.in_child)(in_cgroup)?;
                    // After `in_child`, since changing the user would undo it.
                    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                    Err(program.exec())
                };
                let code = match child() {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => 127,
                    _ => 126,
                };
                sys::exit_now(code)
            }
        }
    }
}

/// The environment as the kernel wants it, without what would change how bash starts.
pub(super) fn environment(env: &[(OsString, OsString)], left_out: &[&str]) -> io::Result<Vec<CString>> {
    env.iter()
        .filter(|(name, _)| !left_out.iter().any(|out| name == OsStr::new(out)))
        .map(|(name, value)| {
            let mut entry = name.as_bytes().to_vec();
            entry.push(b'=');
            entry.extend_from_slice(value.as_bytes());
            CString::new(entry).map_err(io::Error::from)
        })
        .collect()
}

/// A file in memory that cannot be changed any more.
pub(super) fn sealed_file(name: &str, bytes: &[&[u8]]) -> io::Result<OwnedFd> {
    use rustix::fs::MemfdFlags;
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    for part in bytes {
        let mut rest = *part;
        while !rest.is_empty() {
            let written = rustix::io::write(&fd, rest)?;
            rest = &rest[written..];
        }
    }
    rustix::fs::fcntl_add_seals(
        &fd,
        SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE,
    )?;
    Ok(fd)
}
