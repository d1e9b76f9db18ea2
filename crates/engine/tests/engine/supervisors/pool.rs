//! The ready supervisors are complete again after any kind of run.

use sandcrab_engine::{CommandSpec, Engine, Limits, SessionSpec};

use crate::support::{Place, eventually};

async fn is_complete(engine: &Engine, after: &str) {
    eventually(&format!("two are ready after {after}"), || engine.health().ready == 2).await;
}

#[tokio::test]
async fn the_pool_is_complete_after_runs_of_any_kind() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 2).await;
    is_complete(&engine, "the start").await;
    for _ in 0..20 {
        engine.run(CommandSpec::shell("true")).await.unwrap();
    }
    is_complete(&engine, "short runs").await;

    let runs = ["sleep 0.1", "sleep 0.2", "true", "sleep 0.1 & true", "kill -KILL $$"];
    let mut started = tokio::task::JoinSet::new();
    for text in runs {
        let engine = engine.clone();
        started.spawn(async move { engine.run(CommandSpec::shell(text)).await });
    }
    for outcome in started.join_all().await {
        outcome.unwrap();
    }
    is_complete(&engine, "runs at the same time").await;

    let long = engine.start(CommandSpec::shell("sleep 300")).await.unwrap();
    is_complete(&engine, "the start of a long run").await;
    long.kill(libc::SIGKILL, std::time::Duration::ZERO).await.unwrap();
    is_complete(&engine, "a kill").await;

    let limits = Limits { open_files: Some(64), ..Limits::default() };
    engine.run(CommandSpec::shell("true").limits(limits)).await.unwrap();
    is_complete(&engine, "a run with limits").await;

    engine.create_session(SessionSpec::new()).await.unwrap().delete().await.unwrap();
    is_complete(&engine, "a session").await;
}
