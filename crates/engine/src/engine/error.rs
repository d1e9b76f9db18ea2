//! Errors, one type per kind of operation. Every message says what to do.

use std::io;
use std::path::PathBuf;

use crate::id::{ExecutionId, IdError, SessionId};
use crate::journal::{ClaimError, JournalError};
use crate::protocol::{Refusal, STATE_TOO_LARGE};
use crate::shell::MAX_SNAPSHOT_BYTES;
use crate::terminal::{MAX_TERM_BYTES, MAX_TERMINAL_INPUT_BYTES, MAX_TERMINAL_SIDE};
use crate::trusted::TrustError;

/// Why an engine could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another engine uses this state directory.
    #[error("another server or program uses {path}; stop it first, or choose another state directory")]
    InUse {
        /// The state directory.
        path: PathBuf,
    },
    /// The state directory cannot be used.
    #[error("failed to {doing} {path}: {source}")]
    StateDir {
        /// The failed operation, as an infinitive: `create`, `lock`.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// Another user can write to the state directory, or could have written to it.
    #[error("the state directory cannot be used: {0}")]
    Untrusted(TrustError),
    /// Commands cannot run as the user of [`EngineConfig::run_as`](crate::EngineConfig::run_as).
    #[error("{0}")]
    RunAs(String),
    /// The zygote could not be started.
    #[error(
        "failed to start the supervisor program {program}: {why}; its main must call sandcrab_engine::init()"
    )]
    Zygote {
        /// The program.
        program: PathBuf,
        /// The reason.
        why: String,
    },
    /// The journals could not be read.
    #[error("failed to read the journals: {0}")]
    Journals(String),
}

impl From<TrustError> for OpenError {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Io { doing, path, source } => Self::StateDir { doing, path, source },
            refused => Self::Untrusted(refused),
        }
    }
}

/// Why a command was not started. It left neither a process nor a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The command is invalid: empty, too long, or with a NUL byte.
    #[error("{0}")]
    InvalidCommand(String),
    /// The working directory cannot be used. The kind of `source` distinguishes a missing directory from a file and
    /// from a directory without permission.
    #[error("invalid working directory {}: {source}; expected a directory that exists and that the command's user may enter", path.display())]
    BadCwd {
        /// The directory.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The command may not run as the user that it names.
    #[error("{0}")]
    UserNotAllowed(String),
    /// The program does not exist.
    #[error("program {0:?} not found; give a path, or the name of a program in the command's PATH")]
    ProgramNotFound(String),
    /// The program cannot be executed.
    #[error("cannot execute {program:?}: {source}; expected an executable file for this machine")]
    ProgramNotExecutable {
        /// The program.
        program: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// Arguments and environment exceed the limit of the kernel.
    #[error(
        "arguments and environment exceed the limit of the kernel; pass large data by standard input or a file"
    )]
    ArgumentsTooLong,
    /// A limit cannot be enforced.
    #[error("{0}")]
    Limit(String),
    /// The id is in use.
    #[error("execution {0} already exists; use another id, or wait until it has ended")]
    AlreadyExists(ExecutionId),
    /// The id is that of a finished execution whose leftovers still run; only a kill by this id ends them.
    #[error("processes that execution {0} started still run; end them with a kill of {0}, or use another id")]
    HasLeftovers(ExecutionId),
    /// The id is that of a finished execution whose record is in use.
    #[error("the record of execution {0} is in use by a client; use another id, or retry later")]
    InUse(ExecutionId),
    /// The id was used for another request.
    #[error("execution {0} was started by a different request; use another id")]
    Conflict(ExecutionId),
    /// The limit of running executions is reached.
    #[error("limit of {0} running executions reached; wait for some to end, or raise --max-executions")]
    TooManyExecutions(usize),
    /// The limit of running terminals is reached.
    #[error("limit of {0} running terminals reached; delete some, or raise --max-terminals")]
    TooManyTerminals(usize),
    /// The session's queue is full.
    #[error("the queue of the session is full; wait for some commands to end")]
    QueueFull,
    /// The session no longer exists.
    #[error("session {0} no longer exists; create it again")]
    SessionGone(SessionId),
    /// The shell is missing or has failed.
    #[error("no shell available: {0}")]
    NoShell(String),
    /// The state of the session is too large to be copied.
    #[error(
        "the state of the session has more than {} MiB, which is the limit for forks, resets with state and processes \
         from a session; unset large variables or functions, or keep the data in a file", MAX_SNAPSHOT_BYTES >> 20
    )]
    StateTooLarge,
    /// The disk is full.
    #[error(
        "no space left in the state directory; free disk space, or lower --retention-bytes and --journal-bytes"
    )]
    NoSpace,
    /// The state directory was removed while the engine used it.
    #[error("the state directory was removed; restart the server, which creates a new one")]
    StateDirMissing,
    /// The machine has no descriptors, processes or memory left.
    #[error("the machine is out of {what}: failed to {doing}; end some processes, or raise the limit")]
    OutOf {
        /// The missing resource.
        what: &'static str,
        /// The failed operation, as an infinitive.
        doing: String,
    },
    /// A command has lowered resource limits of the supervisor.
    #[error(
        "a command has lowered the resource limits of its supervisor (prlimit), so this was not started; \
         wait for the session's running command to end, or kill it, then retry: the session gets another supervisor"
    )]
    LimitsLowered,
    /// The supervisor died while it started the command.
    #[error("the supervisor died while it started the command; the command may or may not have run")]
    Lost,
    /// Something else failed.
    #[error("failed to {doing}: {source}")]
    Os {
        /// The failed operation, as an infinitive.
        doing: String,
        /// The error of the system call.
        source: io::Error,
    },
}

