//! [`Modes`]: the modes that a program has switched on in the local terminal, and how to switch them off again.

use std::fmt::Write;

const ESC: u8 = 0x1b;
/// Cancels an escape sequence, in every state of a terminal.
const CANCEL: u8 = 0x18;
/// The longest control sequence that is understood. Modes in longer ones are ignored.
const MAX_SEQUENCE_BYTES: usize = 256;

/// Private modes (`CSI ? n h`) and their state in a shell.
const PRIVATE: [(u16, bool); 23] = [
    // Synchronised output first: until it ends, the terminal shows nothing.
    (2026, false),
    // Cursor keys, reverse video, origin, wrapping, X10 mouse, visible cursor.
    (1, false),
    (5, false),
    (6, false),
    (7, true),
    (9, false),
    (25, true),
    // Left and right margins.
    (69, false),
    // Mouse and focus reports.
    (1000, false),
    (1001, false),
    (1002, false),
    (1003, false),
    (1004, false),
    (1005, false),
    (1006, false),
    (1015, false),
    (1016, false),
    (2004, false),
    // Reports of the colour scheme and of the size, which would appear as text.
    (2031, false),
    (2048, false),
    // Alternate screens last: the modes above are not restored by leaving them.
    (47, false),
    (1047, false),
    (1049, false),
];

/// The private mode that is the same as `ESC =`. Repaints use it.
const KEYPAD_MODE: u16 = 66;

/// Follows the output of a program, and tracks which modes it has left on.
#[derive(Debug, Default)]
pub(super) struct Modes {
    state: State,
    sequence: Vec<u8>,
    /// One bit for each of [`PRIVATE`] that is not as in a shell.
    private: u32,
    others: OtherModes,
}

/// Other state that a shell expects to be unset.
#[derive(Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent")]
struct OtherModes {
    insert: bool,
    keypad: bool,
    margins: bool,
    attributes: bool,
    charset: bool,
    cursor_style: bool,
    link: bool,
    /// Colours of the palette, the text, the background or the cursor.
    colours: bool,
    modify_keys: bool,
    /// The kitty keyboard protocol of the normal and of the alternate screen.
    keys: [KeyFlags; 2],
}

/// The state of the kitty keyboard protocol.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
struct KeyFlags {
    /// Entries on the stack.
    entries: u16,
    /// Whether flags are set without an entry.
    base: bool,
}

impl KeyFlags {
    /// Pushes, pops or changes flags.
    fn change(&mut self, prefix: u8, mut numbers: impl Iterator<Item = u16>) {
        let (first, second) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1));
        match (prefix, second) {
            (b'>', _) => self.entries = self.entries.saturating_add(1),
            (b'<', _) => self.entries = self.entries.saturating_sub(first.max(1)),
            // An entry is changed, and removed with it.
            _ if self.entries > 0 => (),
            // Flags are added, or some of them removed.
            (_, 2) => self.base |= first != 0,
            (_, 3) => (),
            _ => self.base = first != 0,
        }
    }

    /// What undoes it.
    fn reset(self) -> String {
        let pop = if self.entries > 0 { format!("\x1b[<{}u", self.entries) } else { String::new() };
        pop + if self.base { "\x1b[=0u" } else { "" }
    }
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum State {
    #[default]
    Ground,
    Escape,
    /// After `ESC` and intermediate bytes.
    Intermediate,
    Csi,
    /// In the text of an OSC, DCS, APC, PM or SOS.
    Text,
    /// After an `ESC` in such a text.
    TextEscape,
}

