//! How an execution ends: [`End`], its [`EndReason`], and the [`KillReceipt`].

use std::time::Duration;

/// Why an execution ended. Every execution has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndReason {
    /// The program returned.
    Exited,
    /// The program died of a signal that the engine did not send.
    Signaled,
    /// The wall timeout passed.
    Timeout,
    /// It was silent for longer than the idle timeout.
    IdleTimeout,
    /// It was killed or interrupted through the engine.
    Killed,
    /// The kernel killed it for want of memory.
    Oom,
    /// It wrote more than it may.
    OutputLimit,
    /// Its session was deleted or reset, or the session's shell went away under it.
    SessionEnded,
    /// Its supervisor died, or the machine restarted; what it did last is not known.
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// The largest resident set of one process, in bytes.
    pub max_rss_bytes: u64,
    /// From start to end.
    pub wall: Duration,
}

/// A process that was still running when its command had returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its process id.
    pub pid: u32,
    /// Its command line, arguments joined by spaces.
    pub command: String,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Why.
    pub reason: EndReason,
    /// The exit code: the program's own, 128 + n for a death by signal n, 124 for a timeout.
    /// `None` if it is not known.
    pub exit_code: Option<i32>,
    /// The signal it died of.
    pub signal: Option<i32>,
    /// What it used.
    pub usage: Usage,
    /// What it left running.
    pub leftovers: Vec<Leftover>,
    /// Whether a session's shell ended with this command (`exit`, `exec`, `kill -9 $$`).
    pub shell_ended: bool,
    /// Whether this command found a shell that had been restored since the command before it,
    /// and how old the restored state was.
    pub restored: Option<Duration>,
}

/// One process that a kill ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Killed {
    /// Its process id.
    pub pid: u32,
    /// Its command line, arguments joined by spaces.
    pub command: String,
    /// The signal that ended it: the one asked for, or SIGKILL after the grace period.
    pub signal: i32,
}

/// What a kill did: every process it ended, and every process it could not end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KillReceipt {
    /// The processes that are gone.
    pub killed: Vec<Killed>,
    /// Processes that are still there: of another user, or stuck in the kernel. Empty but for those.
    pub survivors: Vec<Leftover>,
}
