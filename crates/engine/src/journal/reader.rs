//! Reads a journal from a cursor.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::SystemTime;

use super::error::JournalError;
use super::format::{Position, REPEAT, Salt, Slot, Stream, kind};
use super::record::RecordHead;
use super::record_scanner::{Record, RecordScanner};
use super::seek::scan_totals;

/// An entry of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The cursor after it. Resuming from it may return events at exactly that position again.
    pub(crate) cursor_after: u64,
    /// Time of the record; for a gap, that of the record after it.
    pub(crate) time: SystemTime,
    /// The content.
    pub(crate) item: Item<'a>,
}

/// The content of an [`Entry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// Output.
    Output {
        /// Its stream.
        stream: Stream,
        /// The cursor of its first byte.
        position: u64,
        /// The offset of its first byte in its stream.
        stream_position: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// An event; see [`kind`].
    Event {
        /// Its kind. Unknown kinds are passed on.
        kind: u8,
        /// The payload, opaque to the journal.
        payload: &'a [u8],
    },
    /// Output that is not stored.
    Gap {
        /// The cursor of the first missing byte.
        from: u64,
        /// The cursor of the first byte after the gap.
        to: u64,
    },
}

/// What to return, before anything is borrowed for it.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The part of a record that begins after `skip` bytes of its payload and ends before `end`.
    Record {
        record: Record,
        skip: usize,
        end: usize,
    },
    Gap {
        from: u64,
        to: u64,
        time: SystemTime,
    },
}

/// A position in a journal. Never waits for the writer.
#[derive(Debug)]
pub(crate) struct JournalReader {
    pub(super) scanner: RecordScanner,
    pub(super) cursor: u64,
    /// The last sought cursor: events from there on are returned.
    pub(super) from: u64,
    /// A record that has been read and not completely returned.
    pub(super) pending: Option<Record>,
    /// Kinds of ends that have been returned, as bits.
    pub(super) seen: u64,
    /// The last returned size, or the one that was current at the sought cursor.
    pub(super) size: Option<RecordHead>,
    /// Position of a range read of one stream.
    pub(super) stream_place: Option<(Stream, u64)>,
}

/// The location of a journal, without an open file.
#[derive(Debug, Clone)]
pub(crate) struct JournalPlace {
    dir: Arc<OwnedFd>,
    slot: Slot,
    salt: Salt,
}

impl JournalPlace {
    /// Opens the journal at cursor 0, if the slot still contains it.
    pub(crate) fn open(&self) -> Result<JournalReader, JournalError> {
        JournalReader::open(Arc::clone(&self.dir), self.slot, &self.salt)
    }
}

fn bit(kind: u8) -> u64 {
    1_u64.checked_shl(kind.into()).unwrap_or(0)
}

impl JournalReader {
    /// Opens a journal at cursor 0, if the slot still contains it.
    pub(crate) fn open(dir: Arc<OwnedFd>, slot: Slot, salt: &Salt) -> Result<Self, JournalError> {
        let scanner = RecordScanner::open(dir, slot, Some(salt))?;
        Ok(Self { scanner, cursor: 0, from: 0, pending: None, seen: 0, size: None, stream_place: None })
    }

    /// The location, to open the journal again.
    pub(crate) fn place(&self) -> JournalPlace {
        let (dir, slot, salt) = self.scanner.place();
        JournalPlace { dir, slot, salt }
    }

    /// Size of a segment: the unit in which the writer drops output.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.scanner.layout().segment_bytes
    }

    /// The cursor: number of output bytes returned or skipped.
    pub(crate) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// The next entry of the journal. `None` if there is none yet; later calls return what is written later.
    ///
    /// The ends ([`kind::ENDED`], [`kind::CLOSED`]) are returned once, even if their segment was removed; then they
    /// may come after output that was written after them. The same applies to a size: after a gap, the one that was
    /// current at its end is returned.
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'_>>, JournalError> {
        self.next_within(usize::MAX)
    }

    /// Like [`next`](Self::next), but returns at most `limit` bytes of output. The next call returns the rest of the
    /// record.
    pub(crate) fn next_within(&mut self, limit: usize) -> Result<Option<Entry<'_>>, JournalError> {
        self.stream_place = None;
        let Some(step) = self.step(limit)? else {
            return Ok(None);
        };
        Ok(Some(match step {
            Step::Gap { from, to, time } => Entry { cursor_after: to, time, item: Item::Gap { from, to } },
            Step::Record { record, skip, end } => {
                let bytes = &self.scanner.payload(&record)[skip..end];
                let item = Stream::of_kind(record.head.kind).map_or(
                    Item::Event { kind: record.head.kind, payload: bytes },
                    |stream| Item::Output {
                        stream,
                        position: record.head.at.total() + skip as u64,
                        stream_position: record.head.at.of(stream) + skip as u64,
                        bytes,
                    },
                );
                Entry { cursor_after: self.cursor, time: record.head.time(), item }
            }
        }))
    }

    /// Frees read-ahead data. It is read again when needed.
    pub(crate) fn release(&mut self) {
        if let Some(record) = self.pending.take_if(|record| !record.in_block()) {
            self.scanner.put_back(&record);
        }
        self.scanner.release();
    }

    fn step(&mut self, limit: usize) -> Result<Option<Step>, JournalError> {
        loop {
            let record = match self.pending.take() {
                Some(record) => record,
                None => match self.scanner.record()? {
                    Some(record) => record,
                    None => match self.unseen_end_in_spare() {
                        Some(record) => record,
                        None => return Ok(None),
                    },
                },
            };
            let head = &record.head;
            let (at, end) = (head.at.total(), head.end().total());
            let is_output = Stream::of_kind(head.kind).is_some();
            let again = head.flags & REPEAT != 0;
            let passed = if is_output { end <= self.cursor } else { at < self.from };
            let known = again
                && match head.kind {
                    kind::SIZE => self.size.is_some_and(|known| known.is_repeated_by(head)),
                    kind => self.seen & bit(kind) != 0,
                };
            if head.kind == kind::SIZE {
                self.size = Some(*head);
            }
            if passed || known {
                continue;
            }
            if at > self.cursor && !again {
                let gap = Step::Gap { from: self.cursor, to: at, time: head.time() };
                self.cursor = at;
                self.pending = Some(record);
                return Ok(Some(gap));
            }
            if !is_output {
                if kind::is_end(head.kind) {
                    self.seen |= bit(head.kind);
                }
                return Ok(Some(Step::Record { record, skip: 0, end: head.len }));
            }
            let skip = usize::try_from(self.cursor - at).unwrap_or(usize::MAX);
            let end = skip.saturating_add(limit).min(head.len);
            self.cursor = at + end as u64;
            self.pending = (end < head.len).then_some(record);
            return Ok(Some(Step::Record { record, skip, end }));
        }
    }

    /// An end that was written on a full disk, after everything else has been read.
    fn unseen_end_in_spare(&self) -> Option<Record> {
        let (records, _) = self.scanner.spare();
        records
            .into_iter()
            .find(|record| self.seen & bit(record.head.kind) == 0 && record.head.at.total() >= self.from)
    }

    /// Starts over at a segment, to return everything from a cursor on.
    pub(super) fn restart(&mut self, cursor: u64) {
        (self.cursor, self.from, self.pending, self.seen) = (cursor, cursor, None, 0);
        self.size = None;
    }

    /// Lengths of both streams so far. Does not move the reader.
    pub(crate) fn totals(&self) -> Result<Position, JournalError> {
        scan_totals(self.scanner.reopen()?)
    }
}
