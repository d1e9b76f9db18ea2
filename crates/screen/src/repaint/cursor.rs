//! Where the cursor ends, and what the next character does.

use super::row::{RowPainter, is_plain_blank};
use crate::Screen;
use crate::cell::{COLOR_MASK, Cell, EXTENDED, UNDERLINE};

/// A character without width: at the right margin it moves the cursor without being shown.
const ZERO_WIDTH: &str = "\u{200b}";

impl Screen {
    /// Row of the cursor for CUP, or `None` if it is outside the scroll region in origin mode.
    fn cursor_row_number(&self) -> Option<usize> {
        let buffer = self.buffer();
        if self.modes.origin {
            (buffer.y <= buffer.bottom).then(|| buffer.y.checked_sub(buffer.top)).flatten()
        } else {
            Some(buffer.y)
        }
    }

    /// Moves the cursor to its place. At the right margin, the next character wraps.
    pub(super) fn write_cursor(&self, painter: &mut RowPainter<'_>) {
        let buffer = self.buffer();
        let (cols, x, row) = (self.cols, buffer.x, buffer.row(buffer.y));
        let last = row.get(cols - 1);
        let from = if last.is_spacer() { cols - 2 } else { cols - 1 };
        let first = row.get(from);
        let printable = first.has_content() && first.width() as usize == cols - from;
        let reachable = self.cursor_row_number();
        let Some(y) = reachable.filter(|_| x < cols || printable || self.is_alternate) else {
            // Switching buffers takes the cursor along, wherever it is.
            painter.out.only_background(0);
            painter.out.raw(b"\x1b[?47h");
            painter.out.position(x.min(cols - 1), buffer.y);
            if x >= cols {
                painter.out.raw(b" ");
            }
            self.write_overshoot(painter);
            painter.out.raw(b"\x1b[?47l");
            return;
        };
        if x < cols {
            painter.out.position(x, y);
        } else if printable {
            painter.out.position(from, y);
            painter.out.attr(first.attr());
            self.write_mapped(painter, first);
        } else if (0..cols).all(|at| is_plain_blank(row.get(at)) && row.get(at).bg == last.bg) {
            painter.out.position(cols - 1, y);
            painter.out.raw(b" ");
            painter.out.only_background(last.bg & COLOR_MASK);
            painter.out.raw(b"\x1b[1K");
        } else {
            painter.out.position(cols - 1, y);
            return;
        }
        self.write_overshoot(painter);
    }

    /// Moves the cursor behind the right margin.
    fn write_overshoot(&self, painter: &mut RowPainter<'_>) {
        let overshoot = self.buffer().x.saturating_sub(self.cols);
        if overshoot > 0 {
            painter.out.reset_pen();
            painter.out.text(&ZERO_WIDTH.repeat(overshoot));
        }
    }

    /// Writes the text of a cell so that it passes unchanged through the active character set. Returns whether it does.
    fn write_mapped(&self, painter: &mut RowPainter<'_>, cell: Cell) -> bool {
        let text = painter.cell_text(cell);
        let codes = text.chars().map(|character| self.charsets.active.unmap(u32::from(character)));
        let Some(codes) = codes.collect::<Option<Vec<u32>>>() else { return false };
        codes.into_iter().for_each(|code| painter.out.character(code));
        true
    }

    /// Restores the cursor, if that gives the character set or the pen a state that nothing else gives. Returns
    /// whether the pen is set.
    pub(super) fn write_restored(&self, painter: &mut RowPainter<'_>) -> bool {
        let (sets, pen, buffer) = (&self.charsets, &self.pen, self.buffer());
        let saved = buffer.saved;
        let flagged = pen.bg & EXTENDED != 0;
        let underlined = pen.fg & UNDERLINE != 0;
        let odd_pen = flagged == pen.extended.is_empty() || underlined != (pen.extended.style != 0);
        let odd_pen =
            odd_pen && (saved.fg, saved.bg) == (pen.fg, pen.bg) && buffer.x < self.cols && self.join == 0;
        let odd_set = sets.active != sets.designated[sets.level];
        if saved.charset != sets.active || !(odd_pen || odd_set) {
            return false;
        }
        if odd_pen {
            let underline = if pen.extended.style == 0 { 0 } else { UNDERLINE };
            painter.out.pen(pen.fg & !UNDERLINE | underline, pen.bg, Some(pen.extended), true);
            painter.out.raw(b"\x1b8");
            return true;
        }
        painter.out.raw(b"\x1b8");
        painter.out.reset_pen();
        false
    }

    /// Writes the character before the cursor last, so that a combining character joins it and REP repeats it.
    pub(super) fn write_last_character(&self, painter: &mut RowPainter<'_>) {
        let buffer = self.buffer();
        let (cols, x, columns) = (self.cols, buffer.x, self.join as usize);
        let row = buffer.row(buffer.y);
        let Some(y) = self.cursor_row_number() else { return };
        let Some(at) = x.checked_sub(columns).filter(|_| x <= cols) else { return };
        let (cell, attr) = (row.get(at), self.pen.attr());
        let whole = columns == 1 || row.get(at + 1).is_spacer();
        let before = at.checked_sub(1).map(|before| row.get(before)).filter(|cell| cell.width() == 2);
        if cell.has_content() && cell.width() as usize == columns && cell.attr() == attr && whole {
            let Some(before) = before else {
                painter.out.position(at, y);
                if self.modes.insert {
                    painter.out.control(columns, 'P');
                }
                self.write_mapped(painter, cell);
                return;
            };
            if before.attr() == attr && !self.modes.insert && !self.modes.wraparound && at == cols - 1 {
                painter.out.position(at - 1, y);
                self.write_mapped(painter, before);
                self.write_mapped(painter, cell);
            }
        } else if !self.modes.wraparound && columns == 2 && x == cols - 1 {
            // A wide character that did not fit was dropped.
            let before = row.get(cols - 2);
            if before.width() != 2 {
                painter.out.position(cols - 1, y);
            } else if before.attr() == attr && row.get(cols - 1).is_spacer() && !self.modes.insert {
                painter.out.position(cols - 2, y);
                self.write_mapped(painter, before);
            } else {
                return;
            }
            painter.out.text("漢");
        }
    }
}
