//! Writing characters.

use crate::Screen;
use crate::cell::{CODE_MASK, COMBINED, CONTENT_MASK, Cell, WIDTH_SHIFT};
use crate::extras::CELL_TEXT_LIMIT;
use crate::width::width;

/// Largest number of repetitions of REP. Larger counts are reduced to it.
pub(crate) const REPEAT_LIMIT: usize = 2000;
/// Work of printing one code point, in cells that are touched: one of a text of several, and one that is not ASCII.
const COMBINED_WORK: usize = 128;
const PRINT_WORK: usize = 16;
/// Columns behind the right margin that the cursor can reach by characters without width.
const OVERSHOOT_LIMIT: usize = 64;

impl Screen {
    /// Writes printable ASCII.
    pub(crate) fn print_ascii(&mut self, mut text: &[u8]) {
        if self.modes.insert || !self.charsets.active.is_default() {
            text.iter().for_each(|&byte| self.print(u32::from(byte)));
            return;
        }
        self.dirty = true;
        self.join = 1;
        let first = !std::mem::replace(&mut self.in_run, true);
        let (cols, attr, wraparound) = (self.cols, self.pen.attr(), self.modes.wraparound);
        let mut buffer = self.buffer_mut();
        if first && buffer.x > 0 {
            let x = buffer.x;
            buffer.cursor_row().cut_before(x, attr);
        }
        loop {
            let x = buffer.x;
            let room = cols.saturating_sub(x);
            if let Some(rest) = text.len().checked_sub(room) {
                if room > 0 {
                    buffer.cursor_row().write_ascii(x, &text[..room], attr);
                    buffer.x = cols;
                    text = &text[room..];
                }
                if rest == 0 {
                    return;
                }
                if wraparound {
                    self.wrap();
                    buffer = self.buffer_mut();
                } else {
                    // Each further character replaces the one in the last column.
                    buffer.x = cols - 1;
                    text = &text[rest - 1..];
                }
            } else {
                let end = x + text.len();
                let row = buffer.cursor_row();
                row.write_ascii(x, text, attr);
                row.cut_at(end, attr);
                buffer.x = end;
                return;
            }
        }
    }

    /// Writes one character.
    pub(crate) fn print(&mut self, code: u32) {
        self.begin_run();
        let code = self.charsets.active.map(code);
        let (cols, attr) = (self.cols, self.pen.attr());
        let own = width(code);
        let joins = own == 0 && self.join > 0;
        let columns = if joins { self.join } else { own };
        let advance = if joins { 0 } else { columns as usize };
        self.join = columns;
        if self.buffer().x + advance > cols {
            if self.modes.wraparound {
                self.wrap();
            } else {
                self.buffer_mut().x = cols - 1;
                if columns == 2 {
                    self.end_run();
                    return;
                }
            }
        }
        let x = self.buffer().x;
        if joins && x > 0 {
            self.append(code, columns);
        } else {
            let insert = self.modes.insert;
            let buffer = self.buffer_mut();
            let row = buffer.cursor_row();
            if insert {
                row.insert_cells(x, columns as usize, Cell::blank(attr));
                if row.width(cols - 1) == 2 {
                    row.set(cols - 1, Cell::blank(attr));
                }
            }
            row.set(x, Cell::new(code, columns, attr));
            for offset in 1..columns as usize {
                row.set(x + offset, Cell::new(0, 0, attr));
            }
            buffer.x = (x + columns.max(1) as usize).min(cols + OVERSHOOT_LIMIT);
        }
        self.end_run();
    }

    /// At the beginning of a run of characters: removes the first half of a wide character whose second half the
    /// run overwrites.
    fn begin_run(&mut self) {
        self.dirty = true;
        if self.in_run {
            return;
        }
        self.in_run = true;
        let attr = self.pen.attr();
        let buffer = self.buffer_mut();
        let x = buffer.x;
        if x > 0 {
            buffer.cursor_row().cut_before(x, attr);
        }
    }

