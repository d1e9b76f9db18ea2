//! Bytes as text: UTF-8 that is never split inside a character, and JSON strings written in pieces.

use sandcrab_api::execute::Encoding;

/// The replacement of invalid bytes.
pub(crate) const REPLACEMENT: &str = "\u{fffd}";

/// Decodes pieces of a byte stream to text. A character that is split at the end of a piece waits for the next one.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The beginning of a character, at most three bytes.
    held: Vec<u8>,
    /// Whether invalid UTF-8 was replaced in the last piece.
    pub(crate) replaced: bool,
}

impl Decoder {
    /// Number of bytes that wait for the next piece.
    pub(crate) fn held(&self) -> u8 {
        // At most three.
        u8::try_from(self.held.len()).unwrap_or(0)
    }

    /// Restores the bytes that waited when the stream was interrupted.
    pub(crate) fn hold(&mut self, bytes: &[u8]) {
        self.held = bytes.to_vec();
    }

    /// Passes the text that is complete with this piece to `give`, in parts.
    pub(crate) fn decode(&mut self, piece: &[u8], mut give: impl FnMut(&str)) {
        self.replaced = false;
        let mut rest = piece;
        // The waiting character is completed first, one byte at a time.
        while !self.held.is_empty() {
            let Some((byte, after)) = rest.split_first() else { return };
            let mut longer = self.held.clone();
            longer.push(*byte);
            match str::from_utf8(&longer) {
                Ok(character) => {
                    give(character);
                    self.held.clear();
                    rest = after;
                }
                Err(e) if e.error_len().is_none() => {
                    self.held = longer;
                    rest = after;
                }
                // The byte belongs to another character.
                Err(_) => self.finish(&mut give),
            }
        }
        loop {
            match str::from_utf8(rest) {
                Ok(valid) => return give(valid),
                Err(e) => {
                    let (valid, bad) = rest.split_at(e.valid_up_to());
                    // Never fails: this part was found to be valid.
                    give(str::from_utf8(valid).unwrap_or_default());
                    let Some(length) = e.error_len() else {
                        self.held = bad.to_vec();
                        return;
                    };
                    give(REPLACEMENT);
                    self.replaced = true;
                    rest = &bad[length..];
                }
            }
        }
    }

    /// End of the stream: waiting bytes will never be complete.
    pub(crate) fn finish(&mut self, mut give: impl FnMut(&str)) {
        if !self.held.is_empty() {
            self.held.clear();
            give(REPLACEMENT);
            self.replaced = true;
        }
    }
}

/// Bytes in base64, with padding.
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// All bytes of a stream as the text of a JSON string, and whether some were replaced.
pub(crate) fn encode(bytes: Vec<u8>, encoding: Encoding) -> (String, bool) {
    match encoding {
        Encoding::Base64 => (encode_base64(&bytes), false),
        Encoding::Utf8 => match String::from_utf8(bytes) {
            Ok(text) => (text, false),
            Err(e) => (String::from_utf8_lossy(e.as_bytes()).into_owned(), true),
        },
    }
}

/// Writes the bytes of one stream as the content of a JSON string, piece by piece.
#[derive(Debug)]
pub(crate) enum StringWriter {
    Text {
        decoder: Decoder,
        replaced: bool,
    },
    /// Base64 has groups of three bytes; up to two wait for the next piece.
    Base64 {
        held: Vec<u8>,
    },
}

impl StringWriter {
    pub(crate) fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Utf8 => Self::Text { decoder: Decoder::default(), replaced: false },
            Encoding::Base64 => Self::Base64 { held: Vec::new() },
        }
    }

    pub(crate) fn write(&mut self, piece: &[u8], to: &mut Vec<u8>) {
        match self {
            Self::Text { decoder, replaced } => {
                decoder.decode(piece, |text| escape(text.as_bytes(), to));
                *replaced |= decoder.replaced;
            }
            Self::Base64 { held } => {
                let wanted = (3 - held.len()) % 3;
                let (first, rest) = piece.split_at(wanted.min(piece.len()));
                held.extend_from_slice(first);
                if held.len() < 3 && !held.is_empty() {
                    return;
                }
                base64_to(held, to);
                held.clear();
                let (whole, last) = rest.split_at(rest.len() - rest.len() % 3);
                base64_to(whole, to);
                held.extend_from_slice(last);
            }
        }
    }

    /// End of the stream. Returns whether bytes were replaced.
    pub(crate) fn finish(self, to: &mut Vec<u8>) -> bool {
        match self {
            Self::Text { mut decoder, replaced } => {
                decoder.finish(|text| escape(text.as_bytes(), to));
                replaced || decoder.replaced
            }
            Self::Base64 { held } => {
                base64_to(&held, to);
                false
            }
        }
    }
}

