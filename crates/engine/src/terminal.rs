//! What engine and supervisor share about terminals: [`TerminalSize`], its record in a journal ([`SizeEvent`]), and the
//! characters that send a signal.

use std::os::fd::BorrowedFd;

use minicbor::{Decode, Encode};
use rustix::termios::{LocalModes, SpecialCodeIndex, tcgetattr};

/// Maximum number of columns, and of rows, of a terminal.
pub const MAX_TERMINAL_SIDE: u16 = 1_000;
/// Maximum number of bytes of input that a terminal queues for a program that does not read.
pub const MAX_TERMINAL_INPUT_BYTES: usize = 64 << 10;
/// Maximum length of the value of `TERM`, in bytes.
pub const MAX_TERM_BYTES: usize = 64;

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct TerminalSize {
    /// Number of columns, 1 to [`MAX_TERMINAL_SIDE`].
    #[n(0)]
    pub cols: u16,
    /// Number of rows, 1 to [`MAX_TERMINAL_SIDE`].
    #[n(1)]
    pub rows: u16,
}

impl TerminalSize {
    /// Creates a size; `None` unless both numbers are 1 to [`MAX_TERMINAL_SIDE`].
    pub fn new(cols: u16, rows: u16) -> Option<Self> {
        Some(Self { cols, rows }).filter(Self::is_valid)
    }

    /// Whether both numbers are 1 to [`MAX_TERMINAL_SIDE`].
    pub(crate) fn is_valid(&self) -> bool {
        let valid = 1..=MAX_TERMINAL_SIDE;
        valid.contains(&self.cols) && valid.contains(&self.rows)
    }
}

impl Default for TerminalSize {
    /// 80 columns and 24 rows.
    fn default() -> Self {
        Self { cols: 80, rows: 24 }
    }
}

/// The payload of a size in a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct SizeEvent {
    #[n(0)]
    pub(crate) size: TerminalSize,
    /// Number of earlier sizes of this terminal.
    #[n(1)]
    pub(crate) number: u64,
}

/// A character in the input of a terminal that sends a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SignalCharacter {
    /// Its index in the input.
    pub(crate) at: usize,
    pub(crate) signal: i32,
    /// Whether the terminal keeps its input then.
    pub(crate) keeps_input: bool,
}

/// The last character that makes the terminal send a signal.
pub(crate) fn last_signal_in(master: BorrowedFd<'_>, bytes: &[u8]) -> Option<SignalCharacter> {
    let modes = tcgetattr(master).ok()?;
    if !modes.local_modes.contains(LocalModes::ISIG) {
        return None;
    }
    let codes = [
        (SpecialCodeIndex::VINTR, libc::SIGINT),
        (SpecialCodeIndex::VQUIT, libc::SIGQUIT),
        (SpecialCodeIndex::VSUSP, libc::SIGTSTP),
    ];
    // 0 disables the character.
    let signal_of = |byte: u8| {
        let code = codes.iter().find(|(index, _)| byte != 0 && modes.special_codes[*index] == byte);
        code.map(|(_, signal)| *signal)
    };
    let keeps_input = modes.local_modes.contains(LocalModes::NOFLSH);
    bytes.iter().enumerate().rev().find_map(|(at, byte)| {
        let signal = signal_of(*byte)?;
        Some(SignalCharacter { at, signal, keeps_input })
    })
}
