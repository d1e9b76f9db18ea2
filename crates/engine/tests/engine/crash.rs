//! The engine's process is killed at any instant; the next engine takes everything over.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use sandcrab_engine::{CommandSpec, EndReason, Engine, Event, Execution, SessionId, Stream};

use crate::support::{Host, Place, eventually, id, with_enough_time};

/// Numbers to choose instants by.
struct Chance(u64);

impl Chance {
    fn new() -> Self {
        Self(RandomState::new().build_hasher().finish() | 1)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// What is asked of a host, by id, in the order in which it is asked.
#[derive(Clone)]
struct Asked {
    words: Vec<String>,
    /// The host has said that it was done.
    promised: bool,
    stdout: String,
    stderr: String,
    code: i32,
}

/// What one life of the engine is asked: outputs large and slow, and commands of a session.
fn requests(place: &Place, life: u64) -> Vec<(String, Asked)> {
    let mark = |name: &str| format!("echo ran >> {};", place.file(&format!("mark.{name}")).display());
    let order = place.file("order");
    let mut asked = Vec::new();
    let mut ask = |name: String, words: &[&str], text: &str, stdout: String, stderr: String, code: i32| {
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        words.extend([name.clone(), format!("{} {text}", mark(&name))]);
        asked.push((name, Asked { words, promised: false, stdout, stderr, code }));
    };
    let lines = |from: u32, to: u32| (from..=to).map(|n| format!("{n}\n")).collect::<String>();
    ask(format!("large-{life}"), &["start"], "seq 1 60000; exit 7", lines(1, 60000), String::new(), 7);
    let slow = "for i in {1..40}; do echo $i; echo $i >&2; sleep 0.005; done; exit 8";
    ask(format!("slow-{life}"), &["start"], slow, lines(1, 40), lines(1, 40), 8);
    let late = "(sleep 0.1; echo late) & echo early";
    ask(format!("late-{life}"), &["start"], late, "early\nlate\n".into(), String::new(), 0);
    for turn in 0..3 {
        let text = format!("n=$((n+1)); echo {life}-{turn} $n >> {}; sleep 0.02; (exit 9)", order.display());
        ask(format!("turn-{life}-{turn}"), &["in", "s"], &text, String::new(), String::new(), 9);
    }
    asked
}

/// Everything that was recorded, read as a follower would.
async fn follow(execution: &Execution) -> (String, String) {
    let mut streams = (Vec::new(), Vec::new());
    let mut follower = execution.follow(0).unwrap();
    while let Some(entry) = follower.next_late().await.unwrap() {
        match entry.event {
            Event::Output { stream: Stream::Stdout, bytes, .. } => streams.0.extend(bytes),
            Event::Output { stream: Stream::Stderr, bytes, .. } => streams.1.extend(bytes),
            Event::Gap { from, to } => panic!("a gap from {from} to {to}"),
            _ => {}
        }
    }
    (String::from_utf8(streams.0).unwrap(), String::from_utf8(streams.1).unwrap())
}

async fn kills(count: u64) {
    let place = Place::new();
    let mut chance = Chance::new();
    let mut all: BTreeMap<(u64, usize), (String, Asked)> = BTreeMap::new();
    let mut first = Host::opened(&place);
    assert_eq!(first.ask(&["session", "s"]), "made");
    first.kill();
    for life in 0..count {
        let mut host = Host::start(&place);
        for (index, request) in requests(&place, life).into_iter().enumerate() {
            all.insert((life, index), request);
        }
        // What the lives before this one did not promise is asked for again, with the same id and text.
        let open: Vec<_> =
            all.iter().filter(|(_, (_, asked))| !asked.promised).map(|(key, _)| *key).collect();
        for key in &open {
            let words: Vec<&str> = all[key].1.words.iter().map(String::as_str).collect();
            host.tell(&words);
        }
        // The instant is what this is about: from before the engine is open to after it has done everything,
        // and more often while it does.
        if chance.below(4) > 0 {
            assert_eq!(host.answer().as_deref(), Some("open"));
            tokio::time::sleep(Duration::from_micros(chance.below(25_000))).await;
        } else {
            tokio::time::sleep(Duration::from_millis(chance.below(250))).await;
        }
        host.child.kill().unwrap();
        let answers = std::iter::from_fn(|| host.answer()).filter(|answer| answer != "open");
        for (key, answer) in open.iter().zip(answers) {
            assert!(answer == "started" || answer == "queued", "{answer}");
            all.get_mut(key).unwrap().1.promised = true;
        }
    }
    let engine = place.open().await;
    check(&place, &engine, &all).await;
    let session = engine.session(&"s".parse::<SessionId>().unwrap()).unwrap();
    session.delete().await.unwrap();
    drop((session, engine));
    eventually("nothing is left", || place.own_processes().is_empty() && place.count("supervisors") == 0)
        .await;
}

async fn check(place: &Place, engine: &Engine, all: &BTreeMap<(u64, usize), (String, Asked)>) {
    let mut ran_in_session = BTreeSet::new();
    let mut lost = 0;
    for ((life, index), (name, asked)) in all {
        let marks = || place.lines(&format!("mark.{name}"));
        let Some(execution) = engine.execution(&id(name)) else {
            assert!(!asked.promised, "{name} was promised and is not known");
            assert_eq!(marks(), 0, "{name}");
            continue;
        };
        let end = tokio::time::timeout(Duration::from_secs(30), execution.wait()).await;
        let end = end.unwrap_or_else(|_| panic!("{name} does not end: {:?}", execution.info())).unwrap();
        let marks = marks();
        if end.reason == EndReason::Lost {
            // Its journal was made, and the engine killed before its supervisor heard of it.
            assert_eq!(marks, 0, "{name} ran and is called lost");
            lost += 1;
            continue;
        }
        assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(asked.code)), "{name}");
        assert_eq!(marks, 1, "{name} ran {marks} times");
        let (stdout, stderr) = follow(&execution).await;
        assert!(stdout == asked.stdout, "{name}: {} bytes of {}", stdout.len(), asked.stdout.len());
        assert_eq!(stderr, asked.stderr, "{name}");
        if name.starts_with("turn-") {
            ran_in_session.insert((*life, *index));
        }
    }
    assert_eq!(engine.health().running, 0);
    // In the order in which they were asked for, each once, in one and the same shell.
    let order = std::fs::read_to_string(place.file("order")).unwrap_or_default();
    let expected: String = ran_in_session
        .iter()
        .enumerate()
        .map(|(n, (life, index))| format!("{life}-{} {}\n", index - 3, n + 1))
        .collect();
    assert_eq!(order, expected);
    assert!(ran_in_session.len() + lost > 0);
}

