//! Ending everything at once.

use std::time::{Duration, Instant};

use sandcrab_engine::{CommandSpec, EndReason, SessionEndPolicy, StopSummary};

use crate::support::{Scene, TEST_TIMEOUT, eventually, id, running_in, supervisor_of, working_in};

const GRACE: Duration = Duration::from_secs(4);

#[tokio::test]
async fn all_executions_are_ended_and_recorded() {
    let scene = Scene::open().await;
    let folder = scene.folder("work");
    let in_folder = |text: &str, name: &str| CommandSpec::shell(text).id(id(name)).cwd(&folder);
    // What ignores the signal needs the whole grace, each of them.
    let stubborn = 10;
    for number in 0..stubborn {
        let text = "trap '' TERM; echo begun; while :; do sleep 0.05; done";
        let name = format!("stubborn{number}");
        let execution = scene.engine.start(in_folder(text, &name)).await.unwrap();
        eventually("it ignores the signal", || execution.output(100).unwrap().cursor == 6).await;
    }
    scene.engine.start(in_folder("sleep 300 & sleep 300", "plain")).await.unwrap();
    let left = scene.engine.run(in_folder("setsid sleep 300 & echo", "left")).await.unwrap();
    assert_eq!(left.end.leftover_count, 1);
    let session = scene.session().await;
    session.start(in_folder("sleep 300", "first")).await.unwrap().wait_started().await.unwrap();
    session.start(in_folder("echo never", "waiting")).await.unwrap();
    let mut kept = in_folder("sleep 300", "kept");
    kept.on_session_end = SessionEndPolicy::Keep;
    let other = scene.session().await;
    other.start_process(kept).await.unwrap();
    assert!(!working_in(&folder).is_empty());

    let begun = Instant::now();
    let summary = scene.engine.stop_all(libc::SIGTERM, GRACE).await;
    let taken = begun.elapsed();
    // One grace period for all of them, not one for each.
    assert!((GRACE..GRACE * 10).contains(&taken), "{taken:?}");
    assert_eq!(summary, StopSummary { ended: stubborn + 4, survivors: 0 });
    assert_eq!(working_in(&folder), []);
    assert!(scene.engine.running().is_empty() && scene.engine.sessions().is_empty());

    // The same for the next engine.
    let Scene { engine, place } = scene;
    drop((left, session, other, engine));
    let engine = place.open().await;
    assert!(engine.running().is_empty() && engine.sessions().is_empty());
    for name in ["stubborn0", "plain", "first", "waiting", "kept"] {
        let execution = engine.execution(&id(name)).unwrap();
        assert_eq!(execution.wait().await.unwrap().reason, EndReason::Killed, "{name}");
    }
    assert_eq!(engine.execution(&id("waiting")).unwrap().output(100).unwrap().cursor, 0);
}

#[tokio::test]
async fn empty_engine_ends_nothing() {
    let scene = Scene::open().await;
    assert_eq!(scene.engine.stop_all(libc::SIGTERM, TEST_TIMEOUT).await, StopSummary::default());
    // An engine that has stopped everything goes on.
    assert_eq!(scene.engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
}

#[tokio::test]
async fn executions_of_a_killed_supervisor_are_ended() {
    let scene = Scene::open().await;
    let folder = scene.folder("work");
    let execution = scene.engine.start(CommandSpec::argv(["sleep", "300"]).cwd(&folder)).await.unwrap();
    supervisor_of(&execution).kill();
    assert_eq!(scene.engine.stop_all(libc::SIGTERM, TEST_TIMEOUT).await.survivors, 0);
    assert_eq!(execution.wait().await.unwrap().reason, EndReason::Lost);
    assert_eq!(running_in(&folder, "sleep"), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn command_without_a_supervisor_is_ended() {
    let scene = Scene::open().await;
    for _ in 0..5 {
        let mut starts = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let engine = scene.engine.clone();
            starts.spawn(async move { engine.start(CommandSpec::shell("sleep 1000")).await });
        }
        let listed = loop {
            let listed = scene.engine.executions();
            if listed.iter().any(|execution| execution.info().ended_at.is_none()) {
                break listed;
            }
            tokio::task::yield_now().await;
        };
        scene.engine.stop_all(libc::SIGKILL, GRACE).await;
        let left: Vec<_> = listed.iter().filter(|execution| execution.info().ended_at.is_none()).collect();
        assert!(left.is_empty(), "{left:?}");
        starts.join_all().await;
        scene.engine.stop_all(libc::SIGKILL, GRACE).await;
    }
}
