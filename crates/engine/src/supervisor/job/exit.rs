//! How the program of an execution ended.

use std::time::Duration;

use crate::shell::{CommandEnd, Done};
use crate::sys::Reaped;

/// How the program ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exit {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) max_rss_bytes: u64,
    /// Whether the session's shell ended with it.
    pub(crate) shell_ended: bool,
    /// Whether the kernel killed it because memory was exhausted.
    pub(crate) out_of_memory: bool,
    /// Whether its shell has reported that it has no children.
    pub(crate) is_childless: bool,
}

impl Exit {
    /// The end of a command as reported by its shell.
    pub(crate) fn of(done: &Done) -> Self {
        let used = done.usage.unwrap_or_default();
        Self {
            code: Some(done.status),
            signal: (done.how == CommandEnd::Signal).then_some(done.status - 128),
            user: used.user,
            system: used.system,
            max_rss_bytes: used.max_rss_bytes,
            shell_ended: done.how == CommandEnd::Exit,
            out_of_memory: false,
            is_childless: done.is_childless,
        }
    }

    /// Whether it was killed, or its exit code says that its child was.
    pub(crate) fn is_killed(&self) -> bool {
        self.signal == Some(libc::SIGKILL) || self.code == Some(128 + libc::SIGKILL)
    }

    /// Adds the resource usage of other processes of the command.
    pub(crate) fn add_usage(&mut self, other: &Self) {
        self.user += other.user;
        self.system += other.system;
        self.max_rss_bytes = self.max_rss_bytes.max(other.max_rss_bytes);
    }
}

impl From<&Reaped> for Exit {
    fn from(reaped: &Reaped) -> Self {
        Self {
            code: reaped.code,
            signal: reaped.signal,
            user: reaped.user,
            system: reaped.system,
            max_rss_bytes: reaped.max_rss_bytes,
            shell_ended: false,
            out_of_memory: false,
            is_childless: false,
        }
    }
}
