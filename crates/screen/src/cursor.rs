//! Moving the cursor.

use crate::Screen;
use crate::buffer::Saved;

impl Screen {
    /// Keeps the cursor within the screen, or within the scroll region in origin mode. `last` is the last column
    /// allowed.
    pub(crate) fn restrict_to(&mut self, last: usize) {
        let (origin, rows) = (self.modes.origin, self.rows);
        let buffer = self.buffer_mut();
        buffer.x = buffer.x.min(last);
        buffer.y = if origin { buffer.y.clamp(buffer.top, buffer.bottom) } else { buffer.y.min(rows - 1) };
    }

    pub(crate) fn restrict(&mut self) {
        self.restrict_to(self.cols - 1);
    }

    /// Moves the cursor; in origin mode, rows count from the top of the scroll region.
    pub(crate) fn move_to(&mut self, x: usize, y: usize) {
        let origin = self.modes.origin;
        let buffer = self.buffer_mut();
        buffer.x = x;
        buffer.y = if origin { buffer.top + y } else { y };
        self.restrict();
    }

    /// Moves the cursor by columns and rows.
    ///
    /// As in xterm.js, a relative movement in origin mode adds the top of the scroll region again.
    pub(crate) fn move_by(&mut self, columns: isize, rows: isize) {
        self.restrict();
        let origin = self.modes.origin;
        let buffer = self.buffer_mut();
        let (top, bottom) = if origin { (buffer.top, buffer.bottom) } else { (0, buffer.rows - 1) };
        let offset = if origin { buffer.top } else { 0 };
        buffer.x = buffer.x.saturating_add_signed(columns).min(buffer.cols - 1);
        let y = buffer.y.cast_signed().saturating_add(rows).saturating_add(offset.cast_signed());
        buffer.y = usize::try_from(y).unwrap_or(0).clamp(top, bottom);
    }

    /// CUU: stops at the top of the scroll region.
    pub(crate) fn cursor_up(&mut self, count: usize) {
        let buffer = self.buffer();
        let count = buffer.y.checked_sub(buffer.top).map_or(count, |room| room.min(count));
        self.move_by(0, -clamp(count));
    }

    /// CUD: stops at the bottom of the scroll region.
    pub(crate) fn cursor_down(&mut self, count: usize) {
        let buffer = self.buffer();
        let count = buffer.bottom.checked_sub(buffer.y).map_or(count, |room| room.min(count));
        self.move_by(0, clamp(count));
    }

    pub(crate) fn line_feed(&mut self) {
        let (newline, cols, rows, erase) = (self.modes.newline, self.cols, self.rows, self.pen.erase_attr());
        let buffer = self.buffer_mut();
        if newline {
            buffer.x = 0;
        }
        if buffer.y == buffer.bottom {
            buffer.scroll(erase, false);
        } else if buffer.y + 1 < rows {
            buffer.y += 1;
            buffer.cursor_row().wrapped = false;
        }
        if buffer.x >= cols {
            buffer.x -= 1;
        }
    }

    /// IND: as a line feed, without its other effects.
    pub(crate) fn index(&mut self) {
        self.restrict();
        let (rows, erase) = (self.rows, self.pen.erase_attr());
        let buffer = self.buffer_mut();
        if buffer.y == buffer.bottom {
            buffer.scroll(erase, false);
        } else {
            buffer.y = (buffer.y + 1).min(rows - 1);
        }
        self.restrict();
    }

    /// RI: up, or scrolls down at the top of the scroll region.
    pub(crate) fn reverse_index(&mut self) {
        self.restrict();
        let erase = self.pen.erase_attr();
        let buffer = self.buffer_mut();
        if buffer.y == buffer.top {
            buffer.shift_down(buffer.top, buffer.bottom, 1, erase);
        } else {
            buffer.y = buffer.y.saturating_sub(1);
            self.restrict();
        }
    }

    pub(crate) fn backspace(&mut self) {
        if !self.modes.reverse_wraparound {
            self.restrict();
            let buffer = self.buffer_mut();
            buffer.x = buffer.x.saturating_sub(1);
            return;
        }
        self.restrict_to(self.cols);
        let cols = self.cols;
        let buffer = self.buffer_mut();
        if buffer.x > 0 {
            buffer.x -= 1;
        } else if buffer.y > buffer.top && buffer.y <= buffer.bottom && buffer.cursor_row().wrapped {
            buffer.cursor_row().wrapped = false;
            buffer.y -= 1;
            buffer.x = cols - 1;
            let last = buffer.cursor_row().get(cols - 1);
            // A wide character did not fit into the last column.
            if last.width() > 0 && !last.has_content() {
                buffer.x -= 1;
            }
        }
        self.restrict();
    }

    /// Moves to the `count`th next tab stop.
    pub(crate) fn tab_forward(&mut self, count: usize) {
        let cols = self.cols;
        let buffer = self.buffer_mut();
        if buffer.x < cols {
            for _ in 0..count.min(cols) {
                buffer.x = buffer.tabs.next(buffer.x, cols);
            }
        }
    }

    pub(crate) fn tab_backward(&mut self, count: usize) {
        let cols = self.cols;
        let buffer = self.buffer_mut();
        if buffer.x < cols {
            for _ in 0..count.min(cols) {
                buffer.x = buffer.tabs.previous(buffer.x, cols);
            }
        }
    }

    /// DECSC.
    pub(crate) fn save_cursor(&mut self) {
        let (fg, bg, charset) = (self.pen.fg, self.pen.bg, self.charsets.active);
        let buffer = self.buffer_mut();
        buffer.saved = Saved { x: buffer.x, line: buffer.base + buffer.y, fg, bg, charset };
    }

    /// DECRC.
    pub(crate) fn restore_cursor(&mut self) {
        let buffer = self.buffer_mut();
        let saved = buffer.saved;
        buffer.x = saved.x;
        buffer.y = saved.line.saturating_sub(buffer.base);
        self.pen.fg = saved.fg;
        self.pen.bg = saved.bg;
        self.charsets.active = saved.charset;
        self.restrict();
        self.refresh_pen();
    }

    /// DECSTBM.
    pub(crate) fn set_scroll_region(&mut self, top: usize, bottom: Option<usize>) {
        let rows = self.rows;
        let bottom = bottom.filter(|&bottom| bottom != 0 && bottom <= rows).unwrap_or(rows);
        if bottom > top {
            let buffer = self.buffer_mut();
            buffer.top = top - 1;
            buffer.bottom = bottom - 1;
            self.move_to(0, 0);
        }
    }
}

/// A count as a signed number.
pub(crate) fn clamp(count: usize) -> isize {
    isize::try_from(count.min(1 << 20)).unwrap_or(0)
}
