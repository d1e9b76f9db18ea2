//! What to run: [`CommandSpec`] and its parts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use minicbor::{Decode, Encode};

use crate::id::ExecutionId;
use crate::user::User;

/// The longest shell text or argv that is accepted, in bytes.
pub const MAX_COMMAND_BYTES: usize = 16 << 20;
/// How long a command has between SIGTERM at its deadline and SIGKILL, by default.
pub const DEFAULT_TIMEOUT_GRACE: Duration = Duration::from_secs(1);
/// The most bytes of a command that [`ExecutionInfo::command`](crate::ExecutionInfo::command) shows.
pub const MAX_SHOWN_COMMAND_BYTES: usize = 4096;
/// The most bytes of given standard input.
pub const MAX_STDIN_BYTES: usize = 64 << 20;
/// The most bytes of environment for one command, names and values together.
pub const MAX_ENV_BYTES: usize = 8 << 20;

/// The most bytes of a note.
pub const MAX_NOTE_BYTES: usize = 64 << 10;

/// What the program is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Text for the shell. Any bytes but NUL.
    Shell(Vec<u8>),
    /// A program and its arguments, run without a shell.
    Argv(Vec<OsString>),
}

/// Where standard input comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`.
    #[default]
    Null,
    /// Exactly these bytes, then the end.
    Bytes(Vec<u8>),
    /// A pipe that stays open: [`Execution::write_stdin`](crate::Execution::write_stdin).
    Open,
    /// These bytes first, at most [`MAX_STDIN_BYTES`], then it stays open as with [`Stdin::Open`]. They are part of
    /// the start, so a start that is asked for again does not write them again.
    OpenWith(Vec<u8>),
}

/// What becomes of processes that are still there when the command has returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum LeftoverPolicy {
    /// They go on; their late output reaches the journal.
    #[default]
    #[n(0)]
    Keep,
    /// They are ended.
    #[n(1)]
    Kill,
    /// Each becomes an execution of its own.
    #[n(2)]
    Adopt,
}

/// What becomes of output that a reader has not read when the journal is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The oldest output that is not of the head is dropped: readers get a gap.
    #[default]
    Drop,
    /// The command waits for its reader: its pipes are not read until the attached [`Follower`](crate::Follower) that
    /// counts has gone on. [`READER_GRACE`] after the last one was dropped, or after the start if none came, it falls back
    /// to dropping until one attaches again.
    Wait,
}

/// How long a command with [`Overflow::Wait`] waits for a reader to attach, or to attach again.
pub const READER_GRACE: Duration = Duration::from_secs(30);

/// What becomes of a process that was started from a session when the session is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum SessionEndPolicy {
    /// It is ended with the session.
    #[default]
    #[n(0)]
    Kill,
    /// It goes on.
    #[n(1)]
    Keep,
}

/// Limits on what a command may use. `None` is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Limits {
    /// Memory of the whole tree with a cgroup, address space of each process without.
    #[n(0)]
    pub memory_bytes: Option<u64>,
    /// CPU seconds of each process.
    #[n(1)]
    pub cpu_seconds: Option<u64>,
    /// Processes in the tree; needs a cgroup, or a user other than root.
    #[n(2)]
    pub processes: Option<u64>,
    /// Open files of each process.
    #[n(3)]
    pub open_files: Option<u64>,
    /// Size of each file written.
    #[n(4)]
    pub file_size_bytes: Option<u64>,
    /// Output, both streams together; reaching it ends the command.
    #[n(5)]
    pub output_bytes: Option<u64>,
}

impl Limits {
    /// Whether a limit is set that the kernel enforces (all but the output).
    pub fn any_kernel_limit(&self) -> bool {
        let Self { memory_bytes, cpu_seconds, processes, open_files, file_size_bytes, output_bytes: _ } =
            self;
        [memory_bytes, cpu_seconds, processes, open_files, file_size_bytes]
            .iter()
            .any(|limit| limit.is_some())
    }
}

