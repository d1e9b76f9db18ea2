//! Saved screens: with the rest of the journal they are the screen that all output gives.

use std::path::PathBuf;
use std::time::Duration;

use sandcrab_engine::{
    CommandSpec, EndReason, Engine, Event, MIN_JOURNAL_BYTES, ScreenSource, Terminal, TerminalSize,
    TerminalSpec,
};
use sandcrab_screen::{SCROLLBACK_LINES, Screen, Size};

use super::{GRACE, Seen, create};
use crate::support::{Host, Place, eventually, id, resident_bytes, supervisor_of};

pub(crate) fn emulator(size: TerminalSize) -> Screen {
    Screen::new(Size::new(size.cols, size.rows), SCROLLBACK_LINES)
}

/// The screen from the newest saved screen and the rest of the journal, and where it came from.
pub(crate) fn screen_of(terminal: &Terminal) -> (Screen, ScreenSource) {
    loop {
        let saved = terminal.saved_screen().unwrap();
        assert!(saved.complete);
        let mut screen = emulator(saved.size);
        screen.feed(&saved.repaint);
        let mut follower = terminal.follow_screen(&saved).unwrap();
        let mut is_whole = true;
        while let Some(entry) = follower.try_next().unwrap() {
            match entry.event {
                Event::Output { bytes, .. } => screen.feed(&bytes),
                Event::Size { size, .. } => screen.resize(Size::new(size.cols, size.rows)),
                // A newer screen was saved meanwhile.
                Event::Gap { .. } => is_whole = false,
                _ => {}
            }
        }
        if is_whole {
            return (screen, saved.source);
        }
    }
}

/// Everything that two screens show, scrollback and attributes included.
pub(crate) fn assert_same(screen: &Screen, expected: &Screen) {
    assert_eq!(screen.size(), expected.size());
    let rows = |screen: &Screen| screen.rows(SCROLLBACK_LINES).collect::<Vec<_>>();
    let (own, other) = (rows(screen), rows(expected));
    for (index, (own, other)) in own.iter().zip(&other).enumerate() {
        assert_eq!(own, other, "row {index} of {}", own.text().len());
    }
    assert_eq!(own.len(), other.len());
    assert_eq!(screen.cursor(), expected.cursor());
    assert_eq!(screen.modes(), expected.modes());
    assert_eq!((screen.title(), screen.is_alternate()), (expected.title(), expected.is_alternate()));
}

/// Prints a file, then waits.
fn printer(file: &std::path::Path) -> CommandSpec {
    let text = format!("stty -opost; cat {}; printf '\\033[7mthe end'; cat", file.display());
    CommandSpec::shell(text)
}

/// A file of escape sequences, text and garbage.
pub(crate) fn random_file(place: &Place, bytes: usize, seed: u64) -> PathBuf {
    let path = place.file("random");
    let parts: [&[u8]; 16] = [
        b"\x1b[31;1mred ",
        b"plain text ",
        b"\r\n",
        b"\x1b[2J",
        b"\x1b[5;9H",
        b"\x1b[38;2;1;2;3mtrue",
        "\u{4e16}\u{754c} e\u{301} ".as_bytes(),
        b"\x1b[?1049h",
        b"\x1b[?1049l",
        b"\x1b]0;title\x07",
        b"\x1b[3;10r",
        b"\t\x1b[2K",
        b"\x1b[0m",
        b"\xff\xc3\x28\x80",
        b"\x1b[4@\x1b[2P\x1b[1L",
        b"\x1bPq#0;2;0;0;0#0~~\x1b\\",
    ];
    let mut state = seed | 1;
    let mut content = Vec::with_capacity(bytes + 64);
    while content.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        content.extend_from_slice(parts[usize::try_from(state >> 20).unwrap() % parts.len()]);
    }
    std::fs::write(&path, content).unwrap();
    path
}

/// What the terminal shows after the file of a [`printer`].
fn expected(file: &std::path::Path) -> Screen {
    let mut screen = emulator(TerminalSize::default());
    screen.feed(&std::fs::read(file).unwrap());
    screen.feed(b"\x1b[7mthe end");
    screen
}

async fn wait_for_end(seen: &mut Seen) {
    seen.wait_for("the end").await;
}

async fn print(engine: &Engine, command: CommandSpec) -> Terminal {
    let mut seen = Seen::new(create(engine, TerminalSpec::command(command)).await);
    wait_for_end(&mut seen).await;
    seen.terminal
}

#[tokio::test]
async fn saved_screen_covers_dropped_output() {
    let place = Place::new();
    let engine = place.open().await;
    let file = random_file(&place, 3 << 20, 0x5eed);
    let expected = expected(&file);
    let terminal = print(&engine, printer(&file).journal_bytes(MIN_JOURNAL_BYTES)).await;
    let (screen, source) = screen_of(&terminal);
    assert_eq!(source, ScreenSource::Saved);
    assert_same(&screen, &expected);
    assert!(place.count("screens") > 0);

    // The next engine finds the same.
    let id = terminal.id().clone();
    drop((terminal, engine));
    let engine = place.open().await;
    let terminal = engine.terminal(&id).unwrap();
    assert_same(&screen_of(&terminal).0, &expected);

    // And so does one after the supervisor was killed.
    supervisor_of(terminal.execution()).kill();
    assert_eq!(terminal.execution().wait().await.unwrap().reason, EndReason::Lost);
    assert_same(&screen_of(&terminal).0, &expected);

    // The files are removed with the record.
    drop(terminal);
    eventually("the record is not in use", || engine.forget(&id).is_ok()).await;
    assert_eq!(place.count("screens"), 0);
}

