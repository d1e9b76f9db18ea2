//! What a command writes: every byte of it, or a gap that says which are missing; and no reader in
//! its way.

use std::time::Duration;

use sandcrab_engine::{
    CommandSpec, ControlError, Engine, Event, Execution, ReadAt, ReadError, SessionSpec, Status, Stdin,
    Stream, StreamPlan,
};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::{Place, Scene, eventually, id, resident_bytes, supervisor_of};

/// The flood's lines are numbers of nine digits: the bytes at any position are known.
const LINE_BYTES: u64 = 10;
const FIRST_LINE: u64 = 100_000_000;
/// 64 MB, and 1 GB.
const SHORT: u64 = 6_400_000;
const LONG: u64 = 100_000_000;
/// What a supervisor may have in memory, whatever goes through it.
const SUPERVISOR_BYTES: u64 = 16 << 20;
/// What reading may add to the engine.
const ENGINE_BYTES: u64 = 48 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    None,
    Fast,
    Slow,
}

fn flood(lines: u64) -> CommandSpec {
    CommandSpec::argv(["seq", &FIRST_LINE.to_string(), &(FIRST_LINE + lines - 1).to_string()])
}

/// Checks that these are the bytes of the flood from a position on.
fn check_flood(position: u64, bytes: &[u8]) {
    let from = position / LINE_BYTES;
    let to = (position + bytes.len() as u64).div_ceil(LINE_BYTES);
    let text: String = (from..to).map(|line| format!("{}\n", FIRST_LINE + line)).collect();
    let skip = usize::try_from(position % LINE_BYTES).unwrap();
    assert!(text.as_bytes()[skip..skip + bytes.len()] == *bytes, "wrong bytes at {position}");
}

/// Follows to the end; how many bytes were there and how many were said to be missing. Every entry begins
/// where the one before it ended.
async fn follow(execution: &Execution, reader: Reader) -> (u64, u64) {
    let mut follower = execution.follow(0).unwrap();
    let (mut kept, mut dropped, mut cursor) = (0, 0, 0);
    let mut overtaken = false;
    while let Some(entry) = follower.next().await.unwrap() {
        match entry.event {
            Event::Output { stream, bytes, .. } => {
                assert_eq!(stream, Stream::Stdout);
                check_flood(cursor, &bytes);
                cursor += bytes.len() as u64;
                kept += bytes.len() as u64;
            }
            Event::Gap { from, to } => {
                assert_eq!(from, cursor);
                cursor = to;
                dropped += to - from;
            }
            _ => {}
        }
        assert_eq!(entry.cursor, cursor);
        if reader == Reader::Slow && !overtaken {
            // At a hundredth of the command's pace until the command is over.
            overtaken = matches!(execution.status(), Status::Ended(_));
            sleep(Duration::from_millis(20)).await;
        }
    }
    assert!(reader != Reader::Slow || overtaken, "the command waited for its reader");
    (kept, dropped)
}

