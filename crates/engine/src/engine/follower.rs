//! [`Follower`]: follows the record of an execution as it is written.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::watch;

use super::error::ReadError;
use super::life_cycle::{AttachedReader, ReaderRole, RecordGuard, State, Tracked};
use super::output::Stream;
use crate::end::End;
use crate::journal::{Item, JournalReader, kind};
use crate::terminal::{SizeEvent, TerminalSize};

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

    /// Whether all output is returned that was reported so far. There may be more, or a size, or the end.
    pub fn has_returned_reported(&self) -> bool {
        self.reader.cursor() >= self.tracked.position()
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
