//! [`CommandSpec`] and its parts: what to run, and how.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use minicbor::{Decode, Encode};

use crate::id::ExecutionId;
use crate::user::User;

/// Maximum length of shell text or argv, in bytes.
pub const MAX_COMMAND_BYTES: usize = 16 << 20;
/// Default grace period between SIGTERM at a deadline and SIGKILL.
pub const DEFAULT_TIMEOUT_GRACE: Duration = Duration::from_secs(1);
/// Maximum length of [`ExecutionInfo::command`](crate::ExecutionInfo::command), in bytes.
pub const MAX_SHOWN_COMMAND_BYTES: usize = 4096;
/// Maximum length of given standard input, in bytes.
pub const MAX_STDIN_BYTES: usize = 64 << 20;
/// Maximum size of the environment of one command, in bytes, names and values together.
pub const MAX_ENV_BYTES: usize = 8 << 20;

/// Maximum length of a note, in bytes.
pub const MAX_NOTE_BYTES: usize = 64 << 10;

/// The program of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Shell text: any bytes except NUL.
    Shell(Vec<u8>),
    /// A program and its arguments, run without a shell.
    Argv(Vec<OsString>),
}

/// Source of standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`.
    #[default]
    Null,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// A pipe that stays open: [`Execution::write_stdin`](crate::Execution::write_stdin).
    Open,
    /// First these bytes, at most [`MAX_STDIN_BYTES`], then open as with [`Stdin::Open`]. They are part of the start,
    /// so a repeated start does not write them again.
    OpenWith(Vec<u8>),
}

/// Treatment of processes that still run when the command has returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum LeftoverPolicy {
    /// They continue; their later output is added to the journal.
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

/// Treatment of unread output when the journal is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Drop the oldest output outside the head: readers get a gap.
    #[default]
    Drop,
    /// Block the command: its pipes are not read until the attached [`Follower`](crate::Follower) that counts has
    /// read more. [`READER_GRACE`] after the last follower was dropped (or after the start, without one), output is
    /// dropped until one attaches again.
    Wait,
}

/// Time for which a command with [`Overflow::Wait`] waits for a reader to attach, or to attach again.
pub const READER_GRACE: Duration = Duration::from_secs(30);

/// Treatment of a process started from a session when the session is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum SessionEndPolicy {
    /// It is ended with the session.
    #[default]
    #[n(0)]
    Kill,
    /// It continues.
    #[n(1)]
    Keep,
}

/// Resource limits of a command. `None` means no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Limits {
    /// Memory in bytes: of the whole tree with a cgroup, else the address space of each process.
    #[n(0)]
    pub memory_bytes: Option<u64>,
    /// CPU seconds of each process.
    #[n(1)]
    pub cpu_seconds: Option<u64>,
    /// Processes in the tree; requires a cgroup, or a user other than root.
    #[n(2)]
    pub processes: Option<u64>,
    /// Open files of each process; at least 4.
    #[n(3)]
    pub open_files: Option<u64>,
    /// Size in bytes of each written file.
    #[n(4)]
    pub file_size_bytes: Option<u64>,
    /// Bytes of output, both streams together; a command that reaches it is ended.
    #[n(5)]
    pub output_bytes: Option<u64>,
}

impl Limits {
    /// Whether any limit is set that the kernel enforces (all except the output).
    pub fn any_kernel_limit(&self) -> bool {
        let Self { memory_bytes, cpu_seconds, processes, open_files, file_size_bytes, output_bytes: _ } =
            self;
        [memory_bytes, cpu_seconds, processes, open_files, file_size_bytes]
            .iter()
            .any(|limit| limit.is_some())
    }
}

/// A command and its options. Created with [`CommandSpec::shell`] or [`CommandSpec::argv`].
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
    /// The program.
    pub program: Program,
    /// Id of the execution; generated if `None`.
    pub id: Option<ExecutionId>,
    /// Digest of the caller's request, for idempotent starts. A start with the same id and digest returns the
    /// existing execution; the same id with another digest is a conflict.
    ///
    /// Where two digests have the same length and differ in their first 32 bytes, the two requests are unrelated, and the
    /// rules for an id without a digest apply. So a digest can begin with that of an idempotency key.
    pub digest: Option<Vec<u8>>,
    /// Changes to the environment: set, or unset with `None`.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// Working directory; the engine's default if `None`.
    pub cwd: Option<PathBuf>,
    /// Source of standard input.
    pub stdin: Stdin,
    /// Maximum run time.
    pub timeout: Option<Duration>,
    /// Maximum time without output.
    pub idle_timeout: Option<Duration>,
    /// Grace period between SIGTERM at a deadline and SIGKILL; [`DEFAULT_TIMEOUT_GRACE`] by default. Zero kills at
    /// the deadline.
    pub timeout_grace: Duration,
    /// Resource limits.
    pub limits: Limits,
    /// Maximum size of the journal on disk, in bytes; the engine's default if `None`.
    pub journal_bytes: Option<u64>,
    /// Treatment of unread output when the journal is full.
    pub overflow: Overflow,
    /// Treatment of processes that it leaves running.
    pub leftovers: LeftoverPolicy,
    /// For a process started from a session: what happens to it when the session is deleted.
    pub on_session_end: SessionEndPolicy,
    /// Whether this is a background process. It only affects listings, not the execution.
    pub background: bool,
    /// Whether the finished record is exempt from retention by age and count, and kept until it is removed
    /// explicitly.
    pub keep_record: bool,
    /// Bytes of the caller, at most [`MAX_NOTE_BYTES`]. The engine stores them with the record, returns them in
    /// [`ExecutionInfo::note`](crate::ExecutionInfo::note), and does not interpret them.
    pub note: Option<Vec<u8>>,
    /// User that it runs as; [`EngineConfig::run_as`](crate::EngineConfig::run_as) if `None`. A session's command
    /// runs as the user of its session.
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

    /// Creates a command from shell text, run by `bash --norc` (`/bin/sh` without bash), or by the session's shell.
    pub fn shell(text: impl Into<Vec<u8>>) -> Self {
        Self::new(Program::Shell(text.into()))
    }

    /// Creates a command from a program and its arguments, without a shell.
    pub fn argv<A: Into<OsString>>(argv: impl IntoIterator<Item = A>) -> Self {
        Self::new(Program::Argv(argv.into_iter().map(Into::into).collect()))
    }

    /// Sets the id.
    #[must_use]
    pub fn id(mut self, id: ExecutionId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the digest of the caller's request, for idempotent starts.
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

    /// Sets the maximum run time.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the maximum time without output.
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

    /// Sets the treatment of unread output when the journal is full.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// Sets the treatment of processes that it leaves running.
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

    /// Sets the note: bytes of the caller stored with the record.
    #[must_use]
    pub fn note(mut self, note: impl Into<Vec<u8>>) -> Self {
        self.note = Some(note.into());
        self
    }
}
