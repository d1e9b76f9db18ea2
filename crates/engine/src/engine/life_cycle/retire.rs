//! Retires the journals of removed records, and tries again later if the disk or the kernel refuses it.

use std::collections::VecDeque;
use std::convert::identity;
use std::io;
use std::sync::Mutex;

use crate::engine::link::lock;
use crate::engine::{ControlError, Inner};
use crate::journal::{JournalError, JournalSlot, Retiring};
use crate::layout::{ScreenFile, SnapshotFile};

/// Maximum number of journals that could not be retired, and how many a clean-up tries again.
const MAX_UNRETIRED: usize = 1 << 16;
const RETRIED_AT_ONCE: usize = 64;

/// Journals without a record in memory that could not be retired. If the engine closes before, the next one finds them.
#[derive(Debug, Default)]
pub(in crate::engine) struct Unretired(Mutex<VecDeque<JournalSlot>>);

impl Inner {
    /// Retires a journal. If that fails, clean-ups try it again.
    pub(in crate::engine) fn retire(&self, journal: JournalSlot) {
        self.retire_with(journal, || ());
    }

    /// The same, with other files of its slot.
    pub(in crate::engine) fn retire_with(&self, journal: JournalSlot, remove_others: impl FnOnce()) {
        if let Err(e) = self.try_retire(journal, remove_others) {
            tracing::warn!(slot = journal.slot.0, error = %e, "could not remove a record; clean-ups try again");
            self.retire_later(journal);
        }
    }

    /// Has clean-ups retire a journal that has no record in memory.
    pub(super) fn retire_later(&self, journal: JournalSlot) {
        let mut unretired = lock(&self.unretired.0);
        if unretired.len() < MAX_UNRETIRED {
            unretired.push_back(journal);
        }
    }

    /// Retires a journal without holding the lock of the store during the work. Other files of its slot are removed
    /// before the slot is free, and stay if this fails.
    pub(in crate::engine) fn try_retire(
        &self,
        journal: JournalSlot,
        remove_others: impl FnOnce(),
    ) -> Result<(), JournalError> {
        self.try_retire_as(journal, identity, remove_others)
    }

    /// The same, with a choice of what stays on the disk.
    pub(super) fn try_retire_as(
        &self,
        journal: JournalSlot,
        choose: fn(Retiring) -> Retiring,
        remove_others: impl FnOnce(),
    ) -> Result<(), JournalError> {
        // If there is none, another task does it.
        let Some(retiring) = lock(&self.store).begin_retiring(journal) else { return Ok(()) };
        let worked = choose(retiring).work(&journal);
        if worked.is_ok() {
            remove_others();
        }
        let (retired, result) = match worked {
            Ok(retired) => (retired, Ok(())),
            Err(JournalError::Retired) => (None, Ok(())),
            Err(e) => (None, Err(e)),
        };
        lock(&self.store).end_retiring(journal, retired);
        result
    }

    /// Tries again to retire some journals for which that has failed.
    pub(super) fn retry_unretired(&self) {
        let some: Vec<_> = {
            let mut unretired = lock(&self.unretired.0);
            let count = unretired.len().min(RETRIED_AT_ONCE);
            unretired.drain(..count).collect()
        };
        for journal in some {
            // The other files of a session or a terminal, if it was one.
            let others = || {
                ScreenFile::remove(&self.state.folders.screens, journal.slot.0);
                SnapshotFile::remove(&self.state.folders.snapshots, journal.slot.0);
            };
            if self.try_retire(journal, others).is_err() {
                self.retire_later(journal);
            }
        }
    }
}

/// The error for a client whose record could not be removed.
pub(super) fn not_removed(error: JournalError) -> ControlError {
    ControlError::Os { doing: "remove the record".into(), source: cause_of(error) }
}

/// The error of the system call.
pub(in crate::engine) fn cause_of(error: JournalError) -> io::Error {
    match error {
        JournalError::Io(source) => source,
        other => io::Error::other(other),
    }
}
