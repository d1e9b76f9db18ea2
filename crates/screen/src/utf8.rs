//! Decoding of UTF-8 across calls.

/// A decoder that drops invalid bytes, as that of xterm.js does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoder {
    bytes: [u8; 4],
    len: u8,
}

impl Decoder {
    /// Whether a character has begun.
    pub(crate) fn is_pending(&self) -> bool {
        self.len > 0
    }

    /// The bytes of the character that has begun.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Takes the next byte. Returns the code point that it completes, and whether the byte was used. A byte that was
    /// not used begins something else.
    pub(crate) fn put(&mut self, byte: u8) -> (Option<u32>, bool) {
        if self.len == 0 {
            match byte {
                0..=0x7f => return (Some(u32::from(byte)), true),
                0xc0..=0xf7 => {
                    self.bytes[0] = byte;
                    self.len = 1;
                }
                _ => {}
            }
            return (None, true);
        }
        if byte & 0xc0 != 0x80 {
            self.len = 0;
            return (None, false);
        }
        self.bytes[usize::from(self.len)] = byte;
        self.len += 1;
        let first = self.bytes[0];
        let (expected, bits) = match first {
            0xc0..=0xdf => (2, first & 0x1f),
            0xe0..=0xef => (3, first & 0x0f),
            _ => (4, first & 0x07),
        };
        if self.len < expected {
            return (None, true);
        }
        let rest = &self.bytes[1..usize::from(self.len)];
        let code = rest.iter().fold(u32::from(bits), |code, byte| code << 6 | u32::from(byte & 0x3f));
        self.len = 0;
        let valid = match expected {
            2 => code >= 0x80,
            3 => code >= 0x800 && !(0xd800..=0xdfff).contains(&code) && code != 0xfeff,
            _ => (0x1_0000..=0x10_ffff).contains(&code),
        };
        (valid.then_some(code), true)
    }
}
