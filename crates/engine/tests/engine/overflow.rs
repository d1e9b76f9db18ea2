//! Commands that wait for their reader instead of having unread output dropped.

use std::time::{Duration, Instant};

use sandcrab_engine::{
    CommandSpec, EndReason, Event, Execution, Follower, MIN_JOURNAL_BYTES, Overflow, ReaderRole, Status,
    Stream,
};

use crate::support::{Place, Scene, eventually, id, with_enough_time};

/// Far more than the journal of [`counting`] has room for, and than pipes hold.
const NUMBERS: u64 = 1_000_000;

fn counting() -> CommandSpec {
    waiting(CommandSpec::argv(["seq", "1", &NUMBERS.to_string()]))
}

fn waiting(spec: CommandSpec) -> CommandSpec {
    spec.journal_bytes(MIN_JOURNAL_BYTES).overflow(Overflow::Wait)
}

fn expected() -> Vec<u8> {
    (1..=NUMBERS).flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

fn attached(execution: &Execution, cursor: u64) -> Follower {
    attached_as(ReaderRole::Command, execution, cursor)
}

fn attached_as(role: ReaderRole, execution: &Execution, cursor: u64) -> Follower {
    let mut follower = execution.follow(cursor).unwrap();
    follower.attach(role).unwrap();
    follower
}

/// Reads standard output until there is so much of it, or the end; panics on a gap.
async fn read_on(follower: &mut Follower, bytes: &mut Vec<u8>, until: usize) -> Option<EndReason> {
    while bytes.len() < until {
        match follower.next().await.unwrap().expect("it ends with its end").event {
            Event::Output { stream: Stream::Stdout, bytes: more, .. } => bytes.extend(more),
            Event::Gap { from, to } => panic!("{from} to {to} is missing"),
            Event::Ended(end) => return Some(end.reason),
            _ => {}
        }
    }
    None
}

/// Waits until a command has filled its journal and its pipe.
async fn blocked(execution: &Execution) {
    let mut known = (0, Instant::now());
    eventually("it waits for its reader", || {
        let written = execution.reader().unwrap().cursor_end().unwrap();
        if written != known.0 {
            known = (written, Instant::now());
        }
        written > 0 && known.1.elapsed() > Duration::from_millis(300)
    })
    .await;
}

#[tokio::test]
async fn a_slow_reader_gets_every_byte() {
    let scene = Scene::open().await;
    let execution = scene.engine.start(counting()).await.unwrap();
    let mut follower = attached(&execution, 0);
    blocked(&execution).await;
    assert!(matches!(execution.status(), Status::Running { .. }));
    let mut bytes = Vec::new();
    for _ in 0..20 {
        let until = bytes.len() + 100_000;
        assert_eq!(read_on(&mut follower, &mut bytes, until).await, None);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(read_on(&mut follower, &mut bytes, usize::MAX).await, Some(EndReason::Exited));
    assert!(bytes == expected());
}

/// The journal holds no more than its bound while the reader follows at its own pace.
#[tokio::test]
async fn the_journal_of_a_slow_reader_stays_within_its_bound() {
    const BOUND: u64 = 8 << 20;
    const BYTES: usize = 160 << 20;
    let scene = Scene::open().await;
    let flood = format!("head -c {BYTES} /dev/zero");
    for text in [flood.clone(), format!("{flood} | tee /dev/stderr | cat")] {
        let spec = CommandSpec::shell(text).journal_bytes(BOUND).overflow(Overflow::Wait);
        let execution = scene.engine.start(spec).await.unwrap();
        let mut follower = attached(&execution, 0);
        let (mut seen, mut most, before) = (0, 0, journal_bytes(&scene.place));
        loop {
            match follower.next().await.unwrap().expect("it ends with its end").event {
                Event::Output { stream: Stream::Stdout, bytes, .. } => seen += bytes.len(),
                Event::Gap { from, to } => panic!("{from} to {to} is missing"),
                Event::Ended(_) => break,
                _ => {}
            }
            most = most.max(journal_bytes(&scene.place));
        }
        assert_eq!(seen, BYTES);
        // The pipes are emptied at the end, whatever is unread.
        assert!(most - before <= BOUND + (3 << 20), "{} bytes on disk", most - before);
    }
}

/// Size of all journals on disk.
fn journal_bytes(place: &Place) -> u64 {
    let files = std::fs::read_dir(place.state().join("journals")).unwrap();
    files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum()
}

/// Records of one byte each have many times as much on disk as there is output in them.
#[tokio::test]
async fn small_writes_do_not_block_with_a_current_reader() {
    let scene = Scene::open().await;
    let text = "for ((i = 0; i < 12000; i++)); do printf x; printf y >&2; done";
    let execution = scene.engine.start(waiting(CommandSpec::shell(text))).await.unwrap();
    let mut follower = attached(&execution, 0);
    let mut bytes = Vec::new();
    assert_eq!(read_on(&mut follower, &mut bytes, usize::MAX).await, Some(EndReason::Exited));
    assert_eq!(bytes.len(), 12_000);
}

#[tokio::test]
async fn blocked_command_can_be_killed() {
    let scene = Scene::open().await;
    let execution = scene.engine.start(counting()).await.unwrap();
    let mut follower = attached(&execution, 0);
    blocked(&execution).await;
    let receipt = execution.kill(libc::SIGTERM, Duration::from_secs(5)).await.unwrap();
    assert_eq!(receipt.killed.len(), 1);
    assert_eq!(execution.wait().await.unwrap().reason, EndReason::Killed);
    // What it wrote until then is all there.
    let mut bytes = Vec::new();
    assert_eq!(read_on(&mut follower, &mut bytes, usize::MAX).await, Some(EndReason::Killed));
    assert!(expected().starts_with(&bytes) && !bytes.is_empty());
}

#[tokio::test]
async fn timeout_includes_blocked_time_and_idle_timeout_does_not() {
    let scene = Scene::open().await;
    with_enough_time(Duration::from_millis(500), async |idle| {
        let execution = scene.engine.start(counting().idle_timeout(idle)).await.unwrap();
        let mut follower = attached(&execution, 0);
        blocked(&execution).await;
        if let Ok(ended) = tokio::time::timeout(idle * 2 + Duration::from_millis(200), execution.wait()).await
        {
            // On a busy machine it may be silent for so long while it could write.
            assert_eq!(ended.unwrap().reason, EndReason::IdleTimeout);
            return None;
        }
        let mut bytes = Vec::new();
        let reason = read_on(&mut follower, &mut bytes, usize::MAX).await.unwrap();
        assert!(reason == EndReason::IdleTimeout || (reason == EndReason::Exited && bytes == expected()));
        (reason == EndReason::Exited).then_some(())
    })
    .await;

    let spec = counting().timeout(Duration::from_millis(800));
    let execution = scene.engine.start(spec).await.unwrap();
    let _follower = attached(&execution, 0);
    assert_eq!(execution.wait().await.unwrap().reason, EndReason::Timeout);
}

/// The old connection of a client that has connected again may be dead without anyone having noticed.
#[tokio::test]
async fn resumed_reader_replaces_a_stalled_one() {
    let scene = Scene::open().await;
    for role in [ReaderRole::Command, ReaderRole::Viewer] {
        let execution = scene.engine.start(counting()).await.unwrap();
        let mut stopped = attached(&execution, 0);
        let mut bytes = Vec::new();
        read_on(&mut stopped, &mut bytes, 100_000).await;
        blocked(&execution).await;
        // Some of what was sent has not arrived.
        let cursor = stopped.cursor() - 20_000;
        bytes.truncate(usize::try_from(cursor).unwrap());
        let mut resumed = attached_as(role, &execution, cursor);
        assert_eq!(read_on(&mut resumed, &mut bytes, usize::MAX).await, Some(EndReason::Exited), "{role:?}");
        assert!(bytes == expected(), "{role:?}");
        drop(stopped);
    }
}

#[tokio::test]
async fn observer_neither_blocks_the_command_nor_replaces_its_reader() {
    let scene = Scene::open().await;
    let execution = scene.engine.start(counting()).await.unwrap();
    let idle = attached_as(ReaderRole::Viewer, &execution, 0);
    let mut own = attached(&execution, 0);
    let late = attached_as(ReaderRole::Viewer, &execution, 0);
    let mut bytes = Vec::new();
    read_on(&mut own, &mut bytes, 1_000_000).await;
    blocked(&execution).await;
    // From the last bytes on, as the tail of a log.
    let end = execution.reader().unwrap().cursor_end().unwrap();
    let mut tail = attached_as(ReaderRole::Viewer, &execution, end - 10);
    while tail.try_next().unwrap().is_some() {}
    assert_eq!(read_on(&mut own, &mut bytes, usize::MAX).await, Some(EndReason::Exited));
    assert!(bytes == expected());
    drop((idle, late));
}

/// Also if the engine is gone meanwhile: the supervisor waits for the next.
#[tokio::test]
async fn reconnected_reader_has_lost_nothing() {
    let place = Place::new();
    let mut engine = place.open().await;
    let execution = engine.start(counting().id(id("count"))).await.unwrap();
    let mut follower = attached(&execution, 0);
    let mut bytes = Vec::new();
    drop(execution);
    for round in 1..=6 {
        read_on(&mut follower, &mut bytes, round * 700_000).await;
        let cursor = follower.cursor();
        drop(follower);
        if round % 2 == 0 {
            drop(engine);
            engine = place.open().await;
        }
        let execution = engine.execution(&id("count")).unwrap();
        blocked(&execution).await;
        // Some of what was sent has not arrived.
        let again = cursor - 20_000;
        bytes.truncate(usize::try_from(again).unwrap());
        follower = attached(&execution, again);
    }
    assert_eq!(read_on(&mut follower, &mut bytes, usize::MAX).await, Some(EndReason::Exited));
    assert!(bytes == expected());
}

/// The end is there at once, and everything before it can be read.
#[tokio::test]
async fn the_end_does_not_wait_for_the_reader() {
    let scene = Scene::open().await;
    // More than the journal has room for, whatever the sizes of its records: at most 4 segments of 63 KiB. Less than it
    // has room for with records of a page (4 segments of 58 KiB), and than a pipe whose pages are half full (32 KiB).
    let text = "head -c 265000 /dev/zero | tr '\\0' x; exit 3";
    let execution = scene.engine.start(waiting(CommandSpec::shell(text))).await.unwrap();
    let mut follower = attached(&execution, 0);
    let end = execution.wait().await.unwrap();
    assert_eq!(end.exit_code, Some(3));
    let mut bytes = Vec::new();
    assert_eq!(read_on(&mut follower, &mut bytes, usize::MAX).await, Some(EndReason::Exited));
    assert_eq!(bytes.len(), 265_000);
}

#[tokio::test]
async fn commands_of_a_session_wait_too() {
    let scene = Scene::open().await;
    let session = scene.engine.create_session(Default::default()).await.unwrap();
    let text = format!("seq 1 {NUMBERS}");
    let execution = session.start(waiting(CommandSpec::shell(text))).await.unwrap();
    let mut follower = attached(&execution, 0);
    blocked(&execution).await;
    let mut bytes = Vec::new();
    assert_eq!(read_on(&mut follower, &mut bytes, usize::MAX).await, Some(EndReason::Exited));
    assert!(bytes == expected());
    assert_eq!(session.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
}
