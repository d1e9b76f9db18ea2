//! A bash process that runs commands.
//!
//! [`Shell`] starts a bash, gives it one command at a time with its three descriptors, reports the end and the status
//! of the command, interrupts it, and takes snapshots of the shell's state. Its owner is a supervisor: it is
//! single-threaded, the parent of bash, reads the command's output, reaps, and ends the processes of the command.
//!
//! # Two drivers
//!
//! [`Driver::Loaded`] loads an object (`object/`) into bash. Bash's own parser reads the command's text, so the shell
//! behaves like bash that reads a script, and the object is not visible in it. [`Driver::Portable`] needs only bash:
//! it is an interactive bash without a terminal that gets one line per command. It is less exact; `tests.rs` has the
//! list of differences.
//!
//! # What ends a shell
//!
//! `exit`, `set -e` and expansion errors like `${x:?}` end the *command* with [`CommandEnd::Exit`], after the EXIT trap has
//! run. With the loaded driver the shell continues, with the state that the command left, except `errexit`, `nounset`
//! and `onecmd`, which would make an ordinary command end it again. With the portable driver its process ends, and
//! only that is reported. `exec program` replaces the shell with either driver; a failed `exec`, and a syntax error
//! under `set -e`, end it. The loaded driver sends the state before ([`Shell::last_state`]).
//!
//! An error at which bash discards a command (`shift 1 2`) does not end the shell. A signal like SIGTERM without a
//! trap ends the command ([`CommandEnd::Signal`], loaded; between commands it has no effect) or the shell (portable, except
//! SIGTERM, which it ignores). SIGKILL and the signals of a crash always end the shell. So the owner treats the end
//! of the process as the end of the command, with the status it has reaped.
//!
//! # What a command may change
//!
//! Everything, permanently; except descriptors 0 to 2, which belong to the command, and the variables and the
//! directory given with a [`ShellJob`], which are restored afterwards whatever the command did to them.

mod environment;
mod loaded;
mod portable;
mod probe;
mod quote;
mod snapshot;
mod start;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::spawn::ProcessSetup;

pub(crate) use environment::{is_name, is_plain, is_taken_at_start};
pub(crate) use probe::{find_bash, probe};
pub(crate) use quote::quote;
pub use quote::quoted;
pub(crate) use snapshot::{MAX_SNAPSHOT_BYTES, Snapshot, SnapshotError};

/// How sessions of another user become possible where the portable driver is used.
pub(crate) const PORTABLE_REMEDY: &str = "use a bash (4.4 or newer) that can load objects and a program built with a C compiler, or run the server as that user";

/// The driver of a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    /// With an object loaded into bash.
    Loaded,
    /// With lines on the standard input of an interactive bash.
    Portable,
}

impl Driver {
    /// The driver's name.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::Portable => "portable",
        }
    }
}

/// Options of a new shell.
pub(crate) struct ShellConfig<'a> {
    pub(crate) driver: Driver,
    /// The bash to run.
    pub(crate) bash: &'a Path,
    /// The complete environment. `BASH_ENV` is given to the commands, but not read by the shell itself; `SHELLOPTS`,
    /// `BASHOPTS` and exported functions with our names are omitted.
    pub(crate) env: &'a [(OsString, OsString)],
    /// Its initial directory.
    pub(crate) cwd: &'a Path,
    /// Its cgroups, tag, limits and user.
    pub(crate) setup: &'a ProcessSetup<'a>,
}

impl fmt::Debug for ShellConfig<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShellConfig")
            .field("driver", &self.driver)
            .field("bash", &self.bash)
            .finish_non_exhaustive()
    }
}

/// A command for a shell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShellJob<'a> {
    /// Shell text, without NUL bytes.
    pub(crate) text: &'a [u8],
    pub(crate) stdin: BorrowedFd<'a>,
    pub(crate) stdout: BorrowedFd<'a>,
    pub(crate) stderr: BorrowedFd<'a>,
    /// Variables to export, or to unset, for this command only.
    pub(crate) env: &'a [(OsString, Option<OsString>)],
    /// The directory for this command only. Afterwards the shell is in its previous directory, also if the command
    /// has used `cd`.
    pub(crate) cwd: Option<&'a Path>,
    /// Set for the shell's only command, run like `bash -c`: the shell ends with it. The status is that of the
    /// process. [`Report::Done`] may report it earlier, when the shell has begun to exit; with low urgency, when it
    /// waits for [`Shell::disconnect`]. Loaded driver only.
    pub(crate) once: Option<Urgency>,
}

