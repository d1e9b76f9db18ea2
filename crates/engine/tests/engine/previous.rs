//! This version's engine over the previous version's supervisors: built from the repository's history,
//! started, and adopted.

use std::time::Duration;

use sandcrab_engine::{
    CommandSpec, EndReason, Engine, Event, SessionSpec, Stdin, SupervisorProgram, TerminalSpec,
};

use crate::history::previous_program;
use crate::support::Place;
use crate::terminals::{GRACE, Seen, create};

#[tokio::test]
async fn supervisors_of_the_previous_version_are_adopted() {
    let supervisor = previous_program("sandcrab-engine", "sandcrab-supervisor");
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
    let cat = TerminalSpec::command(CommandSpec::shell("stty raw -echo; printf ready; exec cat"));
    let terminal = create(&engine, cat).await;
    Seen::new(terminal.clone()).wait_for("ready").await;
    let terminal_id = terminal.id().clone();
    let ids = [&reader, &sleeper, &timed].map(|execution| execution.id().clone());
    drop((session, reader, sleeper, timed, terminal));
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

    let mut seen = Seen::new(engine.terminal(&terminal_id).unwrap());
    // Its supervisor does not share it, so keys go through the supervisor.
    let keys = seen.terminal.expect_keys();
    for key in ["1", "2", "3"] {
        seen.press(key.as_bytes()).await;
        seen.wait_for(key).await;
    }
    drop(keys);
    seen.terminal.delete(GRACE).await.unwrap();

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
