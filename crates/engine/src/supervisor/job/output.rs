//! The output of an execution: from its pipes or its terminal into its journal, as fast as its reader allows.

use std::ops::ControlFlow;
use std::time::Instant;

use super::Job;
use crate::journal::Stream;
use crate::protocol::Stage;
use crate::supervisor::job_io::{BUSY_PIPE, ReadResult, SMALL_READ};
use crate::supervisor::reader_gate::ReaderGate;
use crate::supervisor::terminal::TERMINAL_READ;

/// Maximum amount of data in the pipes of a command that waits for its reader, at its end, for which no unread output
/// is dropped: more than the kernel's limit of a pipe for unprivileged users.
const MAX_DRAIN_EXCESS: usize = 4 << 20;
/// Result of reading a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadStatus {
    Open,
    Eof,
    /// The output limit is reached.
    Limit,
}

impl Job {
    /// Sets the position of its reader; `None` if none is attached.
    pub(crate) fn set_reader(&mut self, read: Option<u64>, now: Instant) {
        if let Some(gate) = &mut self.gate {
            match read {
                Some(read) => gate.attach(read),
                None => gate.detach(now),
            }
            self.update_gate(now);
        }
    }

    /// Updates whether its pipes may be read. The time in which they are not read does not count for the idle
    /// timeout.
    pub(crate) fn update_gate(&mut self, now: Instant) {
        let is_blocked = self.output_room(now) == 0;
        if self.is_blocked {
            self.last_output = now;
        }
        self.is_blocked = is_blocked;
    }

    /// Number of bytes that may be read from its pipes now.
    fn output_room(&mut self, now: Instant) -> usize {
        if self.io.terminal().is_some() {
            let room = match &self.unrecorded {
                unrecorded if unrecorded.is_waiting() => 0,
                unrecorded if unrecorded.is_skipping() => TERMINAL_READ as u64,
                _ => self.journal.room_above_floor(),
            };
            return usize::try_from(room).unwrap_or(usize::MAX);
        }
        let Some(gate) = &self.gate else {
            return usize::MAX;
        };
        let floor = gate.floor(now);
        self.journal.keep_from(floor);
        let room = floor.map(|_| self.journal.room_above_floor());
        room.and_then(|room| usize::try_from(room).ok()).unwrap_or(usize::MAX)
    }

    /// Whether its pipes may be read.
    pub(crate) fn is_readable(&self) -> bool {
        !self.is_blocked
    }

    /// Time at which they may be read again without a reader.
    pub(crate) fn gate_expires_at(&self) -> Option<Instant> {
        self.gate.as_ref().filter(|_| self.is_blocked).and_then(ReaderGate::expires_at)
    }

    /// Reads available data of one stream into the journal.
    pub(crate) fn pump(&mut self, stream: Stream, buffer: &mut Vec<u8>, now: Instant) -> ReadStatus {
        let mut left = BUSY_PIPE;
        loop {
            let room = self.output_room(now).min(left);
            self.is_blocked = room == 0 && left > 0;
            if room == 0 {
                return ReadStatus::Open;
            }
            // One read at a time: each is a record, whose head takes room, too.
            match self.pump_once(stream, buffer, now, room) {
                ControlFlow::Break(pumped) => return pumped,
                ControlFlow::Continue(read) => left -= read,
            }
        }
    }

    pub(super) fn pump_at_most(
        &mut self,
        stream: Stream,
        buffer: &mut Vec<u8>,
        now: Instant,
        mut most: usize,
    ) -> ReadStatus {
        while most > 0 {
            match self.pump_once(stream, buffer, now, most) {
                ControlFlow::Break(pumped) => return pumped,
                ControlFlow::Continue(read) => most -= read,
            }
        }
        ReadStatus::Open
    }

    /// Reads once. Continues with the number of bytes if there may be more.
    fn pump_once(
        &mut self,
        stream: Stream,
        buffer: &mut Vec<u8>,
        now: Instant,
        most: usize,
    ) -> ControlFlow<ReadStatus, usize> {
        match self.io.read(stream, buffer, most) {
            ReadResult::Eof => ControlFlow::Break(ReadStatus::Eof),
            ReadResult::Nothing => ControlFlow::Break(ReadStatus::Open),
            ReadResult::Bytes { count, more } => {
                self.last_output = now;
                if self.record(stream, &buffer[..count], now) {
                    ControlFlow::Break(ReadStatus::Limit)
                } else if more {
                    ControlFlow::Continue(count)
                } else {
                    ControlFlow::Break(ReadStatus::Open)
                }
            }
        }
    }

    /// Appends output. Returns whether the limit is reached.
    fn record(&mut self, stream: Stream, bytes: &[u8], now: Instant) -> bool {
        let limit = self.command.limits.output_bytes.unwrap_or(u64::MAX);
        let room = limit.saturating_sub(self.read_bytes());
        let kept = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
        if self.io.terminal().is_some() {
            let has_size = !self.retry_size();
            let may_write = !has_size && !self.unrecorded.is_active();
            let written = if may_write { self.journal.append_some(stream, &bytes[..kept]) } else { 0 };
            self.unrecorded.hold(&bytes[written..kept], has_size, now);
        } else {
            // On a full disk the journal counts the bytes as a gap.
            drop(self.journal.append_output(stream, &bytes[..kept]));
        }
        kept < bytes.len() && self.stage == Stage::Running
    }

    /// Reads the data that was in the pipes when the command ended, which includes all its own output. Reading more
    /// would let a child that floods the pipe delay the end forever. Returns whether the output limit was reached.
    pub(crate) fn drain(&mut self, buffer: &mut Vec<u8>, now: Instant) -> bool {
        if let Some(terminal) = self.io.terminal_mut() {
            terminal.program_ended();
            return self.drain_terminal(buffer, now);
        }
        self.io.release_writers();
        let mut limited = false;
        // Unread output is kept, and the journal exceeds its bound by the content of the pipes.
        let _ = self.output_room(now);
        for stream in [Stream::Stdout, Stream::Stderr] {
            // One read is enough for a pipe that is empty, or that no other process holds.
            limited |= self.pump_at_most(stream, buffer, now, SMALL_READ) == ReadStatus::Limit;
            let Some(most) = self.io.waiting(stream) else {
                continue;
            };
            if most > MAX_DRAIN_EXCESS {
                self.journal.keep_from(None);
            }
            if most > 0 {
                limited |= self.pump_at_most(stream, buffer, now, most) == ReadStatus::Limit;
            }
            // End of file may follow the last byte.
            limited |= self.pump_at_most(stream, buffer, now, SMALL_READ) == ReadStatus::Limit;
        }
        limited
    }
}
