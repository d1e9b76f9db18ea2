//! Painting one row.
//!
//! Most rows are text and erased cells. The rest of this file is for cells that only overwriting leaves behind: an
//! empty cell with all attributes of the character that cut a wide character in half, or half of a wide character
//! alone. They are made in the same way as the program made them.

use super::pen::Output;
use crate::cell::{CODE_MASK, COLOR_MASK, COMBINED, CONTENT_MASK, Cell};
use crate::extras::Extras;
use crate::row::Row;
use crate::width::width;

/// A wide character that is overwritten at once.
const WIDE: &str = "漢";

/// Paints rows.
#[derive(Debug)]
pub(super) struct RowPainter<'a> {
    pub(super) out: Output<'a>,
    pub(super) extras: &'a Extras,
    cols: usize,
    /// Column of the viewer's cursor.
    pub(super) x: usize,
}

impl<'a> RowPainter<'a> {
    pub(super) fn new(out: Output<'a>, extras: &'a Extras, cols: usize) -> Self {
        Self { out, extras, cols, x: 0 }
    }

    pub(super) fn cols(&self) -> usize {
        self.cols
    }

    /// Whether painting this row begins at its end.
    pub(super) fn has_tail(&self, row: &Row) -> bool {
        self.tail(row) < self.cols
    }

    /// Moves the cursor to a column of its row.
    pub(super) fn go(&mut self, column: usize) {
        if self.x != column {
            self.out.column(column);
            self.x = column;
        }
    }

    /// As [`RowPainter::go`], but always writes a sequence, so that a combining character stays alone.
    fn go_anew(&mut self, column: usize) {
        self.out.control(column + 1, 'G');
        self.x = column;
    }

    /// The text of a cell.
    pub(super) fn cell_text(&self, cell: Cell) -> String {
        match cell.content & CONTENT_MASK {
            0 => String::from(" "),
            content if content & COMBINED != 0 => self.extras.text(content & CODE_MASK).to_owned(),
            content => char::from_u32(content).map(String::from).unwrap_or_default(),
        }
    }

    fn print(&mut self, cell: Cell, columns: usize) {
        self.out.attr(cell.attr());
        match cell.content & CONTENT_MASK {
            content if content & COMBINED != 0 => {
                let extras = self.extras;
                self.out.text(extras.text(content & CODE_MASK));
            }
            content => self.out.character(content),
        }
        self.x += columns;
    }

    /// Paints a row that is erased with the background colour `fill`, except for the first `dirty` cells.
    /// `keep_last` leaves out an empty last cell, because wrapping paints it.
    pub(super) fn row(&mut self, row: &Row, fill: u32, dirty: usize, keep_last: bool) {
        let cols = self.cols;
        let end = if keep_last { cols - 1 } else { cols };
        // The empty cells at the end that need characters to the left of them.
        let tail = if keep_last { end } else { self.tail(row) };
        let mut prepared = tail >= end;
        let mut dirty = dirty;
        let mut at = 0;
        while at < end.min(tail) {
            let cell = row.get(at);
            let next = (at + 1 < cols).then(|| row.get(at + 1));
            let length = unit_length(cell, next);
            let blank = is_plain_blank(cell) && length == 1;
            let length = if blank { self.blank_run(row, at, end.min(tail)) } else { length };
            if !prepared && at + length >= tail {
                self.prepare_tail(row, tail, fill);
                dirty = dirty.max(tail);
                prepared = true;
            }
            if blank {
                let bg = cell.bg & COLOR_MASK;
                if bg != fill || at < dirty {
                    self.go(at);
                    self.out.only_background(bg);
                    self.out.control(length, 'X');
                }
            } else {
                dirty = dirty.max(self.unit(row, at, fill));
            }
            at += length;
        }
        if !prepared {
            // The whole row consists of such cells; the first becomes an ordinary empty cell.
            self.prepare_tail(row, tail.max(1), fill);
            self.go(0);
            self.out.only_background(row.get(0).bg);
            self.out.control(1, 'X');
        }
    }

