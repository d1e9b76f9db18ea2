//! The emulator.

use crate::buffer::Buffer;
use crate::cell::{CODE_MASK, COMBINED, Cell, EXTENDED, Extended, Pen};
use crate::charset::Charsets;
use crate::extras::{Extras, Link};
use crate::foreign::ForeignModes;
use crate::osc::Title;
use crate::palette::Palette;
use crate::parser::{Action, Parser, State};
use crate::utf8::Decoder;
use crate::{Cursor, Modes, Size};

/// Fewest columns of a screen, as in xterm.js: a wide character must fit.
pub(crate) const MIN_COLS: usize = 2;

/// Cells that sequences which touch many cells may touch, for each byte of output. Those that touch every cell are never
/// limited on screens of up to four thousand cells.
const WORK_PER_BYTE: usize = 1 << 10;
/// Cells that such sequences may touch at once.
const WORK_LIMIT: usize = 1 << 26;

/// A terminal emulator.
///
/// It interprets the output of a program ([`Screen::feed`]) as xterm.js does, and can reproduce its state in another
/// terminal ([`Screen::repaint`]).
#[derive(Clone, Debug)]
pub struct Screen {
    size: Size,
    /// Number of columns of the buffers: at least [`MIN_COLS`].
    pub(crate) cols: usize,
    pub(crate) rows: usize,
    pub(crate) normal: Buffer,
    pub(crate) alternate: Buffer,
    pub(crate) is_alternate: bool,
    pub(crate) pen: Pen,
    pub(crate) charsets: Charsets,
    pub(crate) modes: Modes,
    pub(crate) foreign_modes: ForeignModes,
    pub(crate) title: Title,
    pub(crate) icon: Title,
    pub(crate) palette: Palette,
    /// Whether a program has ever changed a colour.
    pub(crate) palette_changed: bool,
    pub(crate) extras: Extras,
    pub(crate) parser: Parser,
    pub(crate) decoder: Decoder,
    /// Width of the character before the cursor, if the next character can be combined with it or REP can repeat it.
    pub(crate) join: u32,
    /// Whether the last thing was a character.
    pub(crate) in_run: bool,
    pub(crate) replies: Vec<u8>,
    /// Cells that sequences which touch many cells may still touch.
    pub(crate) work: usize,
    /// Whether something changed since `changes` was increased.
    pub(crate) dirty: bool,
    changes: u64,
}

impl Screen {
    /// An empty screen that keeps at most `scrollback_lines` above it. The size is clamped.
    #[must_use]
    pub fn new(size: Size, scrollback_lines: usize) -> Self {
        let size = size.clamped();
        let (cols, rows) = (usize::from(size.cols).max(MIN_COLS), usize::from(size.rows));
        let mut normal = Buffer::new(cols, rows, Some(scrollback_lines));
        normal.fill_screen(Pen::default().attr());
        Self {
            size,
            cols,
            rows,
            normal,
            alternate: Buffer::new(cols, rows, None),
            is_alternate: false,
            pen: Pen::default(),
            charsets: Charsets::default(),
            modes: Modes::default(),
            foreign_modes: ForeignModes::default(),
            title: Title::default(),
            icon: Title::default(),
            palette: Palette::default(),
            palette_changed: false,
            extras: Extras::new(),
            parser: Parser::new(),
            decoder: Decoder::default(),
            join: 0,
            in_run: false,
            replies: Vec::new(),
            work: WORK_LIMIT,
            dirty: false,
            changes: 0,
        }
    }

