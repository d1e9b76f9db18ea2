//! A supervisor's own resource limits, which a command of the same user can change with `prlimit`.

use crate::sys::{self, LimitValue, Resource};

/// The limits without which a supervisor cannot do its work.
const NEEDED: [Resource; 4] =
    [Resource::OpenFiles, Resource::FileSize, Resource::Processes, Resource::AddressSpace];

/// The limits that a supervisor started with.
#[derive(Debug)]
pub(super) struct OwnLimits(Vec<LimitValue>);

impl OwnLimits {
    pub(super) fn now() -> Self {
        let value = |resource| {
            let (soft, hard) = sys::limit(None, resource).ok()?;
            Some(LimitValue { resource, soft, hard })
        };
        Self(NEEDED.into_iter().filter_map(value).collect())
    }

    /// Puts back the limit without which nothing can be recorded; cheap enough to be asked before each record.
    pub(super) fn restore_file_size(&self) {
        self.0.iter().filter(|limit| limit.resource == Resource::FileSize).for_each(|limit| {
            restore(limit);
        });
    }

    /// Puts back what has changed. Says whether all are as they were: raising a hard limit takes privileges.
    pub(super) fn restore(&self) -> bool {
        // Each of them, also behind one that cannot be put back.
        self.0.iter().filter(|limit| !restore(limit)).count() == 0
    }
}

fn restore(&LimitValue { resource, soft, hard }: &LimitValue) -> bool {
    let Ok((soft_now, hard_now)) = sys::limit(None, resource) else { return true };
    (soft_now == soft && hard_now == hard)
        || sys::set_limit(None, resource, soft, hard).is_ok()
        || (hard_now >= soft && sys::set_limit(None, resource, soft, hard_now).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_were_changed_are_put_back() {
        let own = OwnLimits::now();
        let (soft, hard) = sys::limit(None, Resource::OpenFiles).unwrap();
        sys::set_limit(None, Resource::OpenFiles, 8, hard).unwrap();
        assert!(own.restore());
        assert_eq!(sys::limit(None, Resource::OpenFiles).unwrap(), (soft, hard));
        assert!(own.restore());
    }
}
