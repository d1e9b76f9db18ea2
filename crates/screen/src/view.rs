//! What a screen shows, for readers that are not terminals.

use crate::Style;

/// Position and visibility of the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Row on the screen, from 0.
    pub row: u16,
    /// Column, from 0. After a character in the last column it is still that column.
    pub col: u16,
    /// Whether the cursor is shown.
    pub visible: bool,
}

/// Adjacent cells of one row that have the same style and link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Column of the first cell, from 0.
    pub col: u16,
    /// The text. An empty cell is a space; a wide character is one character.
    pub text: String,
    /// The style of all cells.
    pub style: Style,
    /// Target of the hyperlink (OSC 8).
    pub link: Option<String>,
}

/// One row of the screen or of the scrollback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowView {
    /// The runs from left to right, without the blank cells at the end.
    pub runs: Vec<Run>,
    /// Whether this row continues the previous one, because the text reached the right margin.
    pub wrapped: bool,
}

impl RowView {
    /// The text of the row, without the blanks at its end.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text: String = self.runs.iter().map(|run| run.text.as_str()).collect();
        text.truncate(text.trim_end_matches(' ').len());
        text
    }
}
