//! [`RecordScanner`]: the records of a journal in order, across its segments.
//!
//! A scanner never waits for the writer. Bytes that are not a valid record now may be one at the next read, so nothing
//! invalid is kept in the buffer.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::buffer::Buffer;
use super::error::JournalError;
use super::files::{belongs, list_segments, open_segment, read_at};
use super::format::{
    BadHeader, HEADER_BYTES, Header, Layout, MAX_EVENT_BYTES, Position, RECORD_HEAD_BYTES, Range, SPARE_AT,
    Salt, Slot, kind,
};
use super::record::{RecordHead, Seal};

/// Maximum number of retries when the writer drops segments before they are reached.
const MAX_RETRIES: usize = 16;

/// A record, with its payload still in the scanner.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    /// Its header.
    pub(super) head: RecordHead,
    /// Offset of its payload, in the buffer or in the header block.
    payload: usize,
    in_block: bool,
}

impl Record {
    /// Whether its payload is in the header block, not in the buffer.
    pub(super) fn in_block(&self) -> bool {
        self.in_block
    }
}

/// A position in a journal that moves forward.
#[derive(Debug)]
pub(super) struct RecordScanner {
    dir: Arc<OwnedFd>,
    slot: Slot,
    first: OwnedFd,
    /// The current segment, unless it is the first.
    overflow: Option<OwnedFd>,
    header: Header,
    layout: Layout,
    seal: Seal,
    offset: u64,
    buffer: Buffer,
    /// Size of the first record, once it has been read.
    spec_bytes: usize,
    /// Whether there is no other writer, so that read data stays valid.
    settled: bool,
    /// The first segment's header block as of the last read.
    block: Box<[u8; HEADER_BYTES]>,
}

impl RecordScanner {
    /// Opens a journal at its first record. A given salt must match that of the slot.
    pub(super) fn open(dir: Arc<OwnedFd>, slot: Slot, salt: Option<&Salt>) -> Result<Self, JournalError> {
        Self::open_for(dir, slot, salt, OFlags::RDONLY)
    }

    /// Opens it for its writer, which gets the descriptor from [`into_first`](Self::into_first).
    pub(super) fn open_to_write(dir: Arc<OwnedFd>, slot: Slot) -> Result<Self, JournalError> {
        Ok(Self { settled: true, ..Self::open_for(dir, slot, None, OFlags::RDWR)? })
    }

    /// The same for retiring a journal with this salt, whose writer is dead.
    pub(super) fn open_to_retire(dir: Arc<OwnedFd>, slot: Slot, salt: &Salt) -> Result<Self, JournalError> {
        Ok(Self { settled: true, ..Self::open_for(dir, slot, Some(salt), OFlags::RDWR)? })
    }

    fn open_for(
        dir: Arc<OwnedFd>,
        slot: Slot,
        salt: Option<&Salt>,
        flags: OFlags,
    ) -> Result<Self, JournalError> {
        let first = match open_segment(dir.as_fd(), slot, 0, flags) {
            Err(Errno::NOENT) => return Err(JournalError::Retired),
            result => result?,
        };
        let mut buffer = Buffer::default();
        let index = buffer.fill(first.as_fd(), 0, HEADER_BYTES)?;
        let bytes = index.map_or(&[][..], |_| &buffer.bytes[..HEADER_BYTES]);
        let header = Header::decode(bytes).and_then(|header| match header.segment {
            0 => Ok(header),
            _ => Err(BadHeader::Garbage),
        });
        let header = match header {
            Ok(header) if salt.is_none_or(|salt| *salt == header.salt) => header,
            Ok(_) | Err(BadHeader::Free) => return Err(JournalError::Retired),
            Err(BadHeader::Garbage) if salt.is_some() => return Err(JournalError::Retired),
            Err(BadHeader::Garbage) => return Err(JournalError::NotAJournal),
            Err(BadHeader::Version(version)) => return Err(JournalError::Version(version)),
        };
        let mut block = Box::new([0; HEADER_BYTES]);
        block.copy_from_slice(bytes);
        Ok(Self {
            layout: Layout::new(header.bound),
            seal: Seal::new(&header.salt, 0),
            overflow: None,
            offset: HEADER_BYTES as u64,
            spec_bytes: 0,
            settled: false,
            dir,
            slot,
            first,
            header,
            buffer,
            block,
        })
    }

    /// The first segment's file.
    pub(super) fn into_first(self) -> OwnedFd {
        self.first
    }

