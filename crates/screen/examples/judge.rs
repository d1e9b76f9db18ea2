//! Runs the emulator for `tests/screen-judge`, which compares it with xterm.js.
//!
//! Reads commands from standard input, one on each line, with bytes in hexadecimal. Answers to `dump`, `repaint` and
//! `replies` are one line each, in hexadecimal.

#![expect(clippy::print_stdout, reason = "standard output is the answer")]

use std::io::{BufRead as _, Write as _};

use sandcrab_screen::{Screen, Size};

fn main() {
    let mut screen = Screen::new(Size::default(), 0);
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("standard input is readable");
        let mut words = line.split(' ');
        let command = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse::<u16>().ok()).expect("a number");
        match command {
            "new" => screen = Screen::new(Size::new(number(), number()), usize::from(number())),
            "resize" => screen.resize(Size::new(number(), number())),
            "feed" => screen.feed(&decode(words.next().unwrap_or_default())),
            "dump" => answer(screen.dump().as_bytes()),
            "repaint" => answer(&screen.repaint()),
            "replies" => answer(&screen.take_replies()),
            other => panic!("unknown command {other}"),
        }
    }
}

fn decode(text: &str) -> Vec<u8> {
    let digits = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16));
    digits.map(|byte| byte.expect("hexadecimal digits")).collect()
}

fn answer(bytes: &[u8]) {
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{text}");
    std::io::stdout().flush().expect("standard output is writable");
}
