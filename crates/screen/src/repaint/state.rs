//! Everything that is not a cell.

use super::lines::SavedAt;
use super::pen::Output;
use super::row::RowPainter;
use crate::buffer::Buffer;
use crate::cell::{Attr, COLOR_MASK, EXTENDED, Extended, UNDERLINE};
use crate::charset::Charset;
use crate::osc::Title;
use crate::tabs::Tabs;
use crate::{CursorShape, Modes, MouseEncoding, MouseTracking, Screen};

impl RowPainter<'_> {
    /// Saves the cursor in a row of the empty screen.
    pub(super) fn save_in_row(&mut self, at: SavedAt) {
        self.out.position(0, at.line);
        self.x = 0;
        self.save(at);
    }
}

impl Screen {
    /// Resets the viewer: whatever sequence it is in, modes, buffers, and what RIS leaves.
    pub(super) fn write_prologue(&self, out: &mut Output<'_>) {
        // CAN ends a sequence without executing it.
        out.raw(b"\x18\x1bc\x1b[?25l\x1b[20l");
        if self.palette_changed {
            out.raw(b"\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\");
        }
        for (index, [red, green, blue]) in &self.palette.indexed {
            out.text(&format!("\x1b]4;{index};rgb:{red:02x}/{green:02x}/{blue:02x}\x1b\\"));
        }
        for (number, color) in (10..).zip(self.palette.special) {
            if let Some([red, green, blue]) = color {
                out.text(&format!("\x1b]{number};rgb:{red:02x}/{green:02x}/{blue:02x}\x1b\\"));
            }
        }
        write_title(&self.icon, 1, out);
        write_title(&self.title, 2, out);
    }

    /// Shows the alternate buffer; with 1049 if that saves the cursor as it is saved.
    pub(super) fn enter_alternate(&self, painter: &mut RowPainter<'_>) {
        let buffer = &self.normal;
        painter.out.position(buffer.x.min(self.cols - 1), buffer.y);
        let saved = buffer.saved;
        let by_1049 = saved.x == buffer.x
            && buffer.x < self.cols
            && saved.line == buffer.base + buffer.y
            && saved.charset.is_default()
            && saved.bg & COLOR_MASK == 0
            && saved.bg & EXTENDED == 0;
        if by_1049 {
            painter.out.attr(Attr { fg: saved.fg, bg: saved.bg, ext: 0 });
            painter.out.raw(b"\x1b[?1049h");
        } else {
            painter.out.only_background(0);
            painter.out.raw(b"\x1b[?47h");
        }
        painter.out.only_background(0);
        painter.out.raw(b"\x1b[H");
        painter.x = 0;
    }

    /// Scroll region and tab stops of a buffer.
    pub(super) fn write_buffer_state(&self, buffer: &Buffer, painter: &mut RowPainter<'_>) {
        let default = Tabs::new(self.cols);
        if (0..self.cols).any(|column| buffer.tabs.has(column) != default.has(column)) {
            painter.out.raw(b"\x1b[3g");
            for column in (0..self.cols).filter(|&column| buffer.tabs.has(column)) {
                painter.out.column(column);
                painter.out.raw(b"\x1bH");
            }
        }
        if (buffer.top, buffer.bottom) != (0, self.rows - 1) {
            painter.out.text(&format!("\x1b[{};{}r", buffer.top + 1, buffer.bottom + 1));
        }
    }

    /// Modes, character sets, cursor, pen, and the unfinished sequence.
    pub(super) fn write_epilogue(&self, painter: &mut RowPainter<'_>) {
        if self.is_alternate {
            self.write_buffer_state(&self.alternate, painter);
        }
        let restores = self.restores();
        if restores.any() {
            self.write_charsets(&mut painter.out);
            self.write_restored(painter, restores);
        }
        if self.modes.origin {
            painter.out.raw(b"\x1b[?6h");
        }
        let last_character = self.last_character();
        if last_character.is_none() {
            self.write_cursor(
                painter,
                if restores.any() { self.charsets.active } else { Charset::default() },
            );
        }
        if !restores.any() {
            self.write_charsets(&mut painter.out);
        }
        write_modes(&self.modes, &mut painter.out);
        self.write_foreign_modes(&mut painter.out);
        if !restores.pen {
            let pen = &self.pen;
            let color = Extended { color: pen.extended.color, ..Extended::default() };
            let extended = match (pen.bg & EXTENDED != 0, pen.fg & UNDERLINE != 0) {
                (true, _) => pen.extended,
                (false, underlined) => Extended { style: u8::from(underlined), ..color },
            };
            painter.out.pen(pen.fg, pen.bg, Some(extended), true);
        }
        if let Some(last_character) = last_character {
            self.write_last_character(painter, &last_character);
        }
        self.parser.write_unfinished(painter.out.buffer());
        painter.out.raw(self.decoder.pending());
    }

    fn write_charsets(&self, out: &mut Output<'_>) {
        let sets = &self.charsets;
        for (set, intermediate) in sets.designated.iter().zip(*b"()*+") {
            if !set.is_default() {
                out.raw(&[0x1b, intermediate, set.designator()]);
            }
        }
        match sets.level {
            1 => out.raw(b"\x0e"),
            2 => out.raw(b"\x1bn"),
            3 => out.raw(b"\x1bo"),
            _ => {}
        }
    }
}

fn write_title(title: &Title, number: u32, out: &mut Output<'_>) {
    for text in &title.saved {
        out.text(&format!("\x1b]{number};{text}\x1b\\\x1b[22;{number}t"));
    }
    out.text(&format!("\x1b]{number};{}\x1b\\", title.text));
}

fn write_modes(modes: &Modes, out: &mut Output<'_>) {
    let set = |out: &mut Output<'_>, mode: usize| out.text(&format!("\x1b[?{mode}h"));
    let private = [
        (modes.application_cursor_keys, 1),
        (modes.reverse_wraparound, 45),
        (modes.application_keypad, 66),
        (modes.focus_events, 1004),
        (modes.bracketed_paste, 2004),
        (modes.synchronized_output, 2026),
    ];
    for (_, mode) in private.into_iter().filter(|(on, _)| *on) {
        set(out, mode);
    }
    match modes.mouse_tracking {
        MouseTracking::None => {}
        MouseTracking::X10 => set(out, 9),
        MouseTracking::Button => set(out, 1000),
        MouseTracking::Drag => set(out, 1002),
        MouseTracking::Any => set(out, 1003),
    }
    match modes.mouse_encoding {
        MouseEncoding::Default => {}
        MouseEncoding::Sgr => set(out, 1006),
        MouseEncoding::SgrPixels => set(out, 1016),
    }
    if !modes.wraparound {
        out.raw(b"\x1b[?7l");
    }
    if modes.insert {
        out.raw(b"\x1b[4h");
    }
    if modes.newline {
        out.raw(b"\x1b[20h");
    }
    if let Some((shape, blink)) = modes.cursor_style {
        let style = match shape {
            CursorShape::Block => 2,
            CursorShape::Underline => 4,
            CursorShape::Bar => 6,
        };
        out.text(&format!("\x1b[{} q", style - usize::from(blink)));
    }
    out.raw(if modes.cursor_blink { b"\x1b[?12h" } else { b"\x1b[?12l" });
    if modes.cursor_visible {
        out.raw(b"\x1b[?25h");
    }
}
