//! Where the cursor ends, and what the next character does.

use super::row::{RowPainter, is_plain_blank};
use crate::Screen;
use crate::cell::{COLOR_MASK, Cell, EXTENDED, UNDERLINE};
use crate::charset::Charset;

/// A character without width: at the right margin it moves the cursor without being shown.
const ZERO_WIDTH: &str = "\u{200b}";
/// A wide character that does not fit into the last column.
const DROPPED: u32 = '漢' as u32;

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

    /// Column and number of the cells that are written to move the cursor behind the right margin, if characters are
    /// there.
    fn margin_text(&self) -> Option<(usize, usize)> {
        let row = self.buffer().row(self.buffer().y);
        let at = |back: usize| row.get(self.cols - back);
        let last = at(1);
        if last.is_spacer() {
            return (at(2).width() == 2).then_some((self.cols - 2, 1));
        }
        if !last.has_content() || last.width() > 1 {
            return None;
        }
        // The last character replaced the second half of the one before.
        Some(if at(2).width() == 2 { (self.cols - 2, 2) } else { (self.cols - 1, 1) })
    }

    /// Whether the cursor's row has been erased as a whole.
    fn cursor_row_is_erased(&self) -> bool {
        let row = self.buffer().row(self.buffer().y);
        let first = row.get(0);
        is_plain_blank(first) && row.cells(self.cols).all(|cell| cell == first)
    }

    /// Whether the cursor can be moved behind the right margin in the alternate buffer.
    pub(crate) fn margin_is_paintable(&self) -> bool {
        self.margin_text().is_some() || self.cursor_row_is_erased()
    }

    /// Moves the cursor to its place. At the right margin, the next character wraps. `charset` is the viewer's
    /// character set.
    pub(super) fn write_cursor(&self, painter: &mut RowPainter<'_>, charset: Charset) {
        let buffer = self.buffer();
        let (cols, x, row) = (self.cols, buffer.x, buffer.row(buffer.y));
        let text = self.margin_text();
        let reachable = self.cursor_row_number();
        let Some(y) = reachable.filter(|_| x < cols || text.is_some() || self.is_alternate) else {
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
        } else if let Some((at, count)) = text {
            painter.out.position(at, y);
            painter.out.attr(row.get(at).attr());
            write_mapped(painter, row.get(at), charset);
            if count == 2 {
                painter.out.raw(b"\x1b[?7l");
                painter.out.attr(row.get(at + 1).attr());
                write_mapped(painter, row.get(at + 1), charset);
                painter.out.raw(b"\x1b[?7h");
            }
        } else if self.cursor_row_is_erased() {
            painter.out.position(cols - 1, y);
            painter.out.raw(b" ");
            painter.out.only_background(row.get(0).bg & COLOR_MASK);
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

    /// What only DECRC reproduces, if it does.
    pub(crate) fn restores(&self) -> Restores {
        let (sets, pen, buffer) = (&self.charsets, &self.pen, self.buffer());
        let saved = buffer.saved;
        if saved.charset != sets.active {
            return Restores::default();
        }
        let free = buffer.x < self.cols || self.last_character().is_some();
        Restores {
            pen: self.pen_is_odd() && (saved.fg, saved.bg) == (pen.fg, pen.bg) && free,
            charset: sets.active != sets.designated[sets.level],
        }
    }

    /// Whether the flags of the pen do not agree with its extended attributes. DECRC restores only the flags.
    pub(crate) fn pen_is_odd(&self) -> bool {
        let pen = &self.pen;
        let flagged = pen.bg & EXTENDED != 0;
        let underlined = pen.fg & UNDERLINE != 0;
        flagged == pen.extended.is_empty() || underlined != (pen.extended.style != 0)
    }

    /// Restores the cursor to reproduce what nothing else does.
    pub(super) fn write_restored(&self, painter: &mut RowPainter<'_>, restores: Restores) {
        if restores.pen {
            let pen = &self.pen;
            let underline = if pen.extended.style == 0 { 0 } else { UNDERLINE };
            painter.out.pen(pen.fg & !UNDERLINE | underline, pen.bg, Some(pen.extended), true);
            painter.out.raw(b"\x1b8");
        } else {
            painter.out.raw(b"\x1b8");
            painter.out.reset_pen();
        }
    }

    /// How to write the character before the cursor last, so that a combining character joins it and REP repeats it.
    /// `None` if there is none.
    pub(crate) fn last_character(&self) -> Option<LastCharacter> {
        let buffer = self.buffer();
        let (cols, x, columns) = (self.cols, buffer.x, self.join as usize);
        if columns == 0 || x > cols {
            return None;
        }
        let row = buffer.row(buffer.y);
        let y = self.cursor_row_number()?;
        let at = x.checked_sub(columns)?;
        let (cell, attr) = (row.get(at), self.pen.attr());
        let whole = columns == 1 || row.get(at + 1).is_spacer();
        let dropped = Cell::new(DROPPED, 2, attr);
        let (at, cells) =
            if cell.has_content() && cell.width() as usize == columns && cell.attr() == attr && whole {
                match at.checked_sub(1).map(|before| row.get(before)) {
                    // The character replaced the second half of this one, without wrapping.
                    Some(before) if before.width() == 2 => {
                        let margin = at == cols - 1 && !self.modes.wraparound;
                        (before.attr() == attr && !self.modes.insert && margin)
                            .then_some((at - 1, vec![before, cell]))?
                    }
                    _ => (at, vec![cell]),
                }
            } else if !self.modes.wraparound && columns == 2 && x == cols - 1 {
                // A wide character that did not fit was dropped.
                let before = row.get(cols - 2);
                if before.width() == 2 {
                    let rest = row.get(cols - 1);
                    let rest = rest.is_spacer() || rest == Cell::blank(attr);
                    let pair = before.attr() == attr && rest && !self.modes.insert;
                    pair.then_some((cols - 2, vec![before, dropped]))?
                } else {
                    (cols - 1, vec![dropped])
                }
            } else {
                return None;
            };
        // The viewer has the character set that DECRC restores, or the designated one.
        let sets = &self.charsets;
        let charset =
            if buffer.saved.charset == sets.active { sets.active } else { sets.designated[sets.level] };
        let mut codes = Vec::new();
        for cell in cells {
            let mut text = String::new();
            self.push_cell(cell, &mut text);
            for character in text.chars() {
                codes.push(charset.unmap(u32::from(character))?);
            }
        }
        Some(LastCharacter { at, y, delete: if self.modes.insert { x - at } else { 0 }, codes })
    }

    /// Writes the character before the cursor.
    pub(super) fn write_last_character(&self, painter: &mut RowPainter<'_>, last: &LastCharacter) {
        painter.out.position(last.at, last.y);
        if last.delete > 0 {
            // In insert mode, writing moves the rest of the row to the right again.
            painter.out.control(last.delete, 'P');
        }
        last.codes.iter().for_each(|&code| painter.out.character(code));
    }
}

/// What only DECRC reproduces.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Restores {
    /// Attributes of the pen.
    pub(crate) pen: bool,
    /// The active character set.
    pub(crate) charset: bool,
}

impl Restores {
    pub(super) fn any(self) -> bool {
        self.pen || self.charset
    }
}

/// The character before the cursor, and the one before it if both must be written at once.
#[derive(Debug)]
pub(crate) struct LastCharacter {
    at: usize,
    y: usize,
    /// Number of cells to delete first.
    delete: usize,
    codes: Vec<u32>,
}

/// Writes the text of a cell so that it passes unchanged through a character set.
fn write_mapped(painter: &mut RowPainter<'_>, cell: Cell, charset: Charset) {
    for character in painter.cell_text(cell).chars() {
        let code = u32::from(character);
        painter.out.character(charset.unmap(code).unwrap_or(code));
    }
}
