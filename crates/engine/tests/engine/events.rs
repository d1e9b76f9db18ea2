//! What an engine tells about all that happens in it.

use std::time::Duration;

use sandcrab_engine::{
    CommandSpec, EngineEvent, EventStream, ExecutionInfo, MAX_UNREAD_EVENTS, Retention, SessionSpec, Status,
};
use tokio::time::timeout;

use crate::support::{Place, Scene, TEST_TIMEOUT, id, supervisor_of};

/// The next event.
async fn next(events: &mut EventStream) -> EngineEvent {
    timeout(TEST_TIMEOUT, events.next()).await.unwrap().unwrap()
}

async fn next_started(events: &mut EventStream) -> ExecutionInfo {
    match next(events).await {
        EngineEvent::ExecutionStarted(info) => info,
        other => panic!("no start: {other:?}"),
    }
}

async fn next_ended(events: &mut EventStream) -> ExecutionInfo {
    match next(events).await {
        EngineEvent::ExecutionEnded(info) => info,
        other => panic!("no end: {other:?}"),
    }
}

#[tokio::test]
async fn an_execution_starts_ends_and_is_removed() {
    let scene = Scene::open().await;
    let mut events = scene.engine.events();
    let mut second = scene.engine.events();
    let spec = CommandSpec::shell("echo hello; exit 3").id(id("e")).note("mine");
    let execution = scene.engine.run(spec).await.unwrap().execution;
    execution.wait_closed().await;
    scene.engine.forget(&id("e")).unwrap();
    for events in [&mut events, &mut second] {
        let started = next_started(events).await;
        assert_eq!((started.id, started.note.as_deref()), (id("e"), Some(&b"mine"[..])));
        assert!(matches!(started.status, Status::Running { .. }), "{:?}", started.status);
        let ended = next_ended(events).await;
        assert_eq!(ended.status.end().unwrap().exit_code, Some(3));
        assert_eq!((&ended.id, ended.output_bytes), (&id("e"), 6));
        assert!(ended.ended_at.is_some());
        assert_eq!(next(events).await, EngineEvent::ExecutionRemoved { id: id("e") });
    }
}

#[tokio::test]
async fn session_is_created_restarted_and_deleted() {
    let scene = Scene::open().await;
    let mut events = scene.engine.events();
    let spec = SessionSpec::new().id("s".parse().unwrap()).name("name");
    let session = scene.engine.create_session(spec).await.unwrap();
    let session_id = session.id().clone();
    let created_at = session.created_at();
    let made = EngineEvent::SessionCreated { id: session_id.clone(), name: Some("name".into()), created_at };
    assert_eq!(next(&mut events).await, made);

    session.run(CommandSpec::shell("exit 3")).await.unwrap();
    assert_eq!(next_started(&mut events).await.session.as_ref(), Some(&session_id));
    assert!(next_ended(&mut events).await.status.end().unwrap().shell_ended);
    let restarted = EngineEvent::SessionRestarted { id: session_id.clone() };
    assert_eq!(next(&mut events).await, restarted);

    // The same if its supervisor is killed: the next command brings it back.
    let running = session.start(CommandSpec::shell("sleep 300")).await.unwrap();
    next_started(&mut events).await;
    supervisor_of(&running).kill();
    next_ended(&mut events).await;
    session.run(CommandSpec::shell("true")).await.unwrap();
    assert_eq!(next(&mut events).await, restarted);
    next_started(&mut events).await;
    next_ended(&mut events).await;

    session.delete().await.unwrap();
    assert_eq!(next(&mut events).await, EngineEvent::SessionDeleted { id: session_id });
}

#[tokio::test]
async fn removal_by_retention_is_an_event() {
    let soon = |retention: &mut Retention| {
        (retention.max_age, retention.grace) = (Duration::from_millis(200), Duration::ZERO);
    };
    let scene = Scene::open_with(|config| soon(&mut config.retention)).await;
    let mut events = scene.engine.events();
    scene.engine.run(CommandSpec::shell("true").id(id("old"))).await.unwrap();
    next_started(&mut events).await;
    next_ended(&mut events).await;
    assert_eq!(next(&mut events).await, EngineEvent::ExecutionRemoved { id: id("old") });
}

#[tokio::test]
async fn slow_watcher_gets_the_number_of_missed_events() {
    let scene = Scene::open().await;
    let mut events = scene.engine.events();
    let session = scene.session().await;
    let commands = MAX_UNREAD_EVENTS / 2 + 5;
    for _ in 0..commands {
        session.run(CommandSpec::shell("true")).await.unwrap();
    }
    // The session, and two for each command.
    let missed = 1 + 2 * commands - MAX_UNREAD_EVENTS;
    assert_eq!(next(&mut events).await, EngineEvent::Lagged(missed as u64));
    for _ in 0..MAX_UNREAD_EVENTS / 2 {
        next_started(&mut events).await;
        next_ended(&mut events).await;
    }
}

#[tokio::test]
async fn a_watcher_does_not_keep_the_engine_open() {
    let place = Place::new();
    let engine = place.open().await;
    let mut events = engine.events();
    drop(engine);
    assert_eq!(timeout(TEST_TIMEOUT, events.next()).await.unwrap(), None);
}
