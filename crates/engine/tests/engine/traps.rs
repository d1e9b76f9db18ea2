//! The table of hostile commands, through the whole engine and over both drivers: whatever a command does, it has
//! its end, and the session answers the next one.

#[path = "../../src/shell/tests/table.rs"]
mod table;

use std::time::Duration;

use sandcrab_engine::{
    CommandSpec, EndReason, Engine, Outcome, Session, SessionSpec, ShellDriver, Status, Stdin,
};
use table::{Case, Expected, Step, Text, for_this_bash};

use crate::support::{Scene, eventually};

async fn engine(driver: ShellDriver) -> Scene {
    Scene::open_with(|config| {
        config.shell_driver = driver;
        config.env.retain(|(name, _)| ["PATH", "HOME"].iter().any(|kept| name == kept));
        config.env.push(("LANG".into(), "C.UTF-8".into()));
    })
    .await
}

/// Runs one command as its step asks.
async fn run(session: &Session, step: &Step) -> Outcome {
    let stdin = match step.stdin {
        Some(bytes) => Stdin::Bytes(bytes.to_vec()),
        None if step.open_stdin => Stdin::Open,
        None => Stdin::Null,
    };
    let execution = session.start(CommandSpec::shell(step.text.clone()).stdin(stdin)).await.unwrap();
    if matches!(step.ended, Expected::Interrupted) {
        execution.wait_started().await.unwrap();
        let entered = Duration::from_millis(if cfg!(debug_assertions) { 60 } else { 30 });
        tokio::time::sleep(entered).await;
        if let Text::Is(expected) = &step.stdout {
            let expected = expected.len();
            eventually("it has written", || execution.output(100).unwrap().stdout.bytes.len() >= expected)
                .await;
        }
        assert!(matches!(execution.status(), Status::Running { .. }), "it runs until it is interrupted");
        session.interrupt(2, Duration::from_millis(20)).await.unwrap();
    }
    let end = execution.wait().await.unwrap();
    let output = execution.output(64 << 20).unwrap();
    Outcome { execution, end, output }
}

fn check(step: &Step, outcome: &Outcome, loaded: bool) -> Result<(), String> {
    let end = &outcome.end;
    let ended = match step.ended {
        Expected::Normal(-1) => end.reason == EndReason::Exited && !end.shell_ended,
        Expected::Normal(status) => {
            end.reason == EndReason::Exited && end.exit_code == Some(status) && !end.shell_ended
        }
        Expected::Exit(status) => end.exit_code == Some(status) && end.shell_ended,
        Expected::Signal(signal) => {
            end.reason == EndReason::Signaled && end.signal == Some(signal) && !end.shell_ended
        }
        Expected::AnySignal => end.reason == EndReason::Signaled && !end.shell_ended,
        Expected::Interrupted => end.reason == EndReason::Killed && (!loaded || !end.shell_ended),
        Expected::Died(status) if status < 0 => end.signal == Some(-status) && end.shell_ended,
        Expected::Died(status) => end.exit_code == Some(status) && end.shell_ended,
    };
    let short = |text: String| text.chars().take(300).collect::<String>();
    if ended && step.stdout.matches(&outcome.stdout()) && step.stderr.matches(&outcome.stderr()) {
        return Ok(());
    }
    Err(format!(
        "{:?}: {end:?}\n  stdout {:?}\n  stderr {:?}",
        short(step.text.clone()),
        short(outcome.stdout()),
        short(outcome.stderr())
    ))
}

async fn play(engine: &Engine, case: &Case, loaded: bool) -> Result<(), String> {
    let home = tempfile::tempdir().unwrap();
    let spec = SessionSpec::new().cwd(home.path()).env("HOME", home.path());
    let session = engine.create_session(spec).await.unwrap();
    let mut result = Ok(());
    for step in &case.steps {
        let outcome = run(&session, step).await;
        result = check(step, &outcome, loaded);
        // A shell that was replaced has the state of before the command that ended it.
        if result.is_err() || outcome.end.shell_ended {
            break;
        }
    }
    if result.is_ok() {
        let next = table::ok("\\echo ok", "ok\n").any_err();
        result = check(&next, &run(&session, &next).await, loaded).map_err(|e| format!("afterwards: {e}"));
    }
    session.delete().await.unwrap();
    result
}