/// Appends bytes in base64, with padding.
fn base64_to(bytes: &[u8], to: &mut Vec<u8>) {
    use base64::Engine;
    let engine = base64::engine::general_purpose::STANDARD;
    let start = to.len();
    to.resize(start + bytes.len().div_ceil(3) * 4, 0);
    // Never fails: the room has exactly the required size.
    let written = engine.encode_slice(bytes, &mut to[start..]).unwrap_or(0);
    to.truncate(start + written);
}

/// The unit of comparison: eight bytes, as one number.
type Word = u64;
const WORD_BYTES: usize = size_of::<Word>();
/// The same byte in every position of a word.
const fn everywhere(byte: u8) -> Word {
    Word::from_ne_bytes([byte; WORD_BYTES])
}

/// The position of the first byte that JSON escapes: a control character, a quote or a backslash.
fn first_special(text: &[u8]) -> Option<usize> {
    const HIGH: Word = everywhere(0x80);
    // Marks every byte that is less, and perhaps some after the first of them.
    let less = |word: Word, than: u8| word.wrapping_sub(everywhere(than)) & !word & HIGH;
    let (words, rest) = text.as_chunks::<WORD_BYTES>();
    for (number, word) in words.iter().enumerate() {
        let word = Word::from_le_bytes(*word);
        let quotes = less(word ^ everywhere(b'"'), 1) | less(word ^ everywhere(b'\\'), 1);
        let special = less(word, 0x20) | quotes;
        if special != 0 {
            // The lowest mark is exact, and the first byte is the lowest.
            return Some(number * WORD_BYTES + special.trailing_zeros() as usize / 8);
        }
    }
    let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    rest.iter().position(special).map(|at| words.len() * WORD_BYTES + at)
}

/// Appends UTF-8 text as the content of a JSON string.
pub(crate) fn escape(text: &[u8], to: &mut Vec<u8>) {
    to.reserve(text.len() + text.len() / 16);
    let mut rest = text;
    while !rest.is_empty() {
        let plain = first_special(rest).unwrap_or(rest.len());
        to.extend_from_slice(&rest[..plain]);
        let Some(byte) = rest.get(plain) else { return };
        match byte {
            b'"' => to.extend_from_slice(b"\\\""),
            b'\\' => to.extend_from_slice(b"\\\\"),
            b'\n' => to.extend_from_slice(b"\\n"),
            b'\r' => to.extend_from_slice(b"\\r"),
            b'\t' => to.extend_from_slice(b"\\t"),
            other => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let (high, low) = (usize::from(other >> 4), usize::from(other & 15));
                to.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[high], HEX[low]]);
            }
        }
        rest = &rest[plain + 1..];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(encoding: Encoding, pieces: &[&[u8]]) -> String {
        let mut writer = StringWriter::new(encoding);
        let mut json = vec![b'"'];
        for piece in pieces {
            writer.write(piece, &mut json);
        }
        writer.finish(&mut json);
        json.push(b'"');
        serde_json::from_slice(&json).unwrap()
    }

    proptest! {
        #[test]
        fn text_is_independent_of_splits(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                ".{0,80}".prop_map(String::into_bytes),
            ],
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.push(0);
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
            prop_assert_eq!(written(Encoding::Utf8, &pieces), String::from_utf8_lossy(&bytes));
            use base64::Engine;
            let exact = base64::engine::general_purpose::STANDARD.decode(written(Encoding::Base64, &pieces)).unwrap();
            prop_assert_eq!(exact, bytes);
        }
    }

    #[test]
    fn split_character_is_not_replaced() {
        let mut decoder = Decoder::default();
        let mut text = String::new();
        decoder.decode(&"€".as_bytes()[..2], |part| text.push_str(part));
        assert_eq!((text.as_str(), decoder.held()), ("", 2));
        decoder.decode(&"€a".as_bytes()[2..], |part| text.push_str(part));
        assert_eq!((text.as_str(), decoder.held(), decoder.replaced), ("€a", 0, false));
    }

    #[test]
    fn every_byte_is_escaped() {
        for byte in (0..=0x7f).map(char::from) {
            for place in 0..2 * WORD_BYTES {
                let mut text = "\u{7f}x!# ]€~".repeat(2);
                text.insert(text.floor_char_boundary(place), byte);
                let mut json = vec![b'"'];
                escape(text.as_bytes(), &mut json);
                json.push(b'"');
                assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), text);
            }
        }
    }
}