impl Modes {
    /// Follows some output.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            match self.state {
                State::Ground => {
                    let Some(at) = memchr::memchr2(ESC, 0x0e, bytes) else { return };
                    if bytes[at] == ESC {
                        self.state = State::Escape;
                    } else {
                        self.others.charset = true;
                    }
                    bytes = &bytes[at + 1..];
                    continue;
                }
                State::Text if !matches!(byte, ESC | 0x07 | CANCEL | 0x1a) => {
                    let end = bytes.iter().position(|byte| matches!(*byte, ESC | 0x07 | CANCEL | 0x1a));
                    let text = &bytes[..end.unwrap_or(bytes.len())];
                    let room = MAX_SEQUENCE_BYTES.saturating_sub(self.sequence.len());
                    self.sequence.extend_from_slice(&text[..text.len().min(room)]);
                    bytes = &bytes[text.len()..];
                    continue;
                }
                _ => self.byte(byte),
            }
            bytes = rest;
        }
    }

    /// A byte within a sequence.
    fn byte(&mut self, byte: u8) {
        if matches!(byte, CANCEL | 0x1a) {
            self.state = State::Ground;
            return;
        }
        match self.state {
            State::Ground => (),
            State::Text if byte == ESC => self.state = State::TextEscape,
            // The only other byte that ends it.
            State::Text => self.text(),
            State::TextEscape => {
                self.text();
                // `ESC \` ends the text, and another sequence ends it too.
                if byte != b'\\' {
                    self.state = State::Escape;
                    self.byte(byte);
                }
            }
            State::Escape | State::Intermediate | State::Csi if byte == ESC => self.state = State::Escape,
            State::Escape => self.escape(byte),
            State::Intermediate => match byte {
                0x20..0x30 => (),
                0x00..0x20 => (),
                _ => {
                    if self.sequence.first().is_some_and(|first| matches!(first, b'(' | b')' | b'*' | b'+')) {
                        self.others.charset |= byte != b'B';
                    }
                    self.state = State::Ground;
                }
            },
            State::Csi => match byte {
                0x40..0x7f => {
                    self.state = State::Ground;
                    self.csi(byte);
                }
                0x20..0x40 if self.sequence.len() < MAX_SEQUENCE_BYTES => self.sequence.push(byte),
                _ => (),
            },
        }
    }

    fn escape(&mut self, byte: u8) {
        self.sequence.clear();
        self.state = match byte {
            b'[' => State::Csi,
            b']' | b'P' | b'X' | b'^' | b'_' => {
                self.sequence.push(byte);
                State::Text
            }
            0x20..0x30 => {
                self.sequence.push(byte);
                State::Intermediate
            }
            0x00..0x20 => State::Escape,
            _ => State::Ground,
        };
        match byte {
            b'=' => self.others.keypad = true,
            b'>' => self.others.keypad = false,
            // A full reset.
            b'c' => (self.private, self.others) = (0, OtherModes::default()),
            _ => (),
        }
    }

    /// A complete control sequence; its parameters are in `sequence`.
    fn csi(&mut self, last: u8) {
        let sequence = std::mem::take(&mut self.sequence);
        match (sequence.first(), last) {
            (Some(b'?'), b'h' | b'l') => {
                for number in numbers(&sequence[1..]) {
                    self.set_private(number, last == b'h');
                }
            }
            (Some(b'>'), b'm') => {
                self.others.modify_keys |= numbers(&sequence[1..]).nth(1).is_some_and(|value| value != 0);
            }
            (Some(prefix @ (b'>' | b'<' | b'=')), b'u') => {
                let screen = usize::from(self.is_alternate());
                self.others.keys[screen].change(*prefix, numbers(&sequence[1..]));
            }
            // A soft reset.
            (Some(b'!'), b'p') => {
                for mode in [1, 6, 7, 25] {
                    self.set_private(mode, mode == 7 || mode == 25);
                }
                let OtherModes { link, keys, .. } = self.others;
                self.others = OtherModes { link, keys, ..OtherModes::default() };
            }
            (_, b'q') if sequence.ends_with(b" ") => {
                self.others.cursor_style = numbers(&sequence[..sequence.len() - 1]).any(|style| style != 0);
            }
            (Some(b'0'..=b'9' | b';') | None, b'r') => {
                self.others.margins = numbers(&sequence).any(|margin| margin != 0);
            }
            (Some(b'0'..=b'9' | b';' | b':') | None, b'm') => {
                self.others.attributes = !matches!(&sequence[..], b"" | b"0");
            }
            (Some(b'0'..=b'9'), b'h' | b'l') if numbers(&sequence).any(|mode| mode == 4) => {
                self.others.insert = last == b'h';
            }
            _ => (),
        }
    }

    fn set_private(&mut self, number: u16, is_on: bool) {
        if number == KEYPAD_MODE {
            self.others.keypad = is_on;
        }
        if let Some(index) = PRIVATE.iter().position(|(mode, _)| *mode == number) {
            let bit = 1 << index;
            self.private = if is_on == PRIVATE[index].1 { self.private & !bit } else { self.private | bit };
        }
    }

    fn is_alternate(&self) -> bool {
        let is_on = |index: usize| self.private & (1 << index) != 0;
        PRIVATE.iter().enumerate().any(|(index, (mode, _))| matches!(mode, 47 | 1047 | 1049) && is_on(index))
    }

    /// A complete OSC; other texts change nothing.
    fn text(&mut self) {
        self.state = State::Ground;
        let Some(text) = self.sequence.strip_prefix(b"]") else { return };
        let (number, value) = match text.iter().position(|byte| *byte == b';') {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, &b""[..]),
        };
        match number {
            b"8" => {
                self.others.link =
                    value.iter().position(|byte| *byte == b';').is_some_and(|at| at + 1 < value.len());
            }
            b"4" | b"10" | b"11" | b"12" if value != b"?" && !value.ends_with(b";?") => {
                self.others.colours = true;
            }
            b"104" | b"110" | b"111" | b"112" => (),
            _ => (),
        }
    }

    /// What makes the terminal usable for a shell again; empty if it is. Afterwards it counts as written.
    pub(super) fn reset(&mut self) -> Vec<u8> {
        let modes = std::mem::take(self);
        let mut text = String::new();
        if modes.state != State::Ground {
            text.push(char::from(CANCEL));
        }
        let others = &modes.others;
        let mut put = |is_set: bool, sequence: &str| {
            if is_set {
                text.push_str(sequence);
            }
        };
        put(others.link, "\x1b]8;;\x1b\\");
        put(others.colours, "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\");
        put(others.modify_keys, "\x1b[>4m");
        // While the screen that they belong to is shown.
        put(modes.is_alternate(), &others.keys[1].reset());
        for (index, (mode, is_on)) in PRIVATE.iter().enumerate() {
            if modes.private & (1 << index) != 0 {
                // Writing to a string does not fail.
                let _ = write!(text, "\x1b[?{mode}{}", if *is_on { 'h' } else { 'l' });
            }
        }
        let mut put = |is_set: bool, sequence: &str| {
            if is_set {
                text.push_str(sequence);
            }
        };
        put(true, &others.keys[0].reset());
        put(others.insert, "\x1b[4l");
        put(others.keypad, "\x1b>");
        put(others.charset, "\x0f\x1b(B\x1b)B");
        put(others.cursor_style, "\x1b[0 q");
        put(others.attributes, "\x1b[0m");
        // They move the cursor to the top; a shell writes below the rest.
        put(others.margins, if modes.is_alternate() { "\x1b7\x1b[r\x1b8" } else { "\x1b[r\x1b[9999;1H" });
        text.into_bytes()
    }
}

