//! A list of rows whose first row can become the last at no cost.

use std::ops::{Index, IndexMut};

use crate::row::Row;

/// Rows in a ring.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    rows: Vec<Row>,
    /// Index of the first row in `rows`.
    start: usize,
}

impl Ring {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Memory of all rows in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<Row>() + self.rows.iter().map(Row::memory).sum::<usize>()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    #[inline]
    fn place(&self, at: usize) -> usize {
        let place = self.start + at;
        if place < self.rows.len() { place } else { place - self.rows.len() }
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Row> {
        if at >= self.len() {
            return None;
        }
        let place = self.place(at);
        self.rows.get_mut(place)
    }

    /// Makes the first row the last, and returns it.
    #[inline]
    pub(crate) fn rotate(&mut self) -> Option<&mut Row> {
        let place = self.start;
        self.start = self.place(1);
        self.rows.get_mut(place)
    }

    pub(crate) fn swap(&mut self, one: usize, other: usize) {
        let (one, other) = (self.place(one), self.place(other));
        self.rows.swap(one, other);
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.straighten().push(row);
    }

    pub(crate) fn pop(&mut self) -> Option<Row> {
        self.straighten().pop()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.straighten().truncate(len);
    }

    /// Removes rows at the front.
    pub(crate) fn remove_first(&mut self, count: usize) {
        self.straighten().drain(..count);
    }

    /// Moves the last row to this place.
    pub(crate) fn move_last_to(&mut self, at: usize) {
        for at in (at + 1..self.len()).rev() {
            self.swap(at, at - 1);
        }
    }

    /// The rows from `first` on.
    pub(crate) fn from(&self, first: usize) -> impl Iterator<Item = &Row> + Clone {
        let (end, begin) = self.rows.split_at(self.start);
        begin.iter().chain(end).skip(first)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Row> + Clone {
        self.from(0)
    }

    /// The rows as a list that begins with the first.
    pub(crate) fn straighten(&mut self) -> &mut Vec<Row> {
        self.rows.rotate_left(self.start);
        self.start = 0;
        &mut self.rows
    }
}

impl From<Vec<Row>> for Ring {
    fn from(rows: Vec<Row>) -> Self {
        Self { rows, start: 0 }
    }
}

impl Index<usize> for Ring {
    type Output = Row;

    #[inline]
    fn index(&self, at: usize) -> &Row {
        &self.rows[self.place(at)]
    }
}

impl IndexMut<usize> for Ring {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut Row {
        let place = self.place(at);
        &mut self.rows[place]
    }
}