/// Why a request on an execution or a session failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// It has ended, or its supervisor has.
    #[error("the execution has already ended")]
    Ended,
    /// It waits in the queue of a session.
    #[error("the execution has not started yet; wait until it runs, or kill it")]
    NotStarted,
    /// The session no longer exists.
    #[error("session {0} no longer exists; create it again")]
    SessionGone(SessionId),
    /// Too much data for its supervisor or its standard input is pending.
    #[error("too much pending data for this execution; retry when it has read some")]
    Busy,
    /// Its standard input is not open.
    #[error(
        "standard input is not open; keep it open when the execution is started, and write before it is closed"
    )]
    StdinNotOpen,
    /// It has not ended, so its record cannot be removed.
    #[error("the execution has not ended; kill it first")]
    Running,
    /// A client reads its record or waits for it, so the record cannot be removed.
    #[error("the record is in use by a client; retry later")]
    InUse,
    /// The connection to its supervisor broke.
    #[error(
        "the connection to the supervisor broke; the request may or may not have been carried out; check and retry"
    )]
    Disconnected,
    /// The signal number is invalid.
    #[error("invalid signal {0}; expected 1 to 31")]
    NoSuchSignal(i32),
    /// Its supervisor is of an older version and does not support the request.
    #[error("not supported by the supervisor of this execution, which was started by an older version")]
    Unsupported,
    /// Something else failed.
    #[error("failed to {doing}: {source}")]
    Os {
        /// The failed operation, as an infinitive.
        doing: String,
        /// The error of the system call.
        source: io::Error,
    },
}

/// Why a session could not be created or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The id is in use.
    #[error("session {0} already exists; use it, delete it, or choose another id")]
    AlreadyExists(SessionId),
    /// The session does not exist.
    #[error("session {0} not found; create it first")]
    NotFound(SessionId),
    /// The limit of sessions is reached.
    #[error("limit of {0} sessions reached; delete some, or raise --max-sessions")]
    TooMany(usize),
    /// The session could not be started, or its shell could not.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Why a terminal could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TerminalError {
    /// The size is out of range.
    #[error("invalid size {cols} x {rows}: expected 1 to {MAX_TERMINAL_SIDE} columns and rows")]
    InvalidSize {
        /// Number of columns.
        cols: u16,
        /// Number of rows.
        rows: u16,
    },
    /// The value for `TERM` is invalid.
    #[error(
        "invalid terminal name {0:?}: expected 1 to {MAX_TERM_BYTES} ASCII letters, digits, '-', '_', '.' and '+'"
    )]
    InvalidTerm(String),
    /// The limit of running terminals is reached.
    #[error("limit of {0} running terminals reached; delete some, or raise --max-terminals")]
    TooMany(usize),
    /// The session does not exist.
    #[error("session {0} not found; create it first")]
    SessionNotFound(SessionId),
    /// Its program could not be started, or another execution has its id.
    #[error(transparent)]
    Start(StartError),
}

impl From<StartError> for TerminalError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::TooManyTerminals(most) => Self::TooMany(most),
            other => Self::Start(other),
        }
    }
}

