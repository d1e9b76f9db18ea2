//! Hostile output: the emulator does not panic, hang or grow.

use std::time::Instant;

use crate::output::config;
use proptest::prelude::*;
use sandcrab_screen::{Color, REPLIES_LIMIT, SCROLLBACK_LINES, Screen, Size};

/// Resident memory of this process in bytes.
pub(crate) fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let pages: usize =
        status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4096
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn random_bytes_never_panic(
        steps in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..400), 1..40_u16, 1..20_u16), 1..6),
    ) {
        let mut screen = Screen::new(Size::new(20, 6), 10);
        for (bytes, cols, rows) in steps {
            screen.feed(&bytes);
            screen.resize(Size::new(cols, rows));
            prop_assert!(screen.rows(1000).count() <= usize::from(rows) + 10);
        }
        let mut copy = Screen::new(screen.size(), 10);
        copy.feed(&screen.repaint());
    }

    #[test]
    fn sequences_with_random_parameters_never_panic(
        sequences in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), any::<u32>(), 0x40..0x7f_u8), 1..60),
        cols in 1..12_u16,
    ) {
        let mut screen = Screen::new(Size::new(cols, 3), 2);
        for (prefix, first, second, last) in sequences {
            let prefix = ["", "?", ">", "!", " ", "$", "'", "\"", "漢"][prefix.index(9)];
            let first = if first % 3 == 0 { first } else { first % 20 };
            screen.feed(format!("x漢\x1b[{prefix}{first};{second}{}", char::from(last)).as_bytes());
            screen.feed(format!("\x1b[{first};{second}{prefix}{}", char::from(last)).as_bytes());
        }
        drop(screen.repaint());
    }
}

/// Feeds a pattern many times. Returns by how many bytes the process has grown.
fn growth(pattern: &str, bytes: usize) -> usize {
    let mut screen = Screen::new(Size::default(), SCROLLBACK_LINES);
    // Fills the scrollback, whose size is known.
    for _ in 0..2 * SCROLLBACK_LINES {
        screen.feed(&[b'x'; 80]);
    }
    let before = resident();
    let block = pattern.repeat(1 + (64 << 10) / pattern.len());
    let mut fed = 0;
    while fed < bytes {
        screen.feed(block.as_bytes());
        fed += block.len();
    }
    assert!(screen.take_replies().len() <= REPLIES_LIMIT);
    resident().saturating_sub(before)
}

#[test]
fn endless_strings_and_side_data_do_not_grow() {
    let long = "y".repeat(300);
    let patterns = [
        // An OSC, a DCS and an APC string that never end, and parameters that never end.
        "\x1b]0;".to_owned() + &long,
        "\x1bPq".to_owned() + &long,
        "\x1b_".to_owned() + &long,
        "\x1b[".to_owned() + &"1;".repeat(100),
        "\x1b[".to_owned() + &"1:".repeat(100),
        // Combining characters, links, underline colours, titles and queries without end.
        "e".to_owned() + &"\u{301}".repeat(200),
        format!("\x1b]8;id={long};http://{long}\x1b\\x"),
        "\x1b[4;58;2;1;2;3mx".to_owned(),
        format!("\x1b]2;{long}\x1b\\\x1b[22t"),
        "\x1b[c\x1b[6n\x1b]10;?\x1b\\".to_owned(),
    ];
    for pattern in patterns {
        let grown = growth(&pattern, 4 << 20);
        assert!(grown < 24 << 20, "{grown} bytes after {:?}", &pattern[..pattern.len().min(20)]);
    }
}

