//! [`OutputReader`]: reads the output of an execution in pieces, without holding all of it in memory.

use std::ops::Range;

use super::error::ReadError;
use super::life_cycle::RecordGuard;
use super::output::{ReadAt, Stream};
use crate::journal::{JournalPlace, JournalReader, Stream as JournalStream, StreamRead};

/// Size of one read, in bytes.
const PIECE_BYTES: usize = 256 << 10;

/// The head and the tail of a stream that fit into a limit, as offsets of the stream.
///
/// A stream that fits completely is all head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamPlan {
    /// The bytes from the start.
    pub head: Range<u64>,
    /// The bytes up to the end; empty if the head is the whole stream.
    pub tail: Range<u64>,
    /// Number of bytes between them.
    pub omitted: u64,
    /// Length of the stream, dropped bytes included.
    pub total: u64,
}

/// Reads the output of an execution in any order. A read at the end of the previous one needs no search.
#[derive(Debug)]
pub struct OutputReader {
    place: JournalPlace,
    /// `None` while the journal is closed.
    reader: Option<JournalReader>,
    /// Protects the record from removal.
    _guard: Option<RecordGuard>,
}

impl OutputReader {
    pub(super) fn new(reader: JournalReader, guard: Option<RecordGuard>) -> Self {
        Self { place: reader.place(), reader: Some(reader), _guard: guard }
    }

    /// Closes the journal and frees read-ahead data, for a reader that pauses. The record stays protected, and the
    /// next read opens the journal again.
    pub fn close(&mut self) {
        self.reader = None;
    }

    fn open(&mut self) -> Result<&mut JournalReader, ReadError> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => self.place.open()?,
        };
        Ok(self.reader.insert(reader))
    }

    /// Lengths of standard output and standard error so far, dropped bytes included.
    pub fn totals(&mut self) -> Result<(u64, u64), ReadError> {
        let totals = self.open()?.totals()?;
        Ok((totals.stdout, totals.stderr))
    }

    /// The cursor after the last byte.
    pub fn cursor_end(&mut self) -> Result<u64, ReadError> {
        Ok(self.open()?.totals()?.total())
    }

    /// Number of bytes of standard output and standard error before a cursor; `None` if dropped bytes make it
    /// unknown.
    pub fn totals_at(&mut self, cursor: u64) -> Result<Option<(u64, u64)>, ReadError> {
        let totals = self.open()?.totals_at(cursor)?;
        Ok(totals.map(|totals| (totals.stdout, totals.stderr)))
    }

    /// Reads bytes of one stream from an offset of that stream, at most the length of the buffer.
    pub fn read(&mut self, stream: Stream, offset: u64, buffer: &mut [u8]) -> Result<ReadAt, ReadError> {
        Ok(match self.open()?.read_stream(stream.into(), offset, buffer)? {
            StreamRead::Bytes(n) => ReadAt::Bytes(n),
            StreamRead::Gap { to } => ReadAt::Gap { to },
            StreamRead::Nothing => ReadAt::Nothing,
        })
    }

    /// Computes the head and the tail of a stream for a limit, as in [`Execution::output`](crate::Execution::output).
    /// All their bytes exist now. While the execution runs, the writer may drop some of the tail.
    pub fn plan(&mut self, stream: Stream, limit: usize) -> Result<StreamPlan, ReadError> {
        let stream = stream.into();
        let reader = self.open()?;
        let total = reader.totals()?.of(stream);
        choose_ends(reader, stream, total, limit, None)
    }
}

/// Selects the head and the tail of one stream, with one hole between them. The head ends at the first byte that is
/// missing or does not fit, the tail begins after the last. Their bytes are appended to `kept`.
pub(super) fn choose_ends(
    reader: &mut JournalReader,
    stream: JournalStream,
    total: u64,
    limit: usize,
    mut kept: Option<&mut Vec<u8>>,
) -> Result<StreamPlan, ReadError> {
    let room = limit as u64;
    let head_room = if total <= room { total } else { room / 2 };
    let (head, _) = pass(reader, stream, 0..head_room, kept.as_deref_mut())?;
    let head_bytes = kept.as_ref().map_or(0, |bytes| bytes.len());
    let mut from = total.saturating_sub(room - head).max(head);
    while from < total {
        let (_, gap_end) = pass(reader, stream, from..total, kept.as_deref_mut())?;
        // The bytes up to there were dropped or never written.
        let Some(gap_end) = gap_end else { break };
        from = gap_end.min(total);
        if let Some(bytes) = &mut kept {
            bytes.truncate(head_bytes);
        }
    }
    Ok(StreamPlan { head: 0..head, tail: from..total, omitted: from - head, total })
}

/// Reads a range of a stream up to the first missing byte. Returns the position reached and, if bytes are missing,
/// the end of the gap.
fn pass(
    reader: &mut JournalReader,
    stream: JournalStream,
    range: Range<u64>,
    mut kept: Option<&mut Vec<u8>>,
) -> Result<(u64, Option<u64>), ReadError> {
    let mut at = range.start;
    let wanted = usize::try_from(range.end.saturating_sub(at)).unwrap_or(usize::MAX);
    let mut buffer = vec![0; wanted.min(PIECE_BYTES)];
    while at < range.end {
        let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buffer.len());
        match reader.read_stream(stream, at, &mut buffer[..wanted])? {
            StreamRead::Bytes(n) => {
                if let Some(bytes) = &mut kept {
                    bytes.extend_from_slice(&buffer[..n]);
                }
                at += n as u64;
            }
            StreamRead::Gap { to } => return Ok((at, Some(to))),
            StreamRead::Nothing => return Ok((at, Some(range.end))),
        }
    }
    Ok((at, None))
}