    /// Number of equal empty cells from `at` on that can be erased.
    fn blank_run(&self, row: &Row, at: usize, end: usize) -> usize {
        let cell = row.get(at);
        if at >= row.stored() {
            return end - at;
        }
        let run = (at..end).take_while(|&at| row.get(at) == cell).count();
        // An empty cell before half a wide character belongs to it.
        let cut = at + run < self.cols && row.get(at + run).is_spacer() && run > 1;
        run - usize::from(cut)
    }

    /// The column from which on the row ends in cells that need preparation, or the number of columns.
    fn tail(&self, row: &Row) -> usize {
        let cols = self.cols;
        if cols >= 2 && row.get(cols - 1).is_spacer() && is_plain_blank(row.get(cols - 2)) {
            return cols - 2;
        }
        let mut tail = cols;
        while tail > 0 && is_full_blank(row.get(tail - 1)) {
            tail -= 1;
        }
        tail
    }

    /// Makes the cells from `tail` on; overwrites the cell before.
    fn prepare_tail(&mut self, row: &Row, tail: usize, fill: u32) {
        let cols = self.cols;
        if tail == 0 {
            return;
        }
        if row.get(cols - 1).is_spacer() {
            // Half a wide character at the margin: shift it there.
            self.go(tail - 1);
            self.out.attr(row.get(cols - 1).attr());
            self.out.text(WIDE);
            self.x += 2;
            self.go(tail);
            self.out.only_background(row.get(tail).bg);
            self.out.control(1, '@');
            return;
        }
        for at in (tail..cols).rev() {
            self.go(at - 1);
            self.out.only_background(fill);
            self.out.text(WIDE);
            self.x += 2;
            self.go(at - 1);
            self.out.attr(row.get(at).attr());
            self.out.text(" ");
            self.x += 1;
        }
    }

    /// Paints the unit at this column. Returns the end of the cells that it overwrote.
    fn unit(&mut self, row: &Row, at: usize, fill: u32) -> usize {
        let cols = self.cols;
        let cell = row.get(at);
        let next = (at + 1 < cols).then(|| row.get(at + 1));
        let spacer = next.is_some_and(Cell::is_spacer);
        match cell.width() {
            // The column that it covers is left empty.
            2 if is_widened(cell, self.extras) => {
                self.go(at);
                self.print(cell, 1);
            }
            2 if cell.has_content() && spacer => {
                self.go(at);
                self.print(cell, 2);
            }
            2 if cell.has_content() && next.is_some_and(|next| next.width() == 1) => {
                self.lone_wide(row, at, fill);
            }
            1 if cell.has_content() && (at == 0 || natural_width(cell, self.extras) > 0) => {
                self.go(at);
                self.print(cell, 1);
            }
            0 | 1 if cell.has_content() => {
                self.go_anew(at);
                self.print(cell, 1);
            }
            1 if spacer && at + 2 < cols => self.lone_spacer(row, at, fill),
            1 if at + 1 < cols => {
                self.full_blank(at, cell);
                return at + 2;
            }
            _ => {
                self.go(at);
                self.out.only_background(cell.bg);
                self.out.control(1, 'X');
            }
        }
        0
    }

    /// An empty cell with attributes: what is left of a wide character whose second half is overwritten.
    fn full_blank(&mut self, at: usize, cell: Cell) {
        self.go(at);
        self.out.attr(cell.attr());
        self.out.text(WIDE);
        self.x += 2;
        self.go(at + 1);
        self.out.text(" ");
        self.x += 1;
    }

    /// An empty cell, then the second half of a wide character: shifted away from its first half, and back.
    fn lone_spacer(&mut self, row: &Row, at: usize, fill: u32) {
        self.go(at);
        self.out.attr(row.get(at + 1).attr());
        self.out.text(WIDE);
        self.x += 2;
        self.go(at + 1);
        self.out.only_background(row.get(at).bg);
        self.out.control(1, '@');
        self.go(at);
        self.out.only_background(fill);
        self.out.control(1, 'P');
    }

