//! Reading what an execution wrote: [`Output`] as a whole, [`Follower`] as it comes.

use std::sync::Arc;
use std::time::SystemTime;

use super::error::ReadError;
use super::execution::Tracked;
use crate::end::End;
use crate::journal::{Item, JournalReader, Stream as JournalStream, StreamRead, kind};

/// One of the two streams.
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

/// What was found at an offset of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadAt {
    /// That many bytes, now in the buffer.
    Bytes(usize),
    /// Bytes that were dropped to keep the journal's bound.
    Gap {
        /// The offset of the first byte that is there again.
        to: u64,
    },
    /// Nothing: the stream does not go that far, or not yet.
    Nothing,
}

/// What one stream holds: all of it, or its head and tail with a hole between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamOutput {
    /// The bytes. If some were left out, the tail follows the head directly.
    pub bytes: Vec<u8>,
    /// How many bytes at the start of `bytes` are the head.
    pub head: usize,
    /// How many bytes were left out after the head.
    pub omitted: u64,
}

/// What an execution has written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// Standard output.
    pub stdout: StreamOutput,
    /// Standard error.
    pub stderr: StreamOutput,
    /// The cursor after the last byte that was seen.
    pub cursor: u64,
}

impl Output {
    pub(super) fn read(mut reader: JournalReader, limit: usize) -> Result<Self, ReadError> {
        let mut output = Self::default();
        let fits = limit as u64;
        // One pass is enough for nearly everything.
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
        let mut ends = |stream, total: u64| -> Result<StreamOutput, ReadError> {
            let limit = limit as u64;
            let (head, tail_from) =
                if total <= limit { (total, total) } else { (limit / 2, total - (limit - limit / 2)) };
            let mut bytes = Vec::new();
            let stopped_at = read_range(&mut reader, stream, 0..head, &mut bytes)?;
            let head = bytes.len();
            // A hole in the head reaches to where bytes are again; the tail starts there at the earliest.
            let mut from = tail_from;
            if stopped_at < tail_from.min(total) && (stopped_at as usize) < head {
                from = stopped_at;
            }
            let mut begin = if head as u64 == total { total } else { from.max(head as u64) };
            while begin < total {
                let before = bytes.len();
                let end = read_range(&mut reader, stream, begin..total, &mut bytes)?;
                if end >= total {
                    break;
                }
                // Dropped bytes: what came before the hole is not part of the tail.
                bytes.truncate(head.min(before));
                begin = match reader.read_stream(stream, end, &mut [0; 1])? {
                    StreamRead::Gap { to } => to,
                    _ => break,
                };
            }
            let omitted = total - bytes.len() as u64;
            Ok(StreamOutput { bytes, head, omitted })
        };
        Ok(Self {
            stdout: ends(JournalStream::Stdout, totals.stdout)?,
            stderr: ends(JournalStream::Stderr, totals.stderr)?,
            cursor: totals.total(),
        })
    }
}

/// Appends a range of a stream; returns where it had to stop.
fn read_range(
    reader: &mut JournalReader,
    stream: JournalStream,
    range: std::ops::Range<u64>,
    bytes: &mut Vec<u8>,
) -> Result<u64, ReadError> {
    let mut at = range.start;
    let mut buffer = vec![0; 256 << 10];
    while at < range.end {
        let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buffer.len());
        match reader.read_stream(stream, at, &mut buffer[..wanted])? {
            StreamRead::Bytes(n) => {
                bytes.extend_from_slice(&buffer[..n]);
                at += n as u64;
            }
            StreamRead::Gap { .. } | StreamRead::Nothing => break,
        }
    }
    Ok(at)
}

/// Something in the record of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It runs.
    Started {
        /// Its process id.
        pid: u32,
    },
    /// It wrote something.
    Output {
        /// Where.
        stream: Stream,
        /// What.
        bytes: Vec<u8>,
    },
    /// Bytes that were dropped to keep the journal's bound.
    Gap {
        /// The cursor of the first byte that is missing.
        from: u64,
        /// The cursor of the first byte that is there again.
        to: u64,
    },
    /// It ended. What it left running may still write after this.
    Ended(Arc<End>),
}

/// An [`Event`] with the cursor to go on from, and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The cursor after it.
    pub cursor: u64,
    /// When it was recorded.
    pub time: SystemTime,
    /// What it is.
    pub event: Event,
}

/// Follows the record of an execution as it is written.
#[derive(Debug)]
pub struct Follower {
    reader: JournalReader,
    tracked: Arc<Tracked>,
    ended: bool,
}

impl Follower {
    pub(super) fn new(reader: JournalReader, tracked: Arc<Tracked>) -> Self {
        Self { reader, tracked, ended: false }
    }

    /// The cursor to go on from.
    pub fn cursor(&self) -> u64 {
        self.reader.cursor()
    }

    /// The next entry that is there already.
    pub fn try_next(&mut self) -> Result<Option<Entry>, ReadError> {
        while let Some(entry) = self.reader.next()? {
            let event = match entry.item {
                Item::Output { stream, bytes, .. } => {
                    Event::Output { stream: stream.into(), bytes: bytes.to_vec() }
                }
                Item::Gap { from, to } => Event::Gap { from, to },
                Item::Event { kind: kind::STARTED, payload } => {
                    let Ok(pid) = minicbor::decode(payload) else {
                        continue;
                    };
                    Event::Started { pid }
                }
                Item::Event { kind: kind::ENDED, payload } => {
                    let Ok(end) = minicbor::decode(payload) else {
                        continue;
                    };
                    self.ended = true;
                    Event::Ended(Arc::new(end))
                }
                Item::Event { .. } => continue,
            };
            return Ok(Some(Entry { cursor: entry.cursor_after, time: entry.time, event }));
        }
        Ok(None)
    }

    /// The next entry, waiting for it. `None` after the end, with what had been written by then;
    /// [`Follower::next_late`] goes on with what leftovers write.
    pub async fn next(&mut self) -> Result<Option<Entry>, ReadError> {
        self.wait_for(true).await
    }

    /// Like [`Follower::next`], but `None` only when nothing can come any more.
    pub async fn next_late(&mut self) -> Result<Option<Entry>, ReadError> {
        self.wait_for(false).await
    }

    async fn wait_for(&mut self, stop_at_end: bool) -> Result<Option<Entry>, ReadError> {
        let mut states = self.tracked.state.subscribe();
        let mut positions = self.tracked.position.subscribe();
        loop {
            // Looked at before reading: what is written until then is read below.
            let (end, over) = {
                let state = states.borrow_and_update();
                (state.status.end().cloned(), state.closed || state.refused.is_some())
            };
            positions.mark_unchanged();
            if let Some(entry) = self.try_next()? {
                return Ok(Some(entry));
            }
            if let Some(end) = end.filter(|_| !self.ended) {
                // It stands before the cursor, in front of late output: every follower hears of it.
                self.ended = true;
                let time = self.tracked.state.borrow().ended_at.unwrap_or_else(SystemTime::now);
                return Ok(Some(Entry { cursor: self.reader.cursor(), time, event: Event::Ended(end) }));
            }
            if over || (stop_at_end && self.ended) {
                return Ok(None);
            }
            self.tracked.watch_growth(self.reader.cursor());
            tokio::select! {
                // Neither sender goes away: this holds both.
                _ = states.changed() => {}
                _ = positions.changed() => {}
            }
        }
    }
}
