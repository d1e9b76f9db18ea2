//! Appends to a journal, within its bound, on a disk that may be full.

mod size_limit;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use minicbor::{Decode, Encode};
use rustix::fs::{OFlags, fstat, ftruncate};
use rustix::io::Errno;

use super::error::{AppendError, JournalError};
use super::files::{open_segment, write_all_at};
use super::format::{
    HEADER_BYTES, Header, Layout, MAX_EVENT_BYTES, MAX_OUTPUT_BYTES, MAX_SIZE_BYTES, Position,
    RECORD_HEAD_BYTES, REPEAT, SPARE_AT, Salt, Slot, Stream, kind,
};
use super::reader::JournalReader;
use super::record::{RecordHead, Seal, now_nanos};
use super::record_scanner::RecordScanner;

/// Output is not split to fill less than this at the end of a segment.
const SMALLEST_PIECE: u64 = 4 << 10;

/// An end or a size that is repeated at the beginning of later segments.
#[derive(Debug)]
struct RepeatedRecord {
    head: RecordHead,
    payload: Vec<u8>,
}

/// The current segment of the writer.
#[derive(Debug)]
struct Segment {
    index: u64,
    /// `None` for the first, which is always open.
    file: Option<OwnedFd>,
    seal: Seal,
    /// Offset of the next record.
    offset: u64,
    /// Maximum size of the segment.
    limit: u64,
}

/// A journal that was just claimed, open for its writer, which need not open and read it.
#[derive(Debug)]
pub(crate) struct NewJournal {
    pub(crate) file: OwnedFd,
    pub(crate) key: NewJournalKey,
    /// Its size on disk, if its command has neither output nor leftovers; `None` if that is not known.
    pub(crate) silent_bytes: Option<u64>,
}

/// The beginning of a new journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct NewJournalKey {
    #[n(0)]
    pub(super) salt: Salt,
    #[n(1)]
    pub(super) bound: u64,
    /// Size of the first record.
    #[n(2)]
    pub(super) first_record: u64,
    /// The inode number of its file.
    #[n(3)]
    pub(super) inode: u64,
}

impl NewJournalKey {
    /// Whether a file is the one that this belongs to.
    pub(crate) fn is_of(&self, file: &OwnedFd) -> bool {
        fstat(file).is_ok_and(|stat| stat.st_ino == self.inode)
    }
}

/// The only writer of a journal.
///
/// It blocks, uses no threads and does not sync. A record is written with one system call. The writer advances only
/// after success, so the rest of a failed write is overwritten.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    dir: Arc<OwnedFd>,
    slot: Slot,
    salt: Salt,
    bound: u64,
    layout: Layout,
    first: OwnedFd,
    segment: Segment,
    /// The oldest segment outside the head.
    oldest: u64,
    /// Number of output bytes in each segment from `oldest` on, as far as this writer wrote them.
    recorded: VecDeque<u64>,
    /// Start positions of the segments from `oldest` on.
    starts: VecDeque<u64>,
    /// Position of a reader that must not lose anything.
    floor: Option<u64>,
    /// Position before which output may be dropped, if not all of it may.
    covered: Option<u64>,
    position: Position,
    dropped: u64,
    sticky: Vec<RepeatedRecord>,
    /// Offset of the next record in the header's reserve.
    spare: usize,
}

impl JournalWriter {
    /// Begins to write a journal that contains only its first record.
    pub(crate) fn begin(dir: &Arc<OwnedFd>, slot: Slot, journal: NewJournal) -> Self {
        let NewJournal { file: first, key: NewJournalKey { salt, bound, first_record, .. }, .. } = journal;
        let layout = Layout::new(bound);
        let segment = Segment {
            index: 0,
            file: None,
            seal: Seal::new(&salt, 0),
            offset: HEADER_BYTES as u64 + first_record,
            limit: layout.segment_bytes + first_record,
        };
        let mut writer = Self {
            dir: Arc::clone(dir),
            slot,
            salt,
            bound,
            layout,
            first,
            segment,
            oldest: layout.head_segments,
            recorded: VecDeque::new(),
            starts: VecDeque::new(),
            floor: None,
            covered: None,
            position: Position::default(),
            dropped: 0,
            sticky: Vec::new(),
            spare: SPARE_AT,
        };
        writer.recorded.resize(writer.tail_segments(), 0);
        writer.starts.resize(writer.tail_segments(), 0);
        writer
    }

