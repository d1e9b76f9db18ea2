//! [`ScreenSaver`]: saves the screen of a terminal before its journal drops the output that led to it.
//!
//! The emulator exists only while there is much unsaved output. It reads the journal, a bounded part per round of the
//! event loop, so that a flood of output does not delay input, resizes and kills.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use sandcrab_screen::{SCROLLBACK_LINES, Screen, Size};

use crate::journal::{Item, JournalReader, JournalWriter, kind};
use crate::layout::{MAX_SAVED_SCREEN_BYTES, ScreenFile, ScreenState};
use crate::protocol::Bytes;
use crate::supervisor::job::Job;
use crate::terminal::{SizeEvent, TerminalSize};

/// Unsaved output at which a quiet terminal is saved. Emulating it takes some milliseconds.
const QUIET_DEBT: u64 = 1 << 20;
/// Unsaved output at which a busy terminal is saved; less if the journal is small.
const BUSY_DEBT: u64 = 8 << 20;
/// Time without output after which a terminal is quiet.
const QUIET_TIME: Duration = Duration::from_millis(50);
/// Maximum amount of output that is emulated in one round: more than what is read in one, so that it catches up.
const SLICE: usize = 128 << 10;
/// Maximum size of the output that is given to the emulator at a time.
const PIECE: usize = 64 << 10;
/// Delay before the next attempt after a screen could not be saved.
const RETRY: Duration = Duration::from_secs(1);
/// The cost of a size, in bytes of output: a resize may wrap every line again.
const SIZE_COST: u64 = 16 << 10;
/// Ends an incomplete sequence in front of missing output.
const CANCEL: &[u8] = b"\x18";

/// The emulator and the journal that it reads.
#[derive(Debug)]
struct Emulation {
    screen: Screen,
    reader: JournalReader,
    sizes: u64,
    complete: bool,
    /// The position of the screen, if it shows output that is not in the journal.
    beyond: Option<u64>,
    /// What was recorded when nothing was left to emulate.
    caught_up: Option<(u64, u64)>,
}

impl Emulation {
    /// Applies a size. Returns whether it was not known.
    fn resize(&mut self, event: Option<&SizeEvent>) -> bool {
        let Some(SizeEvent { size, number }) = event.filter(|event| event.number >= self.sizes) else {
            return false;
        };
        self.screen.resize(Size::new(size.cols, size.rows));
        self.sizes = number + 1;
        true
    }
}

/// Saves the screen of one terminal.
#[derive(Debug)]
pub(super) struct ScreenSaver {
    file: ScreenFile,
    first_size: TerminalSize,
    /// The position and the number of sizes of the last saved screen.
    saved: (u64, u64),
    /// What was recorded when a quiet terminal was last saved. On a full disk this is more than the journal has.
    settled: (u64, u64),
    emulation: Option<Emulation>,
    /// Whether output is lost that is neither in the journal nor in a saved screen.
    has_lost: bool,
    /// Time of the next attempt, after a failure. Until then output may be dropped that no saved screen covers.
    retry_at: Option<Instant>,
}

/// The state of a terminal's journal, for the decision when to save.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recorded {
    pub(crate) position: u64,
    pub(crate) sizes: u64,
    pub(crate) last_output: Instant,
}

impl Recorded {
    fn extent(&self) -> (u64, u64) {
        (self.position, self.sizes)
    }
}

impl ScreenSaver {
    pub(super) fn new(slot: u32, journal: &JournalWriter, first_size: TerminalSize) -> Self {
        let file = ScreenFile::new(slot, journal.salt());
        Self {
            file,
            first_size,
            saved: (0, 0),
            settled: (0, 0),
            emulation: None,
            has_lost: false,
            retry_at: None,
        }
    }

    /// The position up to which a saved screen covers the output; `None` if screens cannot be saved.
    pub(super) fn covered(&self) -> Option<u64> {
        self.retry_at.is_none().then_some(self.saved.0)
    }

    fn debt(&self, recorded: Recorded) -> u64 {
        let (position, sizes) = self.saved.max(self.settled);
        let resized = recorded.sizes.saturating_sub(sizes.max(1));
        recorded.position.saturating_sub(position) + resized * SIZE_COST
    }

    /// Time at which to continue without an event.
    pub(super) fn wake_at(&self, recorded: Recorded, now: Instant) -> Option<Instant> {
        if let Some(retry) = self.retry_at {
            return Some(retry);
        }
        if let Some(emulation) = &self.emulation {
            let is_behind = emulation.caught_up != Some(recorded.extent());
            return Some(if is_behind { now } else { recorded.last_output + QUIET_TIME });
        }
        (self.debt(recorded) >= QUIET_DEBT).then(|| recorded.last_output + QUIET_TIME)
    }

