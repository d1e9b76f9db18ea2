//! Messages between the engine and its supervisors.

use std::time::Duration;

use minicbor::{Decode, Encode};

use super::{Bytes, Command, OpenSession, Variable};
use crate::end::{End, KillReceipt, Leftover, Usage};
use crate::terminal::TerminalSize;
use crate::wire;

/// From engine to supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Request {
    /// The first request of a connection. Answered by `Welcome`. Since version 4 it must contain the key of the state
    /// directory; otherwise the connection is closed.
    #[n(0)]
    Hello(#[n(0)] u16, #[n(1)] Option<Bytes>),
    /// Run this command: at once in a run, in queue order in a session. Answered by `Accepted` when it is queued;
    /// then `Started` or `NotStarted`, `Ended` and `Closed` follow.
    #[n(1)]
    Start(#[n(0)] Box<Command>),
    /// Become a session. Answered by `Done` or `Refused`.
    #[n(2)]
    OpenSession(#[n(0)] Box<OpenSession>),
    /// End an execution's processes. Answered by `Receipt`.
    #[n(3)]
    Kill {
        #[n(0)]
        slot: u32,
        #[n(1)]
        signal: i32,
        #[cbor(n(2), with = "wire::micros")]
        grace: Duration,
    },
    /// Only send a signal. Answered by `Done`.
    #[n(4)]
    Signal {
        #[n(0)]
        slot: u32,
        #[n(1)]
        signal: i32,
    },
    /// Write to standard input, then close it if requested. Answered by `Done` when everything is written.
    #[n(5)]
    WriteStdin {
        #[n(0)]
        slot: u32,
        #[n(1)]
        bytes: Bytes,
        #[n(2)]
        close: bool,
        /// As in `WriteTerminal`. Since version 6.
        #[n(3)]
        direct: Option<u32>,
    },
    /// Send `Grew` when the journal goes beyond this position, and whenever it grows again, up to this number of times
    /// (since version 5; otherwise once).
    #[n(6)]
    Follow {
        #[n(0)]
        slot: u32,
        #[n(1)]
        position: u64,
        #[n(2)]
        times: Option<u32>,
    },
    /// Answered by `Inspected`.
    #[n(7)]
    Inspect(#[n(0)] u32),
    /// Take a snapshot now. Answered by `Snapshot`.
    #[n(8)]
    Snapshot,
    /// End everything and exit. Answered by `Receipt`.
    #[n(9)]
    Quit,
    /// Replace the session's shell, with or without its state. Answered by `Done`.
    #[n(10)]
    Reset(#[n(0)] bool),
    /// Turn this process of an ended execution into an execution. Answered by `Done`.
    #[n(11)]
    Adopt {
        #[n(0)]
        slot: u32,
        #[n(1)]
        pid: u32,
    },
    /// Change the session's environment, in queue order. Answered by `Done`.
    #[n(12)]
    SetEnv(#[n(0)] Vec<Variable>),
    /// Send `Ended` again if the end of this execution is not recorded. No reply. Since version 4.
    #[n(40)]
    TellEnd(#[n(0)] u32),
    /// The end of this execution, which the supervisor could not record, is recorded. No reply. Since version 4.
    #[n(41)]
    EndRecorded(#[n(0)] u32),
    /// Position of the reader for which a command waits; `None` if none is attached. No reply. Since version 4.
    #[n(60)]
    Reader {
        #[n(0)]
        slot: u32,
        #[n(1)]
        read: Option<u64>,
    },
    /// Queue input of a terminal. Answered by `Queued`. Since version 5.
    #[n(80)]
    WriteTerminal {
        #[n(0)]
        slot: u32,
        #[n(1)]
        bytes: Bytes,
        /// Number of bytes that the engine has written to the terminal itself since it last told. Since version 6.
        #[n(2)]
        direct: Option<u32>,
    },
    /// Send a copy of the terminal's master with `Shared`. No reply if the engine may not write to it. Since version 6.
    #[n(82)]
    ShareTerminal(#[n(0)] u32),
    /// Set the size of a terminal. Answered by `Done`. Since version 5.
    #[n(81)]
    Resize {
        #[n(0)]
        slot: u32,
        #[n(1)]
        size: TerminalSize,
    },
    /// End the running command of the session, if there is one. Answered by `Receipt`.
    #[n(13)]
    Interrupt {
        #[n(0)]
        signal: i32,
        #[cbor(n(1), with = "wire::micros")]
        grace: Duration,
    },
}

/// State of an execution in its supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum Stage {
    #[n(0)]
    Queued,
    #[n(1)]
    Running,
    #[n(2)]
    Ended,
    /// It is closed and has leftovers. Since version 4.
    #[n(70)]
    Left,
}

/// An execution that a supervisor holds.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct SupervisedExecution {
    #[n(0)]
    pub(crate) slot: u32,
    #[n(1)]
    pub(crate) stage: Stage,
    #[n(2)]
    pub(crate) pid: Option<u32>,
    /// The size of its terminal. Since version 5.
    #[n(3)]
    pub(crate) size: Option<TerminalSize>,
}

/// The role of a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Role {
    #[n(0)]
    Ready,
    #[n(1)]
    Run,
    /// A session with its record in this slot.
    #[n(2)]
    Session(#[n(0)] u32),
    /// A terminal. Since version 5.
    #[n(3)]
    Terminal,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Refusal {
    /// A system call failed.
    #[n(0)]
    Os {
        #[n(0)]
        errno: i32,
        /// The failed operation, as in "failed to …".
        #[n(1)]
        doing: String,
    },
    #[n(1)]
    BadCwd(#[n(0)] i32),
    #[n(2)]
    BadProgram(#[n(0)] i32),
    #[n(3)]
    NoSuchExecution,
    #[n(4)]
    StdinNotOpen,
    #[n(5)]
    NotASession,
    #[n(6)]
    QueueFull,
    #[n(7)]
    Unsupported,
    #[n(8)]
    Limit(#[n(0)] String),
    #[n(9)]
    NoShell(#[n(0)] String),
    #[n(10)]
    ArgumentsTooLong,
    /// A command has lowered resource limits of the supervisor or the zygote, which it cannot raise again. Nothing
    /// was done, and another process can do it. Since version 4.
    #[n(40)]
    LimitsLowered,
    /// The execution is not a terminal. Since version 5.
    #[n(80)]
    NotATerminal,
}

/// The error number of [`Refusal::Os`] for a session whose state exceeds `MAX_SNAPSHOT_BYTES`. No system call that a
/// supervisor makes for a request fails with it. Older engines show its text.
pub(crate) const STATE_TOO_LARGE: i32 = libc::EMSGSIZE;

impl Refusal {
    /// A failed system call and its purpose.
    pub(crate) fn os(error: &std::io::Error, doing: &str) -> Self {
        Self::Os { errno: error.raw_os_error().unwrap_or(libc::EIO), doing: doing.into() }
    }
}

/// From supervisor to engine: replies to requests, and events (with request number 0).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Response {
    #[n(0)]
    Welcome {
        #[n(0)]
        version: u16,
        #[n(1)]
        pid: u32,
        #[n(2)]
        role: Role,
        #[n(3)]
        held: Vec<SupervisedExecution>,
    },
    #[n(1)]
    Accepted,
    #[n(2)]
    Done,
    #[n(3)]
    Refused(#[n(0)] Refusal),
    #[n(4)]
    Receipt(#[n(0)] KillReceipt),
    #[n(5)]
    Inspected(#[n(0)] Inspection),
    /// The state as shell text; `None` if the shell could not provide it.
    #[n(6)]
    Snapshot(#[n(0)] Option<Bytes>),
    /// The shell of a ready supervisor is up.
    #[n(7)]
    Ready,
    #[n(8)]
    Started {
        #[n(0)]
        slot: u32,
        #[n(1)]
        pid: u32,
    },
    /// It could not be started; its journal is ended.
    #[n(9)]
    NotStarted {
        #[n(0)]
        slot: u32,
        #[n(1)]
        why: Refusal,
    },
    #[n(10)]
    Ended {
        #[n(0)]
        slot: u32,
        #[n(1)]
        end: End,
        /// The position after its last byte.
        #[n(2)]
        position: u64,
        /// The supervisor could not record the end, because its limit of file sizes was lowered, and no longer writes
        /// to the journal. The engine must record it, and then sends `EndRecorded`. Since version 4.
        #[n(3)]
        unrecorded: Option<StreamLengths>,
        /// Number of bytes of standard error among these. Since version 4.
        #[n(4)]
        stderr_bytes: Option<u64>,
    },
    /// No more output follows; the supervisor has closed the journal.
    #[n(11)]
    Closed {
        #[n(0)]
        slot: u32,
        #[n(1)]
        position: u64,
    },
    #[n(12)]
    Grew {
        #[n(0)]
        slot: u32,
        #[n(1)]
        position: u64,
        /// Whether output of a terminal is missing in the journal because the disk is full, if that has changed. No
        /// request is needed for this report. Since version 5.
        #[n(2)]
        unrecorded: Option<bool>,
    },
    /// The shell of a session was replaced.
    #[n(13)]
    Restarted(#[n(0)] u32),
    /// The run is finished and no process of it is left; another shell is ready for another run. Since version 2.
    #[n(14)]
    Renewed,
    /// Number of bytes of terminal input that were accepted (since version 5), and number of bytes that the kernel has not
    /// accepted yet (since version 6).
    #[n(80)]
    Queued(#[n(0)] u32, #[n(1)] Option<u32>),
    /// The master of a terminal comes with this. Since version 6.
    #[n(81)]
    Shared {
        #[n(0)]
        slot: u32,
    },
    /// The last leftover of an execution has ended. It comes after `Closed`. Since version 4.
    #[n(70)]
    Gone {
        #[n(0)]
        slot: u32,
    },
}

/// Length of each stream, dropped bytes included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct StreamLengths {
    #[n(0)]
    pub(crate) stdout: u64,
    #[n(1)]
    pub(crate) stderr: u64,
}

/// Information on a running execution or session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Inspection {
    /// Whether it waits for input; `None` if unknown.
    #[n(0)]
    pub(crate) waiting_for_input: Option<bool>,
    /// Its processes.
    #[n(1)]
    pub(crate) pids: Vec<u32>,
    /// The session's working directory.
    #[n(2)]
    pub(crate) cwd: Option<Bytes>,
    /// Number of queued commands of the session.
    #[n(3)]
    pub(crate) queued: u32,
    /// Number of replacements of the session's shell.
    #[n(4)]
    pub(crate) restarts: u32,
    /// Whether a command of the session is running.
    #[n(5)]
    pub(crate) busy: bool,
    /// Resource usage of its processes so far. Since version 2.
    #[n(6)]
    pub(crate) usage: Option<Usage>,
    /// Whether the session's last command ended its shell, and none has run in another since. Since version 2, except
    /// for its first supervisors.
    #[n(7)]
    pub(crate) shell_ended: Option<bool>,
    /// Leftovers of an ended execution, found by a scan; the first of them. Since version 4.
    #[n(8)]
    pub(crate) leftovers: Option<Vec<Leftover>>,
}