    /// Opens a claimed slot and continues after its last valid record.
    pub(crate) fn open(dir: &Arc<OwnedFd>, slot: Slot) -> Result<Self, JournalError> {
        let dir = Arc::clone(dir);
        let mut scanner = RecordScanner::open_to_write(Arc::clone(&dir), slot)?;
        let Header { salt, bound, .. } = *scanner.header();
        let layout = scanner.layout();
        let range = scanner.range_as_opened()?;
        let first_record = scanner.record_in_segment()?.filter(|record| record.head.kind == kind::SPEC);
        let spec_bytes = first_record.ok_or(JournalError::NotAJournal)?.head.len + RECORD_HEAD_BYTES;
        if range.newest > 0 {
            scanner.go_to_newest()?;
        }
        let mut position = scanner.header().start;
        let mut sticky = Vec::new();
        let mut spare_position = Position::default();
        let (spare_records, spare) = scanner.spare();
        for record in spare_records {
            spare_position = record.head.at;
            remember(&mut sticky, record.head, scanner.payload(&record));
        }
        while let Some(record) = scanner.record_in_segment()? {
            if record.head.flags & REPEAT == 0 {
                position = record.head.end();
            }
            if kind::is_sticky(record.head.kind) {
                remember(&mut sticky, record.head, scanner.payload(&record));
            }
        }
        // Bytes that were dropped before an end in the reserve are known only from there.
        if spare_position.total() > position.total() {
            position = spare_position;
        }
        let (index, offset) = (scanner.header().segment, scanner.offset());
        let first = scanner.into_first();
        let file = match index {
            0 => None,
            _ => Some(open_segment(dir.as_fd(), slot, index, OFlags::RDWR)?),
        };
        let extra = if index == 0 { spec_bytes as u64 } else { 0 };
        let mut writer = Self {
            segment: Segment {
                index,
                file,
                seal: Seal::new(&salt, index),
                offset,
                limit: layout.segment_bytes + extra,
            },
            oldest: range.oldest.max(layout.head_segments),
            recorded: VecDeque::new(),
            starts: VecDeque::new(),
            floor: None,
            covered: None,
            dropped: 0,
            dir,
            slot,
            salt,
            bound,
            layout,
            first,
            position,
            sticky,
            spare,
        };
        writer.recorded.resize(writer.tail_segments(), 0);
        // The start of others is unknown, but it is before this.
        writer.starts.resize(writer.tail_segments(), position.total());
        if index != range.newest {
            writer.write_range(index)?;
        }
        Ok(writer)
    }

    /// Truncates the journal after the last valid record. Only for the journal of a dead writer, where a power
    /// failure may have left complete records after a torn one.
    pub(super) fn cut_tail(&mut self) -> Result<(), JournalError> {
        Ok(ftruncate(self.file(), self.segment.offset)?)
    }

    /// The cursor at the end: both streams together.
    pub(crate) fn position(&self) -> u64 {
        self.position.total()
    }

    /// Lengths of both streams.
    pub(crate) fn lengths(&self) -> Position {
        self.position
    }

    /// Skips output that another writer could not append; readers get a gap.
    pub(super) fn skip_to(&mut self, position: Position) {
        if position.total() > self.position.total() {
            self.position = position;
        }
    }

    /// Keeps the output after a reader's position, and about a third of the tail before it, which may be in transit
    /// to the reader. `None` keeps nothing.
    pub(crate) fn keep_from(&mut self, floor: Option<u64>) {
        self.floor = floor;
    }

    /// Keeps the output after this position, which no saved screen covers. `None` keeps nothing.
    pub(crate) fn keep_uncovered(&mut self, covered: Option<u64>) {
        self.covered = covered;
    }

    /// Maximum size of the part of the journal that is not its head, in bytes.
    pub(crate) fn tail_bytes(&self) -> u64 {
        self.layout.max_segments.saturating_sub(self.layout.head_segments) * self.layout.segment_bytes
    }

    pub(crate) fn salt(&self) -> Salt {
        self.salt
    }

    /// A reader of this journal, at cursor 0.
    pub(crate) fn reader(&self) -> Result<JournalReader, JournalError> {
        JournalReader::open(Arc::clone(&self.dir), self.slot, &self.salt)
    }

    /// Number of bytes of output that can be appended now, in one record, within the bound and without dropping
    /// protected output.
    pub(crate) fn room_above_floor(&self) -> u64 {
        if self.room() >= SMALLEST_PIECE {
            return self.room().min(MAX_OUTPUT_BYTES as u64);
        }
        let repeats = 2 * (RECORD_HEAD_BYTES + MAX_EVENT_BYTES) + RECORD_HEAD_BYTES + MAX_SIZE_BYTES;
        let overhead = (HEADER_BYTES + RECORD_HEAD_BYTES + repeats) as u64;
        if self.is_within_bound() || self.may_drop_oldest() {
            (self.layout.segment_bytes - overhead).min(MAX_OUTPUT_BYTES as u64)
        } else {
            0
        }
    }