/// The initial state of a fork of a shell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ForkSetup<'a> {
    /// Its soft `RLIMIT_RTTIME`, from its first instruction on.
    pub(crate) tag: Option<u64>,
    /// The cgroup (version 2) in which it starts.
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
}

/// Whether a client waits: for a snapshot, or for another shell after one whose command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    High,
    Low,
}

/// A report of a shell.
#[derive(Debug)]
pub(crate) enum Report {
    /// It has started and accepts commands. (Commands may be given before; they wait.)
    Ready,
    /// The command has ended, and all output of bash itself has been written.
    Done(Done),
    /// The requested snapshot.
    Snapshot(Result<Snapshot, SnapshotError>),
}

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    /// The value of `$?`.
    pub(crate) status: i32,
    pub(crate) how: CommandEnd,
    /// Resource usage of bash and the children it has waited for. Unknown with the portable driver.
    pub(crate) usage: Option<ShellUsage>,
    /// Whether the shell is about to exit, and has no children. `false` if unknown.
    pub(crate) is_childless: bool,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    /// At the end of its text; also after a syntax error, with status 2.
    Normal,
    /// By `exit` or by an error that ends a script.
    Exit,
    /// By [`Shell::interrupt`].
    Interrupted,
    /// By a signal without a trap. The status is 128 plus its number.
    Signal,
}

/// Resource usage of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ShellUsage {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    /// The largest resident set of bash or a child it has waited for. (Children smaller than one of an earlier
    /// command are not visible.)
    pub(crate) max_rss_bytes: u64,
}

/// A bash process.
#[derive(Debug)]
pub(crate) struct Shell {
    pid: Pid,
    link: Connection,
    snapshot: Option<snapshot::Reader>,
}

#[derive(Debug)]
enum Connection {
    Loaded(loaded::LoadedConnection),
    Portable(portable::PortableConnection),
}

impl Shell {
    /// Starts a bash. Returns when it has been forked; [`Report::Ready`] follows.
    pub(crate) fn start(config: &ShellConfig<'_>) -> io::Result<Self> {
        let (pid, link) = match config.driver {
            Driver::Loaded => {
                loaded::LoadedConnection::start(config).map(|(pid, link)| (pid, Connection::Loaded(link)))
            }
            Driver::Portable => portable::PortableConnection::start(config)
                .map(|(pid, link)| (pid, Connection::Portable(link))),
        }?;
        Ok(Self { pid, link, snapshot: None })
    }

