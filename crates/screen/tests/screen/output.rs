//! Output as programs print it: text, and sequences that interact.

use std::ops::Range;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The same cases in every run; with `SANDCRAB_SOAK`, a hundred times as many, different in every run.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let soak = std::env::var_os("SANDCRAB_SOAK").is_some();
    ProptestConfig {
        cases: if soak { 100 * cases } else { cases },
        rng_seed: if soak { RngSeed::Random } else { RngSeed::Fixed(1) },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

const TEXTS: &[&str] = &[
    "a",
    "hello world ",
    "漢字",
    "é",
    "e\u{301}",
    "\u{301}",
    "👨\u{200d}👩",
    "─",
    "x\u{200b}",
    "  ",
    "\r\n",
    "\n",
    "\r",
    "\t",
    "\u{8}",
    "\x0e",
    "\x0f",
    "\u{84}",
    "\u{85}",
    "\u{88}",
    "\u{9b}",
    "\x7f",
    "lqk",
];
const FINALS: &[u8] = b"@ABCDEFGHIJKLMPSTXZ`abdefgmrsuhlqpt";
const ESCAPES: &[&str] =
    &["7", "8", "D", "E", "H", "M", "=", ">", "c", "n", "o", "(0", "(B", ")0", "#8", "%G", "(A", "(4"];
const MODES: &[u16] = &[
    1, 2, 4, 5, 6, 7, 9, 12, 20, 25, 45, 47, 66, 1000, 1002, 1003, 1004, 1006, 1016, 1047, 1048, 1049, 2004,
    2026,
];
const GRAPHICS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "4",
    "4:3",
    "5",
    "7",
    "8",
    "9",
    "21",
    "22",
    "24",
    "27",
    "31",
    "42",
    "38;5;200",
    "48;5;17",
    "38;2;1;2;3",
    "48:2::4:5:6",
    "53",
    "58:5:9",
    "58;2;7;8;9",
    "59",
    "97",
    "101",
    "39",
    "49",
];
const COMMANDS: &[&str] = &[
    "0;title",
    "2;t\u{e9}",
    "1;icon",
    "8;;http://a",
    "8;id=x;http://b",
    "8;;",
    "4;1;#123",
    "10;rgb:1/2/3",
    "104",
    "52;c;YQ==",
];
const OTHERS: &[&str] = &[
    "\x1b[0\"q",
    "\x1b[1\"q",
    "\x1b[?J",
    "\x1b[?K",
    "\x1b[?1K",
    "\x1b[2'}",
    "\x1b[2'~",
    "\x1b[2 @",
    "\x1b[2 A",
    "\x1b[!p",
    "\x1b[3 q",
    "\x1bPq#0~\x1b\\",
    "\x1b_apc\x1b\\",
    "\x1b[2;3r",
    "\x1b[22t",
    "\x1b[23t",
    "\x1b[6n",
    "\x1bP$qr\x1b\\",
];

/// One piece of output.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let select = |list: &'static [&'static str]| prop::sample::select(list);
    prop_oneof![
        8 => select(TEXTS).prop_map(|text| text.as_bytes().to_vec()),
        8 => (prop::sample::select(FINALS), 0..14_u16, 0..14_u16)
            .prop_map(|(last, a, b)| format!("\x1b[{a};{b}{}", char::from(last)).into_bytes()),
        2 => select(ESCAPES).prop_map(|text| format!("\x1b{text}").into_bytes()),
        3 => (prop::sample::select(MODES), prop::sample::select(&["?", ""]), prop::sample::select(&['h', 'l']))
            .prop_map(|(mode, prefix, last)| format!("\x1b[{prefix}{mode}{last}").into_bytes()),
        4 => select(GRAPHICS).prop_map(|text| format!("\x1b[{text}m").into_bytes()),
        2 => select(COMMANDS).prop_map(|text| format!("\x1b]{text}\x1b\\").into_bytes()),
        2 => select(OTHERS).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ]
}

/// This many pieces of output.
pub(crate) fn output(pieces: Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(piece(), pieces).prop_map(|pieces| pieces.concat())
}
