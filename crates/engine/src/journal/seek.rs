//! Seeks to a cursor, to the last bytes, or to a range of one stream.

use super::error::JournalError;
use super::format::{Position, REPEAT, Stream};
use super::reader::JournalReader;
use super::record_scanner::RecordScanner;

/// Maximum number of restarts of a search when the writer drops segments meanwhile.
const MAX_RETRIES: usize = 8;

/// Result of a range read of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamRead {
    /// This many bytes are in the buffer; at least one.
    Bytes(usize),
    /// The bytes from the offset up to this one are not stored.
    Gap {
        /// The offset of the first byte after the gap.
        to: u64,
    },
    /// Nothing yet.
    Nothing,
}

impl JournalReader {
    /// Seeks to a cursor. Any number is valid, also inside a record. Dropped bytes are returned as a gap; beyond the
    /// end, nothing is returned until output gets there. Events before the cursor are not returned.
    pub(crate) fn seek(&mut self, cursor: u64) -> Result<(), JournalError> {
        self.stream_place = None;
        self.go_to_cursor(cursor)?;
        self.restart(cursor);
        Ok(())
    }

    /// Seeks to the point where only this many last bytes remain: of one stream (and the other's between them), or of
    /// both together.
    pub(crate) fn seek_tail(&mut self, stream: Option<Stream>, bytes: u64) -> Result<(), JournalError> {
        let totals = self.totals()?;
        match stream {
            None => self.seek(totals.total().saturating_sub(bytes)),
            Some(stream) => self.seek_stream(stream, totals.of(stream).saturating_sub(bytes)),
        }
    }

    /// Seeks to the output byte with this offset in its stream.
    pub(crate) fn seek_stream(&mut self, stream: Stream, offset: u64) -> Result<(), JournalError> {
        self.stream_place = None;
        let start = self.go_to_segment_of(|start| start.of(stream) <= offset)?;
        // The cursor after everything that is known to be before the offset.
        let mut cursor = start.total();
        while let Some(record) = self.scanner.record()? {
            if record.head.flags & REPEAT != 0 {
                continue;
            }
            let (at, end) = (record.head.at, record.head.end());
            if at.of(stream) > offset {
                break;
            }
            if end.of(stream) > offset {
                cursor = at.total() + (offset - at.of(stream));
                break;
            }
            cursor = end.total();
        }
        self.seek(cursor)
    }

    /// Reads bytes of one stream from an offset of that stream. A call at the end of the previous one needs no
    /// search. Leaves the reader at an unspecified cursor.
    pub(crate) fn read_stream(
        &mut self,
        stream: Stream,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<StreamRead, JournalError> {
        if self.stream_place != Some((stream, offset)) {
            self.go_to_segment_of(|start| start.of(stream) <= offset)?;
            self.pending = None;
        }
        self.stream_place = None;
        let mut filled = 0;
        while filled < buffer.len() {
            let next = match self.pending.take() {
                Some(record) => Some(record),
                None => self.scanner.record()?,
            };
            let Some(record) = next else { break };
            let wanted = offset + filled as u64;
            let (at, end) = (record.head.at.of(stream), record.head.end().of(stream));
            if record.head.flags & REPEAT != 0 || (at <= wanted && end <= wanted) {
                continue;
            }
            if at > wanted {
                self.pending = Some(record);
                if filled > 0 {
                    break;
                }
                self.stream_place = Some((stream, at));
                return Ok(StreamRead::Gap { to: at });
            }
            let skip = usize::try_from(wanted - at).unwrap_or(usize::MAX);
            let bytes = &self.scanner.payload(&record)[skip..];
            let n = bytes.len().min(buffer.len() - filled);
            buffer[filled..filled + n].copy_from_slice(&bytes[..n]);
            filled += n;
            if n < bytes.len() {
                self.pending = Some(record);
            }
        }
        self.stream_place = Some((stream, offset + filled as u64));
        Ok(if filled > 0 { StreamRead::Bytes(filled) } else { StreamRead::Nothing })
    }

    /// Number of bytes of each stream before a cursor; `None` if unknown. Leaves the reader at an unspecified cursor.
    pub(crate) fn totals_at(&mut self, cursor: u64) -> Result<Option<Position>, JournalError> {
        self.stream_place = None;
        let mut totals = self.go_to_segment_of(|start| start.total() <= cursor)?;
        while totals.total() < cursor {
            let Some(record) = self.scanner.record()? else { break };
            let (at, end) = (record.head.at, record.head.end());
            if record.head.flags & REPEAT != 0 {
                continue;
            }
            if at.total() > cursor {
                break;
            }
            totals = match Stream::of_kind(record.head.kind) {
                Some(stream) if end.total() > cursor => at.plus(stream, cursor - at.total()),
                _ => end,
            };
        }
        Ok(Some(totals).filter(|totals| totals.total() == cursor))
    }

    /// Goes to the segment that contains the byte at a cursor, or an event at exactly that position.
    pub(super) fn go_to_cursor(&mut self, cursor: u64) -> Result<(), JournalError> {
        self.go_to_segment_of(|start| start.total() < cursor)?;
        Ok(())
    }

    /// Goes to the last segment for whose start `before` is true. Returns that start.
    fn go_to_segment_of(&mut self, before: impl Fn(Position) -> bool) -> Result<Position, JournalError> {
        self.pending = None;
        for _ in 0..MAX_RETRIES {
            let range = self.scanner.range()?;
            let head = self.scanner.layout().head_segments.min(range.newest + 1);
            let tail = (range.newest + 1).saturating_sub(range.oldest);
            let segment = |i: u64| {
                if i < head { i } else { range.oldest + (i - head) }
            };
            // Segment 0 always exists and is before everything.
            let (mut low, mut high) = (0, head + tail);
            let mut dropped = false;
            while high - low > 1 && !dropped {
                let middle = low + (high - low) / 2;
                dropped = !self.scanner.go_to(segment(middle))?;
                if before(self.scanner.header().start) {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            if !dropped && self.scanner.go_to(segment(low))? {
                return Ok(self.scanner.header().start);
            }
        }
        // The writer is faster than the search: everything can be reached from the first segment.
        self.scanner.go_to(0)?;
        Ok(Position::default())
    }
}

/// The position at the end of a journal, by reading its newest segment.
pub(super) fn scan_totals(mut scanner: RecordScanner) -> Result<Position, JournalError> {
    scanner.go_to_newest()?;
    let mut totals = scanner.header().start;
    while let Some(record) = scanner.record()? {
        if record.head.flags & REPEAT == 0 {
            totals = record.head.end();
        }
    }
    let (spare, _) = scanner.spare();
    let spare = spare.last().map_or(totals, |record| record.head.at);
    Ok(if spare.total() > totals.total() { spare } else { totals })
}