    /// Its process id; the caller reaps it.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// The descriptors to poll for reading. They may change after each call of another method.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let link = match &self.link {
            Connection::Loaded(link) => link.poll_fds(),
            Connection::Portable(link) => link.poll_fds(),
        };
        link.into_iter().flatten().chain(self.snapshot.as_ref().map(snapshot::Reader::fd))
    }

    /// Time to call [`Shell::receive`] without a readable descriptor: a command has closed the shell's end of the
    /// connection, and the shell may listen for a new one by then.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        match &self.link {
            Connection::Loaded(link) => link.wake_at(),
            Connection::Portable(_) => None,
        }
    }

    /// Forks a shell from this template, and has the fork run the job like `bash -c`: [`ShellJob::once`] decides how
    /// it ends. The fork is the caller's child. Loaded driver only.
    pub(crate) fn fork(&mut self, job: ShellJob<'_>, setup: ForkSetup<'_>) -> io::Result<Self> {
        match &mut self.link {
            Connection::Loaded(link) => {
                let (pid, link) = link.fork(self.pid, &job, setup)?;
                Ok(Self { pid, link: Connection::Loaded(link), snapshot: None })
            }
            Connection::Portable(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Forks a shell from this template. The fork waits for one job with [once](ShellJob::once). Loaded driver only.
    pub(crate) fn fork_ahead(&mut self) -> io::Result<Self> {
        match &mut self.link {
            Connection::Loaded(link) => {
                let (pid, link) = link.fork_ahead(self.pid)?;
                Ok(Self { pid, link: Connection::Loaded(link), snapshot: None })
            }
            Connection::Portable(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Waits until a shell that was [forked ahead](Self::fork_ahead) accepts its job. Returns whether it does: its
    /// setup may fail, and then it exits.
    pub(crate) fn is_fork_up(&mut self) -> bool {
        match &mut self.link {
            Connection::Loaded(link) => link.is_fork_up(self.pid),
            Connection::Portable(_) => false,
        }
    }

    /// The state at the end of a shell that exited by itself or by `exec`: current, except `errexit`, `nounset`,
    /// `onecmd` and the EXIT trap, which has run. Loaded driver only.
    pub(crate) fn last_state(&mut self) -> Option<Snapshot> {
        match &mut self.link {
            Connection::Loaded(link) => Snapshot::from_file(&link.last_state()?),
            Connection::Portable(_) => None,
        }
    }

    /// Returns a report, if there is one. Call it until there is none.
    ///
    /// A command can close the descriptor over which the shell reports. That is not an error here: the loaded driver
    /// reconnects, and a dead shell sends nothing. So the end of the process is the only proof of its death.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Report>> {
        let report = match &mut self.link {
            Connection::Loaded(link) => link.receive(self.pid)?,
            Connection::Portable(link) => link.receive()?,
        };
        if report.is_some() {
            return Ok(report);
        }
        let Some(result) = self.snapshot.as_mut().and_then(snapshot::Reader::read) else {
            return Ok(None);
        };
        self.snapshot = None;
        Ok(Some(Report::Snapshot(result)))
    }

    /// Gives the shell a command. One at a time: the next one after [`Report::Done`].
    pub(crate) fn run(&mut self, job: ShellJob<'_>) -> io::Result<()> {
        match &mut self.link {
            Connection::Loaded(link) => link.run(&job, None),
            Connection::Portable(link) => link.run(self.pid, &job),
        }
    }

    /// Unwinds the running command and keeps the shell's state. The caller must end everything that the command has
    /// started: bash waits for a program in the foreground.
    ///
    /// Call it again every few milliseconds until the command has ended: a signal can arrive just before bash begins
    /// to wait. With the portable driver, first send SIGINT to the command's processes, and SIGKILL only to the
    /// remaining ones: if its child does not die of SIGINT, bash considers its own SIGINT as handled by the child,
    /// and continues with the text.
    pub(crate) fn interrupt(&mut self) -> io::Result<()> {
        match &mut self.link {
            Connection::Loaded(_) => loaded::interrupt(self.pid),
            Connection::Portable(link) => link.interrupt(self.pid),
        }
    }

    /// Tells the shell that there will be no more commands. It runs its EXIT trap, if it has not, and exits.
    pub(crate) fn disconnect(&mut self) {
        match &mut self.link {
            Connection::Loaded(link) => link.disconnect(),
            Connection::Portable(link) => link.disconnect(),
        }
    }

    /// Requests a snapshot, while no command is running. The loaded driver takes it in a fork, and commands need not
    /// wait for it; the fork is the caller's child, to be reaped like others. An earlier pending snapshot is
    /// abandoned.
    pub(crate) fn snapshot(&mut self, urgency: Urgency) -> io::Result<()> {
        self.ask_for_snapshot(urgency, false)
    }

    /// Requests a snapshot like [`Shell::snapshot`]. If the state is the same as in the last one, or as the initial
    /// one, the result is [`SnapshotError::Unchanged`] instead, where this can be detected.
    pub(crate) fn snapshot_if_changed(&mut self, urgency: Urgency) -> io::Result<()> {
        self.ask_for_snapshot(urgency, true)
    }

    fn ask_for_snapshot(&mut self, urgency: Urgency, if_changed: bool) -> io::Result<()> {
        let (reader, writer) = snapshot::Reader::new()?;
        match &mut self.link {
            Connection::Loaded(link) => link.snapshot(&writer, urgency, if_changed)?,
            Connection::Portable(link) => link.snapshot(writer)?,
        }
        self.snapshot = Some(reader);
        Ok(())
    }

    /// Restores the state of the snapshot in a new shell; [`Report::Done`] reports the end. Output and errors are
    /// discarded. Start that shell with an empty environment.
    pub(crate) fn restore(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        self.prepare(&snapshot.restore_text(), snapshot.status())
    }

    /// Runs a text that is not visible to the user, after which `$?` is `status`; [`Report::Done`] reports the end.
    pub(crate) fn prepare(&mut self, text: &[u8], status: i32) -> io::Result<()> {
        let null = rustix::fs::open(
            "/dev/null",
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )?;
        let null = std::os::fd::AsFd::as_fd(&null);
        let job = ShellJob { text, stdin: null, stdout: null, stderr: null, env: &[], cwd: None, once: None };
        match &mut self.link {
            Connection::Loaded(link) => link.run(&job, Some(status)),
            Connection::Portable(link) => link.restore(self.pid, &job, status),
        }
    }
}
