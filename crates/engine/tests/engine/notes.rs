//! Notes of the caller, and information that is available without a request to a supervisor.

use std::time::Duration;

use sandcrab_engine::{CommandSpec, MAX_NOTE_BYTES, SessionError, SessionSpec, StartError};

use crate::support::{Place, eventually, id, supervisor_of};

#[tokio::test]
async fn the_note_of_an_execution_outlives_the_engine() {
    let place = Place::new();
    let engine = place.open().await;
    let note: Vec<u8> = (0..MAX_NOTE_BYTES).map(|at| u8::try_from(at % 256).unwrap()).collect();
    let spec = CommandSpec::argv(["echo", "hello"]).id(id("noted")).note(note.clone());
    let noted = engine.run(spec).await.unwrap().execution;
    let plain = engine.run(CommandSpec::shell("true").id(id("plain"))).await.unwrap().execution;
    let before = noted.info();
    assert_eq!((before.note.as_deref(), before.argv, before.output_bytes), (Some(&note[..]), true, 6));
    assert!(before.created_at <= before.started_at.unwrap() && before.started_at <= before.ended_at);
    assert_eq!((plain.info().note, plain.info().argv), (None, false));
    noted.wait_closed().await;
    drop((noted, plain, engine));

    let engine = place.open().await;
    let after = engine.execution(&id("noted")).unwrap().info();
    assert_eq!((after.note.as_deref(), after.argv, after.output_bytes), (Some(&note[..]), true, 6));
    assert!(after.created_at <= after.started_at.unwrap() && after.started_at <= after.ended_at);
    assert_eq!(engine.execution(&id("plain")).unwrap().info().note, None);
}

#[tokio::test]
async fn the_note_of_a_session_outlives_the_engine_and_the_supervisor() {
    let place = Place::new();
    let engine = place.open().await;
    let spec = SessionSpec::new().id("s".parse().unwrap()).name("a name").note([0, 255, 7]);
    let session = engine.create_session(spec).await.unwrap();
    let created_at = session.created_at();
    let running = session.start(CommandSpec::shell("sleep 300")).await.unwrap();
    running.wait_started().await.unwrap();
    supervisor_of(&running).kill();
    running.wait().await.unwrap();
    session.run(CommandSpec::shell("true")).await.unwrap();
    drop((session, running, engine));

    let engine = place.open().await;
    let session = engine.session(&"s".parse().unwrap()).unwrap();
    assert_eq!((session.name(), session.created_at()), (Some("a name"), created_at));
    assert_eq!(session.note().as_deref(), Some(&[0, 255, 7][..]));
    let info = session.info().await.unwrap();
    assert_eq!((info.note, info.created_at), (session.note(), created_at));
    let fork = session.fork(None).await.unwrap();
    assert_eq!((fork.name(), fork.note()), (Some("a name"), session.note()));
}

#[tokio::test]
async fn a_note_that_is_too_long_is_refused() {
    let place = Place::new();
    let engine = place.open().await;
    let note = vec![0; MAX_NOTE_BYTES + 1];
    let refused = engine.start(CommandSpec::shell("true").note(note.clone())).await.unwrap_err();
    assert!(matches!(&refused, StartError::InvalidCommand(why) if why.contains("note")), "{refused:?}");
    let refused = engine.create_session(SessionSpec::new().note(note)).await.unwrap_err();
    assert!(matches!(refused, SessionError::Start(StartError::InvalidCommand(_))), "{refused:?}");
}

#[tokio::test]
async fn queued_command_has_not_started() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    let first = session.start(CommandSpec::shell("sleep 300")).await.unwrap();
    let second = session.start(CommandSpec::shell("true")).await.unwrap();
    first.wait_started().await.unwrap();
    assert!(first.info().started_at.is_some() && second.info().started_at.is_none());
    first.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
    second.wait().await.unwrap();
    eventually("its start is known", || second.info().started_at >= first.info().ended_at).await;
}
