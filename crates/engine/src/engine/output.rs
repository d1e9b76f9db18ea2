//! [`Output`]: all output of an execution, or its head and tail.

use super::error::ReadError;
use super::reader::choose_ends;
use crate::journal::{Item, JournalReader, Stream as JournalStream};

/// An output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl From<JournalStream> for Stream {
    fn from(stream: JournalStream) -> Self {
        match stream {
            JournalStream::Stdout => Self::Stdout,
            JournalStream::Stderr => Self::Stderr,
        }
    }
}

impl From<Stream> for JournalStream {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Stdout => Self::Stdout,
            Stream::Stderr => Self::Stderr,
        }
    }
}

/// Result of a read at an offset of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadAt {
    /// This many bytes are in the buffer.
    Bytes(usize),
    /// Bytes that were dropped to keep the journal's bound.
    Gap {
        /// The offset of the first byte after the gap.
        to: u64,
    },
    /// The stream ends before this offset, so far.
    Nothing,
}

/// The content of one stream: complete, or head and tail with a hole between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamOutput {
    /// The bytes. If some were omitted, the tail follows the head directly.
    pub bytes: Vec<u8>,
    /// Length of the head in `bytes`.
    pub head: usize,
    /// Number of bytes omitted after the head.
    pub omitted: u64,
}

/// The output of an execution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// Standard output.
    pub stdout: StreamOutput,
    /// Standard error.
    pub stderr: StreamOutput,
    /// The cursor after the last byte read.
    pub cursor: u64,
}

impl Output {
    pub(super) fn read(mut reader: JournalReader, limit: usize) -> Result<Self, ReadError> {
        let mut output = Self::default();
        let fits = limit as u64;
        // One pass is enough in nearly all cases.
        while let Some(entry) = reader.next()? {
            output.cursor = entry.cursor_after;
            match entry.item {
                Item::Output { stream, stream_position, bytes, .. } => {
                    let kept = match stream {
                        JournalStream::Stdout => &mut output.stdout,
                        JournalStream::Stderr => &mut output.stderr,
                    };
                    let whole = stream_position == kept.bytes.len() as u64;
                    if !whole || stream_position + bytes.len() as u64 > fits {
                        return Self::read_ends(reader, limit);
                    }
                    kept.bytes.extend_from_slice(bytes);
                    kept.head = kept.bytes.len();
                }
                Item::Gap { .. } => return Self::read_ends(reader, limit),
                Item::Event { .. } => {}
            }
        }
        Ok(output)
    }

    /// The head and the tail of each stream.
    fn read_ends(mut reader: JournalReader, limit: usize) -> Result<Self, ReadError> {
        let totals = reader.totals()?;
        let mut ends_of = |stream: JournalStream| {
            let mut bytes = Vec::new();
            let plan = choose_ends(&mut reader, stream, totals.of(stream), limit, Some(&mut bytes))?;
            // Data in memory fits a usize.
            let head = usize::try_from(plan.head.end).unwrap_or(usize::MAX);
            Ok::<_, ReadError>(StreamOutput { bytes, head, omitted: plan.omitted })
        };
        let (stdout, stderr) = (ends_of(JournalStream::Stdout)?, ends_of(JournalStream::Stderr)?);
        Ok(Self { stdout, stderr, cursor: totals.total() })
    }
}

#[cfg(test)]
mod tests {

    use super::super::reader::OutputReader;
    use super::*;
    use crate::journal::{JournalStore, JournalWriter};

    /// The expected head and tail of a stream, from all its bytes and the missing ranges.
    fn expected(bytes: &[u8], missing: &[std::ops::Range<usize>], limit: usize) -> StreamOutput {
        let total = bytes.len();
        let is_missing = |at: usize| missing.iter().any(|range| range.contains(&at));
        let head_room = if total <= limit { total } else { limit / 2 };
        let head = (0..head_room).find(|at| is_missing(*at)).unwrap_or(head_room);
        let earliest = total.saturating_sub(limit - head).max(head);
        let tail = (earliest..total).rev().find(|at| is_missing(*at)).map_or(earliest, |at| at + 1);
        let kept = [&bytes[..head], &bytes[tail..]].concat();
        StreamOutput { omitted: (total - kept.len()) as u64, bytes: kept, head }
    }