/// The numbers of a control sequence; a missing one is 0.
fn numbers(parameters: &[u8]) -> impl Iterator<Item = u16> {
    parameters.split(|byte| *byte == b';').map(|number| {
        let digits = number.split(|byte| *byte == b':').next().unwrap_or_default();
        str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written after some output, whatever pieces it comes in.
    fn after(output: &str) -> String {
        let mut whole = Modes::default();
        whole.feed(output.as_bytes());
        let mut pieces = Modes::default();
        output.as_bytes().iter().for_each(|byte| pieces.feed(&[*byte]));
        let reset = String::from_utf8(whole.reset()).unwrap();
        assert_eq!(reset.as_bytes(), pieces.reset(), "{output:?}");
        assert_eq!(whole.reset(), b"");
        reset
    }

    #[test]
    fn plain_output_needs_nothing() {
        for output in [
            "",
            "hello\r\nworld",
            "\x1b[31mred\x1b[0m \x1b[1mbold\x1b[m",
            "\x1b[?25l\x1b[?25h\x1b[?1049h\x1b[?1049l",
            "\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
            "\x1b[5;10r\x1b[r\x1b[4h\x1b[4l\x1b=\x1b>",
            "\x1bPq#0~\x1b\\\x1b[6n\x1b[?1;2c\x1b[c",
            "\x1b[?25l\x1b[?1000;1006h\x1bc",
            "\x1b[>1u\x1b[<u",
            "\x1b[=5u\x1b[=0u",
            "\x1b[>1u\x1b[=5u\x1b[<u",
            "\x1b[=5u\x1bc",
            "\x1b[?66h\x1b>",
            "\x1b[2 q\x1b[0 q",
            "\x1b[?12h\x1b[?9999h",
            "\x1b]11;?\x07",
        ] {
            assert_eq!(after(output), "", "{output:?}");
        }
    }

    #[test]
    fn modes_left_on_are_switched_off() {
        for (output, reset) in [
            ("\x1b[?1049h\x1b[?25l\x1b[?1h\x1b=", "\x1b[?1l\x1b[?25h\x1b[?1049l\x1b>"),
            ("\x1b[?1000;1006;2004h", "\x1b[?1000l\x1b[?1006l\x1b[?2004l"),
            ("\x1b[38;5;196mred", "\x1b[0m"),
            ("\x1b[?7l", "\x1b[?7h"),
            ("\x1b[2;9r", "\x1b[r\x1b[9999;1H"),
            ("\x1b[?1049h\x1b[2;9r", "\x1b[?1049l\x1b7\x1b[r\x1b8"),
            ("\x1b(0lqk", "\x0f\x1b(B\x1b)B"),
            ("\x0e", "\x0f\x1b(B\x1b)B"),
            ("\x1b]8;id=1;http://x\x07text", "\x1b]8;;\x1b\\"),
            ("\x1b[>5u\x1b[>1u", "\x1b[<2u"),
            ("\x1b[=5u", "\x1b[=0u"),
            ("\x1b[=0;1u\x1b[=4;2u", "\x1b[=0u"),
            ("\x1b[=5u\x1b[=1;3u\x1b[>1u", "\x1b[<1u\x1b[=0u"),
            ("\x1b[>1u\x1b[?1049h\x1b[>1u\x1b[=5u", "\x1b[<1u\x1b[?1049l\x1b[<1u"),
            ("\x1b[?1049h\x1b[=5u", "\x1b[=0u\x1b[?1049l"),
            ("\x1b[?66h", "\x1b>"),
            ("\x1b[?69h\x1b[?2031;2048h", "\x1b[?69l\x1b[?2031l\x1b[?2048l"),
            ("\x1b[6 q", "\x1b[0 q"),
            ("\x1b[>4;2m", "\x1b[>4m"),
            ("\x1b]11;rgb:00/00/00\x1b\\", "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\"),
            // Cut off within a sequence.
            ("\x1b[?25l\x1b]0;tit", "\x18\x1b[?25h"),
            ("\x1b[3", "\x18"),
            // A sequence that another one interrupts.
            ("\x1b]0;t\x1b[?25l", "\x1b[?25h"),
            ("\x1b[\x1b[?2004h", "\x1b[?2004l"),
        ] {
            assert_eq!(after(output), reset, "{output:?}");
        }
    }

    #[test]
    fn endless_sequences_need_no_memory() {
        let mut modes = Modes::default();
        modes.feed(b"\x1b]");
        for _ in 0..1000 {
            modes.feed(&[b'x'; 4096]);
        }
        modes.feed(b"\x07\x1b[");
        for _ in 0..1000 {
            modes.feed(&[b'1'; 4096]);
        }
        assert!(modes.sequence.capacity() <= 4 * MAX_SEQUENCE_BYTES);
    }
}
