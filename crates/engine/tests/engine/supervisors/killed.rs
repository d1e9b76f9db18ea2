//! Supervisors, ready ones and the zygote are killed: what they held is lost, nothing of it goes on running, and the engine
//! does.

use std::time::Duration;

use sandcrab_engine::{CgroupUse, CommandSpec, EndReason, SessionSpec, StartError, Status};

use super::{odd_seconds, ready, sleeping};
use crate::support::{Place, Seen, eventually, eventually_blocking, id, supervisor_of, with_argument};

async fn a_killed_supervisor_loses_its_run_and_nothing_else(cgroups: CgroupUse) {
    let place = Place::new();
    let engine = place.open_with(|config| config.cgroups = cgroups).await;
    let other = engine.start(CommandSpec::shell("sleep 60; echo other")).await.unwrap();
    let seconds = odd_seconds(&place);
    // An ordinary child, one in a session of its own, one whose parent is gone.
    let text =
        format!("sleep {seconds} & setsid sleep {seconds} & (setsid sleep {seconds} & ) ; echo before; wait");
    let execution = engine.start(CommandSpec::shell(text)).await.unwrap();
    let started = || sleeping(&seconds) == 3 && execution.output(100).unwrap().stdout.bytes == b"before\n";
    eventually("everything runs", started).await;
    supervisor_of(&execution).kill();
    let end = execution.wait().await.unwrap();
    assert_eq!((end.reason, end.exit_code), (EndReason::Lost, None));
    // All is gone when the end is there.
    assert_eq!(with_argument(&seconds), []);
    execution.wait_closed().await;
    assert_eq!(execution.output(100).unwrap().stdout.bytes, b"before\n");
    assert!(matches!(other.status(), Status::Running { .. }));
    assert_eq!(engine.health().running, 1);
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    other.kill(9, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn a_killed_supervisor_loses_its_run_without_cgroups() {
    a_killed_supervisor_loses_its_run_and_nothing_else(CgroupUse::Off).await;
}

#[tokio::test]
async fn a_killed_supervisor_loses_its_run_with_cgroups_v1() {
    a_killed_supervisor_loses_its_run_and_nothing_else(CgroupUse::V1).await;
}

#[tokio::test]
async fn a_killed_supervisor_loses_its_run_with_cgroups_v2() {
    a_killed_supervisor_loses_its_run_and_nothing_else(CgroupUse::V2).await;
}

/// Ways to lose the tag, and everything else that a process inherits and can change. `SLEEP` is what stays.
const SHED: [&str; 7] = [
    "(ulimit -SR 1000000; exec setsid SLEEP) &",
    "(ulimit -R 1000000; exec setsid env -i SLEEP) &",
    "(ulimit -R unlimited; setsid SLEEP & ) &",
    "(setsid bash -c 'ulimit -R 5; (SLEEP &); exit' & )",
    "setsid SLEEP & prlimit --pid $! --rttime=7:",
    "setsid env -i nohup bash -c 'ulimit -R 5; trap \"\" HUP TERM INT; SLEEP & disown; exit' 2>/dev/null & disown",
    // Where namespaces may be made; elsewhere it is one that is left in the usual way.
    "(unshare --pid --fork bash -c 'ulimit -R 5; SLEEP & wait' 2>/dev/null || SLEEP) &",
];

/// Starts what loses its tag; all of them run when this returns.
async fn shed(
    place: &Place,
    execution: impl AsyncFnOnce(CommandSpec) -> sandcrab_engine::Execution,
) -> String {
    let seconds = odd_seconds(place);
    let text = SHED.join("\n").replace("SLEEP", &format!("sleep {seconds}"));
    execution(CommandSpec::shell(format!("{text}\necho up; sleep {seconds}"))).await;
    let all = || sleeping(&seconds) == SHED.len() + 1;
    eventually("all run", all).await;
    seconds
}

#[tokio::test]
async fn untagged_processes_end_with_their_supervisor() {
    let place = Place::new();
    let engine = place.open_with(|config| config.cgroups = CgroupUse::Off).await;
    let other = engine.start(CommandSpec::shell("sleep 60")).await.unwrap();
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    for in_session in [false, true] {
        let mut execution = None;
        let seconds = shed(&place, async |spec| {
            let own = if in_session { session.start(spec).await } else { engine.start(spec).await };
            execution.insert(own.unwrap()).clone()
        })
        .await;
        let execution = execution.unwrap();
        supervisor_of(&execution).kill();
        assert_eq!(execution.wait().await.unwrap().reason, EndReason::Lost);
        // All is gone when the end is there.
        assert_eq!(with_argument(&seconds), [], "in a session: {in_session}");
    }
    assert!(matches!(other.status(), Status::Running { .. }), "another supervisor's");
    assert_eq!(session.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    session.delete().await.unwrap();
    other.kill(9, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn untagged_processes_end_with_a_supervisor_of_an_earlier_engine() {
    let place = Place::new();
    let engine = place.open_with(|config| config.cgroups = CgroupUse::Off).await;
    let seconds = shed(&place, async |spec| engine.start(spec.id(id("earlier"))).await.unwrap()).await;
    let other = engine.start(CommandSpec::shell("sleep 60").id(id("other"))).await.unwrap();
    drop((other, engine));
    eventually("the engine is closed", || place.zygotes().is_empty()).await;
    let engine = place.open_with(|config| config.cgroups = CgroupUse::Off).await;
    let execution = engine.execution(&id("earlier")).unwrap();
    supervisor_of(&execution).kill();
    assert_eq!(execution.wait().await.unwrap().reason, EndReason::Lost);
    assert_eq!(with_argument(&seconds), []);
    let other = engine.execution(&id("other")).unwrap();
    assert!(matches!(other.status(), Status::Running { .. }));
    // The same while there is no engine at all.
    let seconds = shed(&place, async |spec| engine.start(spec.id(id("alone"))).await.unwrap()).await;
    let supervisor = supervisor_of(&engine.execution(&id("alone")).unwrap());
    other.kill(9, Duration::ZERO).await.unwrap();
    drop((execution, other, engine));
    eventually("the engine is closed", || place.zygotes().is_empty()).await;
    supervisor.kill();
    eventually("all are gone", || with_argument(&seconds).is_empty()).await;
    eventually("and so is everything of ours", || place.own_processes().is_empty()).await;
}

#[tokio::test]
async fn killed_ready_supervisors_are_not_used() {
    let place = Place::new();
    let engine = place.open().await;
    let ready = ready(&place, &engine).await;
    for seen in &ready {
        seen.kill();
    }
    eventually_blocking("they are dead", || !ready.iter().any(|seen| seen.is_alive()));
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    assert_eq!(session.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    session.delete().await.unwrap();
    eventually("their sockets are gone", || place.count("supervisors") == 4).await;
}

#[tokio::test]
async fn killed_ready_supervisors_are_replaced() {
    let place = Place::new();
    let engine = place.open().await;
    for round in 0..40 {
        // Also ones that are not ready yet.
        let killed: Vec<Seen> = place.supervisors().into_iter().take(1 + round % 4).collect();
        killed.iter().for_each(|seen| seen.kill());
        eventually_blocking("they are dead", || !killed.iter().any(|seen| seen.is_alive()));
        assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
        if round % 8 < 4 {
            eventually("the pool is full", || engine.health().ready == 4).await;
        }
    }
}

#[tokio::test]
async fn killed_zygote_is_restarted() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    let running = engine.start(CommandSpec::shell("read x; echo $x").stdin(sandcrab_engine::Stdin::Open));
    let running = running.await.unwrap();
    engine.set_env(&[("LATER".into(), Some("l".into()))]).await.unwrap();
    // A supervisor that was just forked has the name of the zygote for a moment.
    eventually("there is one zygote", || place.zygotes().len() == 1).await;
    let zygotes = place.zygotes();
    zygotes[0].kill();
    eventually_blocking("it is dead", || !zygotes[0].is_alive());
    // What is there goes on, and more new work than there are ready supervisors gets one each.
    assert_eq!(session.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    for round in 0..10 {
        let outcome = engine.run(CommandSpec::shell(format!("echo {round} $LATER"))).await.unwrap();
        assert_eq!(outcome.stdout(), format!("{round} l\n"));
    }
    running.write_stdin("still\n").await.unwrap();
    running.wait().await.unwrap();
    assert_eq!(running.output(100).unwrap().stdout.bytes, b"still\n");
    eventually("there is one zygote again", || place.zygotes().len() == 1).await;
}

#[tokio::test]
async fn killed_zygote_is_restarted_for_new_settings() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    place.zygotes()[0].kill();
    engine.set_env(&[("NEW".into(), Some("n".into()))]).await.unwrap();
    assert_eq!(engine.run(CommandSpec::shell("echo $NEW")).await.unwrap().stdout(), "n\n");
}

#[tokio::test]
async fn supervisor_killed_during_a_start_is_an_error_and_leaves_nothing() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    for _ in 0..10 {
        let task = {
            let engine = engine.clone();
            tokio::spawn(async move { engine.run(CommandSpec::argv(["true"])).await })
        };
        eventually("it is there or over", || task.is_finished() || !place.supervisors().is_empty()).await;
        place.supervisors().into_iter().for_each(Seen::kill);
        match task.await.unwrap() {
            Ok(outcome) => assert!(matches!(outcome.end.reason, EndReason::Exited | EndReason::Lost)),
            Err(StartError::Lost) => {}
            Err(e) => panic!("{e:?}"),
        }
    }
    eventually("nothing runs", || engine.health().running == 0).await;
    eventually("no socket is left", || place.count("supervisors") == 0).await;
}
