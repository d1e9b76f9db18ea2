//! A fuzzer with a time limit: hostile output, made from the corpus of escape sequences by random changes.
//!
//! The cases are the same in every run. With `SANDCRAB_SOAK` the seed is random and the time longer;
//! `FUZZ_SEED` repeats a run.

use std::time::{Duration, Instant};

use crate::hostile::resident;
use sandcrab_screen::{SCROLLBACK_LINES, Screen, Size};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/screen-judge/corpus");
/// A run ends after this time, or after a number of cases: a fast machine does not try others than a slow one.
const TIME: Duration = Duration::from_secs(10);
const CASES: u64 = 1_000;
const SOAK_TIME: Duration = Duration::from_secs(300);
/// A piece of output of at most [`MAX_PIECE`] bytes that takes longer counts as a hang. A busy machine takes longer, too.
const HANG: Duration = Duration::from_secs(5);
const MAX_PIECE: usize = 4 << 10;
/// Bytes of all side data of a screen (links, texts, colours), and the growth of the process that counts as a leak.
const SIDE_DATA: usize = 32 << 20;
const LEAK: usize = 192 << 20;

/// Xorshift: few lines, and the same numbers everywhere.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 1).expect("64 bits") % end
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    fn size(&mut self) -> Size {
        let side = |number: usize| u16::try_from(1 + number).expect("small");
        match self.below(8) {
            0 => Size::new(1, 1),
            1 => Size::new(side(self.below(300)), 1),
            2 => Size::new(1, side(self.below(100))),
            _ => Size::new(side(self.below(120)), side(self.below(40))),
        }
    }
}

/// The sequences of the corpus, in which `\e`, `\r`, `\xNN` and `\u{N}` are escapes.
fn corpus() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut files: Vec<_> =
        std::fs::read_dir(CORPUS).expect("the corpus").map(|file| file.expect("a file").path()).collect();
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(file).expect("text");
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("--"));
        found.extend(lines.filter(|line| !line.is_empty()).map(unescaped));
    }
    assert!(found.len() > 100, "the corpus has {} sequences", found.len());
    found
}

