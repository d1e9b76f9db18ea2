//! This version's engine over the previous version's supervisors: built from the repository's history,
//! started, and adopted.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sandcrab_engine::{CommandSpec, EndReason, Engine, Event, SessionSpec, Stdin, SupervisorProgram};

use crate::support::Place;

/// The last commit of protocol version 4. When the version goes up, this moves with it.
const PREVIOUS: &str = "3d11ab4e8c584546bc565d1191e9dddec37ed430";

fn run(command: &mut Command) {
    let status = command.stdin(Stdio::null()).status().unwrap();
    assert!(
        status.success(),
        "{command:?} failed; the test needs git, tar, cargo, and the repository's history"
    );
}

/// The previous version's supervisor.
fn previous_supervisor() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("previous-{PREVIOUS}"));
    let source = place.join("source");
    std::fs::create_dir_all(&source).unwrap();
    let archive = place.join("source.tar");
    run(Command::new("git").current_dir(root).args(["archive", "--output"]).arg(&archive).args([
        PREVIOUS,
        "Cargo.toml",
        "Cargo.lock",
        "crates",
    ]));
    run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&source));
    run(Command::new(env!("CARGO"))
        .current_dir(&source)
        .args([
            "build",
            "--quiet",
            "--package",
            "sandcrab-engine",
            "--bin",
            "sandcrab-supervisor",
            "--target-dir",
        ])
        .arg(place.join("target")));
    place.join("target/debug/sandcrab-supervisor")
}

#[tokio::test]
async fn supervisors_of_the_previous_version_are_adopted() {
    let supervisor = previous_supervisor();
    let place = Place::new();
    let mut old = place.config();
    old.supervisor = SupervisorProgram::At(supervisor);
    let engine = Engine::open(old).await.unwrap();
    let session = engine.create_session(SessionSpec::new().id("kept".parse().unwrap())).await.unwrap();
    session.run(CommandSpec::shell("x=kept; cd /tmp")).await.unwrap();
    let reader = engine.start(CommandSpec::shell("echo before; cat").stdin(Stdin::Open)).await.unwrap();
    let sleeper = engine.start(CommandSpec::shell("sleep 1000 & sleep 1000").background()).await.unwrap();
    let deadline = CommandSpec::shell("sleep 1000").timeout(Duration::from_millis(1500));
    let timed = engine.start(deadline).await.unwrap();
    let ids = [&reader, &sleeper, &timed].map(|execution| execution.id().clone());
    drop((session, reader, sleeper, timed));
    drop(engine);

    let engine = place.open().await;
    let [reader, sleeper, timed] = ids.map(|id| engine.execution(&id).unwrap());
    reader.write_stdin("after\n").await.unwrap();
    reader.close_stdin().await.unwrap();
    assert_eq!(reader.wait().await.unwrap().exit_code, Some(0));
    let mut follower = reader.follow(0).unwrap();
    let mut output = Vec::new();
    while let Some(entry) = follower.next().await.unwrap() {
        if let Event::Output { bytes, .. } = entry.event {
            output.extend(bytes);
        }
    }
    assert_eq!(output, b"before\nafter\n");

    let found = sleeper.inspect().await.unwrap();
    assert!(found.pids.len() >= 2, "{found:?}");
    let receipt = sleeper.kill(15, Duration::from_secs(5)).await.unwrap();
    assert!(receipt.survivors.is_empty() && receipt.killed.len() >= 2, "{receipt:?}");
    assert_eq!(timed.wait().await.unwrap().reason, EndReason::Timeout);

    let session = engine.session(&"kept".parse().unwrap()).unwrap();
    let outcome = session.run(CommandSpec::shell("echo $x $PWD")).await.unwrap();
    assert_eq!(outcome.stdout(), "kept /tmp\n");
    // What this version starts, it starts with its own supervisors.
    let outcome = session.start_process(CommandSpec::shell("echo $x")).await.unwrap();
    assert_eq!(outcome.wait().await.unwrap().exit_code, Some(0));
    session.delete().await.unwrap();
}
