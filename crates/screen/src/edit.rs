//! Erasing, inserting and deleting.

use crate::Screen;
use crate::cell::{Attr, Cell, Extended};

impl Screen {
    fn erase_in_row(&mut self, y: usize, start: usize, end: usize, unwrap: bool, selective: bool) {
        let erase = self.pen.erase_attr();
        let row = self.buffer_mut().row_mut(y);
        row.erase(start, end, erase, selective);
        if unwrap {
            row.wrapped = false;
        }
    }

    fn reset_row(&mut self, y: usize, selective: bool) {
        let erase = self.pen.erase_attr();
        let row = self.buffer_mut().row_mut(y);
        if selective {
            for at in 0..row.len() {
                if !row.get(at).is_protected() {
                    row.set(at, Cell::blank(erase));
                }
            }
        } else {
            row.fill(Cell::blank(erase));
        }
        row.wrapped = false;
    }

    /// ED and DECSED.
    pub(crate) fn erase_in_display(&mut self, what: i32, selective: bool) {
        self.restrict_to(self.cols);
        if selective && !self.may_touch_all() {
            return;
        }
        let (cols, rows) = (self.cols, self.rows);
        let (x, y) = (self.buffer().x, self.buffer().y);
        match what {
            0 => {
                self.erase_in_row(y, x, cols, x == 0, selective);
                (y + 1..rows).for_each(|y| self.reset_row(y, selective));
            }
            1 => {
                self.erase_in_row(y, 0, x + 1, true, selective);
                if x + 1 >= cols {
                    // xterm.js means the next row, but counts from the oldest line of the scrollback.
                    if let Some(row) = self.buffer_mut().line_in_ring(y + 1) {
                        row.wrapped = false;
                    }
                }
                (0..y).for_each(|y| self.reset_row(y, selective));
            }
            2 => (0..rows).for_each(|y| self.reset_row(y, selective)),
            3 => {
                let buffer = self.buffer_mut();
                let excess = buffer.lines.len().saturating_sub(rows);
                buffer.lines.remove_first(excess);
                buffer.base = buffer.base.saturating_sub(excess);
            }
            _ => {}
        }
    }

    /// EL and DECSEL.
    pub(crate) fn erase_in_line(&mut self, what: i32, selective: bool) {
        self.restrict_to(self.cols);
        let (x, y, cols) = (self.buffer().x, self.buffer().y, self.cols);
        match what {
            0 => self.erase_in_row(y, x, cols, x == 0, selective),
            1 => self.erase_in_row(y, 0, x + 1, false, selective),
            2 => self.erase_in_row(y, 0, cols, true, selective),
            _ => {}
        }
    }

    /// ECH.
    pub(crate) fn erase_chars(&mut self, count: usize) {
        self.restrict();
        let (x, y) = (self.buffer().x, self.buffer().y);
        self.erase_in_row(y, x, x.saturating_add(count), false, false);
    }

    /// ICH.
    pub(crate) fn insert_chars(&mut self, count: usize) {
        self.restrict();
        let fill = Cell::blank(self.pen.erase_attr());
        let buffer = self.buffer_mut();
        let x = buffer.x;
        buffer.cursor_row().insert_cells(x, count, fill);
    }

    /// DCH.
    pub(crate) fn delete_chars(&mut self, count: usize) {
        self.restrict();
        let fill = Cell::blank(self.pen.erase_attr());
        let buffer = self.buffer_mut();
        let x = buffer.x;
        buffer.cursor_row().delete_cells(x, count, fill);
    }

    /// Whether the cursor is within the scroll region.
    fn in_region(&self) -> bool {
        let buffer = self.buffer();
        (buffer.top..=buffer.bottom).contains(&buffer.y)
    }

    /// IL.
    pub(crate) fn insert_lines(&mut self, count: usize) {
        self.restrict();
        if self.in_region() {
            let erase = self.pen.erase_attr();
            let buffer = self.buffer_mut();
            buffer.shift_down(buffer.y, buffer.bottom, count, erase);
            buffer.x = 0;
        }
    }

    /// DL.
    pub(crate) fn delete_lines(&mut self, count: usize) {
        self.restrict();
        if self.in_region() {
            let erase = self.pen.erase_attr();
            let buffer = self.buffer_mut();
            buffer.shift_up(buffer.y, buffer.bottom, count, erase);
            buffer.x = 0;
        }
    }

    /// SU.
    pub(crate) fn scroll_up(&mut self, count: usize) {
        let erase = self.pen.erase_attr();
        let buffer = self.buffer_mut();
        buffer.shift_up(buffer.top, buffer.bottom, count, erase);
    }

    /// SD. The new rows have default attributes.
    pub(crate) fn scroll_down(&mut self, count: usize) {
        let buffer = self.buffer_mut();
        buffer.shift_down(buffer.top, buffer.bottom, count, Attr::default());
    }

    /// SR and DECIC: inserts columns in all rows of the scroll region.
    pub(crate) fn insert_columns(&mut self, at: usize, count: usize) {
        self.in_all_columns(|row, fill| row.insert_cells(at, count, fill));
    }

    /// SL and DECDC: deletes columns in all rows of the scroll region.
    pub(crate) fn delete_columns(&mut self, at: usize, count: usize) {
        self.in_all_columns(|row, fill| row.delete_cells(at, count, fill));
    }

    fn in_all_columns(&mut self, change: impl Fn(&mut crate::row::Row, Cell)) {
        if self.in_region() && self.may_touch_all() {
            let fill = Cell::blank(self.pen.erase_attr());
            let buffer = self.buffer_mut();
            for y in buffer.top..=buffer.bottom {
                let row = buffer.row_mut(y);
                change(row, fill);
                row.wrapped = false;
            }
        }
    }

    /// DECALN.
    pub(crate) fn alignment_test(&mut self) {
        let mut attr = self.pen.attr();
        attr.ext = self.intern_extended(Extended::default());
        let cell = Cell::new(u32::from(b'E'), 1, attr);
        self.move_to(0, 0);
        // In origin mode xterm.js begins in the first row of the scroll region.
        let rows = self.rows;
        let buffer = self.buffer_mut();
        let first = buffer.base + buffer.y;
        for line in first..first + rows {
            if let Some(row) = buffer.line_in_ring(line) {
                row.fill(cell);
                row.wrapped = false;
            }
        }
        self.move_to(0, 0);
    }
}
