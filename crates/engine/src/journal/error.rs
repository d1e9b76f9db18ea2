//! Errors of journals, by operation.

use std::io;

use rustix::io::Errno;

use super::format::{MAX_EVENT_BYTES, MAX_SPEC_BYTES, MIN_JOURNAL_BYTES, VERSION};

/// Why a journal cannot be opened, read or retired.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    /// The slot is free or contains another execution by now.
    #[error("the journal has been removed")]
    Retired,
    /// The slot's file has no valid header or no first record.
    #[error("the slot file does not contain a journal")]
    NotAJournal,
    /// The slot's file was written by another version.
    #[error("the journal has format version {0}, this program supports version {VERSION}")]
    Version(u16),
    /// A record could not be appended.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// A system call failed.
    #[error("cannot access the journal: {0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for JournalError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// Why an append failed. The journal stays valid, and a later append may succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppendError {
    /// Output was counted but not stored: readers get a gap.
    #[error("{bytes} bytes of output could not be recorded; free space in the state directory's file system")]
    Dropped {
        /// Number of bytes.
        bytes: u64,
        /// The error of the system call.
        source: io::Error,
    },
    /// The event is not in the journal.
    #[error("an event of kind {kind} could not be recorded; free space in the state directory's file system")]
    NotRecorded {
        /// The kind of the event.
        kind: u8,
        /// The error of the system call.
        source: io::Error,
    },
    /// The event has more bytes than [`MAX_EVENT_BYTES`].
    #[error("the event has {0} bytes, at most {MAX_EVENT_BYTES} are allowed")]
    TooLarge(usize),
    /// The kind belongs to output or to the first record.
    #[error("events of kind {0} cannot be appended")]
    BadKind(u8),
}

/// Why a journal could not be created. It left no files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// The bound is too small.
    #[error("the bound of the journal is {0} bytes, at least {MIN_JOURNAL_BYTES} are required")]
    BoundTooSmall(u64),
    /// The first record is too large.
    #[error("the description of the execution has {0} bytes, at most {MAX_SPEC_BYTES} are allowed")]
    SpecTooLarge(usize),
    /// The disk or the quota is full.
    #[error(
        "no space for a journal: free space in the state directory's file system, \
         remove finished executions, or keep fewer of them"
    )]
    NoSpace(#[source] io::Error),
    /// A system call failed.
    #[error("cannot create a journal")]
    Io(#[source] io::Error),
}

/// Whether the error means that the disk is full.
pub(super) fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT)
}

impl From<Errno> for ClaimError {
    fn from(errno: Errno) -> Self {
        if is_full(errno) { Self::NoSpace(errno.into()) } else { Self::Io(errno.into()) }
    }
}
