//! Starts a process: the fork, the setup in the child, and exec.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, chdir, set_parent_process_death_signal, setsid};

use super::{Resource, check, exit_now, reset_signals, set_limit};

/// The side of a fork.
#[derive(Debug)]
pub(crate) enum Fork {
    /// The new process.
    Child,
    /// The old one, with the id of the new one.
    Parent(Pid),
}

fn side(pid: libc::pid_t) -> Fork {
    Pid::from_raw(pid).map_or(Fork::Child, Fork::Parent)
}

/// Forks.
///
/// # Safety
///
/// If this process has more than one thread, the child must only make async-signal-safe calls until it executes a
/// program or exits: a lock that another thread holds is never released there.
unsafe fn fork() -> io::Result<Fork> {
    // SAFETY: the caller ensures the precondition above; fork itself has no other precondition.
    Ok(side(check(unsafe { libc::fork() })?))
}

/// Forks a process with one thread. The child may do anything.
///
/// # Errors
///
/// Refuses if there are other threads.
pub(crate) fn fork_single_threaded() -> io::Result<Fork> {
    // One link for each thread, besides the directory's own two.
    let links = rustix::fs::stat("/proc/self/task").map_or(0, |task| task.st_nlink);
    if links > 3 {
        return Err(io::Error::other("only a process with one thread may fork"));
    }
    // SAFETY: there is no other thread.
    unsafe { fork() }
}

/// Forks into a cgroup (version 2), and returns whether that was possible; otherwise forks into its own. Moving a
/// process afterwards blocks every fork and exit on the machine; this does not.
///
/// # Safety
///
/// The child must only make system calls until it executes a program or exits: the C library does not know that it is
/// another process, and another thread may hold a lock.
unsafe fn fork_into(cgroup: Option<BorrowedFd<'_>>) -> io::Result<(Fork, bool)> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    if let Some(cgroup) = cgroup {
        // SAFETY: all zeros is a valid clone_args.
        let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
        arguments.flags = CLONE_INTO_CGROUP;
        arguments.exit_signal = u64::from(libc::SIGCHLD.unsigned_abs());
        arguments.cgroup = u64::from(cgroup.as_raw_fd().unsigned_abs());
        // SAFETY: without a stack and without shared memory this is a fork, and the caller ensures the precondition
        // above.
        let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of_val(&arguments)) };
        // It fails on an older kernel, or with a cgroup that accepts no process.
        if let Ok(pid) = i32::try_from(pid)
            && pid >= 0
        {
            return Ok((side(pid), true));
        }
    }
    // SAFETY: the caller ensures more than this needs.
    Ok((unsafe { fork() }?, false))
}

/// Whether a process that is forked into this cgroup survives. The kernel kills it if our own cgroup was ever killed,
/// since it compares the kill counts of both cgroups.
pub(crate) fn lives_in(cgroup: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: the child exits at once.
    match unsafe { fork_into(Some(cgroup)) }? {
        (Fork::Child, _) => exit_now(0),
        (Fork::Parent(pid), is_inside) => {
            let status = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty())?;
            Ok(is_inside && status.is_some_and(|(_, status)| status.exit_status() == Some(0)))
        }
    }
}

/// A program ready to be executed: everything is allocated, so that the child of a fork only makes the call.
#[derive(Debug)]
pub(crate) struct PreparedExec {
    path: CString,
    argv: Vec<*const libc::c_char>,
    env: Vec<*const libc::c_char>,
    /// The memory that the pointers refer to.
    _strings: Vec<CString>,
}

impl PreparedExec {
    pub(crate) fn new(path: CString, argv: Vec<CString>, env: Vec<CString>) -> Self {
        let pointers =
            |list: &[CString]| list.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>();
        let (argv_pointers, env_pointers) = (pointers(&argv), pointers(&env));
        let strings = argv.into_iter().chain(env).collect();
        Self { path, argv: argv_pointers, env: env_pointers, _strings: strings }
    }

    /// Replaces the program. Returns only on failure.
    fn exec(&self) -> io::Error {
        // SAFETY: both arrays end with a null pointer; a CString's bytes stay where they are when the
        // CString is moved, and `_strings` keeps them all.
        unsafe { libc::execve(self.path.as_ptr(), self.argv.as_ptr(), self.env.as_ptr()) };
        io::Error::last_os_error()
    }
}