    /// Number of output bytes given to this writer that are not in the journal (any more).
    #[cfg(test)]
    pub(crate) fn dropped_bytes(&self) -> u64 {
        self.dropped
    }

    /// Appends output. Output that cannot be written is counted and dropped: readers get a gap.
    pub(crate) fn append_output(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), AppendError> {
        let nanos = now_nanos();
        let mut left = bytes;
        while !left.is_empty() {
            match self.append_piece(stream, left, nanos) {
                Ok(written) => left = &left[written..],
                Err(errno) => {
                    let bytes = left.len() as u64;
                    self.skip(stream, left.len());
                    return Err(AppendError::Dropped { bytes, source: errno.into() });
                }
            }
        }
        Ok(())
    }

    /// Appends output as far as possible. Returns the number of bytes that are in the journal.
    pub(crate) fn append_some(&mut self, stream: Stream, bytes: &[u8]) -> usize {
        let nanos = now_nanos();
        let mut done = 0;
        while done < bytes.len()
            && let Ok(written) = self.append_piece(stream, &bytes[done..], nanos)
        {
            done += written;
        }
        done
    }

    /// Counts output that is not appended: readers get a gap.
    pub(crate) fn skip(&mut self, stream: Stream, bytes: usize) {
        self.position = self.position.plus(stream, bytes as u64);
        self.dropped += bytes as u64;
    }

    fn append_piece(&mut self, stream: Stream, bytes: &[u8], nanos: u64) -> Result<usize, Errno> {
        self.making_room(|writer| {
            let needed = (bytes.len() as u64).min(SMALLEST_PIECE);
            if writer.room() < needed {
                writer.roll()?;
            }
            let room = usize::try_from(writer.room()).unwrap_or(usize::MAX);
            let piece = &bytes[..bytes.len().min(MAX_OUTPUT_BYTES).min(room)];
            let head = writer.head(stream.kind(), piece, nanos);
            writer.write(head, piece)?;
            let written = piece.len() as u64;
            writer.position = writer.position.plus(stream, written);
            if let Some(recorded) = writer.recorded.back_mut() {
                *recorded += written;
            }
            Ok(piece.len())
        })
    }

    /// Appends an event. [`kind::ENDED`] and [`kind::CLOSED`] have a reserve in the first segment's header, so that a
    /// short one can be recorded on a full disk.
    pub(crate) fn append_event(&mut self, kind: u8, payload: &[u8]) -> Result<(), AppendError> {
        if kind <= kind::SPEC {
            return Err(AppendError::BadKind(kind));
        }
        if payload.len() > if kind == kind::SIZE { MAX_SIZE_BYTES } else { MAX_EVENT_BYTES } {
            return Err(AppendError::TooLarge(payload.len()));
        }
        let head = self.head(kind, payload, now_nanos());
        let written = self.making_room(|writer| {
            if writer.room() < payload.len() as u64 {
                writer.roll()?;
            }
            writer.write(head, payload)
        });
        if let Err(errno) = written
            && !(kind::is_end(kind) && self.write_to_spare(head, payload))
        {
            return Err(AppendError::NotRecorded { kind, source: errno.into() });
        }
        if kind::is_sticky(kind) {
            remember(&mut self.sticky, head, payload);
        }
        Ok(())
    }

    fn head(&self, kind: u8, payload: &[u8], nanos: u64) -> RecordHead {
        RecordHead { len: payload.len(), kind, flags: 0, nanos, at: self.position }
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.segment.file.as_ref().unwrap_or(&self.first).as_fd()
    }

    /// Maximum payload that fits into this segment.
    fn room(&self) -> u64 {
        self.segment.limit.saturating_sub(self.segment.offset + RECORD_HEAD_BYTES as u64)
    }

    fn write(&mut self, head: RecordHead, payload: &[u8]) -> Result<(), Errno> {
        let offset = self.segment.offset;
        write_all_at(self.file(), &[&head.encode(self.segment.seal, offset, payload), payload], offset)?;
        self.segment.offset = offset + (RECORD_HEAD_BYTES + payload.len()) as u64;
        Ok(())
    }
}

/// Keeps the newest event of each kind.
fn remember(sticky: &mut Vec<RepeatedRecord>, head: RecordHead, payload: &[u8]) {
    let head = RecordHead { flags: 0, ..head };
    sticky.retain(|known| known.head.kind != head.kind);
    sticky.push(RepeatedRecord { head, payload: payload.to_vec() });
}
