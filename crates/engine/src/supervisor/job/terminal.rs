//! The part of a job that only terminals have: sizes, output on a full disk, and the last output.

use std::time::Instant;

use super::{Job, ReadStatus};
use crate::journal::{JournalWriter, Stream, kind};
use crate::protocol::Refusal;
use crate::supervisor::terminal::{Recorded, TERMINAL_READ, TerminalIo};
use crate::terminal::{SizeEvent, TerminalSize};
use crate::wire;

/// Maximum amount of output that is read from a terminal after its program has ended: more than the kernel buffers.
const MAX_TERMINAL_DRAIN: u64 = 1 << 20;

impl Job {
    /// Records a size of its terminal.
    pub(crate) fn record_size(&mut self, size: TerminalSize) {
        self.size_unwritten = Some(SizeEvent { size, number: self.sizes });
        self.sizes += 1;
        let _ = self.retry_size();
    }

    /// Records a size that is not recorded yet, after the output before it. Returns whether none is left.
    pub(in crate::supervisor) fn retry_size(&mut self) -> bool {
        if let Some(event) = &self.size_unwritten
            && (!self.unrecorded.is_active()
                || self.unrecorded.is_size_first() && !self.unrecorded.is_skipping())
            && self.journal.append_event(kind::SIZE, &wire::to_bytes(event)).is_ok()
        {
            self.size_unwritten = None;
        }
        self.size_unwritten.is_none()
    }

    /// The size that is not recorded yet.
    pub(in crate::supervisor) fn unwritten_size(&self) -> Option<&SizeEvent> {
        self.size_unwritten.as_ref()
    }

    /// Records where output was left out that a saved screen covers. Readers find the gap at the next record.
    pub(in crate::supervisor) fn record_gap(&mut self) {
        self.unrecorded.covered();
        if self.size_unwritten.is_none()
            && let Some(size) = self.io.terminal().map(TerminalIo::size)
        {
            self.record_size(size);
        }
        let _ = self.retry_size();
    }

    /// Writes the output for which there was no space. Returns whether none is left.
    pub(in crate::supervisor) fn write_unrecorded(&mut self) -> bool {
        let is_in_order = self.retry_size() || !self.unrecorded.is_size_first();
        is_in_order && self.unrecorded.write(&mut self.journal) && self.retry_size()
    }

    /// Leaves that output out of the journal.
    pub(in crate::supervisor) fn skip_unrecorded(&mut self) {
        self.unrecorded.skip(&mut self.journal);
    }

    /// Sets the size of its terminal.
    pub(crate) fn resize(&mut self, size: TerminalSize) -> Result<(), Refusal> {
        let terminal = self.io.terminal_mut().ok_or(Refusal::NotATerminal)?;
        if !size.is_valid() {
            return Err(Refusal::Unsupported);
        }
        if terminal.size() != size {
            terminal.resize(size).map_err(|e| Refusal::os(&e.into(), "set the size of the terminal"))?;
            self.record_size(size);
        }
        Ok(())
    }

    /// Its journal, and the state of it that decides when a screen is saved.
    pub(crate) fn recorded(&self) -> (&JournalWriter, Recorded) {
        let recorded =
            Recorded { position: self.position(), sizes: self.sizes, last_output: self.last_output };
        (&self.journal, recorded)
    }

    /// Keeps output that no saved screen covers.
    pub(crate) fn keep_uncovered(&mut self, covered: Option<u64>) {
        self.journal.keep_uncovered(covered);
    }

    /// Number of bytes of output so far.
    pub(super) fn read_bytes(&self) -> u64 {
        self.journal.position() + self.unrecorded.held().len() as u64
    }

    /// Reads the last output of a terminal, and closes it. The kernel has hung it up, so no process can write to it,
    /// but one may have opened it again.
    pub(super) fn drain_terminal(&mut self, buffer: &mut Vec<u8>, now: Instant) -> bool {
        let until = self.read_bytes() + MAX_TERMINAL_DRAIN;
        let mut limited = false;
        while self.read_bytes() < until && !limited {
            let before = self.read_bytes();
            limited = self.pump_at_most(Stream::Stdout, buffer, now, TERMINAL_READ) == ReadStatus::Limit;
            if self.read_bytes() == before {
                break;
            }
        }
        self.io.close_outputs();
        limited
    }
}
