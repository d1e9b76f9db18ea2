//! [`TerminalIo`]: the master of a terminal, and the input that its program has not read.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::{Errno, ioctl_fionread, read, write};
use rustix::termios::{QueueSelector, SpecialCodeIndex, tcflush, tcgetattr};

use super::pty::{Pty, open_slave, set_size};
use crate::process_tree::InputFile;
use crate::supervisor::job_io::{ReadResult, SMALL_READ};
use crate::sys;
use crate::terminal::{MAX_TERMINAL_INPUT_BYTES, SignalCharacter, TerminalSize, last_signal_in};

/// Maximum size of a read. The kernel returns at most 4 KiB at a time, and several reads make one record.
pub(crate) const TERMINAL_READ: usize = 64 << 10;
/// The first and the longest interval between attempts to read a terminal that no process has open.
const FIRST_RETRY: Duration = Duration::from_millis(10);
const LONGEST_RETRY: Duration = Duration::from_secs(1);
/// Input after which a buffer is not kept.
const SMALL_INPUT: usize = 4 << 10;

/// Unread input that the line discipline holds. Further input waits in front of it and has no effect, also that of a
/// character that sends a signal.
const LINE_DISCIPLINE_BYTES: usize = 4095;
/// Maximum time in which the line discipline takes over input that the kernel has accepted, if it has room.
const TAKE_OVER_TIME: Duration = Duration::from_secs(1);

/// A terminal that no process has open.
#[derive(Debug, Clone, Copy)]
struct Unopened {
    interval: Duration,
    /// Time of the next attempt to read.
    until: Instant,
}

/// Our end of a terminal.
#[derive(Debug)]
pub(crate) struct TerminalIo {
    /// `None` when no more output can follow.
    master: Option<OwnedFd>,
    file: InputFile,
    /// Input that the kernel has not accepted, at most [`MAX_TERMINAL_INPUT_BYTES`].
    unwritten: Vec<u8>,
    /// Number of bytes that the kernel has accepted since the program was known to have read everything.
    unread: usize,
    /// Time at which the kernel last accepted input.
    written: Instant,
    /// Whether an engine has a copy of the master, and may have written more than it has told.
    is_shared: bool,
    unopened: Option<Unopened>,
    /// Whether the program has ended, so that an unopened terminal stays so.
    is_over: bool,
    size: TerminalSize,
}

impl TerminalIo {
    /// Takes a terminal. Returns it and the program's end.
    pub(super) fn new(pty: Pty, size: TerminalSize) -> (Self, OwnedFd) {
        let Pty { master, slave, file } = pty;
        let io = Self {
            master: Some(master),
            file,
            unwritten: Vec::new(),
            unread: 0,
            written: Instant::now(),
            is_shared: false,
            unopened: None,
            is_over: false,
            size,
        };
        (io, slave)
    }