    /// The first half of a wide character, then another cell: without wrapping, a character at the right margin
    /// replaces the second half, and a wide character that does not fit leaves it empty.
    fn lone_wide(&mut self, row: &Row, at: usize, fill: u32) {
        let cols = self.cols;
        let (cell, next) = (row.get(at), row.get(at + 1));
        let text = self.cell_text(cell);
        if text.chars().next().is_some_and(|first| width(u32::from(first)) == 0) {
            // A combining character joined the wide character that did not fit, in an empty cell.
            self.full_blank(cols - 2, cell);
            self.out.raw(b"\x1b[?7l");
            self.go_anew(cols - 1);
            self.out.attr(next.attr());
            self.out.text(WIDE);
            self.out.text(&text);
        } else {
            self.go(cols - 2);
            self.print(cell, 2);
            self.out.raw(b"\x1b[?7l");
        }
        if next.has_content() {
            self.print(next, 0);
        } else {
            self.out.attr(next.attr());
            self.out.text(WIDE);
        }
        self.out.raw(b"\x1b[?7h");
        // The cursor is behind the last character, or on the column that none fits into.
        self.x = if next.has_content() { cols } else { cols - 1 };
        if at < cols - 2 {
            self.go_anew(at);
            self.out.only_background(fill);
            self.out.control(cols - 2 - at, 'P');
        }
    }
}

/// Whether an erased cell looks the same.
pub(super) fn is_plain_blank(cell: Cell) -> bool {
    !cell.has_content() && cell.width() == 1 && cell.fg == 0 && cell.bg & !COLOR_MASK == 0
}

/// Whether this is an empty cell with more attributes than a background colour.
fn is_full_blank(cell: Cell) -> bool {
    !cell.has_content() && cell.width() == 1 && !is_plain_blank(cell)
}

/// Number of cells that are painted together.
fn unit_length(cell: Cell, next: Option<Cell>) -> usize {
    let Some(next) = next else { return 1 };
    let pair = match cell.width() {
        2 => next.is_spacer() || next.width() == 1,
        1 => !cell.has_content() && next.is_spacer(),
        _ => false,
    };
    1 + usize::from(pair)
}

/// Number of columns of the first character of a cell, wherever it is written.
pub(super) fn natural_width(cell: Cell, extras: &Extras) -> u32 {
    match cell.content & CONTENT_MASK {
        content if content & COMBINED != 0 => {
            extras.text(content & CODE_MASK).chars().next().map_or(0, |first| width(u32::from(first)))
        }
        content => width(content),
    }
}

/// Whether a character of one column became wide: a combining character that followed a wide one was joined to it,
/// after the cursor had moved.
fn is_widened(cell: Cell, extras: &Extras) -> bool {
    cell.width() == 2 && cell.has_content() && natural_width(cell, extras) == 1
}

/// Whether a terminal can be made to show these cells. Others come from wrapping lines anew at a narrower margin.
pub(crate) fn is_paintable(row: &Row, cols: usize, extras: &Extras) -> bool {
    (0..cols).all(|at| {
        let (cell, next) = (row.get(at), (at + 1 < cols).then(|| row.get(at + 1)));
        let before = at.checked_sub(1).map(|before| row.get(before));
        let empty = |cell: Cell| !cell.has_content() && cell.width() == 1;
        match cell.width() {
            2 if is_widened(cell, extras) => false,
            // Cut at the margin, or before a character that came later.
            2 => cell.has_content() && next.is_some_and(|next| next.is_spacer() || next.width() == 1),
            0 if cell.is_spacer() => match before {
                Some(before) if before.width() == 2 => true,
                Some(before) => is_plain_blank(before) && (at + 1 < cols || at >= 2),
                None => false,
            },
            // A combining character that was written into the first column, and moved.
            1 if at > 0 && cell.has_content() && natural_width(cell, extras) == 0 => false,
            // The rows that consist of such cells alone have no place to begin.
            _ => {
                !(at == 0
                    && is_full_blank(cell)
                    && (1..cols).all(|at| empty(row.get(at)) && is_full_blank(row.get(at))))
            }
        }
    })
}
