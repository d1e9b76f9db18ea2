//! Changing the size of a buffer, as xterm.js does.
//!
//! Lines that continue others (see [`Row::wrapped`]) are joined with them, and wrapped at the new margin. The lines
//! around the cursor are left as they are, because shells and programs redraw them. The alternate buffer is not
//! wrapped again; its rows keep the cells behind a narrower margin.

use crate::buffer::Buffer;
use crate::cell::{Attr, Cell};
use crate::row::Row;

impl Buffer {
    /// Changes the size.
    pub(crate) fn resize(&mut self, cols: usize, rows: usize) {
        let old_cols = self.cols;
        let max_lines = rows + self.scrollback.unwrap_or(0);
        self.max_lines = self.max_lines.max(max_lines);
        if !self.lines.is_empty() {
            if old_cols < cols {
                self.lines.straighten().iter_mut().for_each(|row| row.resize(cols));
            }
            let raised = if self.rows < rows { self.add_rows(cols, rows) } else { self.remove_rows(rows) };
            let excess = self.lines.len().saturating_sub(max_lines);
            if max_lines < self.max_lines && excess > 0 {
                self.lines.remove_first(excess);
                self.base = self.base.saturating_sub(excess);
                self.saved.line = self.saved.line.saturating_sub(excess);
            }
            self.max_lines = max_lines;
            self.x = self.x.min(cols - 1);
            self.y = self.y.min(rows - 1) + raised;
            self.saved.x = self.saved.x.min(cols - 1);
            self.top = 0;
        }
        self.bottom = rows - 1;
        self.rows = rows;
        if self.scrollback.is_some() {
            if cols > old_cols {
                self.widen(old_cols, cols);
            } else if cols < old_cols {
                self.narrow(old_cols, cols);
                self.lines.straighten().iter_mut().for_each(|row| row.resize(cols));
            }
        }
        self.cols = cols;
        self.tabs.resize(cols);
        if !self.lines.is_empty() {
            self.repair();
        }
    }

    /// Makes sure that the screen has all its rows. After some changes of size, that of xterm.js has not.
    fn repair(&mut self) {
        let line = self.base + self.y;
        self.base = self.base.min(self.lines.len().saturating_sub(self.rows));
        while self.lines.len() < self.base + self.rows {
            self.lines.push(Row::new(self.cols, Attr::default(), false));
        }
        self.y = (line - self.base).min(self.rows - 1);
    }

    /// Adds rows: from the scrollback if the cursor is at the bottom, else empty ones. Returns by how many rows the
    /// cursor moves down.
    fn add_rows(&mut self, cols: usize, rows: usize) -> usize {
        let mut raised = 0;
        for _ in self.rows..rows {
            if self.lines.len() < rows + self.base {
                if self.base > 0 && self.lines.len() <= self.base + self.y + raised + 1 {
                    self.base -= 1;
                    raised += 1;
                } else {
                    self.lines.push(Row::new(cols, Attr::default(), false));
                }
            }
        }
        raised
    }

    /// Removes rows: those below the cursor, then the top ones go to the scrollback.
    fn remove_rows(&mut self, rows: usize) -> usize {
        for _ in rows..self.rows {
            if self.lines.len() > rows + self.base {
                if self.lines.len() > self.base + self.y + 1 {
                    self.lines.pop();
                } else {
                    self.base += 1;
                }
            }
        }
        0
    }

    /// Joins lines for a larger number of columns.
    fn widen(&mut self, old_cols: usize, cols: usize) {
        let cursor = self.base + self.y;
        let mut removed = 0;
        let mut kept = Vec::with_capacity(self.lines.len());
        let mut lines = std::mem::take(self.lines.straighten()).into_iter().peekable();
        let mut at = 0;
        while let Some(first) = lines.next() {
            let mut group = vec![first];
            while let Some(row) = lines.next_if(|row| row.wrapped) {
                group.push(row);
            }
            let count = group.len();
            if count > 1 && !(at..at + count).contains(&cursor) {
                let keep = join(&mut group, old_cols, cols);
                removed += count - keep;
                group.truncate(keep);
            }
            at += count;
            kept.extend(group);
        }
        self.lines = kept.into();
        for _ in 0..removed {
            if self.base > 0 {
                self.base -= 1;
                continue;
            }
            self.y = self.y.saturating_sub(1);
            if self.lines.len() < self.rows {
                self.lines.push(Row::new(cols, Attr::default(), false));
            }
        }
        if removed > 0 {
            self.saved.line = self.saved.line.saturating_sub(removed);
        }
    }

