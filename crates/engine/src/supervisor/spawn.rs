//! How a program is started: everything is prepared before the fork, so that the child only makes
//! calls of the kernel and reports the first that fails.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::{fcntl_dupfd_cloexec, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, chdir, set_parent_process_death_signal, setsid};

use super::stdio::Stdio;
use crate::protocol::Refusal;
use crate::sys::{self, Fork};

/// A program to start.
pub(crate) struct Child<'a> {
    /// The file to execute; the first word of `argv`, looked up, if `None`.
    pub(crate) program: Option<PathBuf>,
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: &'a [(OsString, OsString)],
    pub(crate) cwd: &'a Path,
    pub(crate) stdio: Stdio,
    /// Descriptors that the program inherits, under these numbers.
    pub(crate) inherited: Vec<(OwnedFd, i32)>,
    /// What the child does to itself before the program takes over: cgroup, tag, limits.
    /// The cgroup (version 2) to start it in.
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
    pub(crate) in_child: &'a mut dyn FnMut(bool) -> io::Result<()>,
}

/// The step at which starting failed, as one byte on the error pipe.
#[derive(Clone, Copy)]
enum Step {
    Prepare = 1,
    Cwd = 2,
    Program = 3,
}

/// Starts the program; returns when it runs or could not be started.
pub(crate) fn spawn(mut child: Child<'_>) -> Result<Pid, Refusal> {
    let path = match &child.program {
        Some(path) => path.clone(),
        None => find_program(&child.argv, child.env, child.cwd).map_err(Refusal::BadProgram)?,
    };
    let strings = |list: &mut dyn Iterator<Item = Vec<u8>>| {
        list.map(CString::new).collect::<Result<Vec<_>, _>>().map_err(|_| Refusal::BadProgram(libc::EINVAL))
    };
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Refusal::BadProgram(libc::EINVAL))?;
    let argv = strings(&mut child.argv.iter().map(|a| a.as_bytes().to_vec()))?;
    let env = strings(
        &mut child.env.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat()),
    )?;
    let failed = |e: io::Error| Refusal::os(&e, "start the program");
    let (errors, low) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
    // Out of the way of the descriptors that the program gets.
    let report = fcntl_dupfd_cloexec(&low, 20).map_err(|e| failed(e.into()))?;
    drop(low);
    let (side, in_cgroup) = sys::fork_into(child.cgroup).map_err(failed)?;
    match side {
        Fork::Parent(pid) => {
            drop((report, child.stdio, child.inherited));
            let mut message = [0; 5];
            match read(&errors, &mut message) {
                Ok(5) => {
                    let errno = i32::from_le_bytes([message[1], message[2], message[3], message[4]]);
                    Err(match message[0] {
                        2 => Refusal::BadCwd(errno),
                        3 if errno == libc::E2BIG => Refusal::ArgumentsTooLong,
                        3 => Refusal::BadProgram(errno),
                        _ => Refusal::Os { errno, doing: "prepare the process".into() },
                    })
                }
                _ => Ok(pid),
            }
        }
        Fork::Child => {
            let (step, error) = become_program(&mut child, in_cgroup, &path, &argv, &env);
            let mut message = [step as u8, 0, 0, 0, 0];
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            message[1..].copy_from_slice(&errno.to_le_bytes());
            let _ = write(&report, &message);
            sys::exit_now(127);
        }
    }
}

fn become_program(
    child: &mut Child<'_>,
    in_cgroup: bool,
    path: &CString,
    argv: &[CString],
    env: &[CString],
) -> (Step, io::Error) {
    let mut prepare = || -> io::Result<()> {
        // Its own session: what it does to its process group is no business of the supervisor.
        setsid()?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        (child.in_child)(in_cgroup)?;
        rustix::stdio::dup2_stdin(child.stdio.stdin.as_fd())?;
        rustix::stdio::dup2_stdout(child.stdio.stdout.as_fd())?;
        rustix::stdio::dup2_stderr(child.stdio.stderr.as_fd())?;
        for (from, to) in &child.inherited {
            sys::place(from.as_fd(), *to)?;
        }
        sys::reset_signals();
        Ok(())
    };
    if let Err(e) = prepare() {
        return (Step::Prepare, e);
    }
    if let Err(e) = chdir(child.cwd) {
        return (Step::Cwd, e.into());
    }
    match sys::execve(path, argv, env) {
        Err(e) => (Step::Program, e),
    }
}

/// Where a program is: as given if it has a slash, else in the command's own `PATH`.
fn find_program(argv: &[OsString], env: &[(OsString, OsString)], cwd: &Path) -> Result<PathBuf, i32> {
    let program = argv.first().ok_or(libc::ENOENT)?;
    if program.is_empty() {
        return Err(libc::ENOENT);
    }
    if program.as_bytes().contains(&b'/') {
        return Ok(program.into());
    }
    let path = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let path =
        path.unwrap_or_else(|| OsStr::new("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    let mut found_unusable = false;
    for folder in std::env::split_paths(path) {
        let candidate = cwd.join(folder).join(program);
        if candidate.is_file() {
            if rustix::fs::access(&candidate, rustix::fs::Access::EXEC_OK).is_ok() {
                return Ok(candidate);
            }
            found_unusable = true;
        }
    }
    Err(if found_unusable { libc::EACCES } else { libc::ENOENT })
}