    /// Another scanner of the same journal, at its first record.
    pub(super) fn reopen(&self) -> Result<Self, JournalError> {
        Self::open(Arc::clone(&self.dir), self.slot, Some(&self.header.salt))
    }

    /// The location of the journal.
    pub(super) fn place(&self) -> (Arc<OwnedFd>, Slot, Salt) {
        (Arc::clone(&self.dir), self.slot, self.header.salt)
    }

    /// The header of the current segment.
    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// The layout of the journal.
    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Offset of the next record.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The payload of the last returned record.
    pub(super) fn payload(&self, record: &Record) -> &[u8] {
        let bytes = if record.in_block { &self.block[..] } else { &self.buffer.bytes };
        &bytes[record.payload..record.payload + record.head.len]
    }

    /// Makes the last returned record the next one again.
    pub(super) fn put_back(&mut self, record: &Record) {
        self.offset -= (RECORD_HEAD_BYTES + record.head.len) as u64;
    }

    /// Frees read-ahead data.
    pub(super) fn release(&mut self) {
        self.buffer = Buffer::default();
    }

    /// The next record of this segment, if it exists.
    pub(super) fn record_in_segment(&mut self) -> Result<Option<Record>, JournalError> {
        let from_memory = self.buffer.index(self.offset, 1).is_some();
        let mut record = self.decode()?;
        if record.is_none() && from_memory && !self.settled {
            self.buffer.clear();
            record = self.decode()?;
        }
        if record.is_none() {
            self.buffer.clear();
        }
        Ok(record)
    }

    fn decode(&mut self) -> Result<Option<Record>, Errno> {
        let file = self.overflow.as_ref().unwrap_or(&self.first).as_fd();
        let Some(index) = self.buffer.fill(file, self.offset, RECORD_HEAD_BYTES)? else {
            return Ok(None);
        };
        let Some(head) = RecordHead::decode(self.seal, &self.buffer.bytes[index..]) else {
            return Ok(None);
        };
        // Only the first record may be large: invalid data must not make a scanner allocate memory.
        if head.kind == kind::SPEC && (self.header.segment, self.offset) != (0, HEADER_BYTES as u64) {
            return Ok(None);
        }
        let size = RECORD_HEAD_BYTES + head.len;
        let Some(index) = self.buffer.fill(file, self.offset, size)? else {
            return Ok(None);
        };
        let (raw, payload) = self.buffer.bytes[index..index + size].split_at(RECORD_HEAD_BYTES);
        // The header is decoded again: a writer may have changed it between two reads.
        if RecordHead::decode(self.seal, raw) != Some(head) || !self.seal.fits(self.offset, raw, payload) {
            return Ok(None);
        }
        if head.kind == kind::SPEC {
            self.spec_bytes = size;
        }
        self.offset += size as u64;
        Ok(Some(Record { head, payload: index + RECORD_HEAD_BYTES, in_block: false }))
    }

    /// The next record, if it exists, also from the next segment.
    pub(super) fn record(&mut self) -> Result<Option<Record>, JournalError> {
        loop {
            if let Some(record) = self.record_in_segment()? {
                return Ok(Some(record));
            }
            let mut range = self.range()?;
            if range.newest <= self.header.segment && self.has_successor() {
                range.newest = self.header.segment + 1;
            }
            if range.newest <= self.header.segment {
                self.buffer.rest();
                return Ok(None);
            }
            // The segment is complete, but may have got records since the read above.
            if let Some(record) = self.record_in_segment()? {
                return Ok(Some(record));
            }
            if !self.resume(range)? {
                return Ok(None);
            }
        }
    }

    /// Whether there is a next segment that is not in the range: the writer died before the update, or the update was
    /// lost in a power failure. Checks only if this segment is nearly full.
    fn has_successor(&self) -> bool {
        let segment = self.header.segment;
        let extra = if segment == 0 { self.spec_bytes as u64 } else { 0 };
        let full = self.layout.segment_bytes + extra;
        let reach = self.offset + (RECORD_HEAD_BYTES + MAX_EVENT_BYTES) as u64;
        reach > full && belongs(self.dir.as_fd(), self.slot, segment + 1, &self.header.salt)
    }

