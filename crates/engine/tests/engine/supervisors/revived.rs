//! Sessions whose supervisor was killed.

use sandcrab_engine::{CgroupUse, CommandSpec, EndReason, SessionSpec, StartError};

use super::{odd_seconds, saved, sleeping, supervisor_of_session};
use crate::support::{Place, eventually, eventually_blocking, supervisor_of, with_argument};

async fn session_is_restored(cgroups: CgroupUse) {
    let place = Place::new();
    let engine = place.open_with(|config| config.cgroups = cgroups).await;
    let session = engine.create_session(SessionSpec::new().env("GIVEN", "g")).await.unwrap();
    let before = session.run(CommandSpec::shell("x=5; f() { echo f$1; }; cd /usr")).await.unwrap();
    assert_eq!(before.end.restored, None);
    eventually("its state is saved", || !saved(&place).is_empty()).await;
    let seconds = odd_seconds(&place);
    let left = session.start(CommandSpec::shell(format!("setsid sleep {seconds}"))).await.unwrap();
    let queued = session.start(CommandSpec::shell("echo never")).await.unwrap();
    eventually("it runs", || sleeping(&seconds) == 1).await;
    supervisor_of(&left).kill();
    for lost in [left, queued] {
        assert_eq!(lost.wait().await.unwrap().reason, EndReason::Lost);
    }
    assert_eq!(with_argument(&seconds), []);
    let text = "echo $x $PWD $GIVEN; f 1";
    let after = session.run(CommandSpec::shell(text)).await.unwrap();
    assert_eq!(after.stdout(), "5 /usr g\nf1\n");
    assert!(after.end.restored.is_some(), "{:?}", after.end);
    let later = session.run(CommandSpec::shell(text)).await.unwrap();
    assert_eq!((later.stdout().as_str(), later.end.restored), ("5 /usr g\nf1\n", None));
    assert_eq!(engine.health().running, 0);
}

#[tokio::test]
async fn session_is_restored_without_cgroups() {
    session_is_restored(CgroupUse::Off).await;
}

#[tokio::test]
async fn session_is_restored_with_cgroups_v1() {
    session_is_restored(CgroupUse::V1).await;
}

#[tokio::test]
async fn session_is_restored_with_cgroups_v2() {
    session_is_restored(CgroupUse::V2).await;
}

#[tokio::test]
async fn a_session_whose_supervisor_is_killed_twice_keeps_its_state() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    session.run(CommandSpec::shell("x=5")).await.unwrap();
    let first = supervisor_of_session(&session).await;
    eventually("its state is saved", || !saved(&place).is_empty()).await;
    first.kill();
    eventually_blocking("it is dead", || !first.is_alive());
    // Brings the session back; the supervisor is killed again before it has run any command to its end.
    let second = session.start(CommandSpec::shell("sleep 60")).await.unwrap();
    second.wait_started().await.unwrap();
    supervisor_of(&second).kill();
    assert_eq!(second.wait().await.unwrap().reason, EndReason::Lost);
    let third = session.run(CommandSpec::shell("echo $x")).await.unwrap();
    assert_eq!(third.stdout(), "5\n");
    assert!(third.end.restored.is_some());
}

#[tokio::test]
async fn idle_session_whose_supervisor_is_killed_responds_at_once() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    for round in 0..5 {
        let supervisor = supervisor_of_session(&session).await;
        session.run(CommandSpec::shell(format!("x={round}"))).await.unwrap();
        supervisor.kill();
        eventually_blocking("it is dead", || !supervisor.is_alive());
        // The engine's tasks have had no chance to notice.
        let outcome = session.run(CommandSpec::shell("echo \"[$x]\"")).await.unwrap();
        assert!(outcome.end.restored.is_some(), "round {round}");
        assert_eq!(outcome.end.reason, EndReason::Exited);
    }
}

#[tokio::test]
async fn a_session_can_be_deleted_after_its_supervisor_was_killed() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    let supervisor = supervisor_of_session(&session).await;
    supervisor.kill();
    session.delete().await.unwrap();
    assert!(engine.sessions().is_empty());
    eventually("its socket is gone", || place.count("supervisors") <= 4).await;
}

#[tokio::test]
async fn session_deleted_during_its_restore_stays_deleted() {
    let place = Place::new();
    let engine = place.open().await;
    for round in 0..10 {
        let session = engine.create_session(SessionSpec::new()).await.unwrap();
        supervisor_of_session(&session).await.kill();
        let mut starts = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let session = session.clone();
            starts.spawn(async move { drop(session.start(CommandSpec::shell("true")).await) });
        }
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        session.delete().await.unwrap();
        starts.join_all().await;
        assert!(matches!(session.start(CommandSpec::shell("true")).await, Err(StartError::SessionGone(_))));
    }
    drop(engine);
    eventually("the supervisors are gone", || place.supervisors().is_empty()).await;
    let engine = place.open().await;
    assert!(engine.sessions().is_empty());
}

/// Otherwise it would continue from its initial state, and the file would be removed.
#[tokio::test]
async fn state_that_cannot_be_read_now_is_not_lost() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    session.run(CommandSpec::shell("x=5")).await.unwrap();
    eventually("its state is saved", || place.count("snapshots") > 0).await;
    let supervisor = supervisor_of_session(&session).await;
    supervisor.kill();
    eventually("it is gone", || !supervisor.is_alive()).await;
    let file = std::fs::read_dir(place.state().join("snapshots")).unwrap().next().unwrap().unwrap().path();
    let aside = place.file("aside");
    std::fs::rename(&file, &aside).unwrap();
    // Reading a directory fails with an error that does not mean that there is no file.
    std::fs::create_dir(&file).unwrap();
    session.run(CommandSpec::shell("echo $x")).await.unwrap_err();
    std::fs::remove_dir(&file).unwrap();
    std::fs::rename(&aside, &file).unwrap();
    assert_eq!(session.run(CommandSpec::shell("echo $x")).await.unwrap().stdout(), "5\n");
    session.delete().await.unwrap();
}
