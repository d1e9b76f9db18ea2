//! The size of a screen.

/// The size of a screen in cells.
///
/// Each side is between 1 and [`Size::MAX`]. Values outside are clamped where a screen uses the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    /// Number of columns.
    pub cols: u16,
    /// Number of rows.
    pub rows: u16,
}

impl Size {
    /// Largest number of columns and of rows.
    pub const MAX: u16 = 1000;

    /// A size whose sides are clamped to 1..=[`Size::MAX`].
    #[must_use]
    pub fn new(cols: u16, rows: u16) -> Self {
        Self { cols, rows }.clamped()
    }

    /// This size with both sides clamped to 1..=[`Size::MAX`].
    #[must_use]
    pub fn clamped(self) -> Self {
        Self { cols: self.cols.clamp(1, Self::MAX), rows: self.rows.clamp(1, Self::MAX) }
    }
}

impl Default for Size {
    fn default() -> Self {
        Self { cols: 80, rows: 24 }
    }
}
