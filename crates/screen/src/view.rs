//! What a screen shows, for readers that are not terminals.

use std::hash::{Hash, Hasher};

use crate::cell::{
    BLINK, BOLD, CODE_MASK, COLOR_BASIC, COLOR_KIND, COLOR_PALETTE, COLOR_RGB, COMBINED, CONTENT_MASK, Cell,
    DIM, EXTENDED, INVERSE, INVISIBLE, ITALIC, OVERLINE, STRIKETHROUGH, UNDERLINE,
};
use crate::row::Row;
use crate::{Color, Screen, Style, Underline};

/// Position and visibility of the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

impl Screen {
    /// A value that is the same for equal visible screens: cells with their attributes, cursor, size and title. Different
    /// screens have different values, except by chance.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        let buffer = self.buffer();
        for at in 0..self.rows {
            buffer.lines[buffer.base + at].hash(&mut hasher);
        }
        self.cursor().hash(&mut hasher);
        (self.cols, self.rows, self.title(), self.is_alternate()).hash(&mut hasher);
        hasher.finish()
    }
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

fn color(value: u32) -> Color {
    let [_, red, green, blue] = value.to_be_bytes();
    match value & COLOR_KIND {
        COLOR_BASIC | COLOR_PALETTE => Color::Indexed(blue),
        COLOR_RGB => Color::Rgb(red, green, blue),
        _ => Color::Default,
    }
}

impl Screen {
    /// The text of the screen and of up to `scrollback` lines above it: one line for each row, without the blanks at
    /// its end.
    #[must_use]
    pub fn text(&self, scrollback: usize) -> String {
        let mut text = String::new();
        for row in self.shown(scrollback) {
            self.push_text(row, &mut text);
            text.push('\n');
        }
        text
    }

    /// The last `scrollback` lines above the screen, then the rows of the screen. The alternate screen has no lines
    /// above it.
    pub fn rows(&self, scrollback: usize) -> impl Iterator<Item = RowView> + '_ {
        self.shown(scrollback).map(|row| self.view(row))
    }

    fn shown(&self, scrollback: usize) -> impl Iterator<Item = &Row> {
        let buffer = self.buffer();
        let above = if self.is_alternate { 0 } else { scrollback };
        buffer.lines.from(buffer.base.saturating_sub(above))
    }

    /// Appends the text of a row without the blanks at its end.
    fn push_text(&self, row: &Row, text: &mut String) {
        let start = text.len();
        let mut column = 0;
        while column < self.cols {
            let cell = row.get(column);
            self.push_cell(cell, text);
            column += cell.width().max(1) as usize;
        }
        let end = start + text[start..].trim_end_matches(' ').len();
        text.truncate(end);
    }

    /// Appends the text of a cell; a space if it is empty.
    pub(crate) fn push_cell(&self, cell: Cell, text: &mut String) {
        match cell.content & CONTENT_MASK {
            0 => text.push(' '),
            content if content & COMBINED != 0 => text.push_str(self.extras.text(content & CODE_MASK)),
            content => text.extend(char::from_u32(content)),
        }
    }

    fn view(&self, row: &Row) -> RowView {
        let mut runs: Vec<Run> = Vec::new();
        let mut last = None;
        let mut column = 0;
        while column < self.cols {
            let cell = row.get(column);
            // Attributes that look the same can differ.
            let same = last == Some(cell.attr())
                || runs.last().is_some_and(|run| {
                    (run.style, run.link.as_deref()) == (self.style(cell), self.link(cell))
                });
            if let (Some(run), true) = (runs.last_mut(), same) {
                self.push_cell(cell, &mut run.text);
            } else {
                let mut text = String::new();
                self.push_cell(cell, &mut text);
                let col = u16::try_from(column).unwrap_or(u16::MAX);
                runs.push(Run {
                    col,
                    text,
                    style: self.style(cell),
                    link: self.link(cell).map(str::to_owned),
                });
            }
            last = Some(cell.attr());
            column += cell.width().max(1) as usize;
        }
        let plain = Style::default();
        if let Some(run) = runs.last_mut().filter(|run| run.style == plain && run.link.is_none()) {
            run.text.truncate(run.text.trim_end_matches(' ').len());
            if run.text.is_empty() {
                runs.pop();
            }
        }
        RowView { runs, wrapped: row.wrapped }
    }

    fn link(&self, cell: Cell) -> Option<&str> {
        if cell.bg & EXTENDED == 0 {
            return None;
        }
        self.extras.link(self.extras.extended(cell.ext).link).map(|link| link.target.as_str())
    }

    fn style(&self, cell: Cell) -> Style {
        let extended = (cell.bg & EXTENDED != 0).then(|| self.extras.extended(cell.ext));
        let underlined = cell.fg & UNDERLINE != 0;
        let underline = match extended {
            _ if !underlined => 0,
            None => 1,
            // xterm.js shows links with a dashed line.
            Some(extended) if extended.link != 0 => 5,
            Some(extended) => extended.style,
        };
        let has = |flags: u32, flag: u32| flags & flag != 0;
        Style {
            fg: color(cell.fg),
            bg: color(cell.bg),
            underline_color: extended
                .filter(|_| underlined)
                .map_or(Color::Default, |extended| color(extended.color)),
            underline: match underline {
                0 => Underline::None,
                1 => Underline::Single,
                2 => Underline::Double,
                3 => Underline::Curly,
                4 => Underline::Dotted,
                _ => Underline::Dashed,
            },
            bold: has(cell.fg, BOLD),
            dim: has(cell.bg, DIM),
            italic: has(cell.bg, ITALIC),
            blink: has(cell.fg, BLINK),
            inverse: has(cell.fg, INVERSE),
            invisible: has(cell.fg, INVISIBLE),
            strikethrough: has(cell.fg, STRIKETHROUGH),
            overline: has(cell.bg, OVERLINE),
        }
    }
}
