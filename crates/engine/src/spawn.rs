//! Starts every program: shells, and commands with a process of their own.
//!
//! [`Spawn`] is the program. [`ProcessSetup`] is the state of the process from its first instruction on: cgroups,
//! tag, limits, user. Everything is prepared before the fork, so the child (`sys/child.rs`) only makes system calls
//! and reports the first failure.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use crate::process_tree::{Cgroup, Plan, Tag};
use crate::sys::{
    self, Credentials, LimitValue, PreparedChild, PreparedExec, Resource, StartFailure, StartStep,
};

/// Descriptors 0 to 2 of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stdio<'a> {
    Streams {
        stdin: BorrowedFd<'a>,
        stdout: BorrowedFd<'a>,
        stderr: BorrowedFd<'a>,
    },
    /// All three are this terminal, which also becomes the controlling terminal.
    Terminal(BorrowedFd<'a>),
}

/// State of a process from its first instruction on.
#[derive(Debug, Default)]
pub(crate) struct ProcessSetup<'a> {
    /// The cgroup of the supervisor, and whether processes can be forked into it.
    pub(crate) cgroup: Option<&'a Cgroup>,
    pub(crate) fork_into_cgroup: bool,
    /// The cgroup that holds the limits of one command.
    pub(crate) limit_cgroup: Option<&'a Cgroup>,
    pub(crate) tag: Option<Tag>,
    /// The soft limit of open files that programs expect.
    pub(crate) open_files: Option<u64>,
    pub(crate) limits: Option<&'a Plan>,
    /// The user it runs as; `None` for the supervisor's own.
    pub(crate) credentials: Option<&'a Credentials>,
}

impl ProcessSetup<'_> {
    /// The limits that the child sets. They are computed from our own, which it inherits.
    pub(crate) fn limit_values(&self) -> io::Result<Vec<LimitValue>> {
        let mut values = Vec::new();
        // Without a tag, the process tree still shows which processes belong to a command.
        values.extend(self.tag.and_then(|tag| tag.limit_value().ok()));
        if let Some(open_files) = self.open_files {
            let resource = Resource::OpenFiles;
            let (_, hard) = sys::limit(None, resource)?;
            values.push(LimitValue { resource, soft: open_files.min(hard), hard });
        }
        if let Some(plan) = self.limits {
            values.extend(plan.limit_values()?);
        }
        Ok(values)
    }
}

/// A program to start.
#[derive(Debug)]
pub(crate) struct Spawn<'a> {
    /// The file to execute.
    pub(crate) program: &'a Path,
    /// Its arguments, its name first.
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<CString>,
    pub(crate) cwd: &'a Path,
    pub(crate) stdio: Stdio<'a>,
    /// Descriptors that the program inherits, with their numbers in the program.
    pub(crate) inherited: &'a [(BorrowedFd<'a>, RawFd)],
    pub(crate) setup: &'a ProcessSetup<'a>,
}

impl Spawn<'_> {
    /// Starts the program in a new session. It is killed when the calling thread ends. Returns when it runs or could
    /// not be started.
    pub(crate) fn start(self) -> Result<Pid, StartFailure> {
        let failed = StartFailure::at(StartStep::Fork);
        let string = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from);
        let (program, cwd) = (string(self.program).map_err(&failed)?, string(self.cwd).map_err(&failed)?);
        let ([stdin, stdout, stderr], controlling_terminal) = match self.stdio {
            Stdio::Streams { stdin, stdout, stderr } => ([stdin, stdout, stderr], false),
            Stdio::Terminal(terminal) => ([terminal; 3], true),
        };
        let wanted = [(stdin, 0), (stdout, 1), (stderr, 2)];
        let wanted = wanted.iter().chain(self.inherited);
        let free_number = wanted.clone().map(|(_, number)| number + 1).max().unwrap_or(3);
        // Copies of descriptors that would be overwritten when others are placed.
        let mut copies: Vec<Option<OwnedFd>> = Vec::new();
        for (fd, _) in wanted.clone() {
            let is_in_the_way = fd.as_raw_fd() < free_number;
            let copy = is_in_the_way.then(|| rustix::io::fcntl_dupfd_cloexec(fd, free_number)).transpose();
            copies.push(copy.map_err(|e| failed(e.into()))?);
        }
        let placed = wanted.zip(&copies);
        let descriptors =
            placed.map(|((fd, number), copy)| (copy.as_ref().map_or(*fd, AsFd::as_fd), *number));
        let fork_target =
            self.setup.cgroup.filter(|_| self.setup.fork_into_cgroup).and_then(Cgroup::fork_target);
        let child = PreparedChild {
            program: PreparedExec::new(program, self.argv, self.env),
            cwd,
            descriptors: descriptors.collect(),
            controlling_terminal,
            fork_into: fork_target.as_ref().map(AsFd::as_fd),
            join_instead: self.setup.cgroup.into_iter().flat_map(Cgroup::join_files).collect(),
            join: self.setup.limit_cgroup.into_iter().flat_map(Cgroup::join_files).collect(),
            limits: self.setup.limit_values().map_err(StartFailure::at(StartStep::Limits))?,
            credentials: self.setup.credentials.cloned(),
            free_number,
        };
        child.start()
    }
}

/// An environment in the kernel's format.
pub(crate) fn environment<'a>(
    env: impl IntoIterator<Item = &'a (OsString, OsString)>,
) -> io::Result<Vec<CString>> {
    let entry = |(name, value): &(OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
    env.into_iter().map(|variable| CString::new(entry(variable)).map_err(io::Error::from)).collect()
}

/// The path of a program: as given if it contains a slash, else in the command's `PATH`. The error is an `errno`.
pub(crate) fn find_program(
    program: &OsStr,
    env: &[(OsString, OsString)],
    cwd: &Path,
) -> Result<PathBuf, i32> {
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
