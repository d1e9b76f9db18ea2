//! Tab stops.

use crate::Size;

const WORDS: usize = Size::MAX as usize / 64 + 1;
/// Distance of the default stops.
const DISTANCE: usize = 8;

/// The columns that have a tab stop. One column more than a screen can have: a stop can be set at the right margin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tabs([u64; WORDS]);

impl Tabs {
    /// The default stops.
    pub(crate) fn new(cols: usize) -> Self {
        let mut tabs = Self([0; WORDS]);
        tabs.set_from(0, cols);
        tabs
    }

    fn set_from(&mut self, first: usize, cols: usize) {
        (first..cols).step_by(DISTANCE).for_each(|column| self.set(column));
    }

    pub(crate) fn has(&self, column: usize) -> bool {
        self.0.get(column / 64).is_some_and(|word| word >> (column % 64) & 1 == 1)
    }

    pub(crate) fn set(&mut self, column: usize) {
        if let Some(word) = self.0.get_mut(column / 64) {
            *word |= 1 << (column % 64);
        }
    }

    pub(crate) fn clear(&mut self, column: usize) {
        if let Some(word) = self.0.get_mut(column / 64) {
            *word &= !(1 << (column % 64));
        }
    }

    pub(crate) fn clear_all(&mut self) {
        self.0 = [0; WORDS];
    }

    /// The next stop, or the last column.
    pub(crate) fn next(&self, column: usize, cols: usize) -> usize {
        (column + 1..cols).find(|&column| self.has(column)).unwrap_or(cols - 1)
    }

    /// The previous stop, or the first column.
    pub(crate) fn previous(&self, column: usize, cols: usize) -> usize {
        (0..column).rev().find(|&column| self.has(column)).unwrap_or(0).min(cols - 1)
    }

    /// Continues the stops to a new right margin.
    pub(crate) fn resize(&mut self, cols: usize) {
        if !self.has(cols) {
            let first = self.previous(cols, cols);
            self.set_from(first, cols);
        }
    }
}
