//! Ids: what runs once, and what may run again.

use std::sync::Arc;
use std::time::Duration;

use sandcrab_engine::{
    CgroupUse, CommandSpec, EndReason, ExecutionId, IdError, SessionError, SessionId, SessionSpec, StartError,
};

use crate::support::{Place, Scene, eventually, id};

#[tokio::test]
async fn two_hundred_equal_requests_are_one_execution() {
    let place = Place::new();
    // Removing two hundred cgroups takes the kernel many seconds on a busy machine.
    let engine = place.open_with(|config| config.cgroups = CgroupUse::Off).await;
    let marker = place.file("marker");
    let text = format!("echo ran >> {}; sleep 0.2; echo done", marker.display());
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let engine = engine.clone();
            let spec = CommandSpec::shell(text.clone()).id(id("once")).digest("same");
            tokio::spawn(async move { engine.run(spec).await.unwrap().stdout() })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), "done\n");
    }
    assert_eq!(place.lines("marker"), 1);
    assert_eq!(engine.executions().len(), 1);
    // Nothing is left of those that were not needed but the few that are kept ready.
    eventually("spare supervisors are gone", || place.supervisors().len() <= 4).await;
}

#[tokio::test]
async fn equal_requests_to_a_session_are_one_execution() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    let marker = place.file("marker");
    for _ in 0..20 {
        let spec = CommandSpec::shell(format!("echo ran >> {}", marker.display())).id(id("once")).digest("d");
        assert_eq!(session.run(spec).await.unwrap().exit_code(), 0);
    }
    assert_eq!(place.lines("marker"), 1);
}

#[tokio::test]
async fn equal_request_finds_an_ended_execution() {
    let place = Place::new();
    let engine = place.open().await;
    let spec = CommandSpec::shell("echo $RANDOM").id(id("a")).digest("d");
    let first = engine.run(spec.clone()).await.unwrap();
    first.execution.wait_closed().await;
    assert_eq!(engine.run(spec).await.unwrap().stdout(), first.stdout());
}

#[tokio::test]
async fn another_request_with_a_used_id_is_a_conflict() {
    let place = Place::new();
    let engine = place.open().await;
    engine.run(CommandSpec::shell("true").id(id("a")).digest("one")).await.unwrap();
    let other = engine.start(CommandSpec::shell("false").id(id("a")).digest("two")).await;
    assert!(matches!(other, Err(StartError::Conflict(taken)) if taken == id("a")));
}

#[tokio::test]
async fn an_id_without_digest_is_taken_while_it_runs_and_free_after() {
    let place = Place::new();
    let engine = place.open().await;
    let first = engine.start(CommandSpec::shell("sleep 60").id(id("a"))).await.unwrap();
    let second = engine.start(CommandSpec::shell("true").id(id("a"))).await;
    assert!(matches!(second, Err(StartError::AlreadyExists(taken)) if taken == id("a")));
    first.kill(9, Duration::ZERO).await.unwrap();
    first.wait_closed().await;
    let again = engine.run(CommandSpec::shell("echo again").id(id("a"))).await.unwrap();
    assert_eq!(again.stdout(), "again\n");
    assert_eq!(engine.executions().len(), 1);
}

#[tokio::test]
async fn a_request_that_could_not_start_leaves_its_id_free() {
    let place = Place::new();
    let engine = place.open().await;
    let bad = CommandSpec::argv(["/nonexistent"]).id(id("a")).digest("d");
    assert!(matches!(engine.start(bad.clone()).await, Err(StartError::ProgramNotFound(_))));
    assert!(matches!(engine.start(bad).await, Err(StartError::ProgramNotFound(_))));
    assert!(engine.execution(&id("a")).is_none());
    let good = CommandSpec::shell("echo good").id(id("a")).digest("other");
    assert_eq!(engine.run(good).await.unwrap().stdout(), "good\n");
}

