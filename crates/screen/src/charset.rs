//! Character sets: DEC special graphics and the national replacement sets.

/// A character set, by the final byte of the sequence that designates it. 0 is the default, ASCII.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charset(u8);

/// The sets that replace characters: final byte, the replaced characters, and their replacements.
const SETS: &[(u8, &str, &str)] = &[
    (b'0', "`abcdefghijklmnopqrstuvwxyz{|}~", "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·"),
    (b'A', "#", "£"),
    (b'4', "#@[\\]{|}~", "£¾i½|¨f¼´"),
    (b'C', "[\\]^`{|}~", "ÄÖÅÜéäöåü"),
    (b'R', "#@[\\]{|}~", "£à°ç§éùè¨"),
    (b'Q', "@[\\]^`{|}~", "àâçêîôéùèû"),
    (b'K', "@[\\]{|}~", "§ÄÖÜäöüß"),
    (b'Y', "#@[\\]`{|}~", "£§°çéùàòèì"),
    (b'E', "@[\\]^`{|}~", "ÄÆØÅÜäæøåü"),
    (b'Z', "#@[\\]{|}", "£§¡Ñ¿°ñç"),
    (b'H', "@[\\]^`{|}~", "ÉÄÖÅÜéäöåü"),
    (b'=', "#@[\\]^_`{|}~", "ùàéçêîèôäöüû"),
];

impl Charset {
    /// The set with this final byte, or `None` if there is none.
    pub(crate) fn designated_by(byte: u8) -> Option<Self> {
        let name = match byte {
            b'B' => return Some(Self(0)),
            b'5' => b'C',
            b'6' => b'E',
            b'7' => b'H',
            other => other,
        };
        SETS.iter().any(|set| set.0 == name).then_some(Self(name))
    }

    /// The final byte that designates it.
    pub(crate) fn designator(self) -> u8 {
        if self.is_default() { b'B' } else { self.0 }
    }

    pub(crate) fn is_default(self) -> bool {
        self.0 == 0
    }

    /// The character that this set shows for a code point.
    pub(crate) fn map(self, code: u32) -> u32 {
        if self.is_default() || code >= 0x7f {
            return code;
        }
        let Some(set) = SETS.iter().find(|set| set.0 == self.0) else { return code };
        let at = set.1.bytes().position(|byte| u32::from(byte) == code);
        at.and_then(|at| set.2.chars().nth(at)).map_or(code, u32::from)
    }

    /// A code point that this set shows as `code`.
    pub(crate) fn unmap(self, code: u32) -> Option<u32> {
        if self.map(code) == code {
            return Some(code);
        }
        (0x20..0x7f).find(|&byte| self.map(byte) == code)
    }
}

/// The four designated sets, and the one in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charsets {
    /// The set that characters pass through. DECRC restores it without changing the other fields.
    pub(crate) active: Charset,
    pub(crate) designated: [Charset; 4],
    /// Index of the set that was invoked last.
    pub(crate) level: usize,
}

impl Charsets {
    pub(crate) fn invoke(&mut self, level: usize) {
        self.level = level;
        self.active = self.designated[level];
    }

    pub(crate) fn designate(&mut self, level: usize, set: Charset) {
        self.designated[level] = set;
        if self.level == level {
            self.active = set;
        }
    }
}
