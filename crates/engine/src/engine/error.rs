//! What can go wrong, one type per kind of operation. Every message says what to do.

use std::io;
use std::path::PathBuf;

use crate::id::{ExecutionId, IdError, SessionId};
use crate::journal::{ClaimError, JournalError};
use crate::protocol::Refusal;
use crate::trusted::TrustError;

/// Why an engine could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another engine has this state directory.
    #[error("another server or program uses {path}; stop it first, or choose another state directory")]
    InUse {
        /// The state directory.
        path: PathBuf,
    },
    /// The state directory cannot be used.
    #[error("failed to {doing} {path}: {source}")]
    StateDir {
        /// What was being done.
        doing: &'static str,
        /// To which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Another user could have put something into the state directory, or could still do it.
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
        /// What happened.
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

/// Why a command was not started. Nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The command itself makes no sense.
    #[error("{0}")]
    InvalidCommand(String),
    /// The working directory cannot be used: the kind of `source` tells one that does not exist from one that is
    /// no folder or may not be entered.
    #[error("cannot run in {}: {source}; give a folder that exists and may be entered", path.display())]
    BadCwd {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The command may not run as the user that it names.
    #[error("{0}")]
    UserNotAllowed(String),
    /// There is no such program.
    #[error("there is no program {0:?}; give a path, or a name that is in the command's PATH")]
    ProgramNotFound(String),
    /// The program cannot be run.
    #[error("{program:?} cannot be run: {source}; it must be an executable file for this machine")]
    ProgramNotExecutable {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Arguments and environment are longer than the kernel takes.
    #[error(
        "arguments and environment are longer than the kernel takes; pass large data by standard input or a file"
    )]
    ArgumentsTooLong,
    /// A limit cannot be enforced.
    #[error("{0}")]
    Limit(String),
    /// The id is taken.
    #[error("an execution {0} is already there; use another id, or wait until it has ended")]
    AlreadyExists(ExecutionId),
    /// The id is that of a finished execution whose record is in use.
    #[error("a client reads execution {0} or waits for it; use another id, or try again when it has done")]
    InUse(ExecutionId),
    /// The id was used for another request.
    #[error("execution {0} was started by another request; use another id")]
    Conflict(ExecutionId),
    /// Too many executions run.
    #[error("{0} executions are running, which is the limit; wait for some to end, or raise max_executions")]
    TooManyExecutions(usize),
    /// The session's queue is full.
    #[error("too many commands wait in this session; wait for some to end")]
    QueueFull,
    /// The session is gone.
    #[error("session {0} is gone; create it again")]
    SessionGone(SessionId),
    /// There is no shell to run it.
    #[error("there is no shell for this: {0}")]
    NoShell(String),
    /// The disk is full.
    #[error("no space left in the state directory; free some, or lower retention and journal_bytes")]
    NoSpace,
    /// The state directory was removed while the engine used it.
    #[error("the state directory was removed; restart the server, which makes a new one")]
    StateDirMissing,
    /// The machine has no descriptors, processes or memory left.
    #[error("the machine is out of {what}: failed to {doing}; end something, or raise its limits")]
    OutOf {
        /// Of what.
        what: &'static str,
        /// What was being done.
        doing: String,
    },
    /// A command has lowered resource limits of the supervisor.
    #[error(
        "a command has lowered the resource limits of its supervisor (prlimit), so this was not started; \
         wait for the session's running command to end, or kill it, and try again: the session then gets another supervisor"
    )]
    LimitsLowered,
    /// The supervisor died while it started the command.
    #[error("the supervisor died while it started the command; it may or may not have run")]
    Lost,
    /// Something else failed.
    #[error("failed to {doing}: {source}")]
    Os {
        /// What was being done.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
}

/// Why something could not be done to an execution or a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// It has ended, or its supervisor is gone.
    #[error("it has ended already")]
    Ended,
    /// It waits for its turn in a session.
    #[error("it has not started yet; wait until it runs, or kill it")]
    NotStarted,
    /// The session is gone.
    #[error("session {0} is gone; create it again")]
    SessionGone(SessionId),
    /// Its supervisor has not taken yet what was sent before.
    #[error("too much waits to be sent to it; try again when it has taken that")]
    Busy,
    /// Its standard input is not open.
    #[error(
        "its standard input is not open; start it with Stdin::Open or OpenWith, and write before closing"
    )]
    StdinNotOpen,
    /// It has not ended, so its record cannot be removed.
    #[error("it has not ended; kill it first")]
    Running,
    /// A client reads its record or waits for it, so the record cannot be removed.
    #[error("a client reads its record or waits for it; try again when it has done")]
    InUse,
    /// A signal that does not exist.
    #[error("there is no signal {0}; signals are 1 to 31")]
    NoSuchSignal(i32),
    /// Its supervisor is older than this engine and does not know this.
    #[error("its supervisor was started by an older version that cannot do this")]
    Unsupported,
    /// Something else failed.
    #[error("failed to {doing}: {source}")]
    Os {
        /// What was being done.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
}

/// Why a session could not be made, or changed as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The id is taken.
    #[error("a session {0} is already there; use it, delete it, or choose another id")]
    AlreadyExists(SessionId),
    /// There is no such session.
    #[error("there is no session {0}; create it first")]
    NotFound(SessionId),
    /// Too many sessions.
    #[error("{0} sessions exist, which is the limit; delete some, or raise max_sessions")]
    TooMany(usize),
    /// The session could not be started, or its shell could not.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Why output could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The record was removed by retention or on request.
    #[error("the record of this execution has been removed")]
    Removed,
    /// The machine has no descriptors or memory left.
    #[error("the machine is out of {0}: failed to read the journal; end something, or raise its limits")]
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

    /// What a supervisor's refusal means to whoever asked.
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
            Refusal::Os { errno, doing } => Self::os(&doing, error(errno)),
            Refusal::NoSuchExecution
            | Refusal::StdinNotOpen
            | Refusal::NotASession
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
            Refusal::Os { errno, doing } => Self::Os { doing, source: io::Error::from_raw_os_error(errno) },
            other => Self::Os { doing: "do this".into(), source: io::Error::other(format!("{other:?}")) },
        }
    }
}
