//! A state directory whose disk is full, or that is gone.

use std::process::Command;
use std::time::Duration;

use sandcrab_engine::{
    CommandSpec, EndReason, Engine, Event, Follower, MIN_JOURNAL_BYTES, Retention, SessionError, SessionSpec,
    StartError, Stdin, Stream, TerminalError, TerminalSize, TerminalSpec,
};

use crate::support::{Place, eventually, eventually_async, id, not_run, supervisor_of};
use crate::terminals::screens::{assert_same, emulator, random_file, screen_of};

/// A small file system for a state directory; unmounted when it goes.
struct Tiny<'a>(&'a Place);

impl<'a> Tiny<'a> {
    fn mount(place: &'a Place, options: &str) -> Option<Self> {
        let path = place.state();
        std::fs::create_dir(&path).unwrap();
        let words = ["-t", "tmpfs", "-o", options, "tmpfs"];
        let mounted = Command::new("mount").args(words).arg(&path).status().is_ok_and(|s| s.success());
        if !mounted {
            not_run("file systems cannot be mounted");
        }
        mounted.then_some(Self(place))
    }

    /// Fills it to the last byte.
    fn fill(&self) -> std::path::PathBuf {
        let path = self.0.state().join("filler");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        for size in [64 << 10, 4 << 10, 64, 1] {
            while std::io::Write::write(&mut file, &vec![1; size]).is_ok_and(|n| n == size) {}
        }
        path
    }
}

impl Drop for Tiny<'_> {
    fn drop(&mut self) {
        self.0.remember_supervisors();
        drop(Command::new("umount").arg("--lazy").arg(self.0.state()).status());
    }
}

#[tokio::test]
async fn a_full_disk_refuses_new_work_and_recovers() {
    let place = Place::new();
    let Some(tiny) = Tiny::mount(&place, "size=4m") else { return };
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    session.run(CommandSpec::shell("x=5")).await.unwrap();
    let filler = tiny.fill();
    for _ in 0..8 {
        // Slots that are there already may have room for a short command, so this one is long.
        let long = format!("true {}", "x".repeat(50_000));
        let started = engine.start(CommandSpec::shell(long.clone())).await;
        assert!(matches!(started, Err(StartError::NoSpace)), "{started:?}");
        let started = session.start(CommandSpec::shell(long)).await;
        assert!(matches!(started, Err(StartError::NoSpace)), "{started:?}");
    }
    assert_eq!(engine.health().running, 0);
    std::fs::remove_file(filler).unwrap();
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    assert_eq!(session.run(CommandSpec::shell("echo $x")).await.unwrap().stdout(), "5\n");
    session.delete().await.unwrap();
    eventually("only what is ready is there", || place.supervisors().len() == 4).await;
}

/// What has finished can be removed when the disk is full, and makes room; the oldest goes by itself for a new command.
#[tokio::test]
async fn a_full_disk_can_be_freed() {
    let place = Place::new();
    let Some(tiny) = Tiny::mount(&place, "size=6m") else { return };
    let retention = Retention { grace: Duration::ZERO, ..Retention::default() };
    let engine = place.open_with(|config| config.retention = retention).await;
    let large = async |name: &str| {
        let spec = CommandSpec::shell("head -c 300000 /dev/zero").id(id(name)).background();
        engine.run(spec).await.unwrap().execution.wait_closed().await;
    };
    let long = || CommandSpec::shell(format!("echo {}", "x".repeat(50_000)));
    for name in ["a", "b", "c"] {
        large(name).await;
    }
    let filler = tiny.fill();
    let before = available(&place);
    engine.forget(&id("a")).unwrap();
    assert!(available(&place) >= before + 250_000, "{} of {before}", available(&place));
    assert_eq!(engine.run(long()).await.unwrap().output.stdout.bytes.len(), 50_001);
    tiny.fill();
    // Without a clean-up by the client: the oldest is removed.
    assert_eq!(engine.run(long()).await.unwrap().output.stdout.bytes.len(), 50_001);
    assert!(engine.execution(&id("b")).is_none() && is_short_of_space(&engine));
    tiny.fill();
    let before = available(&place);
    // All that has finished, whether in the background or not.
    assert!(engine.remove_finished() > 0);
    assert!(engine.executions().is_empty() && available(&place) > before);
    std::fs::remove_file(filler).unwrap();
    large("d").await;
}

