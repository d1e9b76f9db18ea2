//! [`DetachKeys`]: the keys that detach from a terminal, and [`DetachFilter`], which finds them in the input.

use std::fmt;
use std::str::FromStr;

/// The most keys of a sequence.
const MAX_KEYS: usize = 16;

/// A sequence of keys that detaches from a terminal. The syntax is that of `docker --detach-keys`: keys separated by commas,
/// each a character or `ctrl-` and one of `a`-`z`, `@`, `[`, `\`, `]`, `^`, `_`. An empty text is no sequence.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct DetachKeys(Vec<u8>);

impl DetachKeys {
    /// The default, in the syntax of the option.
    pub(crate) const DEFAULT: &str = "ctrl-p,ctrl-q";

    /// No keys: detaching is not possible.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }
}

impl FromStr for DetachKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let keys = text.split(',').map(|key| {
            byte_of(key).ok_or_else(|| {
                format!("invalid key {key:?}; use single characters or ctrl-X, separated by commas, as in ctrl-p,ctrl-q")
            })
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        if keys.len() > MAX_KEYS {
            return Err(format!("{} keys; at most {MAX_KEYS} are allowed", keys.len()));
        }
        Ok(Self(keys))
    }
}

/// In the syntax of the option.
impl fmt::Display for DetachKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match byte {
                0..0x20 => write!(f, "{comma}ctrl-{}", char::from(byte + 0x40).to_ascii_lowercase())?,
                _ => write!(f, "{comma}{}", char::from(*byte))?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for DetachKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DetachKeys({self})")
    }
}

fn byte_of(key: &str) -> Option<u8> {
    match *key.as_bytes() {
        [byte] if byte.is_ascii_graphic() || byte == b' ' => Some(byte),
        [b'c', b't', b'r', b'l', b'-', byte] if byte.is_ascii_alphabetic() => {
            Some(byte.to_ascii_uppercase() - 0x40)
        }
        [b'c', b't', b'r', b'l', b'-', byte @ (b'@' | b'[' | b'\\' | b']' | b'^' | b'_')] => {
            Some(byte - 0x40)
        }
        _ => None,
    }
}

/// Finds the detach keys in the input. Keys of a partial match are held back until the next key decides, as docker does.
#[derive(Debug)]
pub(super) struct DetachFilter {
    keys: DetachKeys,
    matched: usize,
}

/// What remains of some input.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filtered {
    /// The bytes for the program.
    pub(super) input: Vec<u8>,
    /// Whether the detach keys were pressed. The input after them is dropped.
    pub(super) detached: bool,
}

impl DetachFilter {
    pub(super) fn new(keys: DetachKeys) -> Self {
        Self { keys, matched: 0 }
    }

    /// Filters some input.
    pub(super) fn filter(&mut self, bytes: &[u8]) -> Filtered {
        let keys = &self.keys.0;
        if keys.is_empty() {
            return Filtered { input: bytes.to_vec(), detached: false };
        }
        let mut input = Vec::with_capacity(bytes.len() + self.matched);
        for byte in bytes {
            if *byte == keys[self.matched] {
                self.matched += 1;
                if self.matched == keys.len() {
                    self.matched = 0;
                    return Filtered { input, detached: true };
                }
                continue;
            }
            // The byte does not begin another match, so that it is not delayed either.
            input.extend_from_slice(&keys[..self.matched]);
            input.push(*byte);
            self.matched = 0;
        }
        Filtered { input, detached: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(keys: &str, pieces: &[&str]) -> (String, bool) {
        let mut filter = DetachFilter::new(keys.parse().unwrap());
        let mut passed = String::new();
        for piece in pieces {
            let Filtered { input, detached } = filter.filter(piece.as_bytes());
            passed.push_str(std::str::from_utf8(&input).unwrap());
            if detached {
                return (passed, true);
            }
        }
        (passed, false)
    }

    #[test]
    fn keys_are_found_however_the_input_is_cut() {
        let line = "ls\x10\x11rest";
        for cut in 0..line.len() {
            let (first, second) = line.split_at(cut);
            let pieces = if cut > 4 { vec![line] } else { vec![first, second] };
            assert_eq!(filter("ctrl-p,ctrl-q", &pieces), ("ls".to_owned(), true), "{cut}");
        }
    }

    #[test]
    fn a_partial_match_waits_for_one_key_only() {
        assert_eq!(filter("ctrl-p,ctrl-q", &["a\x10"]), ("a".to_owned(), false));
        assert_eq!(filter("ctrl-p,ctrl-q", &["a\x10", "b"]), ("a\x10b".to_owned(), false));
        // Two steps back in the history of a shell: both arrive with the second.
        assert_eq!(filter("ctrl-p,ctrl-q", &["\x10", "\x10"]), ("\x10\x10".to_owned(), false));
        assert_eq!(filter("a,b,c", &["ab", "x", "abc"]), ("abx".to_owned(), true));
        assert_eq!(filter("", &["\x10\x11"]), ("\x10\x11".to_owned(), false));
    }

    #[test]
    fn the_syntax_is_that_of_docker() {
        for text in ["ctrl-p,ctrl-q", "ctrl-@", "ctrl-[", "ctrl-\\,x", "~,.", "a,b,c", "ctrl-_"] {
            assert_eq!(text.parse::<DetachKeys>().unwrap().to_string(), text);
        }
        assert_eq!("ctrl-P".parse::<DetachKeys>().unwrap().to_string(), "ctrl-p");
        for text in ["ctrl-", "ctrl-1", "abc", "a,,b", "alt-x", "ü", &["x"; 17].join(",")] {
            assert!(text.parse::<DetachKeys>().is_err(), "{text}");
        }
    }
}