/// The engine's process is killed while the terminal prints more than its journal holds.
#[tokio::test]
async fn the_screen_survives_a_killed_engine() {
    let place = Place::new();
    let file = random_file(&place, 2 << 20, 0xdead);
    let expected = expected(&file);
    let mut host = Host::opened(&place);
    let go = place.file("go");
    let text = format!(
        "stty -opost -echo; head -c 500000 {0}; until [ -e {1} ]; do sleep 0.01; done; tail -c +500001 {0}; \
         printf '\\033[7mthe end'; read x; echo \"got $x\"",
        file.display(),
        go.display()
    );
    assert_eq!(host.ask(&["terminal", "kept", &text]), "started");
    host.kill();
    std::fs::write(&go, "").unwrap();
    let engine = place.open().await;
    let terminal = engine.terminal(&id("kept")).unwrap();
    let mut seen = Seen::new(terminal.clone());
    wait_for_end(&mut seen).await;
    let (screen, source) = screen_of(&terminal);
    assert_eq!(source, ScreenSource::Saved);
    assert_same(&screen, &expected);
    seen.type_line("input").await;
    seen.wait_for("got input").await;
    assert_eq!(terminal.execution().wait().await.unwrap().exit_code, Some(0));
    // An ended terminal still has its screen.
    assert!(screen_of(&terminal).0.text(0).contains("got input"));
}

#[tokio::test]
async fn resizes_during_a_flood_are_part_of_a_saved_screen() {
    let place = Place::new();
    let engine = place.open().await;
    let text = "stty -opost; for i in {1..60000}; do printf 'line %d \\033[3%dmcolour\\r\\n' $i $((i % 8)); done; \
                printf 'the end'; cat";
    let spec = TerminalSpec::command(CommandSpec::shell(text).journal_bytes(MIN_JOURNAL_BYTES));
    let terminal = create(&engine, spec).await;
    // All of it, as a second reader sees it: nothing is dropped before it was followed.
    let mut follower = terminal.execution().follow(0).unwrap();
    let mut all = emulator(TerminalSize::default());
    let (mut resized, mut tail, mut has_gap) = (0_u16, String::new(), false);
    let mut size = all.size();
    // The last size may be recorded after the last output.
    while !tail.ends_with("the end") || all.size() != size {
        match follower.next().await.unwrap().unwrap().event {
            Event::Output { bytes, .. } => {
                all.feed(&bytes);
                tail.push_str(&String::from_utf8_lossy(&bytes));
                tail = tail.split_off(tail.len().saturating_sub(7));
            }
            Event::Size { size, .. } => all.resize(Size::new(size.cols, size.rows)),
            Event::Gap { .. } => has_gap = true,
            _ => {}
        }
        if resized < 30 && !tail.ends_with("the end") {
            resized += 1;
            size = Size::new(20 + resized * 4, 10 + resized);
            terminal.resize(TerminalSize::new(size.cols, size.rows).unwrap()).await.unwrap();
        }
    }
    let (screen, _) = screen_of(&terminal);
    assert_eq!(screen.size(), size);
    if !has_gap {
        assert_same(&screen, &all);
    }
    let text = screen.text(0);
    assert!(text.contains("line 60000 colour") && text.trim_end().ends_with("the end"), "{text}");
    terminal.delete(GRACE).await.unwrap();
}

/// Prints much, checks that memory is bounded, that the terminal answers meanwhile, and that the last screen is right.
async fn flood(lines: u64) {
    let place = Place::new();
    let engine = place.open().await;
    let text =
        format!("stty -opost; yes \"$(printf 'yes yes yes\\r')\" | head -n {lines}; printf 'the end'; cat");
    let terminal = create(&engine, TerminalSpec::command(CommandSpec::shell(text))).await;
    let supervisor = supervisor_of(terminal.execution()).pid;
    let mut most = 0;
    let mut number = 0;
    let mut saved = 0;
    loop {
        number += 1;
        let size = TerminalSize::new(80, 20 + number % 5).unwrap();
        terminal.resize(size).await.unwrap();
        most = most.max(resident_bytes(supervisor));
        saved = saved.max(terminal.saved_screen().unwrap().cursor);
        let total = terminal.execution().reader().unwrap().cursor_end().unwrap();
        if total >= lines * 13 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    terminal.resize(TerminalSize::default()).await.unwrap();
    eventually("the screen is right", || {
        let (screen, _) = screen_of(&terminal);
        let text = screen.text(1);
        text.starts_with("yes yes yes\nyes yes yes\n") && text.trim_end().ends_with("the end")
    })
    .await;
    assert!(saved > 0, "a screen was saved during the flood");
    assert!(most < 60 << 20, "{most} bytes");
    // When it is quiet, the emulator is gone and the screen is saved.
    eventually("the rest is saved", || {
        let total = terminal.execution().reader().unwrap().cursor_end().unwrap();
        total - terminal.saved_screen().unwrap().cursor < 1 << 20
    })
    .await;
    eventually("memory is returned", || resident_bytes(supervisor) < 12 << 20).await;
    terminal.delete(GRACE).await.unwrap();
}

#[tokio::test]
async fn a_flood_neither_grows_memory_nor_loses_the_last_screen() {
    flood(1_600_000).await;
}

#[tokio::test]
async fn soak_a_hundred_megabytes_of_yes() {
    flood(8_000_000).await;
}

#[tokio::test]
async fn screens_of_unknown_terminals_are_removed_on_start() {
    let place = Place::new();
    drop(place.open().await);
    std::fs::write(place.state().join("screens/000123.a"), "stale").unwrap();
    let _engine = place.open().await;
    assert_eq!(place.count("screens"), 0);
}
