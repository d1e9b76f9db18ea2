//! How long finished executions are kept.

use std::time::Duration;

use sandcrab_engine::{CommandSpec, ControlError, Engine, ReadError, Retention, Stdin};

use crate::support::{Place, eventually, id};

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
async fn the_oldest_go_by_count() {
    let place = Place::new();
    let retention = Retention { max_count: 3, ..Retention::default() };
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
async fn the_old_go_by_age() {
    let place = Place::new();
    let retention = Retention { max_age: Duration::from_millis(1500), ..Retention::default() };
    let engine = place.open_with(|config| config.retention = retention).await;
    run(&engine, "a", "true").await;
    run(&engine, "b", "true").await;
    assert!(engine.execution(&id("b")).is_some());
    eventually("both are gone", || engine.executions().is_empty()).await;
}

#[tokio::test]
async fn the_old_go_by_age_also_beside_kept_ones() {
    let place = Place::new();
    let retention = Retention { max_age: Duration::from_millis(200), ..Retention::default() };
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
async fn the_oldest_go_by_bytes() {
    let place = Place::new();
    let retention = Retention { max_total_bytes: 500_000, ..Retention::default() };
    let engine = place.open_with(|config| config.retention = retention).await;
    for name in ["a", "b", "c"] {
        run(&engine, name, "head -c 200000 /dev/zero").await;
    }
    eventually("the oldest is gone", || names(&engine) == ["b", "c"]).await;
}

#[tokio::test]
async fn a_kept_record_stays_until_it_is_forgotten() {
    let place = Place::new();
    let retention = Retention { max_count: 1, max_age: Duration::from_millis(50), ..Retention::default() };
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
async fn the_living_are_not_touched() {
    let place = Place::new();
    let retention = Retention { max_count: 0, max_age: Duration::ZERO, max_total_bytes: 0 };
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
    let retention = Retention { max_count: 2, ..Retention::default() };
    let engine = place.open_with(|config| config.retention = retention).await;
    assert_eq!(names(&engine), ["b", "c"]);
    run(&engine, "d", "true").await;
    eventually("the oldest is gone", || names(&engine) == ["c", "d"]).await;
}

#[tokio::test]
async fn forgotten_records_do_not_come_back() {
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
async fn slots_are_used_again() {
    let place = Place::new();
    let retention = Retention { max_count: 50, ..Retention::default() };
    let engine = place.open_with(|config| config.retention = retention).await;
    let session = engine.create_session(Default::default()).await.unwrap();
    for round in 0..500 {
        let outcome = session.run(CommandSpec::shell(format!("echo {round}"))).await.unwrap();
        assert_eq!(outcome.stdout(), format!("{round}\n"));
    }
    // The count may be exceeded by a sixteenth, and by what ends while slots are given back.
    let most = 100;
    assert!(place.count("journals") <= most, "{} files", place.count("journals"));
}