/// Why input was not accepted completely.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The program does not read its input, and the queue is full.
    #[error(
        "the program does not read its input: {accepted} bytes were accepted, the queue of {MAX_TERMINAL_INPUT_BYTES} \
         bytes is full; retry with the rest later, or send an interrupt"
    )]
    Full {
        /// Number of accepted bytes.
        accepted: usize,
    },
    /// The terminal has ended.
    #[error("the terminal has already ended")]
    Ended,
    /// The supervisor could not be asked.
    #[error(transparent)]
    Control(ControlError),
}

/// Why output could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The record was removed by retention or on request.
    #[error("the record of this execution has been removed")]
    Removed,
    /// The machine has no descriptors or memory left.
    #[error("the machine is out of {0}: failed to read the journal; end some processes, or raise the limit")]
    OutOf(&'static str),
    /// The journal could not be read.
    #[error("failed to read the journal: {0}")]
    Journal(String),
}

impl From<IdError> for StartError {
    fn from(e: IdError) -> Self {
        Self::InvalidCommand(e.to_string())
    }
}

impl From<JournalError> for ReadError {
    fn from(e: JournalError) -> Self {
        match e {
            JournalError::Retired => Self::Removed,
            JournalError::Io(ref source) => match source.raw_os_error().and_then(out_of) {
                Some(what) => Self::OutOf(what),
                None => Self::Journal(e.to_string()),
            },
            other => Self::Journal(other.to_string()),
        }
    }
}

fn out_of(errno: i32) -> Option<&'static str> {
    match errno {
        libc::EMFILE | libc::ENFILE => Some("file descriptors"),
        libc::EAGAIN => Some("processes"),
        libc::ENOMEM => Some("memory"),
        _ => None,
    }
}

impl StartError {
    pub(crate) fn os(doing: &str, source: io::Error) -> Self {
        let errno = source.raw_os_error().unwrap_or(0);
        if matches!(errno, libc::ENOSPC | libc::EDQUOT) {
            return Self::NoSpace;
        }
        match out_of(errno) {
            Some(what) => Self::OutOf { what, doing: doing.into() },
            None => Self::Os { doing: doing.into(), source },
        }
    }

    pub(crate) fn claim(e: ClaimError) -> Self {
        match e {
            ClaimError::NoSpace { .. } => Self::NoSpace,
            ClaimError::Io(source) => Self::os("claim a journal", source),
            other => Self::InvalidCommand(other.to_string()),
        }
    }

    /// The error that a supervisor's refusal means for the caller.
    pub(crate) fn refused(why: Refusal, program: &str, cwd: PathBuf) -> Self {
        let error = io::Error::from_raw_os_error;
        match why {
            Refusal::BadCwd(errno) => Self::BadCwd { path: cwd, source: error(errno) },
            Refusal::BadProgram(libc::ENOENT | libc::ENOTDIR) => Self::ProgramNotFound(program.into()),
            Refusal::BadProgram(errno) => {
                Self::ProgramNotExecutable { program: program.into(), source: error(errno) }
            }
            Refusal::ArgumentsTooLong => Self::ArgumentsTooLong,
            Refusal::Limit(why) => Self::Limit(why),
            Refusal::QueueFull => Self::QueueFull,
            Refusal::LimitsLowered => Self::LimitsLowered,
            Refusal::NoShell(why) => Self::NoShell(why),
            Refusal::Os { errno: STATE_TOO_LARGE, .. } => Self::StateTooLarge,
            Refusal::Os { errno, doing } => Self::os(&doing, error(errno)),
            Refusal::NoSuchExecution
            | Refusal::StdinNotOpen
            | Refusal::NotASession
            | Refusal::NotATerminal
            | Refusal::Unsupported => {
                Self::Os { doing: "start the command".into(), source: io::ErrorKind::Unsupported.into() }
            }
        }
    }
}

impl ControlError {
    pub(crate) fn refused(why: Refusal) -> Self {
        match why {
            Refusal::StdinNotOpen => Self::StdinNotOpen,
            Refusal::NoSuchExecution => Self::Ended,
            Refusal::Unsupported => Self::Unsupported,
            Refusal::QueueFull => Self::Busy,
            Refusal::Os { errno, doing } => Self::Os { doing, source: io::Error::from_raw_os_error(errno) },
            other => Self::Os {
                doing: "carry out the request".into(),
                source: io::Error::other(format!("{other:?}")),
            },
        }
    }
}
