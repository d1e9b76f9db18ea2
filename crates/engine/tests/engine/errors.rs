//! Situations that a caller must be able to tell apart by the error alone.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use sandcrab_engine::{
    CommandSpec, ControlError, Execution, ReadError, SessionError, SessionSpec, StartError, Stdin,
};

use crate::support::{BOTH, Kind, Scene, supervisor_of};

/// Why a command does not run, in one of the two ways.
async fn refused(scene: &Scene, kind: Kind, spec: CommandSpec) -> StartError {
    match kind {
        Kind::Run => scene.engine.start(spec).await.unwrap_err(),
        Kind::Session => scene.session().await.run(spec).await.unwrap_err(),
    }
}

fn is_bad_folder(error: &StartError, folder: &Path, kind: ErrorKind) -> bool {
    matches!(error, StartError::BadCwd { path, source } if path == folder && source.kind() == kind)
}

#[tokio::test]
async fn missing_directory_and_file_are_distinguished() {
    let scene = Scene::open().await;
    let file = scene.place.file("file");
    std::fs::write(&file, "").unwrap();
    let cases = [(scene.place.file("nothing"), ErrorKind::NotFound), (file, ErrorKind::NotADirectory)];
    for (folder, kind) in cases {
        for way in BOTH {
            let error = refused(&scene, way, CommandSpec::shell("true").cwd(&folder)).await;
            assert!(is_bad_folder(&error, &folder, kind), "{way:?} {error:?}");
        }
        let made = scene.engine.create_session(SessionSpec::new().cwd(&folder)).await;
        let Err(SessionError::Start(error)) = made else { panic!("{made:?}") };
        assert!(is_bad_folder(&error, &folder, kind), "{error:?}");
    }
}

async fn queued(scene: &Scene) -> (Execution, Execution) {
    let session = scene.session().await;
    let first = session.start(CommandSpec::shell("sleep 300")).await.unwrap();
    let second = session.start(CommandSpec::shell("cat").stdin(Stdin::Open)).await.unwrap();
    first.wait_started().await.unwrap();
    (first, second)
}

#[tokio::test]
async fn queued_and_ended_commands_are_distinguished() {
    let scene = Scene::open().await;
    let (first, second) = queued(&scene).await;
    let refused = second.signal(libc::SIGTERM).await;
    assert!(matches!(refused, Err(ControlError::NotStarted)), "{refused:?}");
    first.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
    second.wait_started().await.unwrap();
    // The shell, which is not signalled, may not have started its program yet.
    while second.status().end().is_none() {
        let sent = second.signal(libc::SIGTERM).await;
        assert!(matches!(sent, Ok(()) | Err(ControlError::Ended)), "{sent:?}");
        drop(tokio::time::timeout(Duration::from_millis(50), second.wait()).await);
    }
    let refused = second.signal(libc::SIGTERM).await;
    assert!(matches!(refused, Err(ControlError::Ended)), "{refused:?}");
}

#[tokio::test]
async fn deleted_and_idle_sessions_are_distinguished() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    assert!(session.interrupt(libc::SIGINT, Duration::ZERO).await.unwrap().killed.is_empty());
    let running = session.start(CommandSpec::shell("sleep 300")).await.unwrap();
    running.wait_started().await.unwrap();
    supervisor_of(&running).kill();
    running.wait().await.unwrap();
    assert!(session.interrupt(libc::SIGINT, Duration::ZERO).await.unwrap().killed.is_empty());

    session.delete().await.unwrap();
    let refused = session.interrupt(libc::SIGINT, Duration::ZERO).await;
    assert!(matches!(&refused, Err(ControlError::SessionGone(id)) if id == session.id()), "{refused:?}");
    let refused = session.start(CommandSpec::shell("true")).await;
    assert!(matches!(&refused, Err(StartError::SessionGone(id)) if id == session.id()), "{refused:?}");
    let refused = session.fork(None).await;
    assert!(matches!(refused, Err(SessionError::Start(StartError::SessionGone(_)))), "{refused:?}");
    assert!(matches!(session.info().await, Err(SessionError::NotFound(_))));
    assert!(matches!(session.delete().await, Err(SessionError::NotFound(_))));
}

#[tokio::test]
async fn removed_record_is_reported() {
    let scene = Scene::open().await;
    let execution = scene.engine.run(CommandSpec::shell("echo")).await.unwrap().execution;
    execution.wait_closed().await;
    scene.engine.forget(execution.id()).unwrap();
    assert!(matches!(execution.output(10), Err(ReadError::Removed)));
    assert!(matches!(execution.follow(0), Err(ReadError::Removed)));
}
