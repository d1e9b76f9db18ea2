//! Painting the lines of a buffer from the top to the bottom, so that the viewer's scrollback fills too.

use super::row::{RowPainter, natural_width};
use crate::buffer::{Buffer, Saved};
use crate::cell::{COLOR_MASK, Cell, Extended};
use crate::row::Row;

/// A saved cursor that is set when the painter is at its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct SavedAt {
    pub(super) line: usize,
    pub(super) saved: Saved,
    /// The extended attributes to save with, for what the saved flags do not say.
    pub(super) extended: Option<Extended>,
}

impl RowPainter<'_> {
    /// Paints the lines of a buffer from `first` on. The viewer's screen is empty, its cursor at the top left, and its
    /// pen has default attributes. Then the cursor is in the last row.
    pub(super) fn lines(&mut self, buffer: &Buffer, first: usize, saved: Option<SavedAt>) {
        let mut previous: Option<&Row> = None;
        let lines = buffer.lines.from(first);
        let wrapped = buffer.lines.from(first).skip(1).map(|row| row.wrapped).chain(std::iter::once(false));
        for (line, (row, next_wrapped)) in lines.zip(wrapped).enumerate() {
            if self.out.is_full() {
                return;
            }
            let here = saved.filter(|saved| saved.line == line);
            let (fill, dirty) = match previous {
                None if row.wrapped => self.first_wrapped(buffer),
                None => (0, 0),
                Some(previous) if row.wrapped => self.wrap(previous, row, here.is_some(), line, buffer.rows),
                Some(_) => {
                    if self.out.background() != 0 {
                        self.out.only_background(0);
                    }
                    self.out.raw(b"\r\n");
                    self.x = 0;
                    (0, 0)
                }
            };
            if let Some(here) = here {
                self.save(here);
            }
            let keep_last = next_wrapped && wraps_by_wide(row, buffer.cols);
            self.row(row, fill, dirty, keep_last);
            previous = Some(row);
        }
    }

    /// DECSC with the cursor in the present row.
    pub(super) fn save(&mut self, here: SavedAt) {
        let saved = here.saved;
        self.go(saved.x.min(self.cols() - 1));
        self.out.pen(saved.fg, saved.bg, here.extended, false);
        if saved.charset.is_default() {
            self.out.raw(b"\x1b7");
        } else {
            self.out.raw(&[0x1b, b'(', saved.charset.designator()]);
            self.out.raw(b"\x1b7\x1b(B");
        }
    }

    /// Makes the first line a continuation of one that is gone. Returns background and number of overwritten cells.
    fn first_wrapped(&mut self, buffer: &Buffer) -> (u32, usize) {
        self.go(buffer.cols - 1);
        self.out.raw(b"  ");
        if buffer.rows > 1 {
            self.out.raw(b"\x1b[H\x1b[M");
        } else {
            self.out.raw(b"\x1b[3J\r");
        }
        self.x = 0;
        (0, 1)
    }

    /// Goes to the next row by wrapping. Returns its background and how many of its cells are overwritten.
    fn wrap(&mut self, previous: &Row, row: &Row, cursor: bool, line: usize, rows: usize) -> (u32, usize) {
        let cols = self.cols();
        let last = previous.get(cols - 1);
        if wraps_by_wide(previous, cols) {
            self.go(cols - 1);
            self.out.attr(last.attr());
            self.out.text("漢\r");
            self.x = 0;
            // A row that scrolls in has the background of the pen.
            return (if line < rows { 0 } else { last.bg & COLOR_MASK }, 2);
        }
        if self.x < cols || last.is_spacer() && previous.get(cols - 2).width() != 2 {
            // Nothing was written into the last column last. Wrap with a character there, then paint the row again.
            self.go(cols - 1);
            self.out.only_background(0);
            self.out.raw(b"  ");
            if rows > 1 {
                self.out.raw(b"\x1b[A\r");
                self.x = 0;
                self.row(previous, 0, cols, false);
                self.out.raw(b"\x1b[B\r");
            } else {
                self.out.raw(b"\r");
            }
            self.x = 0;
            return (0, 1);
        }
        let first = row.get(0);
        let natural = first.has_content()
            && first.width() > 0
            // A combining character would join the last one of the line.
            && natural_width(first, self.extras) > 0
            && (first.bg & COLOR_MASK == 0 || line < rows)
            && !cursor;
        // A lone half of a wide character is painted elsewhere first.
        let natural = natural && (first.width() == 1 || row.get(1).is_spacer()) && !self.has_tail(row);
        if natural {
            self.x = 0;
            return (0, 0);
        }
        self.out.only_background(0);
        self.out.raw(b" \r");
        self.x = 0;
        (0, 1)
    }
}

/// Whether wrapping a wide character paints the last cell of this row.
fn wraps_by_wide(row: &Row, cols: usize) -> bool {
    let last: Cell = row.get(cols - 1);
    !last.has_content() && last.width() == 1 && row.get(cols - 2).width() != 2
}
