//! A repaint reproduces the screen: the state after it equals the state before, and both continue alike.

use crate::output::{config, output};
use proptest::prelude::*;
use sandcrab_screen::{Screen, Size};

/// What a repaint does not carry, as words (see SPECIFICATION.md).
fn oddities(dump: &str) -> Vec<&str> {
    let line = dump.lines().find_map(|line| line.strip_prefix("odd ")).unwrap_or_default();
    line.split_whitespace().collect()
}

/// The dump without the lines that the oddities are about.
fn comparable(dump: &str, oddities: &[&str]) -> String {
    let skipped = |line: &str| {
        line.starts_with("odd ")
            || oddities.iter().any(|word| match *word {
                "pen" => line.starts_with("pen "),
                "charset" => line.starts_with("charsets "),
                "join" => line.starts_with("join "),
                "margin" => line.starts_with("cursor "),
                _ => false,
            })
    };
    dump.lines().filter(|line| !skipped(line)).map(|line| format!("{line}\n")).collect()
}

fn copy(original: &Screen, size: Size, scrollback: usize) -> Screen {
    let mut copy = Screen::new(size, scrollback);
    // Whatever the viewer has shown before.
    copy.feed(b"\x1b[?1049h\x1b[31mold\x1b]0;unfinished");
    copy.feed(&original.repaint());
    copy
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn a_repaint_reproduces_the_screen(
        cols in 4..14_u16, rows in 1..6_u16, scrollback in 0..8_usize, before in output(0..40), after in output(0..20),
    ) {
        let size = Size::new(cols, rows);
        let mut original = Screen::new(size, scrollback);
        original.feed(&before);
        let dump = original.dump();
        let odd = oddities(&dump);
        prop_assume!(!odd.contains(&"cells"));
        let mut copy = copy(&original, size, scrollback);
        prop_assert_eq!(comparable(&dump, &odd), comparable(&copy.dump(), &odd), "before {}", before.escape_ascii());
        prop_assert_eq!(copy.take_replies(), b"");
        prop_assume!(odd.is_empty());
        original.feed(&after);
        copy.feed(&after);
        let odd = oddities(&dump);
        prop_assert_eq!(comparable(&original.dump(), &odd), comparable(&copy.dump(), &odd), "before {}", before.escape_ascii());
    }

    #[test]
    fn output_may_be_cut_anywhere(before in output(0..40), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let size = Size::new(11, 4);
        let mut whole = Screen::new(size, 5);
        whole.feed(&before);
        let mut parts = Screen::new(size, 5);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(before.len() + 1)).collect();
        cuts.sort_unstable();
        let mut start = 0;
        for end in cuts.into_iter().chain([before.len()]) {
            parts.feed(&before[start..end]);
            start = end;
        }
        prop_assert_eq!(whole.dump(), parts.dump());
    }

    #[test]
    fn a_repaint_after_resizes_shows_the_same_text(
        steps in prop::collection::vec((output(0..20), 1..20_u16, 1..8_u16), 1..5),
    ) {
        let mut original = Screen::new(Size::new(12, 4), 6);
        for (before, cols, rows) in &steps {
            original.feed(before);
            original.resize(Size::new(*cols, *rows));
        }
        let dump = original.dump();
        prop_assume!(!oddities(&dump).contains(&"cells"));
        let copy = copy(&original, original.size(), 6);
        prop_assert_eq!(original.text(100), copy.text(100));
        prop_assert_eq!(original.cursor(), copy.cursor());
        prop_assert_eq!(original.rows(100).collect::<Vec<_>>(), copy.rows(100).collect::<Vec<_>>());
    }

    #[test]
    fn a_repaint_keeps_to_its_limit(before in output(0..60), limit in 0..3000_usize) {
        let mut original = Screen::new(Size::new(12, 4), 6);
        original.feed(&before);
        let bytes = original.repaint_within(limit);
        prop_assert!(bytes.len() <= limit);
        let full = original.repaint();
        if full.len() <= limit {
            prop_assert_eq!(bytes, full);
        } else if !bytes.is_empty() && !oddities(&original.dump()).contains(&"cells") {
            let mut copy = Screen::new(Size::new(12, 4), 6);
            copy.feed(&bytes);
            prop_assert_eq!(original.text(0), copy.text(0));
        }
    }
}
