//! How an execution ends: [`End`], its [`EndReason`], and the [`KillReceipt`].

use std::time::Duration;

use minicbor::{Decode, Encode};

use crate::wire;

/// Why an execution ended. Every execution has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
#[non_exhaustive]
pub enum EndReason {
    /// The program returned.
    #[n(0)]
    Exited,
    /// The program died of a signal that the engine did not send.
    #[n(1)]
    Signaled,
    /// The wall timeout passed.
    #[n(2)]
    Timeout,
    /// It was silent for longer than the idle timeout.
    #[n(3)]
    IdleTimeout,
    /// It was killed or interrupted through the engine.
    #[n(4)]
    Killed,
    /// The kernel killed it for want of memory.
    #[n(5)]
    Oom,
    /// It wrote more than it may.
    #[n(6)]
    OutputLimit,
    /// Its session was deleted or reset, or the session's shell went away under it.
    #[n(7)]
    SessionEnded,
    /// Its supervisor died, or the machine restarted; what it did last is not known.
    #[n(8)]
    Lost,
}

impl EndReason {
    /// The reason as the word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::Signaled => "signaled",
            Self::Timeout => "timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::Killed => "killed",
            Self::Oom => "oom",
            Self::OutputLimit => "output_limit",
            Self::SessionEnded => "session_ended",
            Self::Lost => "lost",
        }
    }
}

/// What an execution used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Usage {
    /// CPU time in user mode.
    #[n(0)]
    #[cbor(with = "wire::micros")]
    pub user: Duration,
    /// CPU time in the kernel.
    #[n(1)]
    #[cbor(with = "wire::micros")]
    pub system: Duration,
    /// The largest resident set of one process, in bytes.
    #[n(2)]
    pub max_rss_bytes: u64,
    /// From start to end.
    #[n(3)]
    #[cbor(with = "wire::micros")]
    pub wall: Duration,
}

/// A process that was still running when its command had returned.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Leftover {
    /// Its process id.
    #[n(0)]
    pub pid: u32,
    /// Its command line, arguments joined by spaces.
    #[n(1)]
    pub command: String,
}

/// The most leftovers that an [`End`] lists.
pub const MAX_LEFTOVERS: usize = 32;

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct End {
    /// Why.
    #[n(0)]
    pub reason: EndReason,
    /// The exit code: the program's own, 128 + n for a death by signal n, 124 for a timeout, 137 for too much output.
    /// `None` if it is not known.
    #[n(1)]
    pub exit_code: Option<i32>,
    /// The signal it died of.
    #[n(2)]
    pub signal: Option<i32>,
    /// What it used.
    #[n(3)]
    pub usage: Usage,
    /// What it left running; the first [`MAX_LEFTOVERS`] of them.
    #[n(4)]
    pub leftovers: Vec<Leftover>,
    /// Whether a session's shell ended with this command (`exit`, `exec`, `kill -9 $$`).
    #[n(5)]
    pub shell_ended: bool,
    /// Whether this command found a shell that had been restored since the command before it,
    /// and how old the restored state was.
    #[n(6)]
    #[cbor(with = "wire::optional_micros", has_nil)]
    pub restored: Option<Duration>,
    /// How many processes it left running.
    #[n(7)]
    pub leftover_count: u32,
    /// Where the restored state came from, if the shell was restored and this is known.
    #[n(8)]
    pub restored_from: Option<StateSource>,
}

/// Where the state of a session's new shell came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum StateSource {
    /// The shell before it, when it ended: everything it had done is in it.
    #[n(0)]
    Exit,
    /// The snapshot that was taken last, since the shell died without warning, or its supervisor did.
    #[n(1)]
    Snapshot,
}

/// One process that a kill ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Killed {
    /// Its process id.
    #[n(0)]
    pub pid: u32,
    /// Its command line, arguments joined by spaces.
    #[n(1)]
    pub command: String,
    /// The signal that ended it: the one asked for, or SIGKILL after the grace period.
    #[n(2)]
    pub signal: i32,
}

/// What a kill did: every process it ended, and every process it could not end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct KillReceipt {
    /// The processes that are gone.
    #[n(0)]
    pub killed: Vec<Killed>,
    /// Processes that are still there: of another user, or stuck in the kernel. Empty but for those.
    #[n(1)]
    pub survivors: Vec<Leftover>,
}
