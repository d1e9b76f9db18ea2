//! What can go wrong with a journal, by operation.

use std::io;

use rustix::io::Errno;

use super::format::{MAX_EVENT_BYTES, MAX_SPEC_BYTES, MIN_JOURNAL_BYTES, VERSION};

/// Why a journal cannot be opened, read or retired.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    /// The slot is free or holds another execution by now.
    #[error("the journal has been removed")]
    Retired,
    /// The slot's file has no valid header or no first record.
    #[error("the slot's file holds no journal")]
    NotAJournal,
    /// The slot's file was written by another version.
    #[error("the journal has format version {0}, this program knows version {VERSION}")]
    Version(u16),
    /// A record could not be appended.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The file system failed.
    #[error("cannot access the journal: {0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for JournalError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// Why something is not in the journal that was appended. The journal itself stays valid, and a later
/// append may work again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppendError {
    /// Output was counted but not kept: readers get a gap.
    #[error("{bytes} bytes of output could not be recorded; free space in the state directory's file system")]
    Dropped {
        /// How many bytes.
        bytes: u64,
        /// What the file system said.
        source: io::Error,
    },
    /// The event is not in the journal.
    #[error("an event of kind {kind} could not be recorded; free space in the state directory's file system")]
    NotRecorded {
        /// The kind of the event.
        kind: u8,
        /// What the file system said.
        source: io::Error,
    },
    /// The event has more bytes than [`MAX_EVENT_BYTES`].
    #[error("an event may have {MAX_EVENT_BYTES} bytes at most, this one has {0}")]
    TooLarge(usize),
    /// The kind belongs to output or to the first record.
    #[error("events of kind {0} cannot be appended")]
    BadKind(u8),
}

/// Why there is no journal for a new execution. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// The bound is too small to keep anything useful.
    #[error("a journal needs a bound of {MIN_JOURNAL_BYTES} bytes at least, {0} were asked for")]
    BoundTooSmall(u64),
    /// The first record is too large.
    #[error("the description of an execution may have {MAX_SPEC_BYTES} bytes at most, this one has {0}")]
    SpecTooLarge(usize),
    /// The disk or the quota is full.
    #[error(
        "no space for a journal: free space in the state directory's file system, \
         remove finished executions, or keep fewer of them"
    )]
    NoSpace(#[source] io::Error),
    /// The file system failed.
    #[error("cannot create a journal")]
    Io(#[source] io::Error),
}

/// Whether the error means that there is no room.
pub(super) fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT)
}

impl From<Errno> for ClaimError {
    fn from(errno: Errno) -> Self {
        if is_full(errno) { Self::NoSpace(errno.into()) } else { Self::Io(errno.into()) }
    }
}
