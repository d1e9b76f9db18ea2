//! The emulator.

use crate::{Cursor, Modes, RowView, Run, Size, Style};

/// A terminal emulator.
#[derive(Debug)]
pub struct Screen {
    size: Size,
    scrollback: usize,
    lines: Vec<String>,
    changes: u64,
}

impl Screen {
    /// An empty screen that keeps this many lines above it.
    #[must_use]
    pub fn new(size: Size, scrollback_lines: usize) -> Self {
        Self { size: size.clamped(), scrollback: scrollback_lines, lines: vec![String::new()], changes: 0 }
    }

    /// Interprets output of a program.
    pub fn feed(&mut self, bytes: &[u8]) {
        for c in String::from_utf8_lossy(bytes).chars() {
            match c {
                '\n' => self.lines.push(String::new()),
                c if c >= ' ' => {
                    if let Some(line) = self.lines.last_mut() {
                        line.push(c);
                    }
                }
                _ => {}
            }
        }
        let excess = self.lines.len().saturating_sub(self.scrollback + usize::from(self.size.rows));
        self.lines.drain(..excess);
        self.changes += 1;
    }

    /// Changes the size.
    pub fn resize(&mut self, size: Size) {
        self.size = size.clamped();
        self.changes += 1;
    }

    /// The present size.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// The bytes that reproduce this screen in a terminal of the same size.
    #[must_use]
    pub fn repaint(&self) -> Vec<u8> {
        format!("\x18\x1bc{}", self.lines.join("\r\n")).into_bytes()
    }

    /// As [`Screen::repaint`], with at most `max_bytes`.
    #[must_use]
    pub fn repaint_within(&self, max_bytes: usize) -> Vec<u8> {
        let mut bytes = self.repaint();
        bytes.truncate(max_bytes);
        bytes
    }

    /// The text of the screen and of up to `scrollback` lines above it.
    #[must_use]
    pub fn text(&self, scrollback: usize) -> String {
        self.rows(scrollback).map(|row| row.text() + "\n").collect()
    }

    /// The last `scrollback` lines above the screen, then the rows of the screen.
    pub fn rows(&self, scrollback: usize) -> impl Iterator<Item = RowView> + '_ {
        let rows = usize::from(self.size.rows);
        let first = self.lines.len().saturating_sub(rows + scrollback);
        self.lines[first..].iter().map(|line| RowView {
            runs: vec![Run { col: 0, text: line.clone(), style: Style::default(), link: None }],
            wrapped: false,
        })
    }

    /// Position and visibility of the cursor.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor { row: 0, col: 0, visible: true }
    }

    /// The title of the window.
    #[must_use]
    pub fn title(&self) -> &str {
        ""
    }

    /// Whether the alternate screen is shown.
    #[must_use]
    pub fn is_alternate(&self) -> bool {
        false
    }

    /// Number of lines above the screen.
    #[must_use]
    pub fn scrollback_len(&self) -> usize {
        self.lines.len().saturating_sub(usize::from(self.size.rows))
    }

    /// The modes that programs have set.
    #[must_use]
    pub fn modes(&self) -> Modes {
        Modes::default()
    }

    /// Takes the answers to queries such as DA and DSR.
    pub fn take_replies(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// A number that increases whenever something visible changes.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }
}
