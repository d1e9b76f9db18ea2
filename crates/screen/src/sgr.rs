//! Attributes of characters (SGR).

use crate::Screen;
use crate::cell::{
    BLINK, BOLD, COLOR_BASIC, COLOR_MASK, COLOR_PALETTE, COLOR_RGB, DIM, EXTENDED, INVERSE, INVISIBLE,
    ITALIC, OVERLINE, PROTECTED, STRIKETHROUGH, UNDERLINE,
};

/// What SGR 59 stores. xterm.js treats it as white.
pub(crate) const UNDERLINE_COLOR_RESET: u32 = COLOR_MASK;

impl Screen {
    /// SGR.
    pub(crate) fn select_graphics(&mut self) {
        let mut at = 0;
        while at < self.parser.params.len() {
            at += 1 + self.select(at);
        }
        self.refresh_pen();
    }

    /// Applies the parameter `at`. Returns how many more it used.
    fn select(&mut self, at: usize) -> usize {
        let value = self.parser.params.get(at);
        let low = value.unsigned_abs();
        let pen = &mut self.pen;
        match value {
            0 => {
                (pen.fg, pen.bg) = (0, 0);
                pen.extended.style = 0;
                pen.extended.color = 0;
                self.update_extended();
            }
            1 => pen.fg |= BOLD,
            2 => pen.bg |= DIM,
            3 => pen.bg |= ITALIC,
            4 => self.underline(self.parser.params.subs(at).first().copied().unwrap_or(1)),
            5 => pen.fg |= BLINK,
            7 => pen.fg |= INVERSE,
            8 => pen.fg |= INVISIBLE,
            9 => pen.fg |= STRIKETHROUGH,
            21 => self.underline(2),
            22 => {
                pen.fg &= !BOLD;
                pen.bg &= !DIM;
            }
            23 => pen.bg &= !ITALIC,
            24 => self.underline(0),
            25 => pen.fg &= !BLINK,
            27 => pen.fg &= !INVERSE,
            28 => pen.fg &= !INVISIBLE,
            29 => pen.fg &= !STRIKETHROUGH,
            30..=37 => pen.fg = pen.fg & !COLOR_MASK | COLOR_BASIC | (low - 30),
            39 => pen.fg &= !COLOR_MASK,
            40..=47 => pen.bg = pen.bg & !COLOR_MASK | COLOR_BASIC | (low - 40),
            49 => pen.bg &= !COLOR_MASK,
            53 => pen.bg |= OVERLINE,
            55 => pen.bg &= !OVERLINE,
            59 => {
                pen.extended.color = UNDERLINE_COLOR_RESET;
                self.update_extended();
            }
            90..=97 => pen.fg = pen.fg & !COLOR_MASK | COLOR_BASIC | (low - 90) | 8,
            100..=107 => pen.bg = pen.bg & !COLOR_MASK | COLOR_BASIC | (low - 100) | 8,
            38 | 48 | 58 => return self.select_color(at),
            _ => {}
        }
        0
    }

    fn underline(&mut self, style: i32) {
        let style = u8::try_from(style).ok().filter(|&style| style <= 5).unwrap_or(1);
        self.pen.extended.style = style;
        self.pen.fg = if style == 0 { self.pen.fg & !UNDERLINE } else { self.pen.fg | UNDERLINE };
        self.update_extended();
    }

    /// SGR 38, 48 and 58, with `;` or `:`. Returns how many parameters it used after the first.
    fn select_color(&mut self, at: usize) -> usize {
        let params = &self.parser.params;
        // Target, kind, colour space, then the values. Sequences without a colour space skip its place.
        let mut parts = [0, 0, -1, 0, 0, 0];
        let mut skip = 0;
        let mut used = 0;
        loop {
            parts[used + skip] = params.get(at + used);
            let subs = params.subs(at + used);
            if !subs.is_empty() {
                for (offset, &sub) in subs.iter().enumerate() {
                    if parts[1] == 5 {
                        skip = 1;
                    }
                    let Some(part) = parts.get_mut(used + offset + 1 + skip) else { break };
                    *part = sub;
                }
                break;
            }
            if (parts[1] == 5 && used + skip >= 2) || (parts[1] == 2 && used + skip >= 5) {
                break;
            }
            if parts[1] != 0 {
                skip = 1;
            }
            used += 1;
            if at + used >= params.len() || used + skip >= parts.len() {
                break;
            }
        }
        let byte = |value: i32| u32::from(value.to_le_bytes()[0]);
        let value = |part: i32| byte(if part == -1 { 0 } else { part });
        let color = match parts[1] {
            2 => COLOR_RGB | value(parts[3]) << 16 | value(parts[4]) << 8 | value(parts[5]),
            5 => COLOR_PALETTE | value(parts[3]),
            _ => return used,
        };
        match parts[0] {
            38 => self.pen.fg = self.pen.fg & !COLOR_MASK | color,
            48 => self.pen.bg = self.pen.bg & !COLOR_MASK | color,
            58 => self.pen.extended.color = color,
            _ => {}
        }
        used
    }

    /// Notes in the pen whether it has extended attributes.
    pub(crate) fn update_extended(&mut self) {
        if self.pen.extended.is_empty() {
            self.pen.bg &= !EXTENDED;
        } else {
            self.pen.bg |= EXTENDED;
        }
    }

    /// DECSCA: protects characters from selective erase.
    pub(crate) fn protect(&mut self, what: i32) {
        match what {
            1 => self.pen.bg |= PROTECTED,
            0 | 2 => self.pen.bg &= !PROTECTED,
            _ => {}
        }
    }
}