/// The user of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: libc::uid_t,
    pub(crate) group: libc::gid_t,
    /// The supplementary groups.
    pub(crate) groups: Vec<libc::gid_t>,
}

impl Credentials {
    /// Accesses files with the permissions of this user, in this thread.
    pub(crate) fn look_at_files<T>(&self, look: impl FnOnce() -> T) -> io::Result<T> {
        let groups = rustix::process::getgroups()?;
        let groups: Vec<_> = groups.into_iter().map(rustix::process::Gid::as_raw).collect();
        set_groups(&self.groups)?;
        // SAFETY: the calls take numbers only. They return the previous values, and cannot fail for root.
        let before = unsafe {
            let group = libc::syscall(libc::SYS_setfsgid, self.group);
            (libc::syscall(libc::SYS_setfsuid, self.user), group)
        };
        let seen = look();
        // SAFETY: as above.
        unsafe {
            libc::syscall(libc::SYS_setfsuid, before.0);
            libc::syscall(libc::SYS_setfsgid, before.1);
        }
        set_groups(&groups)?;
        Ok(seen)
    }

    /// Switches the calling thread to this user. The C library's functions would switch all threads, which a forked
    /// child does not have.
    fn apply(&self) -> io::Result<()> {
        const JOIN_SESSION_KEYRING: libc::c_int = 1;
        // A new and empty session keyring: the keys in the server's do not belong to the command. Created before the
        // user changes, because a user may have at most 200 of them. If the call is unknown or not allowed
        // (containers forbid it), no process has keys to read.
        // SAFETY: without a name the call takes numbers only.
        unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, ptr::null::<libc::c_char>()) };
        set_groups(&self.groups)?;
        // SAFETY: the call takes numbers only.
        call(unsafe { libc::syscall(libc::SYS_setresgid, self.group, self.group, self.group) })?;
        // SAFETY: the call takes numbers only.
        call(unsafe { libc::syscall(libc::SYS_setresuid, self.user, self.user, self.user) })
    }
}

fn call(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the supplementary groups of the calling thread.
fn set_groups(groups: &[libc::gid_t]) -> io::Result<()> {
    // SAFETY: the pointer and the length are of one slice, and the kernel only reads from it.
    call(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })
}

/// The value of a resource limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitValue {
    pub(crate) resource: Resource,
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

/// A process ready to be started: everything that the child needs is allocated and open.
#[derive(Debug)]
pub(crate) struct PreparedChild<'a> {
    pub(crate) program: PreparedExec,
    pub(crate) cwd: CString,
    /// Descriptors and their numbers in the program. Each descriptor is above all of those numbers.
    pub(crate) descriptors: Vec<(BorrowedFd<'a>, RawFd)>,
    /// Whether descriptor 0 becomes the controlling terminal of the child's session.
    pub(crate) controlling_terminal: bool,
    /// The cgroup (version 2) to fork into, and the files through which it is joined if that fails.
    pub(crate) fork_into: Option<BorrowedFd<'a>>,
    pub(crate) join_instead: Vec<BorrowedFd<'a>>,
    /// The `cgroup.procs` files of cgroups to join in any case.
    pub(crate) join: Vec<BorrowedFd<'a>>,
    pub(crate) limits: Vec<LimitValue>,
    pub(crate) credentials: Option<Credentials>,
    /// A number above those of the descriptors.
    pub(crate) free_number: RawFd,
}

/// The step at which starting failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartStep {
    /// Forking, or the parent's part of it.
    Fork = 0,
    /// Session, terminal, descriptors, signals.
    Setup = 1,
    Cgroup = 2,
    Limits = 3,
    User = 4,
    WorkingDirectory = 5,
    Program = 6,
}

impl StartStep {
    fn from_byte(byte: u8) -> Self {
        let steps =
            [Self::Setup, Self::Cgroup, Self::Limits, Self::User, Self::WorkingDirectory, Self::Program];
        steps.into_iter().find(|step| *step as u8 == byte).unwrap_or(Self::Fork)
    }
}

