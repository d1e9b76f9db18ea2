//! [`SavedScreen`]: the state from which the screen of a terminal is built.

use super::error::ReadError;
use super::execution::Execution;
use super::follower::Follower;
use super::terminal::Terminal;
use crate::journal::JournalError;
use crate::layout::{ScreenFile, ScreenState};
use crate::protocol::Bytes;
use crate::terminal::TerminalSize;

/// Origin of a [`SavedScreen`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScreenSource {
    /// The empty screen at the start of the terminal.
    Start,
    /// A screen that the supervisor has saved.
    Saved,
}

/// A screen at some cursor of a terminal's journal. The present screen is this one, followed by what
/// [`Terminal::follow_screen`] returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedScreen {
    /// The cursor up to which output is part of it.
    pub cursor: u64,
    /// Its size.
    pub size: TerminalSize,
    /// Number of sizes that are part of it.
    pub sizes: u64,
    /// The bytes that paint it on a new emulator of this size, with an incomplete sequence at the cursor. Empty at
    /// the start.
    pub repaint: Vec<u8>,
    /// Whether all output before the cursor is part of it. Some is missing if the disk was full.
    pub complete: bool,
    /// Its origin.
    pub source: ScreenSource,
}

impl Terminal {
    /// The newest saved screen, or the empty screen at the start. Reads files, and does not wait for the supervisor.
    pub fn saved_screen(&self) -> Result<SavedScreen, ReadError> {
        let Execution { tracked, engine } = self.execution();
        let _guard = tracked.guard().ok_or(ReadError::Removed)?;
        let saved = ScreenFile::read(&engine.state.folders.screens, tracked.slot(), tracked.journal.salt)
            .map_err(JournalError::Io)?;
        let source = if saved.is_some() { ScreenSource::Saved } else { ScreenSource::Start };
        let ScreenState { cursor, sizes, size, complete, repaint } = saved.unwrap_or_else(|| ScreenState {
            cursor: 0,
            sizes: 0,
            size: self.first_size(),
            complete: true,
            repaint: Bytes::default(),
        });
        Ok(SavedScreen { cursor, size, sizes, repaint: repaint.0, complete, source })
    }

    /// Follows the record from a saved screen on. Output and sizes that are part of it are not returned.
    pub fn follow_screen(&self, screen: &SavedScreen) -> Result<Follower, ReadError> {
        let mut follower = self.execution().follow(screen.cursor)?;
        follower.skip_sizes(screen.sizes);
        Ok(follower)
    }
}
