//! The byte-exact, ordered, bounded record of an execution, on disk.
//!
//! A journal is written by one [`JournalWriter`] (in a supervisor) and read by any number of [`JournalReader`]s (in
//! the engine). They never wait for each other: a record becomes visible to readers when its checksum matches.
//! [`JournalStore`] allocates the slots of journals, finds them after a restart and releases them. The format is
//! described in `docs/design/journal-format.md`.
//!
//! | file | content |
//! |---|---|
//! | `format.rs`, `record.rs` | sizes, headers, records, checksums |
//! | `files.rs` | names, and reading and writing at offsets |
//! | `record_scanner.rs`, `buffer.rs` | the records of a journal in order, across its segments |
//! | `writer.rs`, `writer/size_limit.rs` | appending, the bound, behaviour on a full disk |
//! | `reader.rs`, `seek.rs` | cursors, gaps, tails, ranges of one stream |
//! | `store.rs`, `inspect.rs` | claiming and retiring slots, and their content on start |
//! | `retention.rs`, `usage.rs` | removal of finished journals, and their size on disk |
//!
//! # Limits
//!
//! Nothing is synced: a journal survives the death of every process, but after a power failure it ends where the
//! kernel had written to. A checksum does not protect against a writer of the same user that reads the salt from the
//! file.

mod buffer;
mod error;
mod files;
mod format;
mod free;
mod inspect;
mod reader;
mod record;
mod record_scanner;
mod retention;
mod seek;
mod store;
mod usage;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use error::{ClaimError, JournalError};
pub use format::MIN_JOURNAL_BYTES;
pub(crate) use format::{DEFAULT_JOURNAL_BYTES, Position, Salt, Slot, Stream, kind};
pub(crate) use free::{Opening, Retiring};
pub(crate) use inspect::JournalSummary;
pub(crate) use reader::{Item, JournalPlace, JournalReader};
pub(crate) use retention::{Decision, Excess, Expired, Finished, FinishedRecord, Retention};
pub(crate) use seek::StreamRead;
pub(crate) use store::{JournalSlot, JournalStore};
pub(crate) use usage::{disk_bytes, is_short_of_space, modified_at};
pub(crate) use writer::{JournalWriter, NewJournal, NewJournalKey};