#[tokio::test]
async fn session_id_is_taken_until_the_session_is_deleted() {
    let place = Place::new();
    let engine = place.open().await;
    let own: SessionId = "mine".parse().unwrap();
    let session = engine.create_session(SessionSpec::new().id(own.clone())).await.unwrap();
    let second = engine.create_session(SessionSpec::new().id(own.clone())).await;
    assert!(matches!(second, Err(SessionError::AlreadyExists(taken)) if taken == own));
    session.delete().await.unwrap();
    assert!(matches!(session.delete().await, Err(SessionError::NotFound(_))));
    assert!(matches!(session.run(CommandSpec::shell("true")).await, Err(StartError::SessionGone(_))));
    assert!(engine.session(&own).is_none());
}

#[tokio::test]
async fn session_id_is_free_right_after_deletion() {
    let place = Place::new();
    let engine = place.open().await;
    let own: SessionId = "mine".parse().unwrap();
    for round in 0..5 {
        let session = engine.create_session(SessionSpec::new().id(own.clone())).await.unwrap();
        session.run(CommandSpec::shell("setsid sleep 61 & x=old")).await.unwrap();
        let running = session.start(CommandSpec::shell("trap '' TERM; sleep 60")).await.unwrap();
        let queued = session.start(CommandSpec::shell("echo never")).await.unwrap();
        running.wait_started().await.unwrap();
        let receipt = session.delete().await.unwrap();
        assert!(receipt.survivors.is_empty() && !receipt.killed.is_empty(), "{receipt:?}");
        assert_eq!(running.wait().await.unwrap().reason, EndReason::SessionEnded, "round {round}");
        assert_eq!(queued.wait().await.unwrap().reason, EndReason::SessionEnded, "round {round}");
        let new = engine.create_session(SessionSpec::new().id(own.clone())).await.unwrap();
        assert_eq!(new.run(CommandSpec::shell("echo \"[$x]\"")).await.unwrap().stdout(), "[]\n");
        new.delete().await.unwrap();
    }
}

/// A start that was given up may be dropped where there is no runtime any more.
#[test]
fn start_can_be_dropped_outside_the_runtime() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let engine = runtime.block_on(place.open());
    let mut given_up = 0;
    for _ in 0..5 {
        runtime.block_on(eventually("one is ready", || engine.health().ready > 0));
        let mut start = Box::pin(engine.start(CommandSpec::shell("true")));
        let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
        let entered = runtime.enter();
        // On a busy machine it may be there already.
        given_up += usize::from(start.as_mut().poll(context).is_pending());
        drop(entered);
        drop(start);
    }
    assert!(given_up > 0);
    let after = runtime.block_on(engine.run(CommandSpec::shell("echo after"))).unwrap();
    assert_eq!(after.stdout(), "after\n");
    drop((after, engine));
}

/// What ends with a session is its own, not that of the next one with its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_created_during_the_deletion_of_its_namesake_is_kept() {
    let place = Place::new();
    let engine = place.open().await;
    let spec = || SessionSpec::new().id("s".parse().unwrap());
    let mut session = engine.create_session(spec()).await.unwrap();
    for _ in 0..20 {
        session.start_process(CommandSpec::shell("sleep 300")).await.unwrap();
        let deleted = tokio::spawn({
            let session = session.clone();
            async move { session.delete().await }
        });
        session = loop {
            match engine.create_session(spec()).await {
                Ok(session) => break session,
                Err(SessionError::AlreadyExists(_)) => tokio::task::yield_now().await,
                Err(e) => panic!("{e}"),
            }
        };
        let process = session.start_process(CommandSpec::shell("sleep 300")).await.unwrap();
        assert_eq!(deleted.await.unwrap().unwrap().survivors, []);
        assert_eq!(session.run(CommandSpec::shell("echo here")).await.unwrap().stdout(), "here\n");
        assert!(process.status().end().is_none());
        assert_eq!(engine.sessions().len(), 1);
        process.kill(9, Duration::ZERO).await.unwrap();
    }
    session.delete().await.unwrap();
    eventually("nothing is left of them", || place.supervisors().len() <= 4).await;
}