#[tokio::test]
async fn an_engine_killed_at_any_instant_loses_nothing() {
    kills(if std::env::var_os("SANDCRAB_SOAK").is_some() { 40 } else { 15 }).await;
}

#[tokio::test]
async fn soak_an_engine_killed_two_hundred_times_loses_nothing() {
    for _ in 0..10 {
        kills(20).await;
    }
}

#[tokio::test]
async fn deadline_expires_without_an_engine() {
    with_enough_time(Duration::from_millis(500), async |timeout| {
        let place = Place::new();
        let mut host = Host::opened(&place);
        let milliseconds = timeout.as_millis().to_string();
        assert_eq!(host.ask(&["timed", "t", &milliseconds, "echo begun; sleep 300"]), "started");
        host.kill();
        // The engine is gone before the deadline.
        let in_time = !place.own_processes().is_empty();
        eventually("nothing of it runs", || place.own_processes().is_empty()).await;
        let engine = place.open().await;
        let execution = engine.execution(&id("t")).unwrap();
        let end = execution.wait().await.unwrap();
        assert_eq!((end.reason, end.exit_code), (EndReason::Timeout, Some(124)));
        assert!(end.usage.wall >= timeout, "{:?}", end.usage.wall);
        let output = execution.output(100).unwrap().stdout.bytes;
        (in_time && output == b"begun\n").then_some(())
    })
    .await;
}

#[tokio::test]
async fn session_and_its_queue_survive_the_engine() {
    let place = Place::new();
    let mut host = Host::opened(&place);
    assert_eq!(host.ask(&["session", "s"]), "made");
    assert_eq!(host.ask(&["run-in", "s", "x=5; cd /usr; f() { echo f; }"]), "");
    for (name, text) in [("a", "sleep 0.3; x=$((x+1))"), ("b", "x=$((x*10))"), ("c", "echo $x $PWD; f")] {
        assert_eq!(host.ask(&["in", "s", name, text]), "queued");
    }
    host.kill();
    let engine = place.open().await;
    let last = engine.execution(&id("c")).unwrap();
    assert_eq!(last.wait().await.unwrap().exit_code, Some(0));
    assert_eq!(last.output(100).unwrap().stdout.bytes, b"60 /usr\nf\n");
    let session = engine.session(&"s".parse::<SessionId>().unwrap()).unwrap();
    let after = session.run(CommandSpec::shell("echo $x")).await.unwrap();
    assert_eq!((after.stdout().as_str(), after.end.restored), ("60\n", None));
    assert_eq!(engine.health().running, 0);
}

#[tokio::test]
async fn standard_input_stays_open_across_engines() {
    let place = Place::new();
    let mut host = Host::opened(&place);
    assert_eq!(host.ask(&["start-open", "cat", "cat"]), "started");
    host.kill();
    let engine = place.open().await;
    let cat = engine.execution(&id("cat")).unwrap();
    cat.write_stdin("here").await.unwrap();
    cat.close_stdin().await.unwrap();
    assert_eq!(cat.wait().await.unwrap().exit_code, Some(0));
    assert_eq!(cat.output(100).unwrap().stdout.bytes, b"here");
}

#[tokio::test]
async fn follower_continues_with_the_next_engine_without_a_gap() {
    let place = Place::new();
    let mut host = Host::opened(&place);
    let text = "for i in {1..60}; do seq $((i*1000)) $((i*1000+999)); sleep 0.005; done";
    assert_eq!(host.ask(&["start", "w", text]), "started");
    host.kill();
    let mut chance = Chance::new();
    let (mut seen, mut cursor, mut over) = (Vec::new(), 0, false);
    while !over {
        let engine = place.open().await;
        let execution = engine.execution(&id("w")).unwrap();
        let mut follower = execution.follow(cursor).unwrap();
        let enough = cursor + 1 + chance.below(100_000);
        while cursor < enough {
            let Some(entry) = follower.next().await.unwrap() else {
                over = true;
                break;
            };
            match entry.event {
                Event::Output { bytes, .. } => seen.extend(bytes),
                Event::Gap { from, to } => panic!("a gap from {from} to {to}"),
                _ => {}
            }
            cursor = entry.cursor;
        }
    }
    let all: String = (1000..61000).map(|n| format!("{n}\n")).collect();
    assert!(seen == all.as_bytes(), "{} bytes of {}", seen.len(), all.len());
}
