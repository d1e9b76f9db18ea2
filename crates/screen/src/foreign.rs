//! Modes that xterm.js ignores, and other terminals know. They have no effect here; a repaint sets them again.

use crate::Screen;
use crate::repaint::Output;

/// The private modes (DECSET) that are kept: reverse video, mouse encodings, alternate scroll, meta and alt keys,
/// reports of the colour scheme.
const MODES: [i32; 10] = [5, 1005, 1007, 1015, 1034, 1035, 1036, 1039, 2027, 2031];
/// Largest number of keyboard modes on the stack. The oldest are dropped.
const KEYBOARD_LIMIT: usize = 16;
/// Largest value of a keyboard mode.
const KEYBOARD_MASK: i32 = 0x1f;

/// The modes that programs have set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForeignModes {
    /// One flag for each of [`MODES`].
    private: [bool; MODES.len()],
    /// XTMODKEYS for other keys (`CSI > 4 ; n m`).
    other_keys: u8,
    /// The stack of keyboard modes (`CSI > n u`), as in kitty.
    keyboard: Vec<u8>,
}

impl ForeignModes {
    /// DECSET or DECRST.
    pub(crate) fn set(&mut self, mode: i32, on: bool) {
        if let Some(at) = MODES.iter().position(|&known| known == mode) {
            self.private[at] = on;
        }
    }

    /// XTMODKEYS.
    pub(crate) fn modify_keys(&mut self, resource: i32, value: i32) {
        match resource {
            0 | 4 => self.other_keys = u8::try_from(value.clamp(0, 3)).unwrap_or(0),
            _ => {}
        }
    }

    /// Pushes, pops or changes keyboard modes.
    pub(crate) fn keyboard(&mut self, prefix: u8, first: i32, second: i32) {
        let flags = u8::try_from(first & KEYBOARD_MASK).unwrap_or(0);
        match prefix {
            b'>' => {
                if self.keyboard.len() == KEYBOARD_LIMIT {
                    self.keyboard.remove(0);
                }
                self.keyboard.push(flags);
            }
            b'<' => {
                let count = usize::try_from(first.max(1)).unwrap_or(1);
                self.keyboard.truncate(self.keyboard.len().saturating_sub(count));
            }
            _ => {
                let old = self.keyboard.pop().unwrap_or(0);
                self.keyboard.push(match second {
                    2 => old | flags,
                    3 => old & !flags,
                    _ => flags,
                });
            }
        }
    }
}

impl Screen {
    /// Sets the modes in a terminal that has been reset.
    pub(crate) fn write_foreign_modes(&self, out: &mut Output<'_>) {
        let modes = &self.foreign_modes;
        for (mode, _) in MODES.iter().zip(modes.private).filter(|(_, on)| *on) {
            out.text(&format!("\x1b[?{mode}h"));
        }
        if modes.other_keys > 0 {
            out.text(&format!("\x1b[>4;{}m", modes.other_keys));
        }
        for flags in &modes.keyboard {
            out.text(&format!("\x1b[>{flags}u"));
        }
    }
}
