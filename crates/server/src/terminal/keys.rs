//! Names of keys, and the bytes that a terminal sends for them.
//!
//! The bytes are those of xterm with its default settings. Cursor keys depend on a mode that the program sets (DECCKM).

use crate::error::ApiError;
use crate::nearest::nearest;

/// Maximum number of keys in a request.
pub(crate) const MAX_KEYS: usize = 4_096;

/// Keys with a name, as errors suggest them.
const NAMES: &[&str] = &[
    "enter",
    "tab",
    "escape",
    "backspace",
    "space",
    "up",
    "down",
    "left",
    "right",
    "home",
    "end",
    "pageup",
    "pagedown",
    "insert",
    "delete",
    "f1",
    "f2",
    "f3",
    "f4",
    "f5",
    "f6",
    "f7",
    "f8",
    "f9",
    "f10",
    "f11",
    "f12",
];

/// Modifiers, each with its bit in the parameter of a sequence.
const MODIFIERS: [(&str, u8); 5] =
    [("shift", SHIFT), ("alt", ALT), ("meta", ALT), ("ctrl", CTRL), ("control", CTRL)];
const SHIFT: u8 = 1;
const ALT: u8 = 2;
const CTRL: u8 = 4;

/// A key, parsed from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    base: Base,
    modifiers: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Char(char),
    /// A key that sends this byte: enter, tab, escape, backspace.
    Byte(u8),
    /// `CSI X`, or `SS3 X` in the application mode of the cursor keys.
    Cursor(char),
    /// `SS3 X`; `CSI 1;m X` with modifiers.
    Function(char),
    /// `CSI n ~`.
    Tilde(u8),
}

impl Key {
    /// The key with this name: `ctrl-c`, `enter`, `shift-tab`, `é`. `at` is its index in the request.
    pub(crate) fn parse(name: &str, at: usize) -> Result<Self, ApiError> {
        let field = format!("keys[{at}]");
        let (modifiers, rest) = split_modifiers(name);
        let mut chars = rest.chars();
        let base = match (chars.next(), chars.next()) {
            (Some(only), None) => Base::Char(only),
            _ => match named(&rest.to_ascii_lowercase()) {
                Some(base) => base,
                None => return Err(unknown(&field, name, rest)),
            },
        };
        let key = Self { base, modifiers };
        if key.bytes(false).is_none() {
            let why = "a terminal has no code for ctrl with this character";
            return Err(ApiError::invalid(&field, why));
        }
        Ok(key)
    }

    /// Whether its bytes depend on the application mode of the cursor keys.
    pub(crate) fn depends_on_mode(self) -> bool {
        matches!(self.base, Base::Cursor(_)) && self.modifiers == 0
    }

    /// The bytes that a terminal sends; `None` if it has no code for the key.
    pub(crate) fn bytes(self, application_cursor_keys: bool) -> Option<Vec<u8>> {
        let Self { base, modifiers } = self;
        let parameter = modifiers + 1;
        let sequence = match base {
            Base::Char(c) => return character(c, modifiers),
            Base::Byte(b'\t') if modifiers & SHIFT != 0 => b"\x1b[Z".to_vec(),
            Base::Byte(byte) => {
                let byte = if byte == 0x7f && modifiers & CTRL != 0 { 0x08 } else { byte };
                return Some(with_alt(vec![byte], modifiers));
            }
            Base::Cursor(last) if modifiers != 0 => format!("\x1b[1;{parameter}{last}").into_bytes(),
            Base::Cursor(last) if application_cursor_keys => format!("\x1bO{last}").into_bytes(),
            Base::Cursor(last) => format!("\x1b[{last}").into_bytes(),
            Base::Function(last) if modifiers != 0 => format!("\x1b[1;{parameter}{last}").into_bytes(),
            Base::Function(last) => format!("\x1bO{last}").into_bytes(),
            Base::Tilde(number) if modifiers != 0 => format!("\x1b[{number};{parameter}~").into_bytes(),
            Base::Tilde(number) => format!("\x1b[{number}~").into_bytes(),
        };
        Some(sequence)
    }
}

/// The modifiers at the beginning of a name, and the rest. The rest of `ctrl--` is `-`.
fn split_modifiers(name: &str) -> (u8, &str) {
    let (mut modifiers, mut rest) = (0, name);
    'next: loop {
        for (word, bit) in MODIFIERS {
            if let Some((head, tail)) = rest.split_at_checked(word.len())
                && head.eq_ignore_ascii_case(word)
                && let Some(key) = tail.strip_prefix(['-', '+'])
                && !key.is_empty()
            {
                modifiers |= bit;
                rest = key;
                continue 'next;
            }
        }
        return (modifiers, rest);
    }
}

