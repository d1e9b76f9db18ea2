//! Measures how fast the emulator reads output: `cargo run --release -p sandcrab-screen --example speed`.

#![expect(clippy::print_stdout, reason = "the figures are the result")]

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sandcrab_screen::{SCROLLBACK_LINES, Screen, Size};

/// Processor time of this thread, so that other processes do not count.
fn now() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().expect("a clock does not show negative times")
}

fn main() {
    let log = "2026-11-16T05:12:09.123456Z  INFO engine::supervisor: started execution id=exec-4711 pid=12345 cwd=/workspace/project\r\n";
    let colored = "\x1b[32m+ added line\x1b[0m \x1b[1;38;5;208mwarning\x1b[0m: \x1b[38;2;10;20;30mvalue\x1b[0m in \x1b[4msrc/main.rs\x1b[24m\r\n";
    let full_screen = "\x1b[H\x1b[2J\x1b[1;34mtop\x1b[0m\x1b[3;5Hcell\x1b[K\x1b[10;1H\x1b[7mstatus line\x1b[27m\x1b[5;20r\x1b[20;1H\n\x1b[r";
    let patterns = [
        ("yes", "y\r\n".to_owned()),
        ("log lines", log.to_owned()),
        ("coloured lines", colored.to_owned()),
        ("full screen", full_screen.to_owned()),
        ("wide characters", "漢字かな交じり文のテキスト\r\n".to_owned()),
        ("combining characters", "cafe\u{301} nai\u{308}ve re\u{301}sume\u{301}\r\n".to_owned()),
    ];
    for (name, pattern) in patterns {
        let block = pattern.repeat((64 << 10) / pattern.len());
        let mut screen = Screen::new(Size::default(), SCROLLBACK_LINES);
        screen.feed(block.as_bytes());
        let start = now();
        let mut bytes = 0_u32;
        while (now() - start).as_millis() < 500 {
            screen.feed(block.as_bytes());
            bytes += u32::try_from(block.len()).expect("a small block");
        }
        println!("{name:22} {:6.0} MB/s", f64::from(bytes) / (now() - start).as_secs_f64() / 1e6);
    }
    let mut screen = Screen::new(Size::new(200, 50), SCROLLBACK_LINES);
    for _ in 0..2000 {
        screen.feed(colored.repeat(3).as_bytes());
    }
    let start = now();
    let bytes = screen.repaint().len();
    println!("repaint 200x50 + 1000  {:6.2} ms, {bytes} bytes", (now() - start).as_secs_f64() * 1e3);
    let start = now();
    let bytes = screen.repaint_within(64 << 10).len();
    println!("repaint within 64 KiB  {:6.2} ms, {bytes} bytes", (now() - start).as_secs_f64() * 1e3);
}