    /// Reads a complete range of a stream, with a buffer of an odd size.
    fn read_range(reader: &mut OutputReader, stream: Stream, range: std::ops::Range<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 7_777];
        let mut at = range.start;
        while at < range.end {
            let wanted = buffer.len().min(usize::try_from(range.end - at).unwrap());
            let ReadAt::Bytes(n) = reader.read(stream, at, &mut buffer[..wanted]).unwrap() else {
                panic!("nothing at {at}");
            };
            bytes.extend_from_slice(&buffer[..n]);
            at += n as u64;
        }
        bytes
    }

    /// Writes both streams alternately into a small journal, and compares every limit with the model.
    fn check(pieces: &[(JournalStream, usize)], limits: &[usize]) {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = JournalStore::open(dir.path()).unwrap();
        let journal = store.claim(b"spec", crate::journal::MIN_JOURNAL_BYTES).unwrap().0;
        let mut writer = JournalWriter::open(store.dir(), journal.slot).unwrap();
        let mut written = [Vec::new(), Vec::new()];
        for (number, (stream, size)) in pieces.iter().enumerate() {
            let bytes: Vec<u8> =
                (0..*size).map(|at| u8::try_from((at * 7 + number) % 251).unwrap()).collect();
            writer.append_output(*stream, &bytes).unwrap();
            written[*stream as usize].extend(bytes);
        }
        // The missing ranges, as a reader of the whole journal finds them.
        let mut reader = store.reader(journal).unwrap();
        let mut found: [Vec<std::ops::Range<usize>>; 2] = Default::default();
        while let Some(entry) = reader.next().unwrap() {
            if let Item::Output { stream, stream_position, bytes, .. } = entry.item {
                let from = usize::try_from(stream_position).unwrap();
                found[stream as usize].push(from..from + bytes.len());
            }
        }
        // Positions of the streams at a cursor are correct, and known everywhere if the journal is complete.
        let is_whole = {
            let all = Output::read(store.reader(journal).unwrap(), usize::MAX).unwrap();
            all.stdout.omitted + all.stderr.omitted == 0
        };
        let mut at = (0, 0);
        for (stream, size) in pieces {
            for part in [size / 2, size - size / 2] {
                match stream {
                    JournalStream::Stdout => at.0 += part as u64,
                    JournalStream::Stderr => at.1 += part as u64,
                }
                let mut reader = OutputReader::new(store.reader(journal).unwrap(), None);
                let found = reader.totals_at(at.0 + at.1).unwrap();
                assert!(found.map_or(!is_whole, |found| found == at), "{found:?} is not {at:?}");
            }
        }
        for limit in limits {
            let output = Output::read(store.reader(journal).unwrap(), *limit).unwrap();
            for (index, own) in [&output.stdout, &output.stderr].into_iter().enumerate() {
                let all = &written[index];
                let mut missing = Vec::new();
                let mut at = 0;
                for range in &found[index] {
                    missing.push(at..range.start);
                    at = range.end;
                }
                missing.push(at..all.len());
                assert!(*own == expected(all, &missing, *limit), "stream {index}, limit {limit}");
                let stream = [Stream::Stdout, Stream::Stderr][index];
                let mut reader = OutputReader::new(store.reader(journal).unwrap(), None);
                let plan = reader.plan(stream, *limit).unwrap();
                assert_eq!((plan.omitted, plan.total), (own.omitted, all.len() as u64));
                let planned = [plan.head, plan.tail].map(|range| read_range(&mut reader, stream, range));
                assert_eq!(planned[0].len(), own.head, "stream {index}, limit {limit}");
                assert!(planned.concat() == own.bytes, "stream {index}, limit {limit}");
            }
            assert_eq!(output.cursor, (written[0].len() + written[1].len()) as u64);
        }
    }

    const LIMITS: &[usize] = &[0, 1, 2, 3, 999, 1000, 1001, 20_000, 100_000, 1 << 20, 10 << 20, usize::MAX];

    #[test]
    fn head_and_tail_of_a_journal_that_is_whole() {
        check(&[], LIMITS);
        check(&[(JournalStream::Stdout, 1000)], LIMITS);
        let both = [(JournalStream::Stdout, 700), (JournalStream::Stderr, 1), (JournalStream::Stdout, 301)];
        check(&both, LIMITS);
    }

    #[test]
    fn head_and_tail_of_a_journal_that_has_dropped_bytes() {
        let turns = |count: usize, size: usize| -> Vec<_> {
            let stream =
                |n: usize| if n.is_multiple_of(3) { JournalStream::Stderr } else { JournalStream::Stdout };
            (0..count).map(|n| (stream(n), size + n % 50)).collect()
        };
        check(&turns(400, 5_000), LIMITS);
        // One stream only at the start, the other only at the end.
        let mut apart: Vec<_> = (0..100).map(|_| (JournalStream::Stderr, 3_000)).collect();
        apart.extend((0..300).map(|_| (JournalStream::Stdout, 9_000)));
        check(&apart, LIMITS);
        apart.reverse();
        check(&apart, LIMITS);
    }
}