    /// Removes the second half of a wide character whose first half was overwritten.
    fn end_run(&mut self) {
        let (cols, attr) = (self.cols, self.pen.attr());
        let buffer = self.buffer_mut();
        let x = buffer.x;
        if x < cols {
            buffer.cursor_row().cut_at(x, attr);
        }
    }

    /// Continues in the next row, and marks it as a continuation.
    fn wrap(&mut self) {
        let (cols, rows) = (self.cols, self.rows);
        let (attr, erase) = (self.pen.attr(), self.pen.erase_attr());
        let buffer = self.buffer_mut();
        let left_over = buffer.x;
        let clear = |buffer: &mut crate::buffer::Buffer| {
            for column in left_over..cols {
                buffer.cursor_row().set(column, Cell::blank(attr));
            }
        };
        clear(buffer);
        buffer.x = 0;
        if buffer.y == buffer.bottom {
            buffer.scroll(erase, true);
            if rows == 1 && buffer.max_lines == 1 {
                clear(buffer);
            }
        } else {
            buffer.y = (buffer.y + 1).min(rows - 1);
            buffer.cursor_row().wrapped = true;
        }
    }

    /// Adds a combining character to the character before the cursor.
    fn append(&mut self, code: u32, columns: u32) {
        let buffer = self.buffer();
        let (x, y) = (buffer.x, buffer.y);
        let row = buffer.row(y);
        let back = if row.width(x - 1) == 0 { 2 } else { 1 };
        let Some(at) = x.checked_sub(back) else { return };
        let cell = row.get(at);
        let base = match cell.content & CONTENT_MASK {
            0 => {
                let content = code | columns << WIDTH_SHIFT;
                self.buffer_mut().row_mut(y).set(at, Cell { content, ..cell });
                return;
            }
            content if content & COMBINED != 0 => self.extras.text(content & CODE_MASK).to_owned(),
            content => char::from_u32(content).map(String::from).unwrap_or_default(),
        };
        let Some(character) = char::from_u32(code) else { return };
        if base.chars().count() >= CELL_TEXT_LIMIT {
            return;
        }
        let Some(index) = self.intern_text(&(base + character.encode_utf8(&mut [0; 4]))) else { return };
        let content = index | COMBINED | columns << WIDTH_SHIFT;
        self.buffer_mut().row_mut(y).set(at, Cell { content, ..cell });
    }

    /// As many repetitions as the work that is left allows, up to `count`. Each takes work itself, and a part of that of
    /// scrolling a line.
    fn affordable(&mut self, count: usize, each: usize) -> usize {
        let buffer = self.buffer();
        // The whole screen scrolls at no cost.
        let is_whole = buffer.top == 0 && buffer.bottom + 1 == self.rows;
        let scroll = if is_whole { 0 } else { self.rows };
        let work = each + (scroll * self.join as usize).div_ceil(self.cols);
        let count = count.min(self.work / work);
        self.work -= count * work;
        count
    }

    /// Writes the character before the cursor again (REP).
    pub(crate) fn repeat(&mut self, count: usize) {
        if self.join == 0 {
            return;
        }
        let buffer = self.buffer();
        let Some(at) = buffer.x.checked_sub(self.join as usize) else { return };
        let content = buffer.row(buffer.y).get(at).content & CONTENT_MASK;
        let text: Vec<u32> = match content {
            0 => return,
            _ if content & COMBINED != 0 => {
                self.extras.text(content & CODE_MASK).chars().map(u32::from).collect()
            }
            code => vec![code],
        };
        self.in_run = false;
        let each = match text[..] {
            [0x20..=0x7e] => 1,
            [_] => PRINT_WORK,
            _ => COMBINED_WORK * text.len(),
        };
        let count = self.affordable(count.min(REPEAT_LIMIT), each);
        match text[..] {
            [code @ 0x20..=0x7e] => self.print_ascii(&vec![code.to_le_bytes()[0]; count]),
            _ => (0..count).for_each(|_| text.iter().for_each(|&code| self.print(code))),
        }
        self.in_run = false;
    }
}
