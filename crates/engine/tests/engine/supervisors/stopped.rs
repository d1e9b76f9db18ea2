//! Supervisors, shells and zygotes that a command has stopped.

use std::time::Duration;

use sandcrab_engine::{CommandSpec, EndReason, SessionSpec};

use super::{stop, supervisor_of_session};
use crate::support::{Place, descendants, eventually, is_zombie, with_enough_time};

#[tokio::test]
async fn a_command_that_stops_its_supervisor_keeps_its_deadline() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    for in_session in [false, true] {
        with_enough_time(Duration::from_secs(1), async |timeout| {
            let spec = CommandSpec::shell("kill -STOP $PPID; echo on; sleep 300").timeout(timeout);
            let outcome = if in_session { session.run(spec).await } else { engine.run(spec).await }.unwrap();
            assert_eq!(outcome.end.reason, EndReason::Timeout);
            (outcome.stdout() == "on\n").then_some(())
        })
        .await;
    }
    session.delete().await.unwrap();
}

/// As a command of another supervisor does with `kill -STOP -1`.
#[tokio::test]
async fn stopped_ready_shells_are_continued() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 1).await;
    engine.run(CommandSpec::shell(":")).await.unwrap();
    for _ in 0..10 {
        let shells = || place.supervisors().into_iter().flat_map(|supervisor| descendants(supervisor.pid));
        eventually("a shell is ready", || shells().any(|pid| !is_zombie(pid))).await;
        for pid in shells().filter_map(|pid| rustix::process::Pid::from_raw(pid.cast_signed())) {
            // It may be one that is about to end.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::STOP);
        }
        let run = engine.run(CommandSpec::shell("echo on"));
        let outcome = tokio::time::timeout(Duration::from_secs(60), run).await.expect("it hangs").unwrap();
        assert_eq!(outcome.stdout(), "on\n");
    }
}

#[tokio::test]
async fn stopped_zygote_is_continued() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    stop(place.zygotes()[0]);
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
}

#[tokio::test]
async fn supervisors_stopped_without_an_engine_are_adopted() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    session.run(CommandSpec::shell("v=kept")).await.unwrap();
    let id = session.id().clone();
    let supervisor = supervisor_of_session(&session).await;
    drop((session, engine));
    eventually("the engine is closed", || place.zygotes().is_empty()).await;
    stop(supervisor);
    let engine = place.open().await;
    let session = engine.session(&id).unwrap();
    assert_eq!(session.run(CommandSpec::shell("echo $v")).await.unwrap().stdout(), "kept\n");
    // Its parent is not our zygote, so it is a request without an answer that wakes it.
    stop(supervisor);
    let outcome = session.run(CommandSpec::shell("echo $v")).await.unwrap();
    assert_eq!((outcome.stdout().as_str(), outcome.end.restored), ("kept\n", None));
    stop(supervisor);
    session.delete().await.unwrap();
}

#[tokio::test]
async fn shell_stopped_after_its_command_is_ended() {
    let place = Place::new();
    let engine = place.open().await;
    for loops in (0..2000).step_by(100) {
        let text = format!("(for ((i = 0; i < {loops}; i++)); do :; done; kill -STOP $$) & exit 3");
        let mut spec = CommandSpec::shell(text).timeout(Duration::from_millis(300));
        spec.timeout_grace = Duration::ZERO;
        let outcome = engine.run(spec).await.unwrap();
        // One that was stopped before its command was over has not ended by itself.
        assert!(outcome.exit_code() == 3 || outcome.end.reason == EndReason::Timeout, "{:?}", outcome.end);
    }
    drop(engine);
    eventually("all are gone", || place.supervisors().is_empty()).await;
}
