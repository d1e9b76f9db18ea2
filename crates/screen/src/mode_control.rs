//! Setting modes, and resets.

use crate::buffer::{Buffer, Saved};
use crate::cell::Pen;
use crate::charset::{Charset, Charsets};
use crate::foreign::ForeignModes;
use crate::{CursorShape, Modes, MouseEncoding, MouseTracking, Screen};

impl Screen {
    /// SM and RM.
    pub(crate) fn set_modes(&mut self, on: bool) {
        for at in 0..self.parser.params.len() {
            match self.parser.params.get(at) {
                4 => self.modes.insert = on,
                20 => self.modes.newline = on,
                _ => {}
            }
        }
    }

    /// DECSET and DECRST.
    pub(crate) fn set_private_modes(&mut self, on: bool) {
        for at in 0..self.parser.params.len() {
            self.set_private_mode(self.parser.params.get(at), on);
        }
    }

    fn set_private_mode(&mut self, mode: i32, on: bool) {
        let modes = &mut self.modes;
        let tracking = |kind| if on { kind } else { MouseTracking::None };
        let encoding = |kind| if on { kind } else { MouseEncoding::Default };
        match mode {
            1 => modes.application_cursor_keys = on,
            2 if on => (0..4).for_each(|level| self.charsets.designate(level, Charset::default())),
            6 => {
                modes.origin = on;
                self.move_to(0, 0);
            }
            7 => modes.wraparound = on,
            9 => modes.mouse_tracking = tracking(MouseTracking::X10),
            12 => modes.cursor_blink = on,
            25 => modes.cursor_visible = on,
            45 => modes.reverse_wraparound = on,
            66 => modes.application_keypad = on,
            1000 => modes.mouse_tracking = tracking(MouseTracking::Button),
            1002 => modes.mouse_tracking = tracking(MouseTracking::Drag),
            1003 => modes.mouse_tracking = tracking(MouseTracking::Any),
            1004 => modes.focus_events = on,
            1006 => modes.mouse_encoding = encoding(MouseEncoding::Sgr),
            1016 => modes.mouse_encoding = encoding(MouseEncoding::SgrPixels),
            1048 if on => self.save_cursor(),
            1048 => self.restore_cursor(),
            47 | 1047 | 1049 => self.switch_buffer(on, mode == 1049),
            2004 => modes.bracketed_paste = on,
            2026 => modes.synchronized_output = on,
            _ => self.foreign_modes.set(mode, on),
        }
    }

    /// Shows the alternate or the normal buffer. The cursor stays where it is, unless it is saved and restored.
    fn switch_buffer(&mut self, alternate: bool, with_cursor: bool) {
        let erase = self.pen.erase_attr();
        if alternate {
            if with_cursor {
                self.save_cursor();
            }
            if !self.is_alternate {
                self.alternate.fill_screen(erase);
                (self.alternate.x, self.alternate.y) = (self.normal.x, self.normal.y);
                self.is_alternate = true;
            }
            return;
        }
        if self.is_alternate {
            (self.normal.x, self.normal.y) = (self.alternate.x, self.alternate.y);
            self.alternate.clear();
            self.is_alternate = false;
        }
        if with_cursor {
            self.restore_cursor();
        }
    }

    /// DECSCUSR.
    pub(crate) fn set_cursor_style(&mut self, style: i32) {
        let shape = match style {
            0 => {
                self.modes.cursor_style = None;
                return;
            }
            1 | 2 => CursorShape::Block,
            3 | 4 => CursorShape::Underline,
            5 | 6 => CursorShape::Bar,
            _ => return,
        };
        self.modes.cursor_style = Some((shape, style % 2 == 1));
    }

    /// DECSTR.
    pub(crate) fn soft_reset(&mut self) {
        self.pen = Pen::default();
        self.reset_modes();
        self.modes.cursor_visible = true;
        self.charsets = Charsets::default();
        let rows = self.rows;
        let buffer = self.buffer_mut();
        (buffer.top, buffer.bottom) = (0, rows - 1);
        buffer.saved = Saved { line: buffer.base, ..Saved::default() };
    }

    /// Resets the modes that both resets reset. xterm.js keeps the others: they are options of the terminal.
    fn reset_modes(&mut self) {
        let old = self.modes;
        self.modes = Modes {
            cursor_visible: old.cursor_visible,
            cursor_blink: old.cursor_blink,
            newline: old.newline,
            mouse_tracking: old.mouse_tracking,
            mouse_encoding: old.mouse_encoding,
            ..Modes::default()
        };
    }

    /// RIS.
    pub(crate) fn reset(&mut self) {
        self.pen = Pen::default();
        self.charsets = Charsets::default();
        self.reset_modes();
        self.foreign_modes = ForeignModes::default();
        self.modes.mouse_tracking = MouseTracking::None;
        self.modes.mouse_encoding = MouseEncoding::Default;
        self.normal = Buffer::new(self.cols, self.rows, self.normal.scrollback);
        self.normal.fill_screen(self.pen.attr());
        self.alternate = Buffer::new(self.cols, self.rows, None);
        self.is_alternate = false;
    }
}
