//! How an execution ends: [`End`], its [`EndReason`], and the [`KillReceipt`].

use std::time::Duration;

use minicbor::{Decode, Encode};

use crate::wire;

/// Reason for the end of an execution. Every execution has exactly one.
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
    /// The timeout expired.
    #[n(2)]
    Timeout,
    /// It wrote nothing for longer than the idle timeout.
    #[n(3)]
    IdleTimeout,
    /// It was killed or interrupted through the engine.
    #[n(4)]
    Killed,
    /// The kernel killed it because memory was exhausted.
    #[n(5)]
    Oom,
    /// It exceeded its output limit.
    #[n(6)]
    OutputLimit,
    /// Its session was deleted or reset, or the session's shell ended during the command.
    #[n(7)]
    SessionEnded,
    /// Its supervisor died, or the machine restarted; the outcome is unknown.
    #[n(8)]
    Lost,
}

impl EndReason {
    /// The name of the reason on the wire.
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

/// Resource usage of an execution.
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
    /// Largest resident set of one process, in bytes.
    #[n(2)]
    pub max_rss_bytes: u64,
    /// Wall time from start to end.
    #[n(3)]
    #[cbor(with = "wire::micros")]
    pub wall: Duration,
}

/// A process that still ran when its command had returned.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Leftover {
    /// Its process id.
    #[n(0)]
    pub pid: u32,
    /// Its command line, arguments joined by spaces.
    #[n(1)]
    pub command: String,
}

/// Maximum number of leftovers listed in an [`End`].
pub const MAX_LEFTOVERS: usize = 32;

/// The end of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct End {
    /// The reason.
    #[n(0)]
    pub reason: EndReason,
    /// The exit code: that of the program, 128 + n after death by signal n, 124 for a timeout, 137 for too much
    /// output. `None` if unknown.
    #[n(1)]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[n(2)]
    pub signal: Option<i32>,
    /// Resource usage.
    #[n(3)]
    pub usage: Usage,
    /// Processes left running; at most [`MAX_LEFTOVERS`].
    #[n(4)]
    pub leftovers: Vec<Leftover>,
    /// Whether a session's shell ended with this command (`exit`, `exec`, `kill -9 $$`).
    #[n(5)]
    pub shell_ended: bool,
    /// Age of the restored state, if the shell was restored between the previous command and this one.
    #[n(6)]
    #[cbor(with = "wire::optional_micros", has_nil)]
    pub restored: Option<Duration>,
    /// Number of processes left running.
    #[n(7)]
    pub leftover_count: u32,
    /// Source of the restored state, if the shell was restored and the source is known.
    #[n(8)]
    pub restored_from: Option<StateSource>,
}

/// Source of the state of a session's new shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum StateSource {
    /// The previous shell when it ended: the state is complete.
    #[n(0)]
    Exit,
    /// The last snapshot, because the shell or its supervisor died without warning.
    #[n(1)]
    Snapshot,
}

/// A process ended by a kill.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Killed {
    /// Its process id.
    #[n(0)]
    pub pid: u32,
    /// Its command line, arguments joined by spaces.
    #[n(1)]
    pub command: String,
    /// The signal that ended it: the requested one, or SIGKILL after the grace period.
    #[n(2)]
    pub signal: i32,
}

/// Result of a kill: every process it ended, and every process it could not end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct KillReceipt {
    /// The ended processes.
    #[n(0)]
    pub killed: Vec<Killed>,
    /// Processes that still run: of another user, or stuck in the kernel.
    #[n(1)]
    pub survivors: Vec<Leftover>,
}
