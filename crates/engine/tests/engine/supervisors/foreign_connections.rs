//! Connections to supervisors that are not the engine's.

use std::time::Duration;

use sandcrab_engine::{CommandSpec, EndReason, SessionSpec};

use super::{sockets, supervisor_of_session};
use crate::support::{Place, Seen, cpu_ticks, eventually, supervisor_of};

#[tokio::test]
async fn foreign_socket_does_not_prevent_opening() {
    let place = Place::new();
    drop(place.open().await);
    let socket = place.state().join("supervisors/0000deadbeef");
    let _silent = std::os::unix::net::UnixListener::bind(socket).unwrap();
    let engine = place.open().await;
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
}

#[tokio::test]
async fn foreign_connection_does_not_affect_a_supervisor() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    session.run(CommandSpec::shell("v=kept")).await.unwrap();
    let execution = session.start(CommandSpec::shell("sleep 60")).await.unwrap();
    execution.wait_started().await.unwrap();
    let supervisor = supervisor_of(&execution);
    let socket = sockets(&place)[0].clone();
    let mut held = Vec::new();
    for _ in 0..10 {
        let mut stranger = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        // A request to end everything, as a frame of the protocol.
        std::io::Write::write_all(&mut stranger, &[4, 0, 0, 0, 0x82, 1, 0x81, 9]).unwrap();
        held.push(stranger);
    }
    // One that spins is hardly ever seen asleep.
    let sleeps = || (0..50).all(|_| is_asleep(supervisor));
    eventually("it does not spin", sleeps).await;
    let receipt = execution.kill(9, Duration::ZERO).await.unwrap();
    assert_eq!((receipt.killed.is_empty(), receipt.survivors.len()), (false, 0));
    assert_eq!(execution.wait().await.unwrap().reason, EndReason::Killed);
    let outcome = session.run(CommandSpec::shell("echo $v")).await.unwrap();
    assert_eq!((outcome.stdout().as_str(), outcome.end.restored), ("kept\n", None));
    assert!(supervisor.is_alive());
    session.delete().await.unwrap();
    eventually("all are gone", || place.supervisors().is_empty()).await;
}

/// The descriptors of a process that are sockets.
fn sockets_of(process: Seen) -> usize {
    let files = std::fs::read_dir(format!("/proc/{}/fd", process.pid)).unwrap().flatten();
    let links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

#[tokio::test]
async fn foreign_connections_do_not_prevent_adoption() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    let session = engine.create_session(SessionSpec::new().id("kept".parse().unwrap())).await.unwrap();
    session.run(CommandSpec::shell("v=kept")).await.unwrap();
    let supervisor = supervisor_of_session(&session).await;
    let with_engine = sockets_of(supervisor);
    drop((session, engine));
    eventually("the engine is gone", || sockets_of(supervisor) < with_engine).await;
    let own = sockets_of(supervisor);
    let socket = sockets(&place)[0].clone();
    let connect = || std::os::unix::net::UnixStream::connect(&socket).unwrap();
    // Silent ones, one that says something else, one that begins and does not go on, one with another key.
    let mut strangers: Vec<_> = (0..100).map(|_| connect()).collect();
    let says: [&[u8]; 3] = [
        &[4, 0, 0, 0, 0x82, 1, 0x81, 9],
        &[200, 0, 0, 0, 0x82],
        &[8, 0, 0, 0, 0x82, 1, 0x82, 0, 0x82, 4, 0x41, 7],
    ];
    for bytes in says {
        let mut stranger = connect();
        std::io::Write::write_all(&mut stranger, bytes).unwrap();
        // It hears nothing, and is cut off.
        let mut heard = Vec::new();
        drop(std::io::Read::read_to_end(&mut stranger, &mut heard));
        assert_eq!(heard, []);
    }
    let before = cpu_ticks(supervisor.pid);
    eventually("it lets go of them", || sockets_of(supervisor) <= own).await;
    assert!(cpu_ticks(supervisor.pid) - before < 20, "it spins");
    strangers.extend((0..100).map(|_| connect()));
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    let session = engine.session(&"kept".parse().unwrap()).unwrap();
    let outcome = session.run(CommandSpec::shell("echo $v")).await.unwrap();
    assert_eq!((outcome.stdout().as_str(), outcome.end.restored), ("kept\n", None));
    assert!(supervisor.is_alive());
    session.delete().await.unwrap();
}

/// Whether a process waits for something.
fn is_asleep(process: Seen) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}