fn is_short_of_space(engine: &Engine) -> bool {
    engine.health().problems.iter().any(|problem| problem.code == "disk_full")
}

/// Records that were just made are the ones that fill a disk: clean-up and new commands do not wait for the grace period then.
#[tokio::test]
async fn full_disk_can_be_freed_of_records_just_received() {
    let place = Place::new();
    let Some(tiny) = Tiny::mount(&place, "size=6m") else { return };
    let engine = place.open().await;
    let large = async |name: &str| {
        let outcome = engine.run(CommandSpec::shell("head -c 300000 /dev/zero").id(id(name))).await.unwrap();
        outcome.execution.wait_closed().await;
    };
    for name in ["a", "b", "read"] {
        large(name).await;
    }
    let _reader = engine.execution(&id("read")).unwrap().follow(0).unwrap();
    let filler = tiny.fill();
    let before = available(&place);
    assert_eq!(engine.remove_finished(), 2);
    assert!(available(&place) >= before + 500_000, "{} of {before}", available(&place));
    std::fs::remove_file(&filler).unwrap();
    // Without cleaning up it takes a moment: what was just received is not taken away at once.
    large("c").await;
    tiny.fill();
    let long = || CommandSpec::shell(format!("echo {}", "x".repeat(50_000)));
    eventually_async("the oldest goes for a new one", async || engine.run(long()).await.is_ok()).await;
    assert!(engine.execution(&id("c")).is_none() && engine.execution(&id("read")).is_some());
}