    /// The descriptor to read from, if it may have data.
    pub(crate) fn output(&self) -> Option<BorrowedFd<'_>> {
        self.master.as_ref().filter(|_| self.unopened.is_none()).map(AsFd::as_fd)
    }

    /// Whether no more output can follow.
    pub(crate) fn is_silent(&self) -> bool {
        self.master.is_none()
    }

    /// The file that its program reads from.
    pub(crate) fn file(&self) -> InputFile {
        self.file
    }

    pub(crate) fn size(&self) -> TerminalSize {
        self.size
    }

    /// Reads available output into the buffer, which is small while there is little.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>, most: usize) -> ReadResult {
        let Some(master) = &self.master else {
            return ReadResult::Eof;
        };
        let mut count = 0;
        loop {
            if count == buffer.len() && buffer.len() < TERMINAL_READ {
                buffer.resize(if count < SMALL_READ { SMALL_READ } else { TERMINAL_READ }, 0);
            }
            let room = buffer.len().min(most);
            if count >= room {
                break;
            }
            match read(master, &mut buffer[count..room]) {
                Ok(n) if n > 0 => count += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if count == 0 => return ReadResult::Nothing,
                Err(Errno::AGAIN) => break,
                // No process has the slave open. A process of the program may open it again.
                Ok(_) | Err(_) if count == 0 => return self.is_unopened(),
                Ok(_) | Err(_) => break,
            }
        }
        self.unopened = None;
        if count < SMALL_READ && buffer.len() > SMALL_READ {
            buffer.truncate(SMALL_READ);
            buffer.shrink_to_fit();
        }
        ReadResult::Bytes { count, more: false }
    }

    fn is_unopened(&mut self) -> ReadResult {
        if self.is_over {
            self.close();
            return ReadResult::Eof;
        }
        let interval = self.unopened.map_or(FIRST_RETRY, |before| (before.interval * 2).min(LONGEST_RETRY));
        self.unopened = Some(Unopened { interval, until: Instant::now() + interval });
        ReadResult::Nothing
    }

    /// Time at which to read again although nothing is reported.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.master.as_ref()?;
        self.unopened.map(|unopened| unopened.until)
    }

    /// The program has ended: what can be read now is its last output.
    pub(crate) fn program_ended(&mut self) {
        self.is_over = true;
        self.unwritten = Vec::new();
    }

    pub(crate) fn close(&mut self) {
        (self.master, self.unopened) = (None, None);
    }

    /// Sets the size.
    pub(crate) fn resize(&mut self, size: TerminalSize) -> rustix::io::Result<()> {
        if let Some(master) = &self.master {
            set_size(master, size)?;
            self.size = size;
        }
        Ok(())
    }

    /// The descriptor to wait on before writing, if input is queued.
    pub(crate) fn to_write(&self) -> Option<BorrowedFd<'_>> {
        self.master.as_ref().filter(|_| !self.unwritten.is_empty()).map(AsFd::as_fd)
    }

    /// Queues input. Returns the number of accepted bytes.
    pub(crate) fn queue(&mut self, bytes: &[u8]) -> usize {
        self.write();
        let mut done = 0;
        if self.may_be_full()
            && let Some(master) = &self.master
            && let Some(SignalCharacter { at, signal, keeps_input }) = last_signal_in(master.as_fd(), bytes)
            && self.is_full()
        {
            // The character would wait until the program reads what is before it.
            if !keeps_input {
                self.discard_input();
            }
            if let Some(master) = &self.master {
                drop(sys::signal_terminal(master.as_fd(), signal));
            }
            done = at + 1;
        }
        let rest = &bytes[done..];
        let accepted = &rest[..rest.len().min(MAX_TERMINAL_INPUT_BYTES - self.unwritten.len())];
        self.unwritten.extend_from_slice(accepted);
        self.write();
        done + accepted.len()
    }

    /// Whether the kernel may have no room for input.
    fn may_be_full(&self) -> bool {
        !self.unwritten.is_empty() || self.unread >= LINE_DISCIPLINE_BYTES
    }

    /// Whether the kernel may have no room for input, and the program has not read what it got before. The exact amount is
    /// not known: in canonical mode the kernel counts complete lines only, and it takes over input in the background.
    fn is_full(&mut self) -> bool {
        if !self.unwritten.is_empty() {
            return true;
        }
        let Some(Ok(slave)) = self.master.as_ref().map(open_slave) else { return false };
        let is_unread = ioctl_fionread(&slave).is_ok_and(|unread| unread > 0);
        if !is_unread && self.written.elapsed() > TAKE_OVER_TIME {
            self.unread = 0;
        }
        is_unread
    }

    /// The engine has written this much to the terminal itself.
    pub(crate) fn written_directly(&mut self, bytes: Option<u32>) {
        if let Some(bytes) = bytes.and_then(|bytes| usize::try_from(bytes).ok()) {
            (self.unread, self.written) = (self.unread.saturating_add(bytes), Instant::now());
        }
    }

    /// The master, for another process that writes to it.
    pub(crate) fn share(&mut self) -> Option<BorrowedFd<'_>> {
        self.is_shared = self.master.is_some();
        self.master.as_ref().map(AsFd::as_fd)
    }

    /// The engine has gone. It is unknown how much it has written since it last told.
    pub(crate) fn engine_gone(&mut self) {
        if std::mem::take(&mut self.is_shared) {
            (self.unread, self.written) = (self.unread.max(LINE_DISCIPLINE_BYTES), Instant::now());
        }
    }

    /// Number of bytes that can be queued.
    pub(crate) fn room(&self) -> usize {
        MAX_TERMINAL_INPUT_BYTES - self.unwritten.len()
    }

    /// The character that means end of file.
    pub(crate) fn eof_character(&self) -> u8 {
        let modes = self.master.as_ref().and_then(|master| tcgetattr(master).ok());
        modes.map_or(4, |modes| modes.special_codes[SpecialCodeIndex::VEOF])
    }

    /// Discards all input that the program has not read, as the kernel does on a signal.
    fn discard_input(&mut self) {
        (self.unwritten, self.unread) = (Vec::new(), 0);
        if let Some(master) = &self.master
            && let Ok(slave) = open_slave(master)
        {
            let _ = tcflush(&slave, QueueSelector::IFlush);
        }
    }

    /// Writes queued input, as much as the kernel accepts.
    pub(crate) fn write(&mut self) {
        let Some(master) = &self.master else {
            self.unwritten = Vec::new();
            return;
        };
        let mut sent = 0;
        while sent < self.unwritten.len() {
            match write(master, &self.unwritten[sent..]) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(n) => {
                    sent += n;
                    (self.unread, self.written) = (self.unread.saturating_add(n), Instant::now());
                }
                Err(Errno::INTR) => {}
                // No process has the slave open; input for it is lost, as that of any terminal.
                Err(_) => sent = self.unwritten.len(),
            }
        }
        self.unwritten.drain(..sent);
        if self.unwritten.is_empty() && self.unwritten.capacity() > SMALL_INPUT {
            self.unwritten = Vec::new();
        }
    }
}
