//! The whole state as text, for comparison with another emulator (`tests/screen-judge`).

use std::fmt::Write as _;

use crate::buffer::Buffer;
use crate::cell::{
    Attr, CODE_MASK, COLOR_BASIC, COLOR_KIND, COLOR_MASK, COLOR_PALETTE, COMBINED, CONTENT_MASK, Cell,
    EXTENDED, UNDERLINE,
};
use crate::charset::Charset;
use crate::repaint::is_paintable;
use crate::row::Row;
use crate::{MouseEncoding, MouseTracking, Screen};

impl Screen {
    /// The whole state as text. Its format is for tests and can change.
    #[doc(hidden)]
    #[must_use]
    pub fn dump(&self) -> String {
        let mut out = String::new();
        let buffer = self.buffer();
        let modes = &self.modes;
        push(&mut out, format_args!("size {} {}", self.cols, self.rows));
        push(&mut out, format_args!("cursor {} {} {}", buffer.x, buffer.y, modes.cursor_visible));
        let flags = [
            modes.application_cursor_keys,
            modes.application_keypad,
            modes.bracketed_paste,
            modes.focus_events,
            modes.wraparound,
            modes.reverse_wraparound,
            modes.origin,
            modes.insert,
            modes.newline,
            modes.synchronized_output,
            modes.cursor_blink,
            self.is_alternate,
        ];
        let flags: String = flags.map(|flag| if flag { '1' } else { '0' }).iter().collect();
        let tracking = match modes.mouse_tracking {
            MouseTracking::None => "NONE",
            MouseTracking::X10 => "X10",
            MouseTracking::Button => "VT200",
            MouseTracking::Drag => "DRAG",
            MouseTracking::Any => "ANY",
        };
        let encoding = match modes.mouse_encoding {
            MouseEncoding::Default => "DEFAULT",
            MouseEncoding::Sgr => "SGR",
            MouseEncoding::SgrPixels => "SGR_PIXELS",
        };
        let style = modes
            .cursor_style
            .map_or_else(|| "none".to_owned(), |(shape, blink)| format!("{shape:?} {blink}").to_lowercase());
        push(&mut out, format_args!("modes {flags} {tracking} {encoding} cursor {style}"));
        push(&mut out, format_args!("join {}", self.join));
        push(&mut out, format_args!("title {:?} {:?}", self.title.text, self.title.saved));
        push(&mut out, format_args!("icon {:?} {:?}", self.icon.text, self.icon.saved));
        let sets = self.charsets.designated.map(fingerprint).join(" ");
        let active = fingerprint(self.charsets.active);
        push(&mut out, format_args!("charsets {active} {} {sets}", self.charsets.level));
        push(&mut out, format_args!("pen {}", self.dump_attr(self.pen.attr())));
        push(&mut out, format_args!("odd {}", self.oddities()));
        let colors: Vec<String> = self
            .palette
            .indexed
            .iter()
            .map(|(index, rgb)| format!("{index}={rgb:?}"))
            .chain(
                (256..)
                    .zip(&self.palette.special)
                    .filter_map(|(at, rgb)| Some(format!("{at}={:?}", (*rgb)?))),
            )
            .collect();
        push(&mut out, format_args!("colors {}", colors.join(" ")));
        self.dump_buffer("normal", &self.normal, true, &mut out);
        self.dump_buffer("alternate", &self.alternate, self.is_alternate, &mut out);
        out
    }

    /// The state that a repaint does not carry.
    fn oddities(&self) -> String {
        let sets = &self.charsets;
        let restores = self.restores();
        let rows = || self.normal.lines.iter().chain(self.alternate.lines.iter());
        let margin = self.join == 0 && self.is_alternate && self.buffer().x >= self.cols;
        let oddities = [
            ("pen", self.pen_is_odd() && !restores.pen),
            ("charset", sets.active != sets.designated[sets.level] && !restores.charset),
            ("join", self.join > 0 && self.last_character().is_none()),
            ("margin", margin && !self.margin_is_paintable()),
            ("cells", rows().any(|row| !is_paintable(row, self.cols, &self.extras))),
            ("hidden", rows().any(|row| row.len() > self.cols) || self.alternate.max_lines > self.rows),
        ];
        let words = oddities.into_iter().filter_map(|(word, odd)| odd.then_some(word));
        words.collect::<Vec<_>>().join(" ")
    }