/// A session that is restored while the disk is full keeps the state from which it was restored.
#[tokio::test]
async fn session_killed_twice_on_a_full_disk_keeps_its_state() {
    let place = Place::new();
    let Some(tiny) = Tiny::mount(&place, "size=6m") else { return };
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    // Larger than the room that removing free slots can make.
    let text = "x=5; large=$(head -c 1500000 /dev/zero | tr '\\0' y)";
    let outcome = session.run(CommandSpec::shell(text)).await.unwrap();
    let is_saved = || {
        let files = std::fs::read_dir(place.state().join("snapshots")).unwrap().flatten();
        // The head of the file, which has this mark, is written last.
        let is_whole = |bytes: Vec<u8>| bytes.len() > 1_500_000 && bytes[20..24] == *b"salt";
        files.filter_map(|file| std::fs::read(file.path()).ok()).any(is_whole)
    };
    eventually("the state is saved", is_saved).await;
    let filler = tiny.fill();
    let mut supervisor = supervisor_of(&outcome.execution);
    for _ in 0..2 {
        supervisor.kill();
        eventually("it is gone", || !supervisor.is_alive()).await;
        match session.start(CommandSpec::shell("echo $x ${#large}")).await {
            // There was room for a copy.
            Ok(execution) => {
                execution.wait().await.unwrap();
                supervisor = supervisor_of(&execution);
            }
            Err(StartError::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    // The engine is not needed to keep it.
    drop((outcome, session, engine));
    std::fs::remove_file(filler).unwrap();
    let engine = place.open().await;
    let session = engine.sessions().pop().unwrap();
    let outcome = session.run(CommandSpec::shell("echo $x ${#large}")).await.unwrap();
    assert_eq!(outcome.stdout(), "5 1500000\n");
    assert!(place.count("snapshots") <= 2, "{}", place.count("snapshots"));
}

fn available(place: &Place) -> u64 {
    let disk = rustix::fs::statvfs(place.state()).unwrap();
    disk.f_bavail * disk.f_frsize
}

/// A follower that waits hears of what comes when there is room again.
#[tokio::test]
async fn follower_continues_after_a_full_disk() {
    let place = Place::new();
    let Some(tiny) = Tiny::mount(&place, "size=4m") else { return };
    let engine = place.open().await;
    let text = "echo first; read x; seq 1 100000; read x; echo last; read x";
    let execution = engine.start(CommandSpec::shell(text).stdin(Stdin::Open)).await.unwrap();
    let mut follower = execution.follow(0).unwrap();
    let filler = tiny.fill();
    execution.write_stdin("\n").await.unwrap();
    // It reads what there is, and waits.
    let wait = async |follower: &mut Follower, time| tokio::time::timeout(time, follower.next()).await;
    while let Ok(entry) = wait(&mut follower, Duration::from_millis(700)).await {
        assert!(entry.unwrap().is_some());
    }
    std::fs::remove_file(filler).unwrap();
    execution.write_stdin("\n").await.unwrap();
    loop {
        let entry =
            wait(&mut follower, Duration::from_secs(60)).await.expect("it is woken").unwrap().unwrap();
        if matches!(&entry.event, Event::Output { bytes, .. } if bytes.ends_with(b"last\n")) {
            break;
        }
    }
    execution.kill(9, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn removed_state_directory_is_reported() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    place.remember_supervisors();
    assert!(engine.health().state_dir.is_there);
    std::fs::remove_dir_all(place.state()).unwrap();
    for _ in 0..8 {
        let started = engine.start(CommandSpec::shell("true")).await;
        assert!(matches!(started, Err(StartError::StateDirMissing)), "{started:?}");
        let started = session.start(CommandSpec::shell("true")).await;
        assert!(matches!(started, Err(StartError::StateDirMissing)), "{started:?}");
        let made = engine.create_session(SessionSpec::new()).await;
        assert!(matches!(made, Err(SessionError::Start(StartError::StateDirMissing))), "{made:?}");
    }
    assert!(!engine.health().state_dir.is_there);
}

#[tokio::test]
async fn output_lost_on_a_full_disk_is_a_gap_and_the_end_is_recorded() {
    let place = Place::new();
    let Some(tiny) = Tiny::mount(&place, "size=4m") else { return };
    let engine = place.open().await;
    let text = "echo first; read x; seq 1 100000; read x; echo last; exit 3";
    let execution = engine.start(CommandSpec::shell(text).stdin(Stdin::Open)).await.unwrap();
    eventually("it has begun", || execution.output(10).unwrap().cursor == 6).await;
    let filler = tiny.fill();
    execution.write_stdin("\n").await.unwrap();
    let large: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    let all = 6 + large.len() as u64;
    // All of it is counted, though little or nothing of it is there.
    let waits = async || execution.inspect().await.unwrap().waiting_for_input == Some(true);
    while !waits().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    std::fs::remove_file(filler).unwrap();
    execution.write_stdin("\n").await.unwrap();
    let end = execution.wait().await.unwrap();
    assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(3)));
    let mut follower = execution.follow(0).unwrap();
    let (mut at, mut gaps, mut last) = (0, 0, Vec::new());
    while let Some(entry) = follower.next().await.unwrap() {
        match entry.event {
            Event::Output { stream: Stream::Stdout, bytes, .. } => {
                at += bytes.len() as u64;
                last = bytes;
            }
            Event::Gap { from, to } => {
                assert_eq!(from, at);
                at = to;
                gaps += 1;
            }
            _ => {}
        }
        assert_eq!(entry.cursor, at);
    }
    assert_eq!((at, last.as_slice()), (all + 5, &b"last\n"[..]));
    assert!(gaps > 0);
}

#[tokio::test]
async fn end_that_does_not_fit_on_a_full_disk_is_not_lost() {
    let place = Place::new();
    let Some(tiny) = Tiny::mount(&place, "size=4m") else { return };
    let engine = place.open().await;
    let text = "read x; exit 3";
    let id: sandcrab_engine::ExecutionId = "full".parse().unwrap();
    let spec = CommandSpec::shell(text).stdin(Stdin::Open).id(id.clone());
    let execution = engine.start(spec).await.unwrap();
    let filler = tiny.fill();
    execution.write_stdin("\n").await.unwrap();
    assert_eq!(execution.wait().await.unwrap().exit_code, Some(3));
    std::fs::remove_file(filler).unwrap();
    execution.wait_closed().await;
    drop((execution, engine));
    let engine = place.open().await;
    let end = engine.execution(&id).unwrap().wait().await.unwrap();
    assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(3)));
}