    /// Wraps lines for a smaller number of columns.
    ///
    /// Works from the bottom up. Rows that would be above the largest number of lines are counted, not made.
    fn narrow(&mut self, old_cols: usize, cols: usize) {
        let max = self.max_lines;
        // Lines that xterm.js removes at the bottom stay readable for it until the end.
        let mut len = self.lines.len();
        let mut inserts: Vec<Insert> = Vec::new();
        let mut inserted = 0;
        let mut y = len;
        while y > 0 {
            y -= 1;
            if !self.lines[y].wrapped && self.lines[y].trimmed_len() <= cols {
                continue;
            }
            let last = y;
            while self.lines[y].wrapped && y > 0 {
                y -= 1;
            }
            if (y..=last).contains(&(self.base + self.y)) {
                continue;
            }
            let count = last - y + 1;
            let group: Vec<&Row> = self.lines.from(y).take(count).collect();
            let lengths = new_lengths(&group, old_cols, cols);
            let added = lengths.len().saturating_sub(count);
            let trimmed = if self.base == 0 && self.y + 1 != len { self.y } else { len };
            let trimmed = (trimmed + added).saturating_sub(max);
            let below = len.saturating_sub(last + 1) + inserted;
            // As many lines as will be removed at the bottom come into reach.
            let removable = if self.base == 0 { self.rows - 1 - self.y } else { 0 };
            let wanted = (max + removable).saturating_sub(below);
            let (first, rows) = split(&group, &lengths, old_cols, cols, wanted);
            let mut rows = rows.into_iter();
            for line in (y + first..=last).take(lengths.len().saturating_sub(first)) {
                if let Some(row) = rows.next() {
                    let wrapped = self.lines[line].wrapped;
                    self.lines[line] = row;
                    self.lines[line].wrapped = wrapped;
                }
            }
            if added > 0 {
                inserts.push(Insert { start: y + count + inserted, count: added, rows: rows.collect() });
                inserted += added;
            }
            for _ in 0..added.saturating_sub(trimmed) {
                if self.base > 0 {
                    if self.base + self.rows < max.min(len + inserted) {
                        self.base += 1;
                    }
                } else if self.y + 1 < self.rows {
                    self.y += 1;
                    len -= 1;
                } else {
                    self.base += 1;
                }
            }
            let saved = (self.saved.line + lengths.len()).saturating_sub(count);
            self.saved.line = saved.min(self.base + self.rows - 1);
        }
        self.lines.truncate(len);
        self.insert_lines(inserts, inserted, max, cols);
    }

    /// Inserts the lines that [`Buffer::narrow`] made, and drops the oldest above the largest number.
    fn insert_lines(&mut self, inserts: Vec<Insert>, inserted: usize, max: usize, cols: usize) {
        if inserts.is_empty() {
            return;
        }
        let total = (self.lines.len() + inserted).min(max);
        // From the bottom up.
        let mut result = Vec::with_capacity(total);
        let mut inserts = inserts.into_iter().peekable();
        let mut so_far = 0;
        while result.len() < total {
            let insert = inserts.next_if(|insert| insert.start + 1 > self.lines.len() + so_far);
            if let Some(mut insert) = insert {
                so_far += insert.count;
                for _ in 0..insert.count.min(total - result.len()) {
                    let row = insert.rows.pop();
                    result.push(row.unwrap_or_else(|| Row::new(cols, Attr::default(), true)));
                }
            } else if let Some(row) = self.lines.pop() {
                result.push(row);
            } else {
                break;
            }
        }
        result.reverse();
        self.lines = result.into();
    }
}

/// Lines to insert before line `start` of the result.
struct Insert {
    start: usize,
    count: usize,
    /// The last of them. The others are above the largest number of lines.
    rows: Vec<Row>,
}