    /// Reads the first segment's header block again. Detects that the slot has been reused.
    fn look(&mut self) -> Result<(), JournalError> {
        let got = read_at(self.first.as_fd(), &mut self.block[..], 0, HEADER_BYTES)?;
        match Header::decode(&self.block[..got]) {
            Ok(header) if header.salt == self.header.salt => Ok(()),
            _ => Err(JournalError::Retired),
        }
    }

    /// The segments that existed when it was opened; for the writer these are the current ones.
    pub(super) fn range_as_opened(&mut self) -> Result<Range, JournalError> {
        Range::decode(&self.header.salt, &self.block[..]).map_or_else(|| self.range(), Ok)
    }

    /// The segments that exist now.
    pub(super) fn range(&mut self) -> Result<Range, JournalError> {
        // It may be read while it is being written.
        for _ in 0..MAX_RETRIES {
            self.look()?;
            if let Some(range) = Range::decode(&self.header.salt, &self.block[..]) {
                return Ok(range);
            }
        }
        self.range_from_directory()
    }

    /// The segments according to their files, for a journal whose range was damaged by a power failure.
    pub(super) fn range_from_directory(&self) -> Result<Range, JournalError> {
        let segments = list_segments(self.dir.as_fd(), self.slot, &self.header.salt)?;
        let newest = segments.last().copied().unwrap_or(0);
        let mut oldest = newest + 1;
        for segment in segments.into_iter().rev() {
            if segment + 1 != oldest || segment < self.layout.head_segments {
                break;
            }
            oldest = segment;
        }
        Ok(Range { oldest: oldest.max(self.layout.head_segments), newest })
    }

    /// Goes to the next segment that exists; false if there is none.
    fn resume(&mut self, mut range: Range) -> Result<bool, JournalError> {
        for attempt in 0..MAX_RETRIES {
            let next = self.header.segment + 1;
            let next = if next < self.layout.head_segments { next } else { next.max(range.oldest) };
            if next > range.newest {
                return Ok(false);
            }
            if self.go_to(next)? {
                return Ok(true);
            }
            range = if attempt + 2 < MAX_RETRIES { self.range()? } else { self.range_from_directory()? };
        }
        Ok(false)
    }

    /// Goes to the beginning of a segment; false, without a change, if it does not exist.
    pub(super) fn go_to(&mut self, segment: u64) -> Result<bool, JournalError> {
        if segment == 0 {
            self.overflow = None;
            self.buffer.clear();
            (self.header.segment, self.header.start) = (0, Position::default());
        } else {
            let file = match open_segment(self.dir.as_fd(), self.slot, segment, OFlags::RDONLY) {
                Err(Errno::NOENT) => return Ok(false),
                result => result?,
            };
            self.buffer.clear();
            let Some(index) = self.buffer.fill(file.as_fd(), 0, HEADER_BYTES)? else {
                self.buffer.clear();
                return Ok(false);
            };
            let header = Header::decode(&self.buffer.bytes[index..index + HEADER_BYTES]);
            match header {
                Ok(header) if header.salt == self.header.salt && header.segment == segment => {
                    self.header = header;
                    self.overflow = Some(file);
                }
                _ => {
                    self.buffer.clear();
                    return Ok(false);
                }
            }
        }
        self.seal = Seal::new(&self.header.salt, segment);
        self.offset = HEADER_BYTES as u64;
        Ok(true)
    }

    /// Goes to the beginning of the newest segment.
    pub(super) fn go_to_newest(&mut self) -> Result<(), JournalError> {
        for _ in 0..MAX_RETRIES {
            let range = self.range()?;
            if self.go_to(range.newest)? {
                // A writer may have died between creating a segment and updating the range.
                while self.go_to(self.header.segment + 1)? {}
                return Ok(());
            }
        }
        let newest = self.range_from_directory()?.newest;
        if !self.go_to(newest)? {
            self.go_to(0)?;
        }
        Ok(())
    }

    /// The records in the reserve of the header block as of the last read, and the offset of its free part.
    pub(super) fn spare(&self) -> (Vec<Record>, usize) {
        let seal = Seal::new(&self.header.salt, 0);
        let mut records = Vec::new();
        let mut at = SPARE_AT;
        while let Some(head) = RecordHead::decode(seal, &self.block[at..]) {
            let payload = at + RECORD_HEAD_BYTES;
            let end = payload + head.len;
            if end > HEADER_BYTES || !seal.fits(at as u64, &self.block[at..], &self.block[payload..end]) {
                break;
            }
            records.push(Record { head, payload, in_block: true });
            at = end;
        }
        (records, at)
    }
}