fn named(name: &str) -> Option<Base> {
    Some(match name {
        "enter" | "return" => Base::Byte(b'\r'),
        "tab" => Base::Byte(b'\t'),
        "escape" | "esc" => Base::Byte(0x1b),
        "backspace" => Base::Byte(0x7f),
        "space" => Base::Char(' '),
        "up" | "arrowup" => Base::Cursor('A'),
        "down" | "arrowdown" => Base::Cursor('B'),
        "right" | "arrowright" => Base::Cursor('C'),
        "left" | "arrowleft" => Base::Cursor('D'),
        "end" => Base::Cursor('F'),
        "home" => Base::Cursor('H'),
        "insert" | "ins" => Base::Tilde(2),
        "delete" | "del" => Base::Tilde(3),
        "pageup" | "pgup" => Base::Tilde(5),
        "pagedown" | "pgdn" => Base::Tilde(6),
        "f1" => Base::Function('P'),
        "f2" => Base::Function('Q'),
        "f3" => Base::Function('R'),
        "f4" => Base::Function('S'),
        "f5" => Base::Tilde(15),
        "f6" => Base::Tilde(17),
        "f7" => Base::Tilde(18),
        "f8" => Base::Tilde(19),
        "f9" => Base::Tilde(20),
        "f10" => Base::Tilde(21),
        "f11" => Base::Tilde(23),
        "f12" => Base::Tilde(24),
        _ => return None,
    })
}

fn character(c: char, modifiers: u8) -> Option<Vec<u8>> {
    if modifiers & CTRL != 0 {
        return Some(with_alt(vec![control(c)?], modifiers));
    }
    let text = if modifiers & SHIFT != 0 { c.to_uppercase().to_string() } else { c.to_string() };
    Some(with_alt(text.into_bytes(), modifiers))
}

/// The control character of a key.
fn control(c: char) -> Option<u8> {
    let code = u8::try_from(c.to_ascii_lowercase()).ok()?;
    Some(match code {
        b'a'..=b'z' => code & 0x1f,
        b' ' | b'@' | b'2' => 0,
        b'[' | b'3' => 0x1b,
        b'\\' | b'4' => 0x1c,
        b']' | b'5' => 0x1d,
        b'^' | b'6' => 0x1e,
        b'_' | b'7' | b'/' | b'-' => 0x1f,
        b'?' | b'8' => 0x7f,
        _ => return None,
    })
}

fn with_alt(mut bytes: Vec<u8>, modifiers: u8) -> Vec<u8> {
    if modifiers & ALT != 0 {
        bytes.insert(0, 0x1b);
    }
    bytes
}

fn unknown(field: &str, name: &str, rest: &str) -> ApiError {
    let prefix = &name[..name.len() - rest.len()];
    let shown: String = name.chars().take(32).collect();
    match nearest(rest, NAMES.iter().copied()) {
        Some(near) => {
            let near = format!("{prefix}{near}");
            let why = format!("unknown key {shown:?}; did you mean {near:?}?");
            ApiError::invalid(field, why).with("nearest", near)
        }
        None => ApiError::invalid(field, format!("unknown key {shown:?}"))
            .suggest(format!("keys are one character, or: {}", NAMES.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(name: &str) -> Vec<u8> {
        Key::parse(name, 0).unwrap().bytes(false).unwrap()
    }

    #[test]
    fn names_are_the_bytes_of_xterm() {
        for (name, expected) in [
            ("a", "a"),
            ("A", "A"),
            ("é", "é"),
            ("-", "-"),
            ("enter", "\r"),
            ("Return", "\r"),
            ("tab", "\t"),
            ("shift-tab", "\x1b[Z"),
            ("escape", "\x1b"),
            ("backspace", "\x7f"),
            ("ctrl-backspace", "\x08"),
            ("space", " "),
            ("ctrl-space", "\0"),
            ("ctrl-c", "\x03"),
            ("Ctrl+C", "\x03"),
            ("ctrl-[", "\x1b"),
            ("ctrl-\\", "\x1c"),
            ("ctrl--", "\x1f"),
            ("alt-x", "\x1bx"),
            ("alt--", "\x1b-"),
            ("meta-X", "\x1bX"),
            ("ctrl-alt-a", "\x1b\x01"),
            ("shift-a", "A"),
            ("up", "\x1b[A"),
            ("ctrl-left", "\x1b[1;5D"),
            ("shift-alt-end", "\x1b[1;4F"),
            ("f1", "\x1bOP"),
            ("shift-f1", "\x1b[1;2P"),
            ("f5", "\x1b[15~"),
            ("ctrl-f12", "\x1b[24;5~"),
            ("pagedown", "\x1b[6~"),
            ("del", "\x1b[3~"),
            ("alt-enter", "\x1b\r"),
        ] {
            assert_eq!(bytes(name), expected.as_bytes(), "{name}");
        }
    }

    #[test]
    fn cursor_keys_depend_on_the_mode() {
        for (name, application, depends) in
            [("up", "\x1bOA", true), ("home", "\x1bOH", true), ("ctrl-up", "\x1b[1;5A", false)]
        {
            let key = Key::parse(name, 0).unwrap();
            assert_eq!(key.bytes(true).unwrap(), application.as_bytes(), "{name}");
            assert_eq!(key.depends_on_mode(), depends, "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest() {
        for (name, expected) in [
            ("entr", "did you mean \"enter\"?"),
            ("ctrl-pagup", "did you mean \"ctrl-pageup\"?"),
            ("", "unknown key"),
            ("ctrl-", "unknown key"),
            ("f13", "unknown key"),
            ("ctrl-é", "no code"),
            ("ctrl-1", "no code"),
        ] {
            let error = Key::parse(name, 3).unwrap_err();
            assert!(error.message().starts_with("keys[3]: "), "{}", error.message());
            assert!(error.message().contains(expected), "{name}: {}", error.message());
        }
    }
}
