//! Repaints: bytes that reproduce a screen in another terminal.
//!
//! A repaint resets the viewer, paints the lines of the normal buffer from the oldest to the newest, so that they fill
//! the viewer's scrollback, then those of the alternate buffer if it is shown, and at last sets modes, character sets,
//! cursor and pen, and begins the sequence that the program has not finished.

mod cursor;
mod lines;
mod pen;
mod row;
mod state;

use crate::Screen;
use crate::buffer::{Buffer, Saved};
use crate::cell::{EXTENDED, Extended, UNDERLINE};
use lines::SavedAt;
pub(crate) use pen::Output;
use row::RowPainter;
pub(crate) use row::is_paintable;

/// What a repaint leaves out.
#[derive(Clone, Copy, Debug)]
struct Reduction {
    /// Number of oldest lines of the scrollback.
    lines: usize,
    /// The normal buffer while the alternate one is shown.
    hidden: bool,
    /// Attributes.
    attributes: bool,
}

impl Screen {
    /// The bytes that reproduce this screen in a terminal of the same size.
    ///
    /// One write shows the screen, cursor, colours, modes, title and scrollback as they are here, whatever the
    /// terminal showed before, and the terminal answers nothing. The program's further output continues from there:
    /// saved cursors, tab stops, the scroll region, character sets and an unfinished sequence are reproduced too.
    #[must_use]
    pub fn repaint(&self) -> Vec<u8> {
        self.repaint_within(usize::MAX)
    }

    /// As [`Screen::repaint`], with at most `max_bytes`.
    ///
    /// Leaves out what is too much: the oldest lines of the scrollback first, then the buffer that is not shown, then
    /// the attributes. If even the plain text is too long, the result is empty.
    #[must_use]
    pub fn repaint_within(&self, max_bytes: usize) -> Vec<u8> {
        let all = Reduction { lines: 0, hidden: false, attributes: false };
        if let Some(bytes) = self.try_repaint(all, max_bytes) {
            return bytes;
        }
        let screen = Reduction { lines: self.normal.base, ..all };
        if let Some(bytes) = self.try_repaint(screen, max_bytes) {
            let room = max_bytes - bytes.len();
            let lines = self.lines_to_drop(room);
            return self.try_repaint(Reduction { lines, ..all }, max_bytes).unwrap_or(bytes);
        }
        let shown = Reduction { hidden: true, ..screen };
        self.try_repaint(shown, max_bytes)
            .or_else(|| self.try_repaint(Reduction { attributes: true, ..shown }, max_bytes))
            .unwrap_or_default()
    }

    /// How many lines of the scrollback to leave out, so that the rest takes at most `room` bytes.
    fn lines_to_drop(&self, room: usize) -> usize {
        let mut used = 0;
        for line in (0..self.normal.base).rev() {
            let out = Output::new(&self.extras, room, false);
            let mut painter = RowPainter::new(out, &self.extras, self.cols);
            painter.row(&self.normal.lines[line], 0, self.cols, false);
            // The end of the line, or the way around the margin.
            used += painter.out.len() + 64;
            if used > room {
                return line + 1;
            }
        }
        0
    }

    fn try_repaint(&self, reduction: Reduction, max_bytes: usize) -> Option<Vec<u8>> {
        let out = Output::new(&self.extras, max_bytes, reduction.attributes);
        let mut painter = RowPainter::new(out, &self.extras, self.cols);
        self.write_prologue(&mut painter.out);
        let normal = !(reduction.hidden && self.is_alternate);
        self.paint_normal(&mut painter, if normal { reduction.lines } else { self.normal.lines.len() });
        self.write_keyboard(false, &mut painter.out);
        if self.is_alternate {
            self.enter_alternate(&mut painter);
            self.write_keyboard(true, &mut painter.out);
            let saved = self.saved_at(&self.alternate, self.alternate.base);
            painter.lines(&self.alternate, self.alternate.base, saved);
        }
        self.write_epilogue(&mut painter);
        painter.out.finish()
    }

    /// Paints the normal buffer from line `first` on, and sets what belongs to it.
    fn paint_normal(&self, painter: &mut RowPainter<'_>, first: usize) {
        let buffer = &self.normal;
        if self.alternate.saved != Saved::default() && !self.is_alternate {
            // Only DECRC in the alternate buffer shows it.
            painter.out.raw(b"\x1b[?47h\x1b[H");
            let saved = self.saved_at(&self.alternate, self.alternate.base);
            if let Some(saved) = saved {
                painter.save_in_row(saved);
            }
            painter.out.only_background(0);
            painter.out.raw(b"\x1b[?47l\x1b[H");
            painter.x = 0;
        }
        let saved = self.saved_at(buffer, first);
        let saved = match saved {
            // Below the screen, since the scrollback was cleared.
            Some(saved)
                if saved.line >= buffer.lines.len().saturating_sub(first) && first < buffer.lines.len() =>
            {
                let lines = saved.line + 1 - self.rows;
                painter.out.position(0, self.rows - 1);
                painter.out.raw(&vec![b'\n'; lines]);
                painter.x = 0;
                painter.save(saved);
                painter.out.only_background(0);
                painter.out.raw(b"\x1b[3J\x1b[H");
                painter.x = 0;
                None
            }
            saved => saved,
        };
        painter.lines(buffer, first, saved);
        self.write_buffer_state(buffer, painter);
    }

    /// Where to save the cursor while the lines from `first` on are painted; `None` if it was never saved.
    fn saved_at(&self, buffer: &Buffer, first: usize) -> Option<SavedAt> {
        let saved = buffer.saved;
        if saved == Saved::default() {
            return None;
        }
        // The flags of a link are restored, the link is not: any link will do.
        let linked = saved.bg & EXTENDED != 0 && saved.fg & UNDERLINE == 0;
        let link = Extended { link: self.pen.extended.link, ..Extended::default() };
        let extended = (linked && link.link != 0).then_some(link);
        let line = saved.line.saturating_sub(first);
        let line = if buffer.scrollback.is_none() { line.min(self.rows - 1) } else { line };
        Some(SavedAt { line, saved, extended })
    }
}