fn unescaped(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = line;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        let escape = if character == '\\' { rest.chars().next() } else { None };
        let Some(escape) = escape else {
            bytes.extend(character.encode_utf8(&mut [0; 4]).bytes());
            continue;
        };
        rest = &rest[escape.len_utf8()..];
        match escape {
            'e' => bytes.push(0x1b),
            'r' => bytes.push(b'\r'),
            'n' => bytes.push(b'\n'),
            't' => bytes.push(b'\t'),
            'b' => bytes.push(8),
            'x' if rest.len() >= 2 && rest.is_char_boundary(2) => {
                bytes.extend(u8::from_str_radix(&rest[..2], 16));
                rest = &rest[2..];
            }
            'u' => {
                let (number, after) = rest[1..].split_once('}').unwrap_or((&rest[1..], ""));
                let code = u32::from_str_radix(number, 16).ok().and_then(char::from_u32);
                bytes.extend(code.unwrap_or('?').encode_utf8(&mut [0; 4]).bytes());
                rest = after;
            }
            other => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    bytes
}

/// Bytes that are invalid UTF-8, begin strings that never end, or have extreme parameters.
const FRAGMENTS: &[&[u8]] = &[
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    b"\x1b]0;",
    b"\x1bP",
    b"\x1b_",
    b"\x1b^",
    b"\x1bX",
    b"\x9d",
    b"\x1b[2147483647",
    b"\x1b[99999999999999999999;0;-1",
    b"\x1b[?1049h",
    b"\x1b[?1049l",
    b"\x1bc",
    b"\x1b[!p",
    b"\x1b[3J",
    b"\x1b[1000b",
    b"\x1b\\",
    b"\x18",
    b"\x00",
    b"\r\n",
    b"\x1b]8;;x:y\x1b\\",
    b"\xcc\x81",
    b"\xe2\x80\x8d",
    b"\xf0\x9f\x98\x80",
];

fn mutated(rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=rng.below(6) {
        bytes.extend(rng.pick(corpus));
    }
    for _ in 0..rng.below(12) {
        let at = rng.below(bytes.len() + 1);
        match rng.below(6) {
            0 if at < bytes.len() => bytes[at] = u8::try_from(rng.next() & 255).expect("a byte"),
            1 => drop(bytes.drain(at..(at + rng.below(9)).min(bytes.len()))),
            2 => drop(bytes.splice(at..at, rng.pick(FRAGMENTS).iter().copied())),
            3 => {
                let end = (at + rng.below(20)).min(bytes.len());
                let part = bytes[at..end].repeat(1 + rng.below(50));
                bytes.splice(at..at, part);
            }
            4 => {
                let random: Vec<u8> = (0..rng.below(40)).map(|_| (rng.next() & 255) as u8).collect();
                bytes.splice(at..at, random);
            }
            _ => {
                let text = format!("\x1b[{};{}", rng.next() >> rng.below(64), rng.below(300));
                bytes.splice(at..at, text.into_bytes());
            }
        }
        bytes.truncate(MAX_PIECE);
    }
    bytes
}

fn feed(screen: &mut Screen, bytes: &[u8]) {
    let start = Instant::now();
    screen.feed(bytes);
    assert!(start.elapsed() < HANG, "{:?} for {:?}", start.elapsed(), bytes.escape_ascii().to_string());
}

/// One case: the same output whole and in pieces, resizes, a repaint.
fn case(rng: &mut Rng, corpus: &[Vec<u8>]) {
    let scrollback = *rng.pick(&[0, 1, 20, SCROLLBACK_LINES]);
    let size = rng.size();
    let (mut whole, mut parts) = (Screen::new(size, scrollback), Screen::new(size, scrollback));
    for _ in 0..1 + rng.below(4) {
        let bytes = mutated(rng, corpus);
        feed(&mut whole, &bytes);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (part, after) = rest.split_at(1 + rng.below(rest.len()));
            feed(&mut parts, part);
            rest = after;
        }
        assert_eq!(whole.dump(), parts.dump(), "cut output differs: {}", bytes.escape_ascii());
        if rng.below(2) == 0 {
            let size = rng.size();
            whole.resize(size);
            parts.resize(size);
        }
        let size = whole.size();
        let cursor = whole.cursor();
        assert!(cursor.row < size.rows && cursor.col < size.cols, "{cursor:?} in {size:?}");
        let cells = usize::from(size.cols) * (2 * usize::from(size.rows) + scrollback);
        assert!(whole.memory() <= 64 * cells + SIDE_DATA, "{} bytes in {size:?}", whole.memory());
    }
    let mut copy = Screen::new(whole.size(), scrollback);
    copy.feed(&whole.repaint());
    // State that no output can produce again, such as half of a wide character (SPECIFICATION.md).
    let dump = whole.dump();
    let odd = dump.lines().find(|line| line.starts_with("odd ")).unwrap_or_default();
    let is_odd = ["cells", "join", "margin"].iter().any(|word| odd.contains(word));
    if !is_odd {
        assert_eq!(copy.text(0), whole.text(0), "{}\n{}", whole.dump(), copy.dump());
    }
    drop((whole.take_replies(), copy.repaint()));
}

#[test]
fn hostile_output_neither_crashes_nor_hangs_nor_grows() {
    let is_soak = std::env::var_os("SANDCRAB_SOAK").is_some();
    let given = std::env::var("FUZZ_SEED").ok().and_then(|seed| seed.parse().ok());
    let first = given.unwrap_or_else(|| if is_soak { clock() } else { 1 });
    let (time, most) = if is_soak { (SOAK_TIME, u64::MAX) } else { (TIME, CASES) };
    let corpus = corpus();
    let (start, mut cases, mut before) = (Instant::now(), 0_u64, 0);
    while start.elapsed() < time && cases < most {
        // Each case has its own seed, so that it can be repeated alone.
        let seed = first.wrapping_add(cases);
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&mut rng, &corpus)));
        assert!(result.is_ok(), "case {cases}: repeat it with FUZZ_SEED={seed}");
        cases += 1;
        if cases == 20 {
            before = resident();
        }
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < LEAK, "{grown} bytes in {cases} cases");
    assert!(cases > 20, "only {cases} cases in {time:?}");
}

/// Nanoseconds of the clock.
fn clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ now.as_secs()
}
