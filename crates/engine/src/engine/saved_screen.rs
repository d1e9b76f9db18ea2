//! [`SavedScreen`]: the state from which the screen of a terminal is built.

use super::error::ReadError;
use super::output::Follower;
use super::terminal::Terminal;
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
    /// The bytes that paint it on a new emulator of this size. Empty at the start.
    pub repaint: Vec<u8>,
    /// An incomplete sequence or character at the cursor: to be given to the emulator after the repaint.
    pub incomplete: Vec<u8>,
    /// Whether all output before the cursor is part of it. Some is missing if the disk was full.
    pub complete: bool,
    /// Its origin.
    pub source: ScreenSource,
}

impl Terminal {
    /// The newest saved screen, or the empty screen at the start. Reads files, and does not wait for the supervisor.
    pub fn saved_screen(&self) -> Result<SavedScreen, ReadError> {
        Ok(SavedScreen {
            cursor: 0,
            size: self.first_size(),
            sizes: 0,
            repaint: Vec::new(),
            incomplete: Vec::new(),
            complete: true,
            source: ScreenSource::Start,
        })
    }

    /// Follows the record from a saved screen on. Output and sizes that are part of it are not returned.
    pub fn follow_screen(&self, screen: &SavedScreen) -> Result<Follower, ReadError> {
        let mut follower = self.execution().follow(screen.cursor)?;
        follower.skip_sizes(screen.sizes);
        Ok(follower)
    }
}
