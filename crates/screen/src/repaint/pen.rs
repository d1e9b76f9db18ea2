//! The output of a repaint, and the pen of the terminal that reads it.

use std::fmt::Write as _;

use crate::cell::{
    Attr, BLINK, BOLD, COLOR_BASIC, COLOR_KIND, COLOR_MASK, COLOR_PALETTE, COLOR_RGB, DIM, EXTENDED,
    Extended, INVERSE, INVISIBLE, ITALIC, OVERLINE, PROTECTED, STRIKETHROUGH, UNDERLINE,
};
use crate::extras::Extras;
use crate::sgr::UNDERLINE_COLOR_RESET;

/// The attributes that the viewer's pen has, without what cannot be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PenAttributes {
    fg: u32,
    bg: u32,
    style: u8,
    color: u32,
    link: u32,
}

/// Writes the bytes of a repaint, and tracks the viewer's pen.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    bytes: Vec<u8>,
    extras: &'a Extras,
    look: PenAttributes,
    /// Whether attributes other than the background colour are written.
    pub(crate) plain: bool,
    limit: usize,
}

impl<'a> Output<'a> {
    pub(crate) fn new(extras: &'a Extras, limit: usize, plain: bool) -> Self {
        Self { bytes: Vec::new(), extras, look: PenAttributes::default(), plain, limit }
    }

    /// The bytes, or `None` if they exceed the limit.
    pub(crate) fn finish(self) -> Option<Vec<u8>> {
        (self.bytes.len() <= self.limit).then_some(self.bytes)
    }

    /// Whether the limit is exceeded, so that further work has no effect.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() > self.limit
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes.extend(text.as_bytes());
    }

    pub(crate) fn character(&mut self, code: u32) {
        if let Some(character) = char::from_u32(code) {
            self.bytes.extend(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }

    /// A control sequence with one parameter.
    pub(crate) fn control(&mut self, param: usize, last: char) {
        self.text(&format!("\x1b[{param}{last}"));
    }

    /// Moves the cursor to a column of its row; counted from 0.
    pub(crate) fn column(&mut self, column: usize) {
        if column == 0 { self.raw(b"\r") } else { self.control(column + 1, 'G') }
    }

    /// Moves the cursor; both counted from 0.
    pub(crate) fn position(&mut self, x: usize, y: usize) {
        self.text(&format!("\x1b[{};{}H", y + 1, x + 1));
    }

    /// The background colour of the viewer's pen.
    pub(crate) fn background(&self) -> u32 {
        self.look.bg & COLOR_MASK
    }

    /// Resets what is known about the pen, after something that the viewer may have done differently.
    pub(crate) fn reset_pen(&mut self) {
        self.raw(b"\x1b[m");
        self.look = PenAttributes { link: self.look.link, ..PenAttributes::default() };
    }

    /// Gives the pen these attributes.
    pub(crate) fn attr(&mut self, attr: Attr) {
        let extended = (attr.bg & EXTENDED != 0).then(|| self.extras.extended(attr.ext));
        self.pen(attr.fg, attr.bg, extended, false);
    }

    /// Gives the pen a background colour, and no other attribute.
    pub(crate) fn only_background(&mut self, bg: u32) {
        self.pen(0, bg & COLOR_MASK, None, false);
    }

    /// Gives the pen these attributes; `exact` includes the underline colour of text that is not underlined.
    pub(crate) fn pen(&mut self, fg: u32, bg: u32, extended: Option<Extended>, exact: bool) {
        if self.plain {
            return;
        }
        let style = match extended {
            _ if fg & UNDERLINE == 0 => 0,
            Some(Extended { link: 0, style, .. }) => style,
            Some(Extended { style, .. }) => style.max(1),
            None => 1,
        };
        let color = extended.filter(|_| style != 0 || exact).map_or(0, |extended| extended.color);
        let look = PenAttributes {
            fg: fg & !UNDERLINE,
            bg: bg & !EXTENDED,
            style,
            color,
            link: extended.map_or(0, |extended| extended.link),
        };
        if look == self.look {
            return;
        }
        if look.link != self.look.link {
            self.link(look.link);
        }
        let before = PenAttributes { link: look.link, bg: self.look.bg & !PROTECTED, ..self.look };
        let after = PenAttributes { bg: look.bg & !PROTECTED, ..look };
        let mut protected = self.look.bg & PROTECTED;
        if before != after {
            self.select(after);
            // xterm.js resets it with SGR 0, others do not.
            protected = if look.bg & PROTECTED == 0 { protected } else { 0 };
        }
        if protected != look.bg & PROTECTED {
            self.raw(if look.bg & PROTECTED == 0 { b"\x1b[0\"q" } else { b"\x1b[1\"q" });
        }
        self.look = look;
    }

    /// SGR with all attributes.
    fn select(&mut self, look: PenAttributes) {
        if look == (PenAttributes { link: look.link, ..PenAttributes::default() }) {
            self.raw(b"\x1b[m");
            return;
        }
        let mut text = String::from("\x1b[0");
        let flags = [
            (look.fg, BOLD, 1),
            (look.bg, DIM, 2),
            (look.bg, ITALIC, 3),
            (look.fg, BLINK, 5),
            (look.fg, INVERSE, 7),
            (look.fg, INVISIBLE, 8),
            (look.fg, STRIKETHROUGH, 9),
            (look.bg, OVERLINE, 53),
        ];
        for (value, flag, code) in flags {
            if value & flag != 0 {
                let _ = write!(text, ";{code}");
            }
        }
        match look.style {
            0 => {}
            1 => text.push_str(";4"),
            style => {
                let _ = write!(text, ";4:{style}");
            }
        }
        color(&mut text, look.fg, 30);
        color(&mut text, look.bg, 40);
        let [_, red, green, blue] = look.color.to_be_bytes();
        let _ = match look.color & COLOR_KIND {
            _ if look.color == UNDERLINE_COLOR_RESET => write!(text, ";59"),
            COLOR_RGB => write!(text, ";58:2::{red}:{green}:{blue}"),
            COLOR_PALETTE => write!(text, ";58:5:{blue}"),
            _ => Ok(()),
        };
        text.push('m');
        self.text(&text);
    }

    fn link(&mut self, index: u32) {
        let (id, target) = self.extras.link(index).map_or(("", ""), |link| (&link.id, &link.target));
        let id = if id.is_empty() { String::new() } else { format!("id={id}") };
        let text = format!("\x1b]8;{id};{target}\x1b\\");
        self.text(&text);
    }
}

/// Parameters for the colour of text (`base` 30) or background (40).
fn color(text: &mut String, value: u32, base: u32) {
    let [_, red, green, blue] = value.to_be_bytes();
    let _ = match value & COLOR_KIND {
        COLOR_BASIC if blue >= 8 => write!(text, ";{}", base + 60 + u32::from(blue & 7)),
        COLOR_BASIC => write!(text, ";{}", base + u32::from(blue)),
        COLOR_PALETTE => write!(text, ";{};5;{blue}", base + 8),
        COLOR_RGB => write!(text, ";{};2;{red};{green};{blue}", base + 8),
        _ => Ok(()),
    };
}
