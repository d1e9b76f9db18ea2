//! What readers of a screen see. `scripts/screen-judge` compares the rest with xterm.js.

use sandcrab_screen::{Color, Cursor, MouseEncoding, MouseTracking, Screen, Size, Underline};

fn screen(output: &str) -> Screen {
    let mut screen = Screen::new(Size::new(20, 4), 10);
    screen.feed(output.as_bytes());
    screen
}

#[test]
fn text_has_one_line_for_each_row() {
    let screen = screen("one\r\ntwo\r\nthree\r\nfour\r\nfive  ");
    assert_eq!(screen.text(0), "two\nthree\nfour\nfive\n");
    assert_eq!(screen.text(100), "one\ntwo\nthree\nfour\nfive\n");
    assert_eq!(screen.scrollback_len(), 1);
}

#[test]
fn runs_have_style_and_link() {
    let screen = screen(
        "a\x1b[1;4:3;38;5;200;48;2;1;2;3mb漢\x1b[m\x1b]8;;http://x/\x1b\\link\x1b]8;;\x1b\\ \x1b[7m \x1b[m",
    );
    let row = screen.rows(0).next().unwrap();
    let texts: Vec<_> =
        row.runs.iter().map(|run| (run.col, run.text.as_str(), run.link.as_deref())).collect();
    assert_eq!(
        texts,
        [(0, "a", None), (1, "b漢", None), (4, "link", Some("http://x/")), (8, " ", None), (9, " ", None)]
    );
    let style = row.runs[1].style;
    assert!(style.bold && !style.italic);
    assert_eq!(
        (style.underline, style.fg, style.bg),
        (Underline::Curly, Color::Indexed(200), Color::Rgb(1, 2, 3))
    );
    assert!(row.runs[4].style.inverse);
    assert_eq!(row.text(), "ab漢link");
}

#[test]
fn the_cursor_stays_on_the_screen() {
    let mut screen = screen("01234567890123456789");
    assert_eq!(screen.cursor(), Cursor { row: 0, col: 19, visible: true });
    screen.feed(b"x\x1b[?25l");
    assert_eq!(screen.cursor(), Cursor { row: 1, col: 1, visible: false });
    assert!(screen.rows(0).nth(1).unwrap().wrapped);
}

#[test]
fn the_alternate_screen_has_no_scrollback() {
    let mut screen = screen("1\r\n2\r\n3\r\n4\r\n5\x1b]2;title\x07\x1b[?1049h\x1b[Halternate");
    assert!(screen.is_alternate());
    assert_eq!(screen.text(100), "alternate\n\n\n\n");
    assert_eq!((screen.title(), screen.scrollback_len()), ("title", 1));
    screen.feed(b"\x1b[?1049l");
    assert_eq!(screen.text(0), "2\n3\n4\n5\n");
}

#[test]
fn modes_are_tracked() {
    let modes = screen("\x1b[?1;1002;1006;2004h\x1b=").modes();
    assert!(modes.application_cursor_keys && modes.application_keypad && modes.bracketed_paste);
    assert_eq!((modes.mouse_tracking, modes.mouse_encoding), (MouseTracking::Drag, MouseEncoding::Sgr));
}

#[test]
fn queries_are_answered_once() {
    let mut screen = screen("ab\x1b[6n\x1b[c\x1b]11;?\x07");
    assert_eq!(screen.take_replies(), b"\x1b[1;3R\x1b[?1;2c\x1b]11;rgb:0000/0000/0000\x1b\\");
    assert_eq!(screen.take_replies(), b"");
}

#[test]
fn only_output_with_an_effect_counts_as_a_change() {
    let mut screen = screen("text");
    let before = screen.changes();
    screen.feed(b"");
    screen.feed(b"\x1b[");
    screen.feed(b"6n\x07\x1b[c");
    assert_eq!(screen.changes(), before);
    screen.feed(b"x");
    assert!(screen.changes() > before);
}

#[test]
fn one_column_is_emulated_with_two() {
    let mut screen = Screen::new(Size::new(1, 1), 0);
    screen.feed("漢x".as_bytes());
    assert_eq!(screen.size(), Size::new(1, 1));
    assert_eq!(screen.cursor().col, 0);
    screen.resize(Size { cols: 0, rows: 5000 });
    assert_eq!(screen.size(), Size::new(1, 1000));
}

#[test]
fn an_unfinished_sequence_continues_after_a_repaint() {
    for (first, second) in
        [("\x1b[3", "1mred"), ("\x1b]2;ti", "tle\x07"), ("\x1bPq#0", "~~\x1b\\after"), ("\x1b(", "0q")]
    {
        let whole = screen(&format!("{first}{second}"));
        let mut copy = Screen::new(Size::new(20, 4), 10);
        copy.feed(&screen(first).repaint());
        copy.feed(second.as_bytes());
        assert_eq!(copy.dump(), whole.dump(), "{first:?}");
    }
}

#[test]
fn modes_of_other_terminals_are_repainted() {
    let repaint = |output: &str| String::from_utf8(screen(output).repaint()).unwrap();
    let text = repaint("\x1b[?5;1007;9999h\x1b[>4;2m\x1b[>1u\x1b[=8;2u\x1b[>3u\x1b[<u");
    assert!(text.contains("\x1b[?5h\x1b[?1007h\x1b[>4;2m") && !text.contains("9999"), "{text:?}");
    assert!(text.contains("\x1b[>9u") && !text.contains("\x1b[>3u"), "{text:?}");
    assert!(!repaint("\x1b[?5h\x1b[>4;2m\x1b[>1u\x1bc").contains("\x1b[>"));
}

/// As in kitty. xterm.js ignores them, so it cannot judge them.
#[test]
fn each_buffer_has_its_keyboard_modes() {
    let mut original = screen("\x1b[?1007;2031;2048h\x1b[>4;2m\x1b[=1u\x1b[>5u");
    // The alternate screen has its own keyboard modes.
    original.feed(b"\x1b[?1049h\x1b[>3u\x1b[>7u\x1b[<u\x1b[=8;2u");
    let repaint = String::from_utf8(original.repaint()).unwrap();
    for mode in ["\x1b[?1007h", "\x1b[?2031h", "\x1b[?2048h", "\x1b[>4;2m"] {
        assert!(repaint.contains(mode), "no {mode:?} in {repaint:?}");
    }
    let (normal, alternate) = repaint.split_once("\x1b[?1049h").unwrap();
    assert!(normal.contains("\x1b[=1u\x1b[>5u"), "{normal:?}");
    assert!(alternate.contains("\x1b[>11u") && !alternate.contains("\x1b[>5u"), "{alternate:?}");
    let mut copy = screen("");
    copy.feed(repaint.as_bytes());
    assert_eq!(copy.repaint().escape_ascii().to_string(), repaint.as_bytes().escape_ascii().to_string());
    copy.feed(b"\x1b[<u\x1b[?1049l\x1b[<u\x1b[=0u");
    assert!(!copy.repaint().windows(3).any(|part| part == b"\x1b[=" || part == b"\x1b[<"), "{copy:?}");
    original.feed(b"\x1bc");
    assert_eq!(original.repaint(), screen("").repaint());
}
