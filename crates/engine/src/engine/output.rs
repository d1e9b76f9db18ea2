//! Reading output: [`Output`] is all of it, [`Follower`] follows it live.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::watch;

use super::error::ReadError;
use super::life_cycle::{AttachedReader, ReaderRole, RecordGuard, State, Tracked};
use super::reader::choose_ends;
use crate::end::End;
use crate::journal::{Item, JournalReader, Stream as JournalStream, kind};
use crate::terminal::{SizeEvent, TerminalSize};

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

/// An event in the record of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It started.
    Started {
        /// Its process id.
        pid: u32,
    },
    /// It wrote output.
    Output {
        /// The stream.
        stream: Stream,
        /// Number of bytes of that stream before this, dropped ones included.
        position: u64,
        /// The output.
        bytes: Vec<u8>,
    },
    /// Bytes that were dropped to keep the journal's bound.
    Gap {
        /// The cursor of the first missing byte.
        from: u64,
        /// The cursor of the first byte after the gap.
        to: u64,
    },
    /// The size of a terminal from here on. The first one comes before all output.
    Size {
        /// The size.
        size: TerminalSize,
        /// Number of earlier sizes of this terminal.
        number: u64,
    },
    /// It ended. Its leftovers may still write after this.
    Ended(Arc<End>),
}

/// An [`Event`] with its time and the cursor after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The cursor after it.
    pub cursor: u64,
    /// Time of the record.
    pub time: SystemTime,
    /// The event.
    pub event: Event,
}

/// Maximum size of the output in one [`Entry`] of a [`Follower`].
pub const MAX_ENTRY_BYTES: usize = 64 << 10;

/// Follows the record of an execution as it is written.
#[derive(Debug)]
pub struct Follower {
    reader: JournalReader,
    tracked: Arc<Tracked>,
    /// Protects the record from removal.
    guard: Option<RecordGuard>,
    attached: Option<AttachedReader>,
    /// The end, if it was read and not returned yet: output after it is returned first.
    end: Option<Entry>,
    /// The end of the output at the time when the first output after the end was found.
    late_until: Option<u64>,
    ended: bool,
    /// Maximum size of the output in one entry.
    most: usize,
    /// Number of the first size to return.
    first_size: u64,
    /// Set while everything is read: what changes when there is more.
    idle: Option<Changes>,
}

/// Receivers of the changes after which an execution may have more to read.
#[derive(Debug)]
struct Changes {
    states: watch::Receiver<State>,
    positions: watch::Receiver<u64>,
}

impl Changes {
    /// Whether nothing has changed. The senders stay alive as long as the execution.
    fn is_unchanged(&self) -> bool {
        let is_same = |changed: Result<bool, _>| changed.is_ok_and(|changed: bool| !changed);
        is_same(self.states.has_changed()) && is_same(self.positions.has_changed())
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.states.changed() => {}
            _ = self.positions.changed() => {}
        }
    }
}

impl Follower {
    pub(super) fn new(reader: JournalReader, tracked: Arc<Tracked>, guard: RecordGuard) -> Self {
        Self {
            reader,
            tracked,
            guard: Some(guard),
            attached: None,
            end: None,
            late_until: None,
            ended: false,
            most: MAX_ENTRY_BYTES,
            first_size: 0,
            idle: None,
        }
    }

    /// Does not return sizes before this number.
    pub(super) fn skip_sizes(&mut self, first: u64) {
        self.first_size = first;
    }

    /// The cursor from which to resume.
    pub fn cursor(&self) -> u64 {
        self.reader.cursor()
    }

    /// Releases the protection of the record; the caller needs no more entries.
    pub fn finish(&mut self) {
        (self.guard, self.attached) = (None, None);
    }

    /// Makes a command with [`Overflow::Wait`](crate::Overflow) wait for this follower: the command blocks when its
    /// journal is full of unread output. One follower counts at a time: the latest [`ReaderRole::Command`], else the
    /// latest [`ReaderRole::Viewer`].
    pub fn attach(&mut self, role: ReaderRole) -> Result<(), ReadError> {
        if self.attached.is_none() && self.tracked.fixed.waits_for_reader {
            let (from, step) = (self.cursor(), self.reader.segment_bytes() / 4);
            let end = if role == ReaderRole::Viewer { self.reader.totals()?.total() } else { from };
            self.attached = AttachedReader::new(&self.tracked, role, from, end, step);
        }
        Ok(())
    }