#[tokio::test]
async fn concurrent_creations_of_one_session_succeed_once() {
    let place = Place::new();
    let engine = place.open().await;
    let own: SessionId = "mine".parse().unwrap();
    let start = Arc::new(tokio::sync::Barrier::new(30));
    let tasks: Vec<_> = (0..30)
        .map(|_| {
            let (engine, start) = (engine.clone(), Arc::clone(&start));
            let spec = SessionSpec::new().id(own.clone());
            tokio::spawn(async move {
                start.wait().await;
                engine.create_session(spec).await
            })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => won += 1,
            Err(SessionError::AlreadyExists(_)) => {}
            Err(e) => panic!("{e}"),
        }
    }
    assert_eq!((won, engine.sessions().len()), (1, 1));
}

#[test]
fn ids_that_are_paths_or_too_long_are_refused() {
    assert_eq!("a/b".parse::<ExecutionId>(), Err(IdError::BadCharacter('/')));
    assert_eq!("../a".parse::<ExecutionId>(), Err(IdError::BadCharacter('/')));
    assert_eq!("a..b".parse::<SessionId>(), Err(IdError::LooksLikePath));
    assert_eq!("..".parse::<SessionId>(), Err(IdError::LooksLikePath));
    assert_eq!("x".repeat(129).parse::<ExecutionId>(), Err(IdError::TooLong(129)));
    assert_eq!("".parse::<ExecutionId>(), Err(IdError::Empty));
}

#[tokio::test]
async fn abandoned_refused_start_leaves_nothing_unfinished() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    let blocker = session.start(CommandSpec::shell("sleep 60")).await.unwrap();
    blocker.wait_started().await.unwrap();
    let mut queued = 0;
    while session.start(CommandSpec::shell("true")).await.is_ok() {
        queued += 1;
    }
    assert_eq!(engine.health().running, queued + 1);
    for _ in 0..20 {
        let mut start = Box::pin(session.start(CommandSpec::shell("true")));
        let waker = std::task::Waker::noop();
        assert!(start.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    }
    eventually("they are taken back", || engine.health().running == queued + 1).await;
    session.delete().await.unwrap();
    eventually("all have ended", || engine.health().running == 0).await;
}

/// A start with the id of a finished execution replaces its record, and says so.
#[tokio::test]
async fn a_replaced_record_is_reported() {
    let scene = Scene::open().await;
    let start = |text: &str| scene.engine.run(CommandSpec::shell(text).id(id("again")));
    let first = start("exit 7").await.unwrap();
    first.execution.wait_closed().await;
    assert_eq!(first.execution.info().replaced, None);
    let second = start("echo two").await.unwrap();
    assert_eq!(second.execution.info().replaced.unwrap().exit_code, Some(7));
    assert_eq!(second.stdout(), "two\n");
    second.execution.wait_closed().await;
    // Not while a client reads it.
    let mut follower = second.execution.follow(0).unwrap();
    assert!(matches!(start("true").await, Err(StartError::InUse(taken)) if taken == id("again")));
    follower.finish();
    assert_eq!(start("true").await.unwrap().execution.info().replaced.unwrap().exit_code, Some(0));
}

#[tokio::test]
async fn concurrent_changes_of_the_environment_all_apply() {
    let scene = Scene::open().await;
    let mut changes = tokio::task::JoinSet::new();
    for number in 0..20 {
        let engine = scene.engine.clone();
        changes.spawn(async move {
            engine.set_env(&[(format!("V{number}").into(), Some("x".into()))]).await.unwrap();
        });
    }
    changes.join_all().await;
    let outcome = scene.engine.run(CommandSpec::shell("env | grep -c '^V[0-9]*=x$'")).await.unwrap();
    assert_eq!(outcome.stdout(), "20\n");
}