/// Output is left out, a size is not: it is recorded before the next output.
#[tokio::test]
async fn a_terminal_survives_a_full_disk() {
    let place = Place::new();
    let Some(tiny) = Tiny::mount(&place, "size=4m") else { return };
    let engine = place.open().await;
    let text = "stty -echo; echo ready; while read n; do head -c $n /dev/zero | tr '\\0' x; echo; echo said $n; done";
    let command = CommandSpec::shell(text).journal_bytes(MIN_JOURNAL_BYTES);
    let terminal = engine.create_terminal(TerminalSpec::command(command)).await.unwrap().terminal;
    let mut follower = terminal.execution().follow(0).unwrap();
    let mut next = async |wanted: &str| {
        let (mut seen, mut last_size) = (String::new(), None);
        while !seen.contains(wanted) {
            match follower.next().await.unwrap().unwrap().event {
                Event::Output { bytes, .. } => seen.push_str(&String::from_utf8_lossy(&bytes)),
                Event::Size { size, .. } => last_size = Some(size),
                _ => {}
            }
        }
        last_size
    };
    next("ready").await;
    let filler = tiny.fill();
    let size = TerminalSize::new(100, 30).unwrap();
    terminal.resize(size).await.unwrap();
    // More than the journal holds: it must not wait for screens that cannot be saved.
    terminal.write(b"1000000\r").await.unwrap();
    eventually_async("it waits for more", async || {
        terminal.execution().inspect().await.unwrap().waiting_for_input == Some(true)
    })
    .await;
    std::fs::remove_file(filler).unwrap();
    terminal.write(b"5\r").await.unwrap();
    assert_eq!(next("said 5").await, Some(size));
    assert_eq!(terminal.size(), size);
    terminal.delete(Duration::from_secs(20)).await.unwrap();
    assert_eq!(terminal.execution().wait().await.unwrap().reason, EndReason::Killed);
}

/// What is printed while the disk is full is not in the journal, but on the screen, as soon as there is space.
#[tokio::test]
async fn the_screen_of_a_terminal_is_right_after_the_disk_was_full() {
    let place = Place::new();
    let Some(tiny) = Tiny::mount(&place, "size=4m") else { return };
    let engine = place.open().await;
    let file = random_file(&place, 300_000, 7);
    let text = format!(
        "stty -echo -opost; echo ready; read x; cat {0}; echo done; : > {1}; read x; cat {0}; echo again; \
         : > {2}; read x; echo after; read x",
        file.display(),
        place.file("done").display(),
        place.file("again").display(),
    );
    let command = CommandSpec::shell(text).journal_bytes(MIN_JOURNAL_BYTES);
    let first = TerminalSize::new(100, 30).unwrap();
    let terminal = engine.create_terminal(TerminalSpec::command(command).size(first)).await.unwrap().terminal;
    eventually("it is ready", || terminal.execution().output(100).unwrap().cursor == 6).await;
    let mut follower = terminal.execution().follow(0).unwrap();
    let mut unrecorded = terminal.unrecorded();
    let filler = tiny.fill();
    terminal.write(b"\r").await.unwrap();
    unrecorded.wait_for(|is_missing| *is_missing).await.unwrap();
    eventually("it has printed", || place.file("done").exists()).await;
    // A size while output is left out, and output after it.
    let second = TerminalSize::new(60, 20).unwrap();
    terminal.resize(second).await.unwrap();
    terminal.write(b"\r").await.unwrap();
    eventually("it has printed again", || place.file("again").exists()).await;
    std::fs::remove_file(filler).unwrap();
    unrecorded.wait_for(|is_missing| !*is_missing).await.unwrap();
    // The kernel may have had the last part of it.
    let total = 6 + 2 * std::fs::metadata(&file).unwrap().len() + 5 + 6;
    eventually("all is known", || terminal.execution().output(100).unwrap().cursor == total).await;
    let mut expected = emulator(first);
    let random = std::fs::read(file).unwrap();
    expected.feed(b"ready\n");
    expected.feed(&random);
    expected.feed(b"done\n");
    expected.resize(sandcrab_screen::Size::new(60, 20));
    expected.feed(&random);
    expected.feed(b"again\n");
    assert_same(&screen_of(&terminal).0, &expected);
    terminal.write(b"\r").await.unwrap();
    // A follower that waited gets a gap, and what comes after it.
    let (mut seen, mut gaps) = (String::new(), 0);
    while !seen.ends_with("after\n") {
        let entry =
            tokio::time::timeout(Duration::from_secs(60), follower.next()).await.expect("it is woken");
        match entry.unwrap().unwrap().event {
            Event::Output { bytes, .. } => seen.push_str(&String::from_utf8_lossy(&bytes)),
            Event::Gap { .. } => gaps += 1,
            _ => {}
        }
    }
    assert!(gaps > 0);
    expected.feed(b"after\n");
    assert_same(&screen_of(&terminal).0, &expected);
    terminal.delete(Duration::from_secs(20)).await.unwrap();
}