/// Why a process could not be started.
#[derive(Debug)]
pub(crate) struct StartFailure {
    pub(crate) step: StartStep,
    pub(crate) source: io::Error,
}

impl StartFailure {
    pub(crate) fn at(step: StartStep) -> impl Fn(io::Error) -> Self {
        move |source| Self { step, source }
    }
}

impl PreparedChild<'_> {
    /// Starts the process in a new session; it is killed when the calling thread ends. Returns when the program runs
    /// or could not be started; then the child has been reaped.
    pub(crate) fn start(&self) -> Result<Pid, StartFailure> {
        let failed = StartFailure::at(StartStep::Fork);
        let (errors, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        // Above the descriptors that the program gets.
        let report =
            rustix::io::fcntl_dupfd_cloexec(&writer, self.free_number).map_err(|e| failed(e.into()))?;
        drop(writer);
        // SAFETY: the child, below, only makes system calls with prepared data.
        match unsafe { fork_into(self.fork_into) }.map_err(failed)? {
            (Fork::Child, is_inside) => {
                let StartFailure { step, source } = self.become_program(is_inside);
                let mut message = [step as u8, 0, 0, 0, 0];
                let errno = source.raw_os_error().unwrap_or(libc::EIO);
                message[1..].copy_from_slice(&errno.to_le_bytes());
                let _ = rustix::io::write(&report, &message);
                exit_now(if errno == libc::ENOENT { 127 } else { 126 });
            }
            (Fork::Parent(pid), _) => {
                // Changes to the child from outside (tag, cgroup, limits) must not be overtaken by its own. The pipe
                // is closed when it has executed the program, or has ended.
                drop(report);
                let mut message = [0; 5];
                match rustix::io::retry_on_intr(|| rustix::io::read(&errors, &mut message)) {
                    Ok(5) => {
                        super::reap_one(pid);
                        let [step, errno @ ..] = message;
                        let source = io::Error::from_raw_os_error(i32::from_le_bytes(errno));
                        Err(StartFailure { step: StartStep::from_byte(step), source })
                    }
                    _ => Ok(pid),
                }
            }
        }
    }

    /// The child's part: it must not allocate or take a lock.
    fn become_program(&self, is_inside: bool) -> StartFailure {
        match self.prepare(is_inside) {
            Ok(()) => StartFailure { step: StartStep::Program, source: self.program.exec() },
            Err(failure) => failure,
        }
    }

    fn prepare(&self, is_inside: bool) -> Result<(), StartFailure> {
        let at = StartFailure::at;
        // A separate session: signals to its process group must not reach the supervisor.
        setsid().map_err(|e| at(StartStep::Setup)(e.into()))?;
        let instead: &[_] = if is_inside { &[] } else { &self.join_instead };
        for file in instead.iter().chain(&self.join) {
            rustix::io::write(file, b"0").map_err(|e| at(StartStep::Cgroup)(e.into()))?;
        }
        for (fd, number) in &self.descriptors {
            place(fd.as_fd(), *number).map_err(at(StartStep::Setup))?;
        }
        if self.controlling_terminal {
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())
                .map_err(|e| at(StartStep::Setup)(e.into()))?;
        }
        // After the descriptors are in place, because their numbers may be above the limit.
        for LimitValue { resource, soft, hard } in &self.limits {
            set_limit(None, *resource, *soft, *hard).map_err(at(StartStep::Limits))?;
        }
        if let Some(credentials) = &self.credentials {
            credentials.apply().map_err(at(StartStep::User))?;
        }
        // After the user has changed, which would reset it.
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| at(StartStep::Setup)(e.into()))?;
        chdir(&*self.cwd).map_err(|e| at(StartStep::WorkingDirectory)(e.into()))?;
        reset_signals();
        Ok(())
    }
}

/// Makes the descriptor available to the program under this number. Only for the child of a fork: the previous
/// descriptor with the number is closed.
fn place(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    // SAFETY: dup2 has no memory preconditions; the child gives up the previous descriptor.
    check(unsafe { libc::dup2(fd.as_raw_fd(), number) }).map(drop)
}
