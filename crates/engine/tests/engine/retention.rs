//! How long finished executions are kept.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sandcrab_engine::{
    CommandSpec, ControlError, Engine, MAX_RECORDS_IN_GRACE, MIN_JOURNAL_BYTES, ReadAt, ReadError, Retention,
    SessionSpec, StartError, Stdin, Stream,
};

use crate::support::{Place, eventually, id};

const NO_GRACE: Retention = Retention {
    max_age: Duration::from_secs(3600),
    max_count: 1_000,
    max_total_bytes: 4 << 30,
    grace: Duration::ZERO,
};

async fn run(engine: &Engine, name: &str, text: &str) {
    let outcome = engine.run(CommandSpec::argv(["sh", "-c", text]).id(id(name))).await.unwrap();
    outcome.execution.wait_closed().await;
}

fn names(engine: &Engine) -> Vec<String> {
    let mut names: Vec<_> = engine.executions().iter().map(|e| e.id().to_string()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn oldest_are_removed_by_count() {
    let place = Place::new();
    let retention = Retention { max_count: 3, ..NO_GRACE };
    let engine = place.open_with(|config| config.retention = retention).await;
    let first = engine.run(CommandSpec::shell("echo a").id(id("a"))).await.unwrap();
    first.execution.wait_closed().await;
    for name in ["b", "c", "d", "e"] {
        run(&engine, name, "true").await;
    }
    eventually("only three are left", || names(&engine) == ["c", "d", "e"]).await;
    assert!(matches!(first.execution.output(100), Err(ReadError::Removed)));
}

#[tokio::test]
async fn old_records_are_removed_by_age() {
    let place = Place::new();
    let retention = Retention { max_age: Duration::from_secs(5), ..NO_GRACE };
    let engine = place.open_with(|config| config.retention = retention).await;
    run(&engine, "a", "true").await;
    run(&engine, "b", "true").await;
    assert!(engine.execution(&id("b")).is_some());
    eventually("both are gone", || engine.executions().is_empty()).await;
}

#[tokio::test]
async fn old_records_are_removed_by_age_beside_kept_ones() {
    let place = Place::new();
    let retention = Retention { max_age: Duration::from_millis(200), ..NO_GRACE };
    let engine = place.open_with(|config| config.retention = retention).await;
    let mut kept = CommandSpec::shell("true").id(id("kept"));
    kept.keep_record = true;
    engine.run(kept).await.unwrap().execution.wait_closed().await;
    // Let the clean-up find nothing to wait for, however long that takes.
    tokio::time::sleep(Duration::from_millis(20)).await;
    run(&engine, "a", "true").await;
    eventually("only the kept one is left", || names(&engine) == ["kept"]).await;
}

#[tokio::test]
async fn oldest_are_removed_by_bytes() {
    let place = Place::new();
    let retention = Retention { max_total_bytes: 500_000, ..NO_GRACE };
    let engine = place.open_with(|config| config.retention = retention).await;
    for name in ["a", "b", "c"] {
        run(&engine, name, "head -c 200000 /dev/zero").await;
    }
    eventually("the oldest is gone", || names(&engine) == ["b", "c"]).await;
}

#[tokio::test]
async fn kept_record_is_removed_on_request_only() {
    let place = Place::new();
    let retention = Retention { max_count: 1, max_age: Duration::from_millis(50), ..NO_GRACE };
    let engine = place.open_with(|config| config.retention = retention).await;
    let mut kept = CommandSpec::shell("echo kept").id(id("kept"));
    kept.keep_record = true;
    engine.run(kept).await.unwrap().execution.wait_closed().await;
    for name in ["a", "b", "c"] {
        run(&engine, name, "true").await;
    }
    eventually("only the kept one is left", || names(&engine) == ["kept"]).await;
    let execution = engine.execution(&id("kept")).unwrap();
    assert_eq!(execution.output(100).unwrap().stdout.bytes, b"kept\n");
    engine.forget(&id("kept")).unwrap();
    assert!(engine.executions().is_empty());
    assert!(matches!(execution.output(100), Err(ReadError::Removed)));
}

#[tokio::test]
async fn running_executions_are_not_removed() {
    let place = Place::new();
    let retention =
        Retention { max_count: 0, max_age: Duration::ZERO, max_total_bytes: 0, grace: Duration::ZERO };
    let engine = place.open_with(|config| config.retention = retention).await;
    let living = engine.start(CommandSpec::argv(["cat"]).id(id("cat")).stdin(Stdin::Open)).await.unwrap();
    for name in ["a", "b"] {
        run(&engine, name, "true").await;
    }
    eventually("the others are gone", || names(&engine) == ["cat"]).await;
    assert!(matches!(engine.forget(&id("cat")), Err(ControlError::Running)));
    living.write_stdin("still here").await.unwrap();
    let mut follower = living.follow(0).unwrap();
    while follower.cursor() < 10 {
        follower.next().await.unwrap().unwrap();
    }
    drop(follower);
    living.close_stdin().await.unwrap();
    living.wait().await.unwrap();
    eventually("it is gone too", || engine.executions().is_empty()).await;
}

#[tokio::test]
async fn a_new_engine_applies_its_own_policy() {
    let place = Place::new();
    let engine = place.open().await;
    for name in ["a", "b", "c"] {
        run(&engine, name, "true").await;
    }
    drop(engine);
    let retention = Retention { max_count: 2, ..NO_GRACE };
    let engine = place.open_with(|config| config.retention = retention).await;
    assert_eq!(names(&engine), ["b", "c"]);
    run(&engine, "d", "true").await;
    eventually("the oldest is gone", || names(&engine) == ["c", "d"]).await;
}

#[tokio::test]
async fn removed_records_stay_removed_after_a_restart() {
    let place = Place::new();
    let engine = place.open().await;
    run(&engine, "a", "true").await;
    run(&engine, "b", "true").await;
    engine.forget(&id("a")).unwrap();
    engine.forget(&id("a")).unwrap();
    drop(engine);
    let engine = place.open().await;
    assert_eq!(names(&engine), ["b"]);
}

#[tokio::test]
async fn slots_are_reused() {
    let place = Place::new();
    let retention = Retention { max_count: 50, ..NO_GRACE };
    let engine = place.open_with(|config| config.retention = retention).await;
    let session = engine.create_session(Default::default()).await.unwrap();
    for round in 0..1000 {
        let outcome = session.run(CommandSpec::shell(format!("echo {round}"))).await.unwrap();
        assert_eq!(outcome.stdout(), format!("{round}\n"));
    }
    // The count may be exceeded by a sixteenth, and by what ends while slots are given back: more on a busy machine.
    let most = 500;
    assert!(place.count("journals") <= most, "{} files", place.count("journals"));
    // All but the last are given back when there is time.
    eventually("slots are given back", || engine.executions().len() <= 54).await;
}

/// Runs clean-ups, by ending more executions, for long enough that what may go has gone.
async fn clean_for_a_while(engine: &Engine) {
    for _ in 0..20 {
        let outcome = engine.run(CommandSpec::argv(["true"])).await.unwrap();
        outcome.execution.wait_closed().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What counts is what a journal keeps, not what was written to it.
#[tokio::test]
async fn a_flood_removes_neither_itself_nor_others() {
    let place = Place::new();
    let retention = Retention { max_total_bytes: 2 << 20, ..NO_GRACE };
    let engine = place
        .open_with(|config| (config.retention, config.journal_bytes) = (retention, MIN_JOURNAL_BYTES))
        .await;
    run(&engine, "a", "echo a").await;
    // Many small records have more bytes than the output in them.
    run(&engine, "lines", "for i in $(seq 3000); do echo $i; done").await;
    run(&engine, "flood", "head -c 50000000 /dev/zero").await;
    run(&engine, "z", "true").await;
    clean_for_a_while(&engine).await;
    let kept = names(&engine);
    for name in ["a", "lines", "flood", "z"] {
        assert!(kept.contains(&name.to_owned()), "{name} is gone of {kept:?}");
    }
    assert_eq!(engine.execution(&id("flood")).unwrap().info().output_bytes, 50_000_000);
    drop(engine);
    // The same when the journals are found again.
    let engine = place.open_with(|config| config.retention = retention).await;
    let kept = names(&engine);
    assert!(["a", "flood", "lines", "z"].iter().all(|name| kept.contains(&(*name).to_owned())), "{kept:?}");
}

#[tokio::test]
async fn record_larger_than_the_limit_is_removed_alone() {
    let place = Place::new();
    let retention = Retention { max_total_bytes: 100_000, ..NO_GRACE };
    let engine = place.open_with(|config| config.retention = retention).await;
    run(&engine, "a", "true").await;
    run(&engine, "large", "head -c 3000000 /dev/zero").await;
    eventually("only the large one is gone", || names(&engine) == ["a"]).await;
}

#[tokio::test]
async fn records_in_use_are_kept() {
    let place = Place::new();
    let grace = Duration::from_millis(100);
    let retention = Retention { max_count: 0, max_age: Duration::ZERO, max_total_bytes: 0, grace };
    let engine = place.open_with(|config| config.retention = retention).await;
    // Its output is read after its end, whatever retention thinks of it.
    for round in 0..50 {
        let outcome = engine.run(CommandSpec::argv(["echo", &round.to_string()])).await.unwrap();
        assert_eq!(outcome.stdout(), format!("{round}\n"));
    }
    let gate = place.file("gate");
    let text = format!("until [ -e '{}' ]; do sleep 0.01; done; echo done", gate.display());
    let execution = engine.start(CommandSpec::argv(["sh", "-c", &text]).id(id("read"))).await.unwrap();
    let mut reader = execution.reader().unwrap();
    let mut follower = execution.follow(0).unwrap();
    std::fs::write(&gate, "").unwrap();
    execution.wait_closed().await;
    clean_for_a_while(&engine).await;
    eventually("the others are gone", || names(&engine) == ["read"]).await;
    assert!(matches!(engine.forget(&id("read")), Err(ControlError::InUse)));
    let again = engine.start(CommandSpec::argv(["true"]).id(id("read"))).await;
    assert!(matches!(again, Err(StartError::InUse(taken)) if taken == id("read")));
    let mut bytes = [0; 10];
    assert_eq!(reader.read(Stream::Stdout, 0, &mut bytes).unwrap(), ReadAt::Bytes(5));
    while follower.next().await.unwrap().is_some() {}
    drop(reader);
    follower.finish();
    eventually("it is gone", || engine.executions().is_empty()).await;
}

/// A client that has just got its answer can still ask for more.
#[tokio::test]
async fn records_just_received_are_kept() {
    let place = Place::new();
    let retention = Retention {
        max_count: 0,
        max_age: Duration::ZERO,
        max_total_bytes: 0,
        grace: Duration::from_secs(10),
    };
    let engine = place.open_with(|config| config.retention = retention).await;
    run(&engine, "a", "echo a").await;
    clean_for_a_while(&engine).await;
    assert!(engine.execution(&id("a")).is_some_and(|execution| execution.output(10).is_ok()));
    eventually("it is gone", || engine.executions().is_empty()).await;
}

/// However many just ended, no more than so many are kept for their clients.
#[tokio::test]
async fn the_grace_period_is_bounded() {
    let place = Place::new();
    let retention = Retention { max_count: 1, grace: Duration::from_secs(3600), ..NO_GRACE };
    let engine = place.open_with(|config| config.retention = retention).await;
    let session = engine.create_session(Default::default()).await.unwrap();
    for _ in 0..MAX_RECORDS_IN_GRACE + 50 {
        session.run(CommandSpec::shell("true")).await.unwrap();
    }
    eventually("the oldest are gone", || engine.executions().len() <= MAX_RECORDS_IN_GRACE + 1).await;
}

/// Large records that were just received are kept up to a bound, except while a client reads them.
#[tokio::test]
async fn bytes_in_the_grace_period_are_bounded() {
    let place = Place::new();
    // 84 MiB are kept for the grace period, which are eight of these records.
    let retention = Retention { max_total_bytes: 20 << 20, grace: Duration::from_secs(3600), ..NO_GRACE };
    let engine = place.open_with(|config| config.retention = retention).await;
    let all = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let mut reader = None;
    for name in all {
        run(&engine, name, "head -c 10485760 /dev/zero").await;
        reader = reader.or_else(|| engine.execution(&id("a")).unwrap().reader().ok());
    }
    let left: Vec<_> =
        all.iter().enumerate().filter(|(i, _)| *i == 0 || *i > 4).map(|(_, name)| *name).collect();
    eventually("the oldest are gone", || names(&engine) == left).await;
    drop(reader);
}

/// Also if the thread that removes them does not get the processor: starts then remove them.
#[tokio::test(flavor = "multi_thread")]
async fn records_and_files_are_bounded_under_load() {
    const SESSIONS: usize = 16;
    const COMMANDS: usize = 120;
    /// One is kept, and the grace period covers 256; starts help when twice as many are left. Each session may have
    /// a running command, and one that ended since its start was counted.
    const MOST_RECORDS: usize = 1 + 2 * MAX_RECORDS_IN_GRACE + 2 * SESSIONS;
    /// Others are being removed, or are free and open for the next commands.
    const MOST_FILES: usize = MOST_RECORDS + 300;
    let place = Place::new();
    let retention = Retention { max_count: 1, grace: Duration::from_secs(3600), ..NO_GRACE };
    let engine = place.open_with(|config| config.retention = retention).await;
    let tasks: Vec<_> = (0..SESSIONS)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let session = engine.create_session(Default::default()).await.unwrap();
                for _ in 0..COMMANDS {
                    session.run(CommandSpec::shell("true")).await.unwrap();
                }
                engine.executions().len()
            })
        })
        .collect();
    for task in tasks {
        let records = task.await.unwrap();
        assert!(records <= MOST_RECORDS, "{records} records");
    }
    assert!(place.count("journals") <= MOST_FILES, "{} files", place.count("journals"));
}