    /// Interprets output of a program. It may be cut anywhere.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        self.work = bytes.len().saturating_mul(WORK_PER_BYTE).saturating_add(self.work).min(WORK_LIMIT);
        while let [first, rest @ ..] = bytes {
            let between = self.parser.state == State::Ground && !self.decoder.is_pending();
            match *first {
                0x20..=0x7e if between => {
                    let end =
                        bytes.iter().position(|byte| !(0x20..=0x7e).contains(byte)).unwrap_or(bytes.len());
                    self.print_ascii(&bytes[..end]);
                    bytes = &bytes[end..];
                }
                b'\n' if between => {
                    self.in_run = false;
                    self.join = 0;
                    self.dirty = true;
                    self.line_feed();
                    bytes = rest;
                }
                b'\r' if between => {
                    self.in_run = false;
                    self.join = 0;
                    self.dirty = true;
                    self.buffer_mut().x = 0;
                    bytes = rest;
                    if let [b'\n', rest @ ..] = bytes {
                        self.line_feed();
                        bytes = rest;
                    }
                }
                0..=0x1a | 0x1c..=0x1f if between => {
                    self.execute(u32::from(*first));
                    bytes = rest;
                }
                byte => {
                    let (code, used) = self.decoder.put(byte);
                    if let Some(code) = code {
                        self.step(code);
                    }
                    if used {
                        bytes = rest;
                    }
                }
            }
        }
        self.changes += u64::from(std::mem::take(&mut self.dirty));
    }

    fn step(&mut self, code: u32) {
        let action = self.parser.step(code);
        if action == Action::Print {
            self.print(code);
            return;
        }
        self.in_run = false;
        let last = code.to_le_bytes()[0];
        match action {
            Action::Nothing | Action::Print => return,
            Action::Execute => self.execute(code),
            Action::Esc => self.escape(self.parser.collected(), last),
            Action::Csi => self.control(self.parser.collected(), last),
            Action::Osc => {
                let (number, text) = self.parser.take_osc();
                if let (Some(number), Ok(command)) = (number, std::str::from_utf8(&text)) {
                    self.operating_system_command(number, command);
                }
                self.parser.recycle(text);
            }
            Action::Request => {
                let request = self.parser.text().to_owned();
                self.report_setting(&request);
            }
            Action::EndString => {}
        }
        self.join = 0;
    }

    /// Changes the size, as xterm.js does: lines that were wrapped at the right margin are wrapped again. The size is
    /// clamped.
    pub fn resize(&mut self, size: Size) {
        let size = size.clamped();
        if size == self.size {
            return;
        }
        self.size = size;
        (self.cols, self.rows) = (usize::from(size.cols).max(MIN_COLS), usize::from(size.rows));
        self.normal.resize(self.cols, self.rows);
        self.alternate.resize(self.cols, self.rows);
        self.in_run = false;
        self.changes += 1;
    }

    /// The present size.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Position and visibility of the cursor.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        let short = |value: usize, sides: u16| u16::try_from(value).unwrap_or(u16::MAX).min(sides - 1);
        let buffer = self.buffer();
        Cursor {
            row: short(buffer.y, self.size.rows),
            col: short(buffer.x, self.size.cols),
            visible: self.modes.cursor_visible,
        }
    }

    /// The title of the window (OSC 0 and 2).
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title.text
    }

    /// Whether the alternate screen is shown.
    #[must_use]
    pub fn is_alternate(&self) -> bool {
        self.is_alternate
    }

    /// Number of lines above the screen. The alternate screen has none; this is then the number of the normal one.
    #[must_use]
    pub fn scrollback_len(&self) -> usize {
        self.normal.base
    }

    /// The modes that programs have set.
    #[must_use]
    pub fn modes(&self) -> Modes {
        self.modes
    }

    /// Takes the answers to queries such as DA and DSR, at most [`crate::REPLIES_LIMIT`] bytes.
    pub fn take_replies(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.replies)
    }

    /// A number that increases whenever something visible changes.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Memory that this screen occupies, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let rows = [&self.normal, &self.alternate].map(|buffer| buffer.lines.memory());
        let titles = [&self.title, &self.icon].map(Title::memory);
        let strings = titles.iter().sum::<usize>() + self.parser.memory() + self.replies.capacity();
        size_of::<Self>() + rows.iter().sum::<usize>() + strings + self.extras.memory()
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        if self.is_alternate { &self.alternate } else { &self.normal }
    }

    pub(crate) fn buffer_mut(&mut self) -> &mut Buffer {
        if self.is_alternate { &mut self.alternate } else { &mut self.normal }
    }

    /// Whether a sequence may touch every cell. A few bytes of output must not cost milliseconds again and again.
    pub(crate) fn may_touch_all(&mut self) -> bool {
        let rest = self.work.checked_sub(self.cols * self.rows);
        self.work = rest.unwrap_or(self.work);
        rest.is_some()
    }

    /// Looks up the extended attributes of the pen after a change.
    pub(crate) fn refresh_pen(&mut self) {
        if self.pen.bg & EXTENDED != 0 {
            self.pen.ext = self.intern_extended(self.pen.extended);
        }
    }

    pub(crate) fn intern_extended(&mut self, value: Extended) -> u32 {
        self.extras.find_extended(value).unwrap_or_else(|| {
            self.collect_garbage();
            self.extras.add_extended(value)
        })
    }

    pub(crate) fn intern_text(&mut self, text: &str) -> Option<u32> {
        self.extras.find_text(text).or_else(|| {
            self.collect_garbage();
            self.extras.add_text(text)
        })
    }

    pub(crate) fn intern_link(&mut self, link: Link) -> Option<u32> {
        self.extras.find_link(&link).or_else(|| {
            self.collect_garbage();
            self.extras.add_link(link)
        })
    }

    /// Removes texts, links and attributes that no cell uses, if there are many.
    fn collect_garbage(&mut self) {
        if !self.extras.is_full() {
            return;
        }
        let mut marks = self.extras.marks();
        let mut mark = |cell: &Cell| {
            if cell.content & COMBINED != 0 {
                marks.text(cell.content & CODE_MASK);
            }
            marks.extended(cell.ext);
        };
        let lines = self.normal.lines.iter().chain(self.alternate.lines.iter());
        lines.flat_map(|row| row.distinct_cells()).for_each(&mut mark);
        marks.extended(self.pen.ext);
        self.extras.sweep(&marks, self.pen.extended.link);
    }
}

#[cfg(test)]
mod tests {
    use super::Screen;
    use crate::Size;
    use crate::cell::Cell;
    use crate::row::Row;

    #[test]
    fn an_empty_screen_is_small() {
        let screen = Screen::new(Size::default(), crate::SCROLLBACK_LINES);
        assert_eq!(screen.normal.lines.iter().map(Row::stored).sum::<usize>(), 0);
        assert!(size_of::<Screen>() + 24 * size_of::<Row>() < 4096);
        assert_eq!(size_of::<Cell>(), 16);
    }
}
