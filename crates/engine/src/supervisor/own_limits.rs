//! Resource limits of this process and of the shells it keeps, which a command of the same user can change with `prlimit`.
//!
//! A soft limit can be put back. A hard limit that was lowered can be raised by a process with `CAP_SYS_RESOURCE` only; what
//! has such a limit does no further work: a shell is replaced by this process, a supervisor by its zygote, a zygote by its
//! engine.

use std::io;

use rustix::process::Pid;

use crate::procfs;
use crate::sys::{self, LimitValue, Resource};

/// The limits without which a supervisor cannot do its work.
const NEEDED: [Resource; 4] =
    [Resource::OpenFiles, Resource::FileSize, Resource::Processes, Resource::AddressSpace];

/// How many descriptors looking at a process and signalling it takes, and a few more.
const DESCRIPTORS_TO_KILL: usize = 8;

/// The limits that a process is to have.
#[derive(Debug, Clone)]
pub(super) struct OwnLimits(Vec<LimitValue>);

impl OwnLimits {
    /// Those that this process has.
    pub(super) fn now() -> Self {
        let value = |resource| {
            let (soft, hard) = sys::limit(None, resource).ok()?;
            Some(LimitValue { resource, soft, hard })
        };
        Self(Resource::ALL.into_iter().filter_map(value).collect())
    }

    /// The same, but for these.
    pub(super) fn with(mut self, others: &[LimitValue]) -> Self {
        for limit in &mut self.0 {
            if let Some(other) = others.iter().find(|other| other.resource == limit.resource) {
                *limit = *other;
            }
        }
        self
    }

    /// Puts back the limit without which nothing can be recorded; cheap enough to be asked before each record. Says whether
    /// the limit is as it was.
    pub(super) fn restore_file_size(&self) -> bool {
        self.restore_some(|resource| resource == Resource::FileSize)
    }

    /// Whether files and processes can be opened, after the limit of that was put back as far as possible.
    pub(super) fn can_open_files(&self) -> bool {
        if self.restore_some(|resource| resource == Resource::OpenFiles) {
            return true;
        }
        if let Ok((_, hard)) = sys::limit(None, Resource::OpenFiles) {
            drop(sys::set_limit(None, Resource::OpenFiles, hard, hard));
        }
        let copy = |_| rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 0);
        (0..DESCRIPTORS_TO_KILL).map(copy).collect::<Result<Vec<_>, _>>().is_ok()
    }

    /// Puts back what a supervisor needs for itself. Says whether it has that.
    pub(super) fn restore_needed(&self) -> bool {
        self.restore_some(|resource| NEEDED.contains(&resource))
    }

    fn restore_some(&self, is_meant: impl Fn(Resource) -> bool) -> bool {
        let restored = |limit: &&LimitValue| restore(None, limit).unwrap_or(true) || restore_soft(limit);
        // Each of them, also behind one that cannot be put back.
        self.0.iter().filter(|limit| is_meant(limit.resource)).filter(|limit| !restored(limit)).count() == 0
    }

    /// Puts back all limits of this process. Says whether all are as they were, so that what it starts has them too.
    pub(super) fn restore_all(&self) -> bool {
        self.0.iter().filter(|limit| !restore(None, limit).unwrap_or(true)).count() == 0
    }

    /// Puts back all limits of a child that has not been reaped. Says whether all are as they are to be.
    pub(super) fn restore_on(&self, pid: Pid) -> bool {
        match self.0.iter().map(|limit| restore(Some(pid), limit)).collect::<io::Result<Vec<_>>>() {
            Ok(restored) => restored.into_iter().all(|is_restored| is_restored),
            // Another user's: they can be read, and not set.
            Err(_) => self.has_all(pid).unwrap_or(false),
        }
    }

    fn has_all(&self, pid: Pid) -> io::Result<bool> {
        let text = procfs::read_all(&format!("/proc/{pid}/limits"))?;
        let text = String::from_utf8_lossy(&text);
        let is_there =
            |limit: &LimitValue| procfs::limit_in(&text, limit.resource) == Some((limit.soft, limit.hard));
        Ok(self.0.iter().all(is_there))
    }
}

/// Puts a limit back; whether it is as it was. An error if it cannot be read.
fn restore(pid: Option<Pid>, &LimitValue { resource, soft, hard }: &LimitValue) -> io::Result<bool> {
    let is_same = sys::limit(pid, resource)? == (soft, hard);
    Ok(is_same || sys::set_limit(pid, resource, soft, hard).is_ok())
}

/// Puts a soft limit of this process back where the hard limit, though lowered, allows it.
fn restore_soft(&LimitValue { resource, soft, .. }: &LimitValue) -> bool {
    sys::limit(None, resource)
        .is_ok_and(|(_, hard)| hard >= soft && sys::set_limit(None, resource, soft, hard).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_were_changed_are_put_back() {
        let own = OwnLimits::now();
        let (soft, hard) = sys::limit(None, Resource::OpenFiles).unwrap();
        let stack = sys::limit(None, Resource::Stack).unwrap();
        sys::set_limit(None, Resource::OpenFiles, 8, hard).unwrap();
        sys::set_limit(None, Resource::Stack, 1 << 20, stack.1).unwrap();
        assert!(own.restore_needed());
        assert_eq!(sys::limit(None, Resource::OpenFiles).unwrap(), (soft, hard));
        assert!(own.restore_all());
        assert_eq!(sys::limit(None, Resource::Stack).unwrap(), stack);
    }

    #[test]
    fn limits_of_another_process_are_put_back() {
        let own = OwnLimits::now();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let before = sys::limit(Some(pid), Resource::OpenFiles).unwrap();
        assert!(own.restore_on(pid) && own.has_all(pid).unwrap());
        sys::set_limit(Some(pid), Resource::OpenFiles, 8, before.1).unwrap();
        assert!(!own.has_all(pid).unwrap());
        assert!(own.restore_on(pid));
        let after = sys::limit(Some(pid), Resource::OpenFiles).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(after, before);
        assert!(!own.restore_on(pid), "there is no such process");
    }
}
