//! [`Tag`]: identifies the supervisor and the command of a process.

use std::fmt;
use std::io;

use rustix::process::Pid;

use crate::id;
use crate::procfs;
use crate::sys::{self, LimitValue, Resource};

const COUNTER_BITS: u32 = 20;
const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;
/// The last number of a command; see [`super::Tags`].
pub(super) const LAST_COMMAND: u64 = COUNTER_MASK;
const NONCE_MASK: u64 = (1 << 42) - 1;
/// Distinguishes a tag from a limit set by a user: as microseconds this is 146,000 years. Bit 63 stays clear, so a
/// tag never looks like "unlimited".
const MARKER: u64 = 1 << 62;

/// 42 random bits that identify a supervisor.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Nonce(u64);

impl Nonce {
    /// Creates a random one.
    pub(crate) fn random() -> Self {
        Self(u64::from_ne_bytes(id::random()) & NONCE_MASK)
    }

    /// The nonce with this value, if it is valid; for reading it from a record.
    pub(crate) fn from_value(value: u64) -> Option<Self> {
        (value <= NONCE_MASK).then_some(Self(value))
    }

    /// The value, for a record.
    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:011x}", self.0)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({self})")
    }
}

/// A supervisor's [`Nonce`] with the number of one of its commands, stored in the soft `RLIMIT_RTTIME` of the
/// command's processes.
///
/// Fork, exec, `setsid`, `nohup` and `env -i` keep it. It limits nothing: it applies only to processes with real-time
/// scheduling, and would allow those 146,000 years.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tag(u64);

impl Tag {
    /// The tag of a supervisor's command, whose number is at most [`LAST_COMMAND`].
    pub(crate) fn new(nonce: Nonce, command: u64) -> Self {
        Self(MARKER | nonce.0 << COUNTER_BITS | command & COUNTER_MASK)
    }

    fn decode(limit: u64) -> Option<Self> {
        (limit & !(MARKER - 1) == MARKER).then_some(Self(limit))
    }

    /// The supervisor's part.
    pub(crate) fn nonce(self) -> Nonce {
        Nonce(self.0 >> COUNTER_BITS & NONCE_MASK)
    }

    /// The command's part.
    pub(crate) fn command(self) -> u64 {
        self.0 & COUNTER_MASK
    }

    /// The limit that sets the tag of this process, or of one that it forks.
    pub(crate) fn limit_value(self) -> io::Result<LimitValue> {
        self.limit_value_for(None)
    }

    fn limit_value_for(self, pid: Option<Pid>) -> io::Result<LimitValue> {
        let (_, hard) = sys::limit(pid, Resource::RealTime)?;
        if hard < self.0 {
            // Raising it needs privileges, and it was lowered on purpose.
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the hard limit of real-time scheduling (ulimit -R) leaves no room for a tag",
            ));
        }
        Ok(LimitValue { resource: Resource::RealTime, soft: self.0, hard })
    }

    /// Sets the tag of a process; its children inherit it from now on.
    pub(crate) fn set_on(self, pid: Pid) -> io::Result<()> {
        let LimitValue { resource, soft, hard } = self.limit_value_for(Some(pid))?;
        sys::set_limit(Some(pid), resource, soft, hard)
    }

    /// The tag of a process, if it exists and has one.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let soft = match sys::limit(Some(pid), Resource::RealTime) {
            Ok((soft, _)) => soft,
            // Limits of another user's process can still be read from `/proc`.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let text = procfs::read_all(&format!("/proc/{pid}/limits")).ok()?;
                procfs::limit_in(&String::from_utf8_lossy(&text), Resource::RealTime)?.0
            }
            Err(_) => return None,
        };
        Self::decode(soft)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({}:{})", self.nonce(), self.command())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_holds_both_parts_and_is_no_ordinary_limit() {
        let nonce = Nonce::random();
        let tag = Tag::new(nonce, (1 << 20) + 7);
        assert_eq!((tag.nonce(), tag.command()), (nonce, 7));
        assert_eq!(Tag::decode(tag.0), Some(tag));
        for limit in [0, 1_000_000, MARKER - 1, u64::MAX, 1 << 63] {
            assert_eq!(Tag::decode(limit), None);
        }
        assert_eq!(Nonce::from_value(nonce.value()), Some(nonce));
        assert_eq!(Nonce::from_value(u64::MAX), None);
    }
}
