//! One of the two buffers: lines, cursor, scroll region, tab stops and saved cursor.

use crate::cell::Attr;
use crate::charset::Charset;
use crate::ring::Ring;
use crate::row::Row;
use crate::tabs::Tabs;

/// What DECSC saves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) x: usize,
    /// Row, counted from the oldest line of the scrollback.
    pub(crate) line: usize,
    pub(crate) fg: u32,
    pub(crate) bg: u32,
    pub(crate) charset: Charset,
}

/// A buffer: the lines of the scrollback, then those of the screen.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// The lines. Empty in the alternate buffer while it is not shown.
    pub(crate) lines: Ring,
    pub(crate) cols: usize,
    pub(crate) rows: usize,
    /// Number of lines above the screen.
    pub(crate) base: usize,
    /// Largest number of lines above the screen; `None` in the alternate buffer.
    pub(crate) scrollback: Option<usize>,
    /// Largest number of lines, those of the screen included. As in xterm.js, the alternate buffer keeps a larger one
    /// than it needs when the screen becomes smaller while it is not shown.
    pub(crate) max_lines: usize,
    /// Column of the cursor. It equals `cols` or more when the next character wraps.
    pub(crate) x: usize,
    pub(crate) y: usize,
    /// First and last row of the scroll region.
    pub(crate) top: usize,
    pub(crate) bottom: usize,
    pub(crate) tabs: Tabs,
    pub(crate) saved: Saved,
}

impl Buffer {
    pub(crate) fn new(cols: usize, rows: usize, scrollback: Option<usize>) -> Self {
        Self {
            lines: Ring::default(),
            cols,
            rows,
            base: 0,
            scrollback,
            max_lines: rows + scrollback.unwrap_or(0),
            x: 0,
            y: 0,
            top: 0,
            bottom: rows - 1,
            tabs: Tabs::new(cols),
            saved: Saved::default(),
        }
    }

    /// Adds the lines of the screen if there are none.
    pub(crate) fn fill_screen(&mut self, attr: Attr) {
        if self.lines.is_empty() {
            let rows: Vec<Row> = (0..self.rows).map(|_| Row::new(self.cols, attr, false)).collect();
            self.lines = rows.into();
        }
    }

    /// Removes everything but the saved cursor.
    pub(crate) fn clear(&mut self) {
        *self = Self { saved: self.saved, ..Self::new(self.cols, self.rows, self.scrollback) };
    }

    /// The row of the screen with this number.
    pub(crate) fn row(&self, y: usize) -> &Row {
        &self.lines[self.base + y]
    }

    pub(crate) fn row_mut(&mut self, y: usize) -> &mut Row {
        &mut self.lines[self.base + y]
    }

    /// The line with this index. In a full buffer, as in the ring of xterm.js, the first line follows the last.
    pub(crate) fn line_in_ring(&mut self, line: usize) -> Option<&mut Row> {
        let len = self.lines.len();
        let line = if line >= len && len == self.max_lines { line - len } else { line };
        self.lines.get_mut(line)
    }

    /// The row of the cursor.
    pub(crate) fn cursor_row(&mut self) -> &mut Row {
        let y = self.y;
        self.row_mut(y)
    }

    /// Moves the scroll region up by one line. At the top of the screen, the line goes to the scrollback.
    pub(crate) fn scroll(&mut self, attr: Attr, wrapped: bool) {
        if self.top > 0 {
            self.shift_up(self.top, self.bottom, 1, attr);
            let bottom = self.bottom;
            self.row_mut(bottom).wrapped = wrapped;
            return;
        }
        if self.lines.len() < self.max_lines {
            self.base += 1;
            self.lines.push(Row::new(self.cols, attr, wrapped));
        } else if let Some(row) = self.lines.rotate() {
            row.reset(self.cols, attr, wrapped);
        }
        self.lines.move_last_to(self.base + self.bottom);
    }

    /// Removes `count` rows at `top`, and adds as many empty ones at `bottom`.
    pub(crate) fn shift_up(&mut self, top: usize, bottom: usize, count: usize, attr: Attr) {
        let (first, last) = (self.base + top, self.base + bottom);
        let count = count.min(last + 1 - first);
        for line in first..last + 1 - count {
            self.lines.swap(line, line + count);
        }
        self.reset_lines(last + 1 - count, last + 1, attr);
    }

    /// Removes `count` rows at `bottom`, and adds as many empty ones at `top`.
    pub(crate) fn shift_down(&mut self, top: usize, bottom: usize, count: usize, attr: Attr) {
        let (first, last) = (self.base + top, self.base + bottom);
        let count = count.min(last + 1 - first);
        for line in (first..last + 1 - count).rev() {
            self.lines.swap(line, line + count);
        }
        self.reset_lines(first, first + count, attr);
    }

    fn reset_lines(&mut self, first: usize, end: usize, attr: Attr) {
        for line in first..end {
            self.lines[line].reset(self.cols, attr, false);
        }
    }
}
