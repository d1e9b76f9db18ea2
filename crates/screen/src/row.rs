//! One row of cells.

use std::hash::{Hash, Hasher};

use crate::cell::{Attr, Cell};

/// A row. Only the cells up to the last one written are stored; the rest are all `fill`.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    cells: Vec<Cell>,
    fill: Cell,
    /// Number of cells. It exceeds the width of the screen after the alternate screen has become narrower.
    len: u16,
    /// Whether the row continues the previous one.
    pub(crate) wrapped: bool,
}

impl Row {
    /// A row of empty cells.
    pub(crate) fn new(len: usize, attr: Attr, wrapped: bool) -> Self {
        Self { cells: Vec::new(), fill: Cell::blank(attr), len: short(len), wrapped }
    }

    /// Makes this a row of empty cells; keeps the memory.
    #[inline]
    pub(crate) fn reset(&mut self, len: usize, attr: Attr, wrapped: bool) {
        self.cells.clear();
        self.fill = Cell::blank(attr);
        self.len = short(len);
        self.wrapped = wrapped;
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// The cell at this column; a cell without width and content beyond the end.
    pub(crate) fn get(&self, at: usize) -> Cell {
        match self.cells.get(at) {
            Some(&cell) => cell,
            None if at < self.len() => self.fill,
            None => Cell { content: 0, ..Cell::EMPTY },
        }
    }

    pub(crate) fn width(&self, at: usize) -> u32 {
        self.get(at).width()
    }

    /// Sets a cell. Columns beyond the end are ignored.
    pub(crate) fn set(&mut self, at: usize, cell: Cell) {
        if let Some(place) = self.cells.get_mut(at) {
            *place = cell;
        } else if at < self.len() && cell != self.fill {
            self.store_until(at);
            self.cells.push(cell);
        }
    }

    /// Makes sure that the cells before `end` are stored.
    fn store_until(&mut self, end: usize) {
        let end = end.min(self.len());
        if self.cells.len() < end {
            self.cells.resize(end, self.fill);
        }
    }

    /// Writes printable ASCII from this column on. The caller makes sure that it fits.
    #[inline]
    pub(crate) fn write_ascii(&mut self, at: usize, text: &[u8], attr: Attr) {
        let template = Cell::new(0, 1, attr);
        let cell = |&byte: &u8| Cell { content: template.content | u32::from(byte), ..template };
        let stored = self.cells.len();
        if at < stored {
            let over = text.len().min(stored - at);
            for (place, byte) in self.cells[at..at + over].iter_mut().zip(text) {
                *place = cell(byte);
            }
            self.cells.extend(text[over..].iter().map(cell));
        } else {
            if at > stored {
                self.store_until(at);
            }
            self.cells.extend(text.iter().map(cell));
        }
    }

    /// Empties the first half of a wide character before column `at`, which is not 0.
    #[inline]
    pub(crate) fn cut_before(&mut self, at: usize, attr: Attr) {
        if self.cells.get(at - 1).is_some_and(|cell| cell.width() == 2) {
            self.cells[at - 1] = Cell::blank(attr);
        }
    }

    /// Empties the second half of a wide character at column `at`.
    #[inline]
    pub(crate) fn cut_at(&mut self, at: usize, attr: Attr) {
        if self.cells.get(at).is_some_and(|cell| cell.is_spacer()) {
            self.cells[at] = Cell::blank(attr);
        }
    }

    /// Moves the cells from `at` on to the right, and sets `count` cells to `fill`.
    pub(crate) fn insert_cells(&mut self, at: usize, count: usize, fill: Cell) {
        let len = self.len();
        let at = at % len;
        let blank = Cell::blank(fill.attr());
        if at > 0 && self.width(at - 1) == 2 {
            self.set(at - 1, blank);
        }
        if count < len - at {
            if count > 0 && self.cells.len() > at {
                self.cells.truncate(len - count);
                let cells = std::iter::repeat_n(fill, count);
                self.cells.splice(at..at, cells);
            } else if count > 0 {
                for column in at..at + count {
                    self.set(column, fill);
                }
            }
        } else {
            self.fill_from(at, fill);
        }
        if self.width(len - 1) == 2 {
            self.set(len - 1, blank);
        }
    }

    /// Removes `count` cells, and sets as many at the end to `fill`.
    pub(crate) fn delete_cells(&mut self, at: usize, count: usize, fill: Cell) {
        let len = self.len();
        let at = at % len;
        if count < len - at {
            if fill != self.fill {
                self.store_until(len);
            }
            let end = self.cells.len().min(at + count);
            if at < end {
                self.cells.drain(at..end);
            }
            if fill != self.fill {
                self.cells.resize(len - count, self.fill);
                self.fill = fill;
            }
        } else {
            self.fill_from(at, fill);
        }
        let blank = Cell::blank(fill.attr());
        if at > 0 && self.width(at - 1) == 2 {
            self.set(at - 1, blank);
        }
        if self.get(at).is_spacer() {
            self.set(at, blank);
        }
    }

    /// Sets all cells from `at` on.
    fn fill_from(&mut self, at: usize, fill: Cell) {
        if fill != self.fill {
            self.store_until(at);
        }
        self.cells.truncate(at);
        self.fill = fill;
    }

    /// Erases the cells from `start` to `end`, without the halves of wide characters next to them.
    pub(crate) fn erase(&mut self, start: usize, end: usize, attr: Attr, selective: bool) {
        let blank = Cell::blank(attr);
        let spare = |cell: Cell| selective && cell.is_protected();
        if start > 0 && self.width(start - 1) == 2 && !spare(self.get(start - 1)) {
            self.set(start - 1, blank);
        }
        if end > 0 && end < self.len() && self.width(end - 1) == 2 && !spare(self.get(end)) {
            self.set(end, blank);
        }
        let end = end.min(self.len());
        if start >= end {
            return;
        }
        if !selective && end == self.len() {
            self.fill_from(start, blank);
            return;
        }
        for column in start..end {
            if !spare(self.get(column)) {
                self.set(column, blank);
            }
        }
    }

    /// Sets all cells.
    pub(crate) fn fill(&mut self, cell: Cell) {
        self.fill_from(0, cell);
    }

    /// Changes the number of cells.
    pub(crate) fn resize(&mut self, len: usize) {
        if len == self.len() {
            return;
        }
        if len > self.len() {
            if self.fill != Cell::EMPTY {
                self.store_until(self.len());
                self.fill = Cell::EMPTY;
            }
        } else {
            self.cells.truncate(len);
            self.cells.shrink_to_fit();
        }
        self.len = short(len);
    }

    /// Number of cells up to the last one with content.
    pub(crate) fn trimmed_len(&self) -> usize {
        let last = if self.fill.has_content() && self.cells.len() < self.len() {
            Some(self.len() - 1)
        } else {
            self.cells.iter().rposition(|cell| cell.has_content())
        };
        last.map_or(0, |last| last + self.width(last) as usize)
    }

    /// Number of cells after which all are equal.
    pub(crate) fn stored(&self) -> usize {
        self.cells.len()
    }

    /// Memory of the stored cells in bytes, with that of the allocation.
    pub(crate) fn memory(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>() + 2 * size_of::<usize>()
    }

    /// The cells of the first `len` columns.
    pub(crate) fn cells(&self, len: usize) -> impl Iterator<Item = Cell> + '_ {
        (0..len).map(|at| self.get(at))
    }

    /// The cells that differ from the rest, and one of the rest.
    pub(crate) fn distinct_cells(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().chain(std::iter::once(&self.fill))
    }

    /// Gives memory back that the row does not need.
    pub(crate) fn shrink(&mut self) {
        self.cells.shrink_to_fit();
    }
}

impl Hash for Row {
    /// Equal for rows that show the same, however their cells are stored.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let stored = self.cells.iter().rposition(|cell| *cell != self.fill).map_or(0, |last| last + 1);
        (self.len, stored, self.fill).hash(state);
        self.cells[..stored].hash(state);
    }
}

/// Lengths of rows are at most [`crate::Size::MAX`].
fn short(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}
