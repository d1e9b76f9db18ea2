//! [`Emulator`]: the screen of a terminal, built from its saved screen and its journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sandcrab_api::terminal::ScreenSource;
use sandcrab_engine::{EndReason, Event, Follower, ReadError, SavedScreen, Terminal, TerminalSize};
use sandcrab_screen::{SCROLLBACK_LINES, Screen, Size};

/// Maximum number of bytes of answers to queries that one step produces.
pub(crate) const MAX_REPLY_BYTES: usize = 1_024;
/// The cost of a size, in bytes of output: a resize may wrap every line again.
const SIZE_COST: usize = 16 << 10;
/// Estimated memory of a cell, and of an emulator without cells.
const CELL_BYTES: usize = 24;
const BASE_BYTES: usize = 64 << 10;

/// Number of emulators so far.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// Estimated memory of an emulator of this size, which it gets before it exists. If it uses more, it must get more.
pub(crate) fn memory_estimate(size: TerminalSize) -> usize {
    let (cols, rows) = (usize::from(size.cols), usize::from(size.rows));
    // Both screens, and the scrollback as if its lines were half full.
    BASE_BYTES + cols * (2 * rows + SCROLLBACK_LINES / 2) * CELL_BYTES
}

/// The screen of a terminal at a position of its journal.
#[derive(Debug)]
pub(crate) struct Emulator {
    pub(crate) screen: Screen,
    follower: Follower,
    /// Where the screen stands: all output before it is shown.
    cursor: u64,
    /// Number of sizes that are part of the screen.
    sizes: u64,
    /// Whether no output before the cursor is missing.
    is_complete: bool,
    /// Whether the end of the journal was read.
    is_ended: bool,
    /// The number of this emulator among all.
    serial: u64,
}

/// Result of a step.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Whether the journal has more.
    pub(crate) has_more: bool,
    /// Answers to queries in the output that was read, each with the cursor after the output that contained it.
    pub(crate) replies: Vec<(u64, Vec<u8>)>,
}

/// Why an emulator cannot continue.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdvanceError {
    /// The journal has dropped output that the emulator has not read. A newer saved screen covers it.
    #[error("the journal has dropped output")]
    Overtaken,
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Emulator {
    /// Opens the newest saved screen. Blocks on file I/O.
    pub(crate) fn open(terminal: &Terminal) -> Result<Self, ReadError> {
        let saved = terminal.saved_screen()?;
        let mut screen = Screen::new(Size::new(saved.size.cols, saved.size.rows), SCROLLBACK_LINES);
        screen.feed(&saved.repaint);
        // A saved screen has no queries, and its output was answered.
        drop(screen.take_replies());
        let follower = terminal.follow_screen(&saved)?;
        Ok(Self {
            screen,
            follower,
            cursor: saved.cursor,
            sizes: saved.sizes,
            is_complete: saved.complete,
            is_ended: false,
            serial: OPENED.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Where the screen stands.
    pub(crate) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// A value that differs whenever something visible has changed, also if another emulator of the terminal was used before.
    pub(crate) fn changes(&self) -> (u64, u64) {
        (self.serial, self.screen.changes())
    }

    /// The size of the screen.
    pub(crate) fn size(&self) -> TerminalSize {
        let Size { cols, rows } = self.screen.size();
        TerminalSize { cols, rows }
    }

    /// Reads about this many bytes of the journal. Answers to output before `answered` are dropped: they were given.
    pub(crate) fn advance(&mut self, mut budget: usize, answered: u64) -> Result<Step, AdvanceError> {
        let mut step = Step::default();
        loop {
            let Some(entry) = self.follower.try_next()? else { return Ok(step) };
            match entry.event {
                Event::Output { bytes, .. } => {
                    let start = entry.cursor - bytes.len() as u64;
                    let known = usize::try_from(answered.saturating_sub(start)).unwrap_or(usize::MAX);
                    let (old, new) = bytes.split_at(known.min(bytes.len()));
                    self.screen.feed(old);
                    drop(self.screen.take_replies());
                    self.screen.feed(new);
                    let mut reply = self.screen.take_replies();
                    reply.truncate(MAX_REPLY_BYTES);
                    if !reply.is_empty() {
                        step.replies.push((entry.cursor, reply));
                    }
                    budget = budget.saturating_sub(bytes.len());
                }
                Event::Size { size, number } => {
                    self.screen.resize(Size::new(size.cols, size.rows));
                    self.sizes = self.sizes.max(number + 1);
                    budget = budget.saturating_sub(SIZE_COST);
                }
                Event::Gap { .. } => return Err(AdvanceError::Overtaken),
                Event::Ended(_) => self.is_ended = true,
                _ => {}
            }
            self.cursor = entry.cursor;
            if budget == 0 {
                step.has_more = true;
                return Ok(step);
            }
        }
    }

    /// Whether no output before the cursor is missing.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Continues after a gap that no saved screen covers.
    pub(crate) fn accept_gap(&mut self) {
        self.is_complete = false;
    }

    /// Frees read-ahead data.
    pub(crate) fn release(&mut self) {
        self.follower.release();
    }

    /// The bytes that show this screen in another terminal, at most this many.
    pub(crate) fn repaint_within(&self, most: usize) -> Vec<u8> {
        self.screen.repaint_within(most)
    }

    /// The state from which a follower continues after this screen.
    pub(crate) fn position(&self) -> SavedScreen {
        SavedScreen {
            cursor: self.cursor,
            size: self.size(),
            sizes: self.sizes,
            repaint: Vec::new(),
            complete: self.is_complete,
            source: sandcrab_engine::ScreenSource::Saved,
        }
    }

    /// Where the screen comes from, as responses say it.
    pub(crate) fn source(&self, terminal: &Terminal) -> ScreenSource {
        let status = terminal.execution().status();
        let is_lost = status.end().is_some_and(|end: &Arc<_>| end.reason == EndReason::Lost);
        match (is_lost, self.is_complete) {
            (_, false) => ScreenSource::Saved,
            (true, true) => ScreenSource::Journal,
            (false, true) => ScreenSource::Live,
        }
    }
}
