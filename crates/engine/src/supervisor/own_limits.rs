//! Resource limits of this process and its shells, which a command of the same user can change with `prlimit`.
//!
//! A soft limit can be restored. Only a process with `CAP_SYS_RESOURCE` can raise a lowered hard limit. A process
//! with a lowered hard limit does no further work: a shell is replaced by this process, a supervisor by its zygote, a
//! zygote by its engine.

use std::io;

use rustix::process::Pid;

use crate::procfs;
use crate::sys::{self, LimitValue, Resource};

/// The limits that a supervisor needs for its work.
const NEEDED: [Resource; 4] =
    [Resource::OpenFiles, Resource::FileSize, Resource::Processes, Resource::AddressSpace];

/// Number of descriptors needed to inspect and signal a process, with a reserve.
const DESCRIPTORS_TO_KILL: usize = 8;

/// The expected limits of a process.
#[derive(Debug, Clone)]
pub(super) struct OwnLimits(Vec<LimitValue>);

impl OwnLimits {
    /// The current limits of this process.
    pub(super) fn now() -> Self {
        let value = |resource| {
            let (soft, hard) = sys::limit(None, resource).ok()?;
            Some(LimitValue { resource, soft, hard })
        };
        Self(Resource::ALL.into_iter().filter_map(value).collect())
    }

    /// The same, with these replaced.
    pub(super) fn with(mut self, others: &[LimitValue]) -> Self {
        for limit in &mut self.0 {
            if let Some(other) = others.iter().find(|other| other.resource == limit.resource) {
                *limit = *other;
            }
        }
        self
    }

    /// Restores the file size limit, without which nothing can be recorded. Cheap enough to be called before each
    /// record. Returns whether the limit is correct.
    pub(super) fn restore_file_size(&self) -> bool {
        self.restore_some(|resource| resource == Resource::FileSize)
    }

    /// Whether files and processes can be opened, after the limit was restored as far as possible.
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

    /// Restores the limits that a supervisor needs. Returns whether they are correct.
    pub(super) fn restore_needed(&self) -> bool {
        self.restore_some(|resource| NEEDED.contains(&resource))
    }

    fn restore_some(&self, is_meant: impl Fn(Resource) -> bool) -> bool {
        let restored = |limit: &&LimitValue| restore(None, limit).unwrap_or(true) || restore_soft(limit);
        // All of them, also after one that cannot be restored.
        self.0.iter().filter(|limit| is_meant(limit.resource)).filter(|limit| !restored(limit)).count() == 0
    }

    /// Restores all limits of this process. Returns whether all are correct, so that its children inherit them.
    pub(super) fn restore_all(&self) -> bool {
        self.0.iter().filter(|limit| !restore(None, limit).unwrap_or(true)).count() == 0
    }

    /// Restores all limits of a child that has not been reaped. Returns whether all are correct.
    pub(super) fn restore_on(&self, pid: Pid) -> bool {
        match self.0.iter().map(|limit| restore(Some(pid), limit)).collect::<io::Result<Vec<_>>>() {
            Ok(restored) => restored.into_iter().all(|is_restored| is_restored),
            // Limits of another user's process can be read but not set.
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

/// Restores a limit. Returns whether it is correct; an error if it cannot be read.
fn restore(pid: Option<Pid>, &LimitValue { resource, soft, hard }: &LimitValue) -> io::Result<bool> {
    let is_same = sys::limit(pid, resource)? == (soft, hard);
    Ok(is_same || sys::set_limit(pid, resource, soft, hard).is_ok())
}

/// Restores a soft limit of this process as far as the lowered hard limit allows.
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
