//! [`QueryScanner`]: finds queries in the output of a program, such as DA and DSR, without an emulator.
//!
//! A terminal answers a query with input. When no viewer is attached, the server answers instead, and needs an emulator for it.
//! The scanner finds the rare output that contains a query, so that the other output needs none.

use memchr::memchr;

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;
/// Maximum length of the part of a sequence that is looked at.
const MAX_HELD_BYTES: usize = 64;

/// Where the scanner stands. A sequence may be split between two pieces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    Csi,
    /// OSC or DCS, by its introducer.
    String(u8),
    /// ESC within a string: its end, if a backslash follows.
    StringEscape(u8),
}

/// Scans the output of one terminal.
#[derive(Debug, Default)]
pub(crate) struct QueryScanner {
    state: State,
    held: Vec<u8>,
}

impl QueryScanner {
    /// Scans a piece. Returns whether it completes a query.
    pub(crate) fn scan(&mut self, mut bytes: &[u8]) -> bool {
        let mut found = false;
        loop {
            if self.state == State::Ground {
                let Some(at) = memchr(ESCAPE, bytes) else { return found };
                bytes = &bytes[at + 1..];
                self.begin(State::Escape);
            }
            let Some((byte, rest)) = bytes.split_first() else { return found };
            bytes = rest;
            found |= self.byte(*byte);
        }
    }

    fn begin(&mut self, state: State) {
        self.state = state;
        self.held.clear();
    }

    fn hold(&mut self, byte: u8) {
        if self.held.len() < MAX_HELD_BYTES {
            self.held.push(byte);
        }
    }

    /// Handles a byte within a sequence. Returns whether it completes a query.
    fn byte(&mut self, byte: u8) -> bool {
        match (self.state, byte) {
            (_, CANCEL | SUBSTITUTE) => self.begin(State::Ground),
            (State::Escape, b'[') => self.begin(State::Csi),
            (State::Escape, b']' | b'P') => self.begin(State::String(byte)),
            // DECID, an old form of DA.
            (State::Escape, b'Z') => {
                self.begin(State::Ground);
                return true;
            }
            (State::Escape | State::Csi, ESCAPE) => self.begin(State::Escape),
            (State::Escape, _) => self.begin(State::Ground),
            (State::Csi, 0x40..=0x7e) => {
                let is_query = is_csi_query(&self.held, byte);
                self.begin(State::Ground);
                return is_query;
            }
            (State::Csi, _) => self.hold(byte),
            (State::String(_), ESCAPE) => {
                let State::String(kind) = self.state else { return false };
                self.state = State::StringEscape(kind);
            }
            (State::String(b']'), BELL) => return self.end_string(b']'),
            (State::String(_), _) => self.hold(byte),
            (State::StringEscape(kind), b'\\') => return self.end_string(kind),
            // Another sequence begins.
            (State::StringEscape(_), _) => {
                self.begin(State::Escape);
                return self.byte(byte);
            }
            (State::Ground, _) => {}
        }
        false
    }

    fn end_string(&mut self, kind: u8) -> bool {
        let is_query = match kind {
            // `10;?`, `4;1;?`, `52;c;?`
            b']' => self.held.split(|byte| *byte == b';').any(|part| part == b"?"),
            // DECRQSS, XTGETTCAP
            _ => self.held.starts_with(b"$q") || self.held.starts_with(b"+q"),
        };
        self.begin(State::Ground);
        is_query
    }
}

/// Whether `CSI held last` asks for an answer.
fn is_csi_query(held: &[u8], last: u8) -> bool {
    let prefix = held.first().copied().filter(|byte| (0x3c..=0x3f).contains(byte));
    let middle = held.last().copied().filter(|byte| (0x20..=0x2f).contains(byte));
    match (prefix, middle, last) {
        // DA, and the reports of windows.
        (_, None, b'c') | (None, None, b't' | b'x') => true,
        // DSR.
        (None | Some(b'?'), None, b'n') => true,
        // DECRQM.
        (None | Some(b'?'), Some(b'$'), b'p') => true,
        // DECRQPSR, DECRQCRA.
        (None, Some(b'$'), b'w') | (None, Some(b'*'), b'y') => true,
        // XTVERSION, the kitty keyboard, XTQMODKEYS, XTSMGRAPHICS.
        (Some(b'>'), None, b'q') | (Some(b'?'), None, b'u' | b'm' | b'S') => true,
        _ => false,
    }
}

/// Whether bytes contain a query, or the beginning of a sequence that may become one.
pub(crate) fn may_contain_query(bytes: &[u8]) -> bool {
    let mut scanner = QueryScanner::default();
    scanner.scan(bytes) || scanner.state != State::Ground
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERIES: &[&str] = &[
        "\x1b[c",
        "\x1b[0c",
        "\x1b[>c",
        "\x1b[=c",
        "\x1b[6n",
        "\x1b[?6n",
        "\x1b[5n",
        "\x1b[?2026$p",
        "\x1b[>q",
        "\x1b[>0q",
        "\x1b[?u",
        "\x1b[18t",
        "\x1b]10;?\x07",
        "\x1b]11;?\x1b\\",
        "\x1b]4;1;?\x1b\\",
        "\x1bP$qm\x1b\\",
        "\x1bP+q544e\x1b\\",
        "\x1bZ",
        "\x1b]52;c;?\x07",
    ];
    const OTHERS: &[&str] = &[
        "",
        "text",
        "\x1b[1;31m",
        "\x1b[?25h",
        "\x1b[2J",
        "\x1b[H",
        "\x1b]0;what?\x07",
        "\x1b[>4;2m",
        "\x1b[>1u",
        "\x1b[!p",
        "\x1b[4 q",
        "\x1b]8;;http://a/?b\x1b\\",
        "\x1bPq#0;2;0;0;0\x1b\\",
        "\x1b[6\x18n",
        "\x1b7",
        "\x1b(B",
        "\x1b]52;c;aGk=\x07",
        "\x1b[?1049h",
    ];

    #[test]
    fn queries_are_found_however_they_are_cut() {
        for (texts, expected) in [(QUERIES, true), (OTHERS, false)] {
            for text in texts {
                let whole = format!("before{text}after");
                for cut in 0..=whole.len() {
                    let (first, second) = whole.as_bytes().split_at(cut);
                    let mut scanner = QueryScanner::default();
                    let found = scanner.scan(first) | scanner.scan(second);
                    assert_eq!(found, expected, "{text:?} cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn an_endless_string_holds_little() {
        let mut scanner = QueryScanner::default();
        scanner.scan(b"\x1b]");
        for _ in 0..10_000 {
            assert!(!scanner.scan(b"xxxxxxxxxxxxxxxx"));
        }
        assert!(scanner.held.len() <= MAX_HELD_BYTES);
        assert!(may_contain_query(b"\x1b[") && !may_contain_query(b"\x1b[m"));
    }
}
