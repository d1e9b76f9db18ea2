//! Modes that xterm.js ignores, and other terminals know. They have no effect here; a repaint sets them again.

use crate::Screen;
use crate::repaint::Output;

/// The private modes (DECSET) that are kept: reverse video, mouse encodings, alternate scroll, meta and alt keys,
/// reports of the colour scheme and of the size.
const MODES: [i32; 11] = [5, 1005, 1007, 1015, 1034, 1035, 1036, 1039, 2027, 2031, 2048];
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
    /// The keyboard modes of the normal and of the alternate buffer, as in kitty.
    keyboards: [Keyboard; 2],
}

/// The keyboard modes of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Keyboard {
    /// The modes without an entry on the stack (`CSI = n u`).
    base: u8,
    /// The stack (`CSI > n u`).
    stack: Vec<u8>,
}

impl Keyboard {
    /// Pushes, pops or changes modes.
    fn change(&mut self, prefix: u8, first: i32, second: i32) {
        let flags = u8::try_from(first & KEYBOARD_MASK).unwrap_or(0);
        match prefix {
            b'>' => {
                if self.stack.len() == KEYBOARD_LIMIT {
                    self.stack.remove(0);
                }
                self.stack.push(flags);
            }
            b'<' => {
                let count = usize::try_from(first.max(1)).unwrap_or(1);
                if count > self.stack.len() {
                    self.base = 0;
                }
                self.stack.truncate(self.stack.len().saturating_sub(count));
            }
            _ => {
                let present = self.stack.last_mut().unwrap_or(&mut self.base);
                match second {
                    2 => *present |= flags,
                    3 => *present &= !flags,
                    _ => *present = flags,
                }
            }
        }
    }
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
}

impl Screen {
    /// Changes the keyboard modes of the buffer that is shown.
    pub(crate) fn change_keyboard(&mut self, prefix: u8, first: i32, second: i32) {
        self.foreign_modes.keyboards[usize::from(self.is_alternate)].change(prefix, first, second);
    }

    /// Sets the modes in a terminal that has been reset.
    pub(crate) fn write_foreign_modes(&self, out: &mut Output<'_>) {
        let modes = &self.foreign_modes;
        for (mode, _) in MODES.iter().zip(modes.private).filter(|(_, on)| *on) {
            out.text(&format!("\x1b[?{mode}h"));
        }
        if modes.other_keys > 0 {
            out.text(&format!("\x1b[>4;{}m", modes.other_keys));
        }
    }

    /// Sets the keyboard modes of a buffer while it is shown.
    pub(crate) fn write_keyboard(&self, is_alternate: bool, out: &mut Output<'_>) {
        let Keyboard { base, stack } = &self.foreign_modes.keyboards[usize::from(is_alternate)];
        if *base != 0 {
            out.text(&format!("\x1b[={base}u"));
        }
        for flags in stack {
            out.text(&format!("\x1b[>{flags}u"));
        }
    }
}