    /// Does a bounded amount of work. Returns whether the emulator was dropped, which was the largest part of this
    /// process's memory.
    pub(super) fn advance(
        &mut self,
        journal: &JournalWriter,
        folder: &OwnedFd,
        recorded: Recorded,
        now: Instant,
    ) -> bool {
        if self.retry_at.is_some_and(|at| now < at) {
            return false;
        }
        self.retry_at = None;
        let is_quiet = recorded.last_output + QUIET_TIME <= now;
        let busy_debt = BUSY_DEBT.min(journal.tail_bytes() / 4);
        if self.emulation.is_none() {
            let debt = self.debt(recorded);
            if debt < busy_debt && !(is_quiet && debt >= QUIET_DEBT) {
                return false;
            }
        }
        let done = self.emulate(journal, folder).and_then(|is_caught_up| {
            let Some(emulation) = &mut self.emulation else { return Ok(()) };
            emulation.caught_up = is_caught_up.then_some(recorded.extent());
            let emulated = emulation.reader.cursor();
            let is_last = is_caught_up && is_quiet;
            if is_last || emulated.saturating_sub(self.saved.0) >= busy_debt {
                self.save(folder)?;
            }
            if is_last {
                self.emulation = None;
                self.settled = recorded.extent();
            }
            Ok(())
        });
        if done.is_err() {
            self.emulation = None;
            self.retry_at = Some(now + RETRY);
        }
        self.emulation.is_none()
    }

    /// Shows the output of a terminal that its journal has no room for, and its size. Returns whether the screen has them
    /// now: not before it shows all recorded output. If the screen cannot be emulated, the output is lost.
    pub(super) fn show(&mut self, job: &Job, folder: &OwnedFd) -> bool {
        let (journal, unrecorded) = (job.recorded().0, &job.unrecorded);
        match self.emulate(journal, folder) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(_) => {
                (self.emulation, self.has_lost) = (None, true);
                return true;
            }
        }
        if let Some(emulation) = &mut self.emulation {
            if unrecorded.is_size_first() {
                emulation.resize(job.unwritten_size());
            }
            emulation.screen.feed(unrecorded.held());
            drop(emulation.screen.take_replies());
            emulation.resize(job.unwritten_size());
            emulation.beyond = Some(journal.position() + unrecorded.held().len() as u64);
        }
        true
    }

    /// Saves the screen with the output that the journal does not have. Returns whether a saved screen covers it, or
    /// it is lost.
    pub(super) fn save_shown(&mut self, folder: &OwnedFd, recorded: Recorded) -> bool {
        if self.save(folder).is_err() {
            return false;
        }
        self.emulation = None;
        self.settled = recorded.extent();
        true
    }

    /// Emulates a part of the output. Returns whether nothing is left.
    fn emulate(&mut self, journal: &JournalWriter, folder: &OwnedFd) -> io::Result<bool> {
        if self.emulation.is_none() {
            self.emulation = Some(self.begin(journal, folder)?);
        }
        let Some(emulation) = &mut self.emulation else { return Ok(true) };
        // No terminal is there to which replies could be sent.
        drop(emulation.screen.take_replies());
        let mut left = SLICE;
        while left > 0 {
            let Some(entry) = emulation.reader.next_within(PIECE.min(left)).map_err(io::Error::other)? else {
                return Ok(true);
            };
            match entry.item {
                Item::Output { bytes, .. } => {
                    emulation.screen.feed(bytes);
                    left -= bytes.len().min(left);
                }
                Item::Event { kind: kind::SIZE, payload } => {
                    let event = minicbor::decode(payload).ok();
                    if emulation.resize(event.as_ref()) {
                        left = left.saturating_sub(usize::try_from(SIZE_COST).unwrap_or(usize::MAX));
                    }
                }
                Item::Gap { .. } => {
                    emulation.screen.feed(CANCEL);
                    emulation.complete = false;
                }
                Item::Event { .. } => {}
            }
        }
        Ok(false)
    }

    /// Starts an emulator at the last saved screen.
    fn begin(&self, journal: &JournalWriter, folder: &OwnedFd) -> io::Result<Emulation> {
        let mut reader = journal.reader().map_err(io::Error::other)?;
        let (position, sizes) = self.saved;
        let saved =
            self.file.read_own(folder)?.filter(|saved| (saved.cursor, saved.sizes) == (position, sizes));
        let size = saved.as_ref().map_or(self.first_size, |saved| saved.size);
        let mut screen = Screen::new(Size::new(size.cols, size.rows), SCROLLBACK_LINES);
        // A saved screen that was lost since leaves only what the journal has.
        let start = saved.as_ref().map_or((0, 0), |saved| (saved.cursor, saved.sizes));
        let complete = saved.as_ref().is_none_or(|saved| saved.complete);
        if let Some(saved) = saved {
            screen.feed(&saved.repaint.0);
        }
        reader.seek(start.0).map_err(io::Error::other)?;
        let complete = complete && !self.has_lost;
        Ok(Emulation { screen, reader, sizes: start.1, complete, beyond: None, caught_up: None })
    }

    fn save(&mut self, folder: &OwnedFd) -> io::Result<()> {
        let Some(emulation) = &self.emulation else { return Ok(()) };
        let cursor = emulation.beyond.unwrap_or_else(|| emulation.reader.cursor());
        let sizes = emulation.sizes;
        if (cursor, sizes) == self.saved {
            return Ok(());
        }
        let Size { cols, rows } = emulation.screen.size();
        let repaint = emulation.screen.repaint_within(MAX_SAVED_SCREEN_BYTES);
        let size = TerminalSize { cols, rows };
        let state =
            ScreenState { cursor, sizes, size, complete: emulation.complete, repaint: Bytes(repaint) };
        self.file.write(folder, &state)?;
        self.saved = (cursor, sizes);
        Ok(())
    }
}