/// Lets nothing in this process open another file, which is one way in which a record cannot be removed.
fn with_descriptors(allowed: bool) {
    let before = getrlimit(Resource::Nofile);
    let current = if allowed { before.maximum } else { Some(1) };
    setrlimit(Resource::Nofile, Rlimit { current, maximum: before.maximum }).unwrap();
}

#[tokio::test]
async fn the_output_of_a_removed_record_is_not_on_the_disk() {
    let place = Place::new();
    let engine = place.open().await;
    // In the first block of the file, too.
    run(&engine, "a", "for i in $(seq 3000); do echo pass$((i * 0))word; done").await;
    let journals = place.state().join("journals");
    let is_on_disk = || {
        let files = std::fs::read_dir(&journals).unwrap();
        files
            .map(|file| std::fs::read(file.unwrap().path()).unwrap())
            .any(|bytes| bytes.windows(9).any(|part| part == b"pass0word"))
    };
    assert!(is_on_disk());
    engine.forget(&id("a")).unwrap();
    assert!(!is_on_disk());
}

#[tokio::test]
async fn a_record_that_cannot_be_removed_stays() {
    let place = Place::new();
    let engine = place.open().await;
    for name in ["a", "b", "c"] {
        run(&engine, name, "echo said").await;
    }
    let mut background = CommandSpec::shell("true").id(id("background"));
    background.background = true;
    engine.run(background).await.unwrap().execution.wait_closed().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    with_descriptors(false);
    let refused = engine.forget(&id("a"));
    let deleted = session.delete().await;
    let removed = engine.remove_finished();
    with_descriptors(true);
    assert!(matches!(refused, Err(ControlError::Os { .. })), "{refused:?}");
    assert!(deleted.is_err(), "{deleted:?}");
    assert_eq!(removed, 0);
    assert_eq!(names(&engine), ["a", "b", "background", "c"]);
    assert_eq!(engine.execution(&id("a")).unwrap().output(100).unwrap().stdout.bytes, b"said\n");
    assert!(engine.session(session.id()).is_some());
    // What could not be removed can be removed later, and does not come back.
    engine.forget(&id("a")).unwrap();
    assert_eq!(engine.remove_finished(), 1);
    session.delete().await.unwrap();
    assert_eq!(names(&engine), ["b", "c"]);
    drop((session, engine));
    let engine = place.open().await;
    assert_eq!(names(&engine), ["b", "c"]);
    assert!(engine.sessions().is_empty());
}

/// One whose record is not in memory any more is removed by a later clean-up.
#[tokio::test]
async fn a_journal_that_cannot_be_retired_is_retired_later() {
    let place = Place::new();
    let engine = place.open_with(|config| config.retention = Retention { max_count: 1, ..NO_GRACE }).await;
    run(&engine, "old", "echo old").await;
    let blocked = engine.start(CommandSpec::shell("sleep 60")).await.unwrap();
    with_descriptors(false);
    let ended = blocked.kill(libc::SIGKILL, Duration::ZERO).await;
    eventually("one goes", || names(&engine).len() == 1).await;
    with_descriptors(true);
    ended.unwrap();
    for name in ["x", "y", "z"] {
        run(&engine, name, "true").await;
    }
    eventually("one is left", || names(&engine) == ["z"]).await;
    drop((blocked, engine));
    // With the old one it would have two.
    let engine = place.open_with(|config| config.retention = Retention { max_count: 9, ..NO_GRACE }).await;
    assert_eq!(names(&engine), ["z"]);
}