#[test]
fn different_links_and_texts_in_every_cell_are_bounded() {
    let mut screen = Screen::new(Size::new(100, 50), SCROLLBACK_LINES);
    let before = resident();
    for number in 0..40_000_u32 {
        let mark = char::from_u32(0x300 + number % 100).unwrap_or('\u{300}');
        let other = char::from_u32(0x300 + number / 100 % 100).unwrap_or('\u{300}');
        screen.feed(
            format!(
                "\x1b]8;;http://{number}/{}\x1b\\\x1b[4;58;2;{};{};3me{mark}{other}",
                "z".repeat(200),
                number / 256 % 256,
                number % 256
            )
            .as_bytes(),
        );
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    assert!(screen.repaint_within(1 << 20).len() <= 1 << 20);
}

/// The number that [`Screen::memory`] returns is not smaller than what the process has grown by, whatever fills the screen.
#[test]
fn memory_is_measured() {
    // Fills both buffers with cells of `content`, which gets a number.
    let fill = |screen: &mut Screen, content: &dyn Fn(u32) -> String| {
        let Size { cols, rows } = screen.size();
        let above = usize::from(cols) * SCROLLBACK_LINES;
        for (switch, above) in [("", above), ("\x1b[?1049h", 0)] {
            screen.feed(switch.as_bytes());
            let cells = usize::from(cols) * usize::from(rows) + above;
            for number in 0..u32::try_from(cells).expect("few cells") {
                screen.feed(content(number).as_bytes());
            }
        }
    };
    let color = |number: u32| format!("{};{};{}", number >> 16 & 255, number >> 8 & 255, number & 255);
    let mark = |number: u32| char::from_u32(0x300 + number % 64).unwrap_or('\u{300}');
    let contents: [&dyn Fn(u32) -> String; 5] = [
        &|_| "x".to_owned(),
        &|_| "\u{1f600}".to_owned(),
        &|number| format!("\x1b[4;58;2;{}mx", color(number)),
        &|number| format!("e{}{}{}", mark(number), mark(number / 64), mark(number / 4096)),
        &|number| format!("\x1b]8;;x:{number}\x1b\\x"),
    ];
    for size in [Size::new(65, 24), Size::new(100, 50)] {
        for (at, content) in contents.iter().enumerate() {
            let before = resident();
            let mut screen = Screen::new(size, SCROLLBACK_LINES);
            fill(&mut screen, *content);
            let grown = resident().saturating_sub(before);
            let memory = screen.memory();
            // The allocator keeps some of what was freed.
            assert!(grown <= memory + memory / 4 + (2 << 20), "{size:?}, {at}: {grown} bytes, not {memory}");
            let cells = usize::from(size.cols) * (2 * usize::from(size.rows) + SCROLLBACK_LINES);
            // Cells take up to twice 16 bytes, and all side data together up to 32 MiB.
            assert!(memory <= 32 * cells + (32 << 20), "{size:?}, {at}: {memory} bytes");
        }
    }
}

/// Links and colours that were refused because of their amount are accepted again when the others have scrolled away.
#[test]
fn limits_of_side_data_are_not_permanent() {
    let last_run = |screen: &Screen| {
        let last = screen.rows(0).last().expect("there are rows");
        last.runs.last().expect("the row has text").clone()
    };
    let link = |number: u32| format!("\x1b]8;;http://{number}/{}\x1b\\x", "z".repeat(50));
    let underline =
        |number: u32| format!("\x1b[4;58;2;{};{};{}mx", number >> 16, number >> 8 & 255, number & 255);
    let contents: [&dyn Fn(u32) -> String; 2] = [&link, &underline];
    let [linked, underlined] = contents.map(|content| {
        let mut screen = Screen::new(Size::new(100, 50), SCROLLBACK_LINES);
        // More than the limit, in cells that exist at the same time.
        (0..80_000).for_each(|number| screen.feed(content(number).as_bytes()));
        for number in 100_000..120_000 {
            screen.feed(format!("\r\n{}", content(number)).as_bytes());
        }
        last_run(&screen)
    });
    assert!(linked.link.as_ref().is_some_and(|link| link.starts_with("http://119999/")), "{linked:?}");
    assert_eq!(underlined.style.underline_color, Color::Rgb(1, 0xd4, 0xbf));
}

#[test]
fn a_huge_screen_can_become_narrow() {
    let mut screen = Screen::new(Size::new(1000, 1000), SCROLLBACK_LINES);
    for _ in 0..2000 {
        screen.feed(&[b'x'; 1000]);
    }
    let before = resident();
    screen.resize(Size::new(1, 1000));
    screen.resize(Size::new(1000, 1000));
    let grown = resident().saturating_sub(before);
    assert!(grown < 100 << 20, "{grown} bytes");
    assert_eq!(screen.size(), Size::new(1000, 1000));
}

/// A few bytes must not cost milliseconds again and again.
#[test]
fn repetitions_cost_no_more_than_other_output() {
    const BYTES: usize = 2 << 10;
    let time_of = |pattern: &str| {
        // Columns are inserted until the work that is allowed at once is used up.
        let mut screen = Screen::new(Size::new(1000, 1000), SCROLLBACK_LINES);
        screen.feed("\x1b[1 @".repeat(100).as_bytes());
        screen.resize(Size::new(2, 1000));
        // A scroll region: lines below it are moved for each line.
        screen.feed(b"\x1b[1;2r\x1b[2;1H");
        let output = pattern.repeat(BYTES / pattern.len());
        let start = Instant::now();
        screen.feed(output.as_bytes());
        start.elapsed()
    };
    let plain = time_of("\n");
    let marks: String = (0..31).map(|mark| char::from_u32(0x300 + mark).unwrap_or('\u{300}')).collect();
    for pattern in ["x\x1b[2000b", "漢\x1b[2000b", &format!("e{marks}\x1b[2000b")] {
        let repeated = time_of(pattern);
        assert!(repeated < 20 * plain, "{repeated:?}, not {plain:?}, for {pattern:?}");
    }
}

#[test]
fn a_large_repetition_is_limited() {
    let mut screen = Screen::new(Size::new(1000, 1000), SCROLLBACK_LINES);
    screen.feed(
        "\x1b[1;1Hx\x1b[2147483647b\x1b[2147483647L\x1b[2147483647@\x1b[2147483647S漢\x1b[2147483647b"
            .as_bytes(),
    );
    assert_eq!(screen.size().cols, 1000);
}