/// A program waits a moment for space, and nothing is lost if there is some by then.
#[tokio::test]
async fn a_terminal_waits_for_space() {
    let place = Place::new();
    let Some(tiny) = Tiny::mount(&place, "size=4m") else { return };
    let engine = place.open().await;
    let text = "stty -echo -opost; echo ready; read x; seq 1 20000; read x";
    let terminal =
        engine.create_terminal(TerminalSpec::command(CommandSpec::shell(text))).await.unwrap().terminal;
    eventually("it is ready", || terminal.execution().output(100).unwrap().cursor == 6).await;
    let filler = tiny.fill();
    terminal.write(b"\r").await.unwrap();
    let has_begun = || terminal.execution().output(1 << 20).unwrap().cursor > 6;
    // The last page of the journal may have no room for the first output.
    let _ = tokio::time::timeout(Duration::from_millis(300), eventually("some output", has_begun)).await;
    std::fs::remove_file(filler).unwrap();
    let all: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    eventually("all output", || terminal.execution().output(1 << 20).unwrap().cursor >= 6 + all.len() as u64)
        .await;
    if *terminal.unrecorded().borrow() {
        // This machine took longer than a program waits.
        return;
    }
    let output = terminal.execution().output(1 << 20).unwrap().stdout;
    assert!(output.omitted > 0 || output.bytes == format!("ready\n{all}").into_bytes());
    terminal.delete(Duration::from_secs(20)).await.unwrap();
}

/// The end of a terminal whose last output cannot be recorded says that output is missing, or the screen has it.
#[tokio::test]
async fn a_terminal_that_ends_on_a_full_disk_does_not_claim_to_be_complete() {
    let place = Place::new();
    let Some(tiny) = Tiny::mount(&place, "size=4m") else { return };
    let engine = place.open().await;
    let text = "stty -echo -opost; echo ready; read x; seq 1 20000; exit 3";
    let terminal =
        engine.create_terminal(TerminalSpec::command(CommandSpec::shell(text))).await.unwrap().terminal;
    eventually("it is ready", || terminal.execution().output(100).unwrap().cursor == 6).await;
    tiny.fill();
    terminal.write(b"\r").await.unwrap();
    let end =
        tokio::time::timeout(Duration::from_secs(60), terminal.execution().wait()).await.unwrap().unwrap();
    assert_eq!(end.exit_code, Some(3));
    let saved = terminal.saved_screen().unwrap();
    let mut follower = terminal.follow_screen(&saved).unwrap();
    let (mut gaps, mut text) = (0, String::from_utf8_lossy(&saved.repaint).into_owned());
    while let Some(entry) = follower.try_next().unwrap() {
        match entry.event {
            Event::Gap { .. } => gaps += 1,
            Event::Output { bytes, .. } => text.push_str(&String::from_utf8_lossy(&bytes)),
            _ => {}
        }
    }
    assert!(gaps > 0 || text.contains("20000"), "{text}");
}

/// A terminal cannot replace an ended one while the disk is full. The caller is told at once.
#[tokio::test]
async fn an_ended_terminal_is_not_replaced_on_a_full_disk() {
    let place = Place::new();
    let Some(tiny) = Tiny::mount(&place, "size=4m") else { return };
    let engine = place.open().await;
    let spec = |text: String| TerminalSpec::command(CommandSpec::shell(text).id(id("again")));
    let first = engine.create_terminal(spec("read x; exit 3".into())).await.unwrap().terminal;
    let filler = tiny.fill();
    first.write(b"\r").await.unwrap();
    assert_eq!(first.execution().wait().await.unwrap().exit_code, Some(3));
    let long = format!("cat {}", "x".repeat(50_000));
    let created =
        tokio::time::timeout(Duration::from_secs(30), engine.create_terminal(spec(long))).await.unwrap();
    assert!(matches!(created, Err(TerminalError::Start(StartError::NoSpace))), "{created:?}");
    std::fs::remove_file(filler).unwrap();
    let second = engine.create_terminal(spec("cat".into())).await.unwrap();
    assert!(second.created);
    second.terminal.delete(Duration::from_secs(20)).await.unwrap();
}