async fn flood_with(engine: &Engine, lines: u64, bound: Option<u64>, reader: Reader) -> (u64, u64) {
    let mut spec = flood(lines);
    spec.journal_bytes = bound;
    let before = resident_bytes(std::process::id());
    let execution = engine.start(spec).await.unwrap();
    let supervisor = supervisor_of(&execution).pid;
    let reading = {
        let execution = execution.clone();
        tokio::spawn(
            async move { if reader == Reader::None { (0, 0) } else { follow(&execution, reader).await } },
        )
    };
    let (mut most, mut most_here) = (0, 0);
    while !matches!(execution.status(), Status::Ended(_)) {
        most = most.max(resident_bytes(supervisor));
        most_here = most_here.max(resident_bytes(std::process::id()));
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(execution.wait().await.unwrap().exit_code, Some(0));
    let mut found = reading.await.unwrap();
    if reader == Reader::None {
        found = follow(&execution, Reader::Fast).await;
    }
    most_here = most_here.max(resident_bytes(std::process::id()));
    assert!(most < SUPERVISOR_BYTES, "the supervisor had {most} bytes");
    assert!(most_here < before + ENGINE_BYTES, "the engine went from {before} to {most_here} bytes");
    found
}

async fn flood_each_way(lines: u64, small_bound: Option<u64>) {
    let scene = Scene::open().await;
    let total = lines * LINE_BYTES;
    for reader in [Reader::None, Reader::Fast, Reader::Slow] {
        let found = flood_with(&scene.engine, lines, Some(2 * total), reader).await;
        assert_eq!(found, (total, 0), "{reader:?}");
        let (kept, dropped) = flood_with(&scene.engine, lines, small_bound, reader).await;
        assert_eq!(kept + dropped, total, "{reader:?}");
        assert!(reader != Reader::None || dropped > 0, "nothing was dropped");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_is_exact_for_every_reader() {
    flood_each_way(SHORT, Some(4 << 20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_gigabyte_is_exact_for_every_reader() {
    flood_each_way(LONG, None).await;
}

#[tokio::test]
async fn head_and_tail_of_a_flood_are_kept() {
    let scene = Scene::open().await;
    let outcome = scene.engine.run(flood(2_000_000).journal_bytes(1 << 20)).await.unwrap();
    let output = outcome.execution.output(1000).unwrap().stdout;
    assert_eq!((output.head, output.bytes.len(), output.omitted), (500, 1000, 20_000_000 - 1000));
    check_flood(0, &output.bytes[..500]);
    check_flood(20_000_000 - 500, &output.bytes[500..]);
    // All that is left: the first quarter of the bound, and the newest.
    let output = outcome.output.stdout;
    assert_eq!(output.omitted, 20_000_000 - output.bytes.len() as u64);
    check_flood(0, &output.bytes[..output.head]);
    check_flood(20_000_000 - (output.bytes.len() - output.head) as u64, &output.bytes[output.head..]);
    assert!((512 << 10..=1 << 20).contains(&output.bytes.len()), "{} bytes", output.bytes.len());
}

#[tokio::test]
async fn concurrent_streams_are_separate_and_in_order() {
    let scene = Scene::open().await;
    let text = "for i in {1..3000}; do echo out $i; echo err $i >&2; done";
    let outcome = scene.engine.run(CommandSpec::shell(text)).await.unwrap();
    let lines = |name: &str| (1..=3000).map(|i| format!("{name} {i}\n")).collect::<String>();
    assert_eq!(outcome.stdout(), lines("out"));
    assert_eq!(outcome.stderr(), lines("err"));
    let mut follower = outcome.execution.follow(0).unwrap();
    let mut streams = [Vec::new(), Vec::new()];
    while let Some(entry) = follower.next().await.unwrap() {
        if let Event::Output { stream, bytes, .. } = entry.event {
            streams[stream as usize].extend(bytes);
        }
    }
    assert_eq!(streams.map(|bytes| String::from_utf8(bytes).unwrap()), [lines("out"), lines("err")]);
}

#[tokio::test]
async fn output_is_byte_exact() {
    let scene = Scene::open().await;
    let session = scene.engine.create_session(SessionSpec::new()).await.unwrap();
    let cases: [(&str, &[u8]); 6] = [
        (r"printf 'a\0b\0\0c'", b"a\0b\0\0c"),
        (r"printf '\200\377\376|\300\257|\355\240\200'", b"\x80\xff\xfe|\xc0\xaf|\xed\xa0\x80"),
        ("printf 'no newline'", b"no newline"),
        (r"printf '\n\n\n\n'", b"\n\n\n\n"),
        (r"printf '\r\n\033[31m\r'", b"\r\n\x1b[31m\r"),
        ("", b""),
    ];
    for (text, bytes) in cases {
        for outcome in [
            session.run(CommandSpec::shell(text)).await.unwrap(),
            scene.engine.run(CommandSpec::shell(text)).await.unwrap(),
        ] {
            assert_eq!(outcome.output.stdout.bytes, bytes, "{text}");
            assert_eq!((outcome.output.stdout.omitted, outcome.exit_code()), (0, 0), "{text}");
        }
        let outcome = session.run(CommandSpec::shell(format!("{{ {text}\n:; }} >&2"))).await.unwrap();
        assert_eq!(
            (&*outcome.output.stdout.bytes, &*outcome.output.stderr.bytes),
            (&b""[..], bytes),
            "{text}"
        );
    }
    session.delete().await.unwrap();
}

#[tokio::test]
async fn long_lines_on_both_streams() {
    let scene = Scene::open().await;
    let text = "line() { printf \"%020000d\\n\" 7; }\n\
                { for i in {1..100}; do line; done; } & { for i in {1..100}; do line; done; } >&2; wait";
    let outcome = scene.engine.run(CommandSpec::shell(text)).await.unwrap();
    let line = format!("{:020000}\n", 7);
    assert!(outcome.stdout() == line.repeat(100), "standard output differs");
    assert!(outcome.stderr() == line.repeat(100), "standard error differs");
}

async fn silent_commands(count: usize) {
    let scene = Scene::open().await;
    let session = scene.engine.create_session(SessionSpec::new()).await.unwrap();
    for number in 0..count {
        let outcome = session.run(CommandSpec::shell(format!("(exit {})", number % 200))).await.unwrap();
        assert_eq!(outcome.exit_code(), i32::try_from(number % 200).unwrap());
        assert_eq!(outcome.output.cursor, 0);
    }
    session.delete().await.unwrap();
}

#[tokio::test]
async fn commands_without_output_end() {
    silent_commands(500).await;
}

#[tokio::test]
async fn soak_ten_thousand_commands_without_output_end() {
    silent_commands(10_000).await;
}

async fn runs_at_once(count: usize) {
    let scene = Scene::open().await;
    let mut runs = JoinSet::new();
    for number in 0..count {
        let engine = scene.engine.clone();
        runs.spawn(async move {
            let text = format!("echo {number}; echo e{number} >&2; exit {}", number % 100);
            let outcome = engine.run(CommandSpec::shell(text)).await.unwrap();
            assert_eq!(outcome.stdout(), format!("{number}\n"));
            assert_eq!(outcome.stderr(), format!("e{number}\n"));
            assert_eq!(outcome.exit_code(), i32::try_from(number % 100).unwrap());
        });
    }
    runs.join_all().await;
    assert_eq!(scene.engine.health().running, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_runs_do_not_mix() {
    runs_at_once(100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_thousand_concurrent_runs_do_not_mix() {
    runs_at_once(1_000).await;
}

#[tokio::test]
async fn output_can_be_read_from_any_cursor() {
    let scene = Scene::open_with(|config| config.journal_bytes = 1 << 20).await;
    let outcome = scene.engine.run(flood(4_000)).await.unwrap();
    let total = 4_000 * LINE_BYTES;
    for cursor in (0..total + 500).step_by(487).chain([total - 1, total, total + 1]) {
        let mut follower = outcome.execution.follow(cursor).unwrap();
        let mut at = cursor;
        while let Some(entry) = follower.next().await.unwrap() {
            if let Event::Output { bytes, .. } = entry.event {
                check_flood(at, &bytes);
                at += bytes.len() as u64;
                assert_eq!(entry.cursor, at);
                // A caller that goes away in the middle of an entry goes on from there.
                let middle = at - bytes.len() as u64 / 2;
                let mut again = outcome.execution.follow(middle).unwrap();
                let next = again.next().await.unwrap().map(|entry| entry.event);
                if let Some(Event::Output { bytes, .. }) = next {
                    check_flood(middle, &bytes);
                }
            }
        }
        assert_eq!(at, cursor.max(total), "from {cursor}");
    }
}

#[tokio::test]
async fn reader_gets_new_output_and_the_removal_of_the_record() {
    let scene = Scene::open().await;
    let text = "printf abc; printf de >&2; read line; printf \"$line\"";
    let execution = scene.engine.start(CommandSpec::shell(text).stdin(Stdin::Open)).await.unwrap();
    let mut reader = execution.reader().unwrap();
    eventually("both have come", || reader.cursor_end().unwrap() == 5).await;
    assert_eq!(reader.totals().unwrap(), (3, 2));
    let mut buffer = [0; 16];
    assert_eq!(reader.read(Stream::Stdout, 1, &mut buffer).unwrap(), ReadAt::Bytes(2));
    assert_eq!(&buffer[..2], b"bc");
    assert_eq!(reader.read(Stream::Stdout, 3, &mut buffer).unwrap(), ReadAt::Nothing);
    assert_eq!(reader.read(Stream::Stderr, 0, &mut buffer).unwrap(), ReadAt::Bytes(2));
    assert_eq!(&buffer[..2], b"de");

    execution.write_stdin("fgh\n").await.unwrap();
    execution.wait().await.unwrap();
    assert_eq!(reader.read(Stream::Stdout, 3, &mut buffer).unwrap(), ReadAt::Bytes(3));
    assert_eq!(&buffer[..3], b"fgh");
    assert_eq!((reader.totals().unwrap(), reader.cursor_end().unwrap()), ((6, 2), 8));
    let plan = reader.plan(Stream::Stdout, 4).unwrap();
    assert_eq!(plan, StreamPlan { head: 0..2, tail: 4..6, omitted: 2, total: 6 });
    let plan = reader.plan(Stream::Stderr, 4).unwrap();
    assert_eq!(plan, StreamPlan { head: 0..2, tail: 2..2, omitted: 0, total: 2 });

    execution.wait_closed().await;
    // Not while it is read.
    assert!(matches!(scene.engine.forget(execution.id()), Err(ControlError::InUse)));
    assert_eq!(reader.totals().unwrap(), (6, 2));
    drop(reader);
    scene.engine.forget(execution.id()).unwrap();
    assert!(matches!(execution.reader(), Err(ReadError::Removed)));
}

#[tokio::test]
async fn large_output_is_read_in_pieces_as_planned() {
    let scene = Scene::open().await;
    let spec = CommandSpec::shell("seq 2000000").journal_bytes(4 << 20);
    let execution = scene.engine.start(spec).await.unwrap();
    execution.wait().await.unwrap();
    for limit in [100_000, 3 << 20, 20 << 20] {
        let output = execution.output(limit).unwrap().stdout;
        let mut reader = execution.reader().unwrap();
        let plan = reader.plan(Stream::Stdout, limit).unwrap();
        assert_eq!((plan.total, plan.omitted), (reader.totals().unwrap().0, output.omitted));
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        for range in [plan.head, plan.tail] {
            let mut at = range.start;
            while at < range.end {
                let wanted = buffer.len().min(usize::try_from(range.end - at).unwrap());
                let found = reader.read(Stream::Stdout, at, &mut buffer[..wanted]).unwrap();
                let ReadAt::Bytes(n) = found else { panic!("{found:?} at {at}") };
                bytes.extend_from_slice(&buffer[..n]);
                at += n as u64;
            }
        }
        assert!(bytes == output.bytes, "limit {limit}");
    }
}

/// Answers that wait for their clients are many: none of them keeps a file open, and none loses its record.
#[tokio::test]
async fn closed_reader_keeps_the_record_without_a_descriptor() {
    let place = Place::new();
    let engine = place.open_with(|config| config.retention.max_count = 0).await;
    let outcome = engine.run(CommandSpec::shell("seq 1 1000; echo err >&2").id(id("kept"))).await.unwrap();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut readers: Vec<_> = (0..300).map(|_| outcome.execution.reader().unwrap()).collect();
    let open = descriptors();
    let mut buffer = [0; 4];
    for reader in &mut readers {
        assert_eq!(reader.read(Stream::Stdout, 0, &mut buffer).unwrap(), ReadAt::Bytes(4));
        reader.close();
    }
    assert!(descriptors() + 300 <= open, "{} of {open}", descriptors());
    drop(outcome);
    for reader in &mut readers {
        assert_eq!(reader.totals().unwrap(), (3893, 4));
        assert_eq!(reader.read(Stream::Stdout, 4, &mut buffer).unwrap(), ReadAt::Bytes(4));
        assert_eq!(&buffer, b"3\n4\n");
        reader.close();
    }
}