    /// Frees read-ahead data, for a reader that pauses. It is read again when needed.
    pub fn release(&mut self) {
        self.reader.release();
    }

    /// Sets the maximum size of the output in one entry, up to [`MAX_ENTRY_BYTES`].
    pub fn limit_entries(&mut self, bytes: usize) {
        self.most = bytes.clamp(1, MAX_ENTRY_BYTES);
    }

    /// Returns the next entry if it is available. Output comes in pieces of at most [`MAX_ENTRY_BYTES`].
    ///
    /// The end comes after all output that exists when it is read, also that of leftovers. Their later output comes
    /// after it.
    pub fn try_next(&mut self) -> Result<Option<Entry>, ReadError> {
        // Leftovers may write faster than this reads.
        if self.late_until.is_some_and(|until| until <= self.reader.cursor()) {
            return Ok(self.take_end());
        }
        let Some(entry) = self.read_next()? else {
            if let Some(attached) = &mut self.attached {
                attached.caught_up(self.reader.cursor());
            }
            return Ok(self.take_end());
        };
        if self.end.is_some() && self.late_until.is_none() {
            self.late_until = Some(self.reader.totals()?.total());
        }
        if let Some(attached) = &mut self.attached {
            attached.advance(entry.cursor);
        }
        Ok(Some(entry))
    }

    fn take_end(&mut self) -> Option<Entry> {
        self.late_until = None;
        let end = self.end.take()?;
        self.ended = true;
        Some(Entry { cursor: self.reader.cursor(), ..end })
    }

    /// Reads the next entry of the journal; sets an end aside.
    fn read_next(&mut self) -> Result<Option<Entry>, ReadError> {
        while let Some(entry) = self.reader.next_within(self.most)? {
            let (cursor, time) = (entry.cursor_after, entry.time);
            let event = match entry.item {
                Item::Output { stream, stream_position: position, bytes, .. } => {
                    Event::Output { stream: stream.into(), position, bytes: bytes.to_vec() }
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
                    self.end = Some(Entry { cursor, time, event: Event::Ended(Arc::new(end)) });
                    continue;
                }
                Item::Event { kind: kind::SIZE, payload } => match minicbor::decode(payload) {
                    Ok(SizeEvent { size, number }) if number >= self.first_size => {
                        Event::Size { size, number }
                    }
                    _ => continue,
                },
                Item::Event { .. } => continue,
            };
            return Ok(Some(Entry { cursor, time, event }));
        }
        Ok(None)
    }

    /// Waits for the next entry. `None` after the end and the output written by then; [`Follower::next_late`]
    /// continues with the output of leftovers.
    pub async fn next(&mut self) -> Result<Option<Entry>, ReadError> {
        self.idle = None;
        self.wait_for(true).await
    }

    /// Like [`Follower::next`], but does not look for a size that follows the entries returned so far. It reads only
    /// after its execution has reported something, however often it is called and cancelled.
    pub async fn next_reported(&mut self) -> Result<Option<Entry>, ReadError> {
        self.wait_for(true).await
    }

    /// Like [`Follower::next`], but `None` only when no more output can follow.
    pub async fn next_late(&mut self) -> Result<Option<Entry>, ReadError> {
        self.idle = None;
        self.wait_for(false).await
    }

    async fn wait_for(&mut self, stop_at_end: bool) -> Result<Option<Entry>, ReadError> {
        loop {
            if let Some(idle) = &mut self.idle {
                if idle.is_unchanged() {
                    self.tracked.watch_growth(self.reader.cursor());
                    idle.wait().await;
                }
                self.idle = None;
            }
            let mut states = self.tracked.states();
            let positions = self.tracked.positions();
            // Checked before reading, so that everything written until then is read below.
            let (end, over) = {
                let state = states.borrow_and_update();
                (state.status.end().cloned(), state.closed || state.refused.is_some())
            };
            if let Some(entry) = self.try_next()? {
                return Ok(Some(entry));
            }
            if let Some(end) = end.filter(|_| !self.ended) {
                // The end is before the cursor, in front of late output: every follower gets it.
                self.ended = true;
                let time = self.tracked.ended_at().unwrap_or_else(SystemTime::now);
                return Ok(Some(Entry { cursor: self.reader.cursor(), time, event: Event::Ended(end) }));
            }
            if over || (stop_at_end && self.ended) {
                return Ok(None);
            }
            self.idle = Some(Changes { states, positions });
        }
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
