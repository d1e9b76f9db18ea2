//! Requests that a supervisor has not read when its engine goes.

use std::time::Duration;

use sandcrab_engine::{CommandSpec, EndReason, SessionId, SessionSpec, Status, Stdin};

use super::{ready, stop, supervisor_of_session};
use crate::support::{Place, eventually, id};

/// Commands that are sent to a session's supervisor while it is stopped; then the engine goes.
async fn send_and_go(place: &Place, commands: &[CommandSpec]) -> SessionId {
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    let id = session.id().clone();
    stop(supervisor_of_session(&session).await);
    let mut starts = tokio::task::JoinSet::new();
    for (number, spec) in commands.iter().cloned().enumerate() {
        let session = session.clone();
        starts.spawn(async move { session.start(spec).await });
        eventually("it has a record", || engine.executions().len() > number + 1).await;
    }
    starts.shutdown().await;
    drop((session, engine));
    eventually("the engine is closed", || place.zygotes().is_empty()).await;
    id
}

#[tokio::test]
async fn commands_sent_before_the_engine_ended_are_run() {
    let place = Place::new();
    let add = |number: usize| format!("echo {number} >> {}", place.file("ran").display());
    let commands: Vec<_> = (0..10).map(|number| CommandSpec::shell(add(number))).collect();
    send_and_go(&place, &commands).await;
    let engine = place.open().await;
    eventually("all are over", || engine.running().is_empty()).await;
    let expected: String = (0..10).map(|number| format!("{number}\n")).collect();
    assert_eq!(std::fs::read_to_string(place.file("ran")).unwrap(), expected);
}

/// Requests are numbered by each engine for itself. The first request of both engines is unread when the supervisor goes
/// on: the command of one, the greeting of the other.
#[tokio::test]
async fn reply_to_an_earlier_engine_is_not_sent_to_the_next() {
    let place = Place::new();
    let engine = place.open().await;
    let supervisors = ready(&place, &engine).await;
    eventually("all have said so", || engine.health().ready == 4).await;
    // The zygote would make its children go on.
    stop(place.zygotes()[0]);
    supervisors.iter().copied().for_each(stop);
    let mut start = tokio::task::JoinSet::new();
    let (own, text) = (engine.clone(), format!("echo ran >> {}; sleep 60", place.file("ran").display()));
    start.spawn(async move { own.start(CommandSpec::shell(text).id(id("unread"))).await });
    eventually("it has a record", || engine.execution(&id("unread")).is_some()).await;
    start.shutdown().await;
    drop(engine);
    let engine = place.open().await;
    let execution = engine.execution(&id("unread")).unwrap();
    eventually("it runs", || matches!(execution.status(), Status::Running { .. })).await;
    eventually("it ran once", || place.lines("ran") == 1).await;
    assert_eq!(execution.kill(9, Duration::ZERO).await.unwrap().survivors, []);
    assert_eq!(execution.wait().await.unwrap().reason, EndReason::Killed);
}

#[tokio::test]
async fn command_that_reached_no_supervisor_runs_on_retry() {
    let place = Place::new();
    // More than a socket takes, so that what comes after it stays with the engine.
    let large = CommandSpec::shell("cat > /dev/null").stdin(Stdin::Bytes(vec![0; 4 << 20]));
    let text = format!("echo ran >> {}", place.file("ran").display());
    let keyed = CommandSpec::shell(text).id(id("keyed")).digest("same");
    let session = send_and_go(&place, &[large, keyed.clone()]).await;
    let engine = place.open().await;
    let session = engine.session(&session).unwrap();
    for _ in 0..2 {
        let end = session.start(keyed.clone()).await.unwrap().wait().await.unwrap();
        assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(0)));
    }
    assert_eq!(std::fs::read_to_string(place.file("ran")).unwrap(), "ran\n");
}