/// What to run and how. Made with [`CommandSpec::shell`] or [`CommandSpec::argv`], then refined.
///
/// ```
/// use sandcrab_engine::{CommandSpec, Stdin};
/// use std::time::Duration;
///
/// let spec = CommandSpec::shell("sort | uniq -c")
///     .env("LC_ALL", "C")
///     .cwd("/tmp")
///     .stdin(Stdin::Bytes(b"b\na\nb\n".to_vec()))
///     .timeout(Duration::from_secs(10));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// What the program is.
    pub program: Program,
    /// The id to run under; one is made if there is none.
    pub id: Option<ExecutionId>,
    /// What the caller's request was, for exactly-once starts: the same id and digest find the
    /// execution that is already there, the same id with another digest is a conflict.
    pub digest: Option<Vec<u8>>,
    /// Changes to the environment: set, or unset with `None`.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// The working directory.
    pub cwd: Option<PathBuf>,
    /// Where standard input comes from.
    pub stdin: Stdin,
    /// The longest it may run.
    pub timeout: Option<Duration>,
    /// The longest it may run without writing anything.
    pub idle_timeout: Option<Duration>,
    /// How long the tree has, after a deadline's SIGTERM, before SIGKILL; [`DEFAULT_TIMEOUT_GRACE`] unless it is set. Zero
    /// kills at the deadline.
    pub timeout_grace: Duration,
    /// Limits on what it may use.
    pub limits: Limits,
    /// The most bytes its journal keeps on disk; the engine's default if `None`.
    pub journal_bytes: Option<u64>,
    /// What becomes of output that does not fit into the journal.
    pub overflow: Overflow,
    /// What becomes of what it leaves running.
    pub leftovers: LeftoverPolicy,
    /// For a process started from a session: what the session's end means to it.
    pub on_session_end: SessionEndPolicy,
    /// Whether this is a background process rather than a command somebody waits for. It changes
    /// nothing in how it runs; listings tell the two apart.
    pub background: bool,
    /// Keep the finished record until it is removed explicitly, exempt from retention by age and count.
    pub keep_record: bool,
    /// Bytes of the caller's own, at most [`MAX_NOTE_BYTES`]: kept with the record, given back in
    /// [`ExecutionInfo::note`](crate::ExecutionInfo::note), and looked at by nobody.
    pub note: Option<Vec<u8>>,
    /// As whom it runs; [`EngineConfig::run_as`](crate::EngineConfig::run_as) if `None`. A session's command runs as the
    /// user of its session.
    pub user: Option<User>,
}

impl CommandSpec {
    fn new(program: Program) -> Self {
        Self {
            program,
            id: None,
            digest: None,
            env: Vec::new(),
            cwd: None,
            stdin: Stdin::Null,
            timeout: None,
            idle_timeout: None,
            timeout_grace: DEFAULT_TIMEOUT_GRACE,
            limits: Limits::default(),
            journal_bytes: None,
            overflow: Overflow::Drop,
            leftovers: LeftoverPolicy::Keep,
            on_session_end: SessionEndPolicy::Kill,
            background: false,
            keep_record: false,
            note: None,
            user: None,
        }
    }

    /// Shell text, run by `bash --norc` (or `/bin/sh` where there is no bash), or by the session's shell.
    pub fn shell(text: impl Into<Vec<u8>>) -> Self {
        Self::new(Program::Shell(text.into()))
    }

    /// A program with its arguments, without a shell.
    pub fn argv<A: Into<OsString>>(argv: impl IntoIterator<Item = A>) -> Self {
        Self::new(Program::Argv(argv.into_iter().map(Into::into).collect()))
    }

    /// Sets the id.
    #[must_use]
    pub fn id(mut self, id: ExecutionId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the digest of the caller's request, for exactly-once starts.
    #[must_use]
    pub fn digest(mut self, digest: impl Into<Vec<u8>>) -> Self {
        self.digest = Some(digest.into());
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), Some(value.into())));
        self
    }

    /// Unsets a variable.
    #[must_use]
    pub fn unset_env(mut self, name: impl Into<OsString>) -> Self {
        self.env.push((name.into(), None));
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets standard input.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Sets the longest it may run.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the longest it may be silent.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the bound of the journal.
    #[must_use]
    pub fn journal_bytes(mut self, bytes: u64) -> Self {
        self.journal_bytes = Some(bytes);
        self
    }

    /// Sets what becomes of output that does not fit into the journal.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// Sets what becomes of what it leaves running.
    #[must_use]
    pub fn leftovers(mut self, policy: LeftoverPolicy) -> Self {
        self.leftovers = policy;
        self
    }

    /// Marks it as a background process.
    #[must_use]
    pub fn background(mut self) -> Self {
        self.background = true;
        self
    }

    /// Keeps bytes of the caller's own with the record.
    #[must_use]
    pub fn note(mut self, note: impl Into<Vec<u8>>) -> Self {
        self.note = Some(note.into());
        self
    }
}