    fn dump_buffer(&self, name: &str, buffer: &Buffer, lines: bool, out: &mut String) {
        let saved = buffer.saved;
        let attr = dump_colors(Attr { fg: saved.fg, bg: saved.bg, ext: 0 });
        push(
            out,
            format_args!(
                "{name} saved {} {} {attr} u{} {}",
                // Where DECRC moves the cursor.
                saved.x.min(self.cols - 1),
                saved.line.saturating_sub(buffer.base).min(self.rows - 1),
                u8::from(saved.fg & UNDERLINE != 0),
                fingerprint(saved.charset)
            ),
        );
        if lines {
            let tabs: String =
                (0..self.cols).map(|column| if buffer.tabs.has(column) { '1' } else { '0' }).collect();
            // The alternate buffer has lines above the screen only by a fault of xterm.js.
            let first = if buffer.scrollback.is_some() { 0 } else { buffer.base };
            let (base, top, bottom) = (buffer.base - first, buffer.top, buffer.bottom);
            push(out, format_args!("{name} base {base} region {top} {bottom} tabs {tabs}"));
            for row in buffer.lines.from(first) {
                push(out, format_args!("{}", self.dump_row(row)));
            }
        }
    }

    fn dump_row(&self, row: &Row) -> String {
        let mut text = String::from(if row.wrapped { "W" } else { "." });
        let mut end = text.len();
        let mut wide = false;
        for mut cell in row.cells(self.cols) {
            if wide && cell.is_spacer() {
                // The first half decides how both look.
                (cell.fg, cell.bg) = (0, 0);
            }
            wide = cell.width() == 2;
            text.push(' ');
            text.push_str(&self.dump_cell(cell));
            if cell != Cell::EMPTY {
                end = text.len();
            }
        }
        text.truncate(end);
        text
    }

    fn dump_cell(&self, cell: Cell) -> String {
        if cell == Cell::EMPTY {
            return "_".to_owned();
        }
        let mut text = match cell.content & CONTENT_MASK {
            0 => String::new(),
            content if content & COMBINED != 0 => self.extras.text(content & CODE_MASK).to_owned(),
            content => char::from_u32(content).map(String::from).unwrap_or_default(),
        };
        if text == " " {
            text = "SP".to_owned();
        }
        format!("{text}/{}/{}", cell.width(), self.dump_attr(cell.attr()))
    }

    fn dump_attr(&self, attr: Attr) -> String {
        let extended = (attr.bg & EXTENDED != 0).then(|| self.extras.extended(attr.ext));
        let mut text = dump_colors(attr);
        let style = match extended {
            _ if attr.fg & UNDERLINE == 0 => 0,
            None => 1,
            Some(extended) if extended.link != 0 => 5,
            Some(extended) => extended.style,
        };
        if style != 0 {
            let color = extended.map_or(0, |extended| extended.color);
            push_str(
                &mut text,
                format_args!(",u{style}:{:x}", if color & COLOR_KIND == 0 { 0 } else { color }),
            );
        }
        if let Some(link) = extended.and_then(|extended| self.extras.link(extended.link)) {
            push_str(&mut text, format_args!(",L{}|{}", link.id, link.target));
        }
        text
    }
}

/// Colours and flags, without what differs between equal looks.
fn dump_colors(attr: Attr) -> String {
    let normal = |value: u32| {
        let color = value & COLOR_MASK;
        let color = match color & COLOR_KIND {
            0 => 0,
            COLOR_BASIC | COLOR_PALETTE => color & 0x300_00ff,
            _ => color,
        };
        color | value & !COLOR_MASK
    };
    let (fg, bg) = (normal(attr.fg) & !UNDERLINE, normal(attr.bg) & !EXTENDED);
    if fg == 0 && bg == 0 { "-".to_owned() } else { format!("{fg:x}.{bg:x}") }
}

/// What a character set does to the characters that sets replace.
fn fingerprint(set: Charset) -> String {
    if set.is_default() {
        return "B".to_owned();
    }
    "#@[\\]^_`{|}~a".chars().filter_map(|character| char::from_u32(set.map(u32::from(character)))).collect()
}

fn push(out: &mut String, line: std::fmt::Arguments<'_>) {
    push_str(out, line);
    out.push('\n');
}

fn push_str(out: &mut String, text: std::fmt::Arguments<'_>) {
    // never fails: writing to a string cannot fail
    let _ = out.write_fmt(text);
}