/// The cells of row `at` that belong to its line. Without the empty cell at the margin, if a wide character did not
/// fit there.
fn length_in_line<R: std::borrow::Borrow<Row>>(rows: &[R], at: usize, cols: usize) -> usize {
    let row = rows[at].borrow();
    let Some(next) = rows.get(at + 1) else { return row.trimmed_len() };
    let last = row.get(cols - 1);
    let empty = !last.has_content() && last.width() == 1;
    if empty && next.borrow().width(0) == 2 { cols - 1 } else { cols }
}

/// Joins the rows of a line. Returns the number of rows that it needs.
fn join(rows: &mut [Row], old_cols: usize, cols: usize) -> usize {
    let mut to = 0;
    let mut to_col = length_in_line(rows, 0, old_cols);
    let mut from = 1;
    let mut from_col = 0;
    while from < rows.len() {
        let length = length_in_line(rows, from, old_cols);
        let count = length.saturating_sub(from_col).min(cols - to_col);
        copy_between(rows, from, from_col, to, to_col, count);
        to_col += count;
        if to_col == cols {
            to += 1;
            to_col = 0;
        }
        from_col += count;
        if from_col == length {
            from += 1;
            from_col = 0;
        } else if count == 0 && to_col != 0 {
            // Never in xterm.js: no progress.
            break;
        }
        if to_col == 0 && to != 0 && rows[to - 1].width(cols - 1) == 2 {
            copy_between(rows, to - 1, cols - 1, to, 0, 1);
            to_col = 1;
            rows[to - 1].set(cols - 1, Cell::EMPTY);
        }
    }
    if let Some(row) = rows.get_mut(to) {
        row.erase(to_col, cols, Attr::default(), false);
    }
    let mut keep = rows.len();
    while keep > 1 && (keep - 1 > to || rows[keep - 1].trimmed_len() == 0) {
        keep -= 1;
    }
    keep
}

fn copy_between(rows: &mut [Row], from: usize, from_col: usize, to: usize, to_col: usize, count: usize) {
    for offset in 0..count {
        let cell = rows[from].get(from_col + offset);
        rows[to].set(to_col + offset, cell);
    }
}

/// The lengths of the rows of a line at a smaller number of columns.
fn new_lengths(rows: &[&Row], old_cols: usize, cols: usize) -> Vec<usize> {
    let needed: usize = (0..rows.len()).map(|at| length_in_line(rows, at, old_cols)).sum();
    let mut lengths = Vec::new();
    let (mut row, mut column, mut available) = (0, 0, 0);
    while available < needed {
        if needed - available < cols {
            lengths.push(needed - available);
            break;
        }
        column += cols;
        let length = length_in_line(rows, row, old_cols);
        if column > length {
            column -= length;
            row += 1;
        }
        let wide = rows.get(row).is_some_and(|row| row.width(column - 1) == 2);
        column -= usize::from(wide);
        lengths.push(cols - usize::from(wide));
        available += cols - usize::from(wide);
    }
    lengths
}

/// Distributes the cells of a line to rows of these lengths. Makes only the last `wanted` rows; returns the number of the
/// first of them too.
fn split(rows: &[&Row], lengths: &[usize], old_cols: usize, cols: usize, wanted: usize) -> (usize, Vec<Row>) {
    let first = lengths.len().saturating_sub(wanted);
    let skipped: usize = lengths[..first].iter().sum();
    let line = (0..rows.len()).flat_map(|at| rows[at].cells(length_in_line(rows, at, old_cols)));
    let mut cells = line.skip(skipped);
    let mut result = Vec::with_capacity(lengths.len() - first);
    for (at, &length) in lengths.iter().enumerate().skip(first) {
        // Rows that exist keep the cells behind their new length.
        let mut row = match rows.get(at) {
            Some(&old) => old.clone(),
            None => Row::new(cols, Attr::default(), true),
        };
        for (column, cell) in cells.by_ref().take(length).enumerate() {
            row.set(column, cell);
        }
        if length < cols {
            row.set(length, Cell::EMPTY);
        }
        row.resize(cols);
        row.shrink();
        result.push(row);
    }
    (first, result)
}