async fn play_all(driver: ShellDriver) {
    let scene = engine(driver).await;
    let loaded = driver == ShellDriver::Loaded;
    assert_eq!(scene.engine.health().shell_driver, if loaded { "loaded" } else { "portable" });
    let mut failed = Vec::new();
    for case in for_this_bash().iter().filter(|case| loaded || case.loaded_only.is_none()) {
        let patient = tokio::time::timeout(Duration::from_secs(60), play(&scene.engine, case, loaded));
        match patient.await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => failed.push(format!("{}: {why}", case.name)),
            Err(_) => failed.push(format!("{}: no answer", case.name)),
        }
    }
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}

#[tokio::test]
async fn every_case_over_the_loaded_driver() {
    play_all(ShellDriver::Loaded).await;
}

#[tokio::test]
async fn every_case_over_the_portable_driver() {
    play_all(ShellDriver::Portable).await;
}

#[tokio::test]
async fn a_shell_without_descriptors_is_replaced() {
    let fixture = engine(ShellDriver::Auto).await;
    let session = fixture.engine.create_session(SessionSpec::new()).await.unwrap();
    session.run(CommandSpec::shell("v=kept")).await.unwrap();
    session.run(CommandSpec::shell("ulimit -S -n 5")).await.unwrap();
    let outcome = session.run(CommandSpec::shell("echo $v; ulimit -n")).await.unwrap();
    assert_eq!((outcome.stdout(), outcome.end.restored), ("kept\n5\n".into(), None), "{outcome:?}");
    session.run(CommandSpec::shell("ulimit -n 2")).await.unwrap();
    let refused = session.run(CommandSpec::shell("echo no")).await.unwrap();
    assert!(refused.end.shell_ended && refused.stderr().contains("no descriptors"), "{refused:?}");
    let outcome = session.run(CommandSpec::shell("echo $v $(ulimit -n)")).await.unwrap();
    assert!(outcome.stdout().starts_with("kept ") && outcome.end.restored.is_some(), "{outcome:?}");
    session.delete().await.unwrap();
}

#[tokio::test]
async fn a_shell_whose_descriptors_were_closed_is_replaced() {
    let fixture = engine(ShellDriver::Portable).await;
    for _ in 0..5 {
        let session = fixture.engine.create_session(SessionSpec::new()).await.unwrap();
        session.run(CommandSpec::shell("for i in {3..300}; do eval \"exec $i>&-\"; done")).await.unwrap();
        let spec =
            CommandSpec::shell("cat; echo on").stdin(sandcrab_engine::Stdin::Bytes(b"given\n".to_vec()));
        assert_eq!(session.run(spec).await.unwrap().stdout(), "given\non\n");
        session.delete().await.unwrap();
    }
}

#[tokio::test]
async fn unavailable_state_does_not_delay_a_reset() {
    let fixture = engine(ShellDriver::Auto).await;
    let session = fixture.engine.create_session(SessionSpec::new()).await.unwrap();
    // More than is kept of a shell's state.
    session.run(CommandSpec::shell("printf -v x %70000000s y")).await.unwrap();
    assert!(session.reset(true).await.is_err());
    assert_eq!(session.run(CommandSpec::shell("echo ${#x}")).await.unwrap().stdout(), "70000000\n");
    session.reset(false).await.unwrap();
    assert_eq!(session.run(CommandSpec::shell("echo ${#x}")).await.unwrap().stdout(), "0\n");
    session.delete().await.unwrap();
}

#[tokio::test]
async fn state_is_kept_after_a_failure_under_errexit() {
    for driver in [ShellDriver::Auto, ShellDriver::Portable] {
        let fixture = engine(driver).await;
        let session = fixture.engine.create_session(SessionSpec::new()).await.unwrap();
        // At once one after the other: none is idle long enough to be saved.
        session.run(CommandSpec::shell("set -e; a=1")).await.unwrap();
        session.run(CommandSpec::shell("b=2")).await.unwrap();
        assert!(session.run(CommandSpec::shell("false")).await.unwrap().end.shell_ended);
        let outcome = session.run(CommandSpec::shell("echo $a$b")).await.unwrap();
        assert_eq!(outcome.stdout(), "12\n", "{driver:?} {outcome:?}");
        session.delete().await.unwrap();
    }
}

#[tokio::test]
async fn unsaved_state_is_as_old_as_the_session() {
    let fixture = engine(ShellDriver::Auto).await;
    let session = fixture.engine.create_session(SessionSpec::new()).await.unwrap();
    // Looks harmless, so nothing is saved before it.
    session.run(CommandSpec::shell("sleep 0.3; eval \"ki\"'ll -9 $'{$}")).await.unwrap();
    let outcome = session.run(CommandSpec::shell("true")).await.unwrap();
    assert!(outcome.end.restored.unwrap() >= std::time::Duration::from_millis(300), "{:?}", outcome.end);
    session.delete().await.unwrap();
}
