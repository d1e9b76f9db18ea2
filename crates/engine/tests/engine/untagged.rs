//! Kills in a session on a machine without tags of commands (`ulimit -R`): its processes are known by their ancestors
//! and by their start time alone.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use sandcrab_engine::{CommandSpec, EndReason, Execution, KillReceipt, Session, StateSource};
use tokio::task::JoinHandle;

use crate::support::{Scene, TEST_TIMEOUT, eventually, running_in};

/// Opens an engine without tags, in a process of its own.
async fn untagged() -> Scene {
    let limit = Some(1_000_000);
    setrlimit(Resource::Rttime, Rlimit { current: limit, maximum: limit }).unwrap();
    Scene::open().await
}

/// Time for a few commands of a session, and not for a whole test.
const GRACE: Duration = Duration::from_secs(3);

/// Starts a command that leaves a process that ignores SIGTERM, begins to kill it, and waits until it has returned.
async fn being_killed(scene: &Scene, session: &Session) -> (Execution, JoinHandle<KillReceipt>) {
    let folder = scene.folder("killed");
    let text = "(trap '' TERM; exec sleep 60) & wait";
    let execution = session.start(CommandSpec::shell(text).cwd(&folder)).await.unwrap();
    eventually("it is up", || running_in(&folder, "sleep").len() == 1).await;
    let killing = tokio::spawn({
        let execution = execution.clone();
        async move { execution.kill(libc::SIGTERM, GRACE).await.unwrap() }
    });
    let end = tokio::time::timeout(TEST_TIMEOUT, execution.wait()).await.expect("it ends").unwrap();
    assert_eq!(end.reason, EndReason::Killed);
    assert!(!killing.is_finished(), "it has a grace period");
    (execution, killing)
}

#[tokio::test]
async fn a_new_shell_does_not_belong_to_a_command_that_is_being_killed() {
    let scene = untagged().await;
    let session = scene.session().await;
    session.run(CommandSpec::shell("kept=1")).await.unwrap();
    session.fork(None).await.unwrap();
    let (_, killing) = being_killed(&scene, &session).await;
    let died = session.run(CommandSpec::shell("kill -9 $$")).await.unwrap();
    assert!(died.end.shell_ended);
    let next = session.run(CommandSpec::shell("echo $kept $$")).await.unwrap();
    assert_eq!(next.end.restored_from, Some(StateSource::Snapshot));
    let receipt = killing.await.unwrap();
    assert_eq!(receipt.killed.len(), 1, "{receipt:?}");
    let again = session.run(CommandSpec::shell("echo $kept $$")).await.unwrap();
    assert_eq!((again.stdout(), again.end.restored), (next.stdout(), None), "the new shell was ended");
}

#[tokio::test]
async fn processes_of_a_command_that_is_being_killed_do_not_belong_to_the_next_one() {
    let scene = untagged().await;
    let session = scene.session().await;
    let (_, killing) = being_killed(&scene, &session).await;
    // A start time has a grain of 10 ms.
    tokio::time::sleep(Duration::from_millis(30)).await;
    // The process that saves the state has no tag either. Saved now, it is not there with the next command.
    session.fork(None).await.unwrap();
    let next = session.run(CommandSpec::shell("sleep 60 & :")).await.unwrap();
    assert_eq!(next.end.leftover_count, 1, "{:?}", next.end);
    let receipt = killing.await.unwrap();
    assert_eq!(receipt.killed.len(), 1, "{receipt:?}");
    assert_eq!(receipt.killed[0].signal, libc::SIGKILL);
    assert_eq!(next.execution.leftovers().await.1, 1, "the next command's process was killed");
    let receipt = next.execution.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
    assert_eq!(receipt.killed.len(), 1, "{receipt:?}");
}
