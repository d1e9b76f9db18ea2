//! Supervisors that do not answer.

use std::time::Duration;

use sandcrab_engine::{CommandSpec, EndReason, SessionSpec};

use super::{sockets, stop, supervisor_of_session};
use crate::support::{Place, Seen, eventually, id, supervisor_of};

/// Greets an engine as a supervisor without work does, once, and says nothing more. As long as the connection is open,
/// it is not proved to be dead.
fn greet_once(listener: &std::os::unix::net::UnixListener) -> std::os::unix::net::UnixStream {
    use std::io::{Read, Write};
    let (mut engine, _) = listener.accept().unwrap();
    // The `Hello` that authenticates the connection has the number 0, and no reply.
    let mut number = Vec::new();
    while number.is_empty() {
        let mut length = [0; 4];
        engine.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_le_bytes(length) as usize];
        engine.read_exact(&mut frame).unwrap();
        // An array of two, whose first is a number of eight bytes.
        if frame[..2] == [0x82, 0x1b] {
            number = frame[1..10].to_vec();
        }
    }
    // `Welcome`: version 4, process 1, the role without work, no executions.
    let welcome = [&[0x82][..], &number, &[0x82, 0, 0x84, 4, 1, 0x82, 0, 0x80, 0x80]].concat();
    let length = u32::try_from(welcome.len()).unwrap().to_le_bytes();
    engine.write_all(&[&length[..], &welcome].concat()).unwrap();
    engine
}

#[tokio::test]
async fn supervisor_silent_after_its_greeting_does_not_prevent_opening() {
    let place = Place::new();
    drop(place.open().await);
    let listener =
        std::os::unix::net::UnixListener::bind(place.state().join("supervisors/0000deadbeef")).unwrap();
    let greeted = std::thread::spawn(move || greet_once(&listener));
    let engine = tokio::time::timeout(Duration::from_secs(60), place.open()).await.unwrap();
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    drop(greeted.join().unwrap());
}

#[tokio::test]
async fn supervisor_that_does_not_accept_yet_is_not_dead() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    let session = engine.create_session(SessionSpec::new().id("kept".parse().unwrap())).await.unwrap();
    session.run(CommandSpec::shell("v=kept")).await.unwrap();
    let supervisor = supervisor_of_session(&session).await;
    drop((session, engine));
    eventually("the engine is closed", || place.zygotes().is_empty()).await;
    stop(supervisor);
    // As many as it lets wait; the next is refused.
    let address = rustix::net::SocketAddrUnix::new(sockets(&place)[0].as_path()).unwrap();
    let mut waiting = Vec::new();
    loop {
        let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
        let (family, kind) = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM);
        let socket = rustix::net::socket_with(family, kind, flags, None).unwrap();
        match rustix::net::connect(&socket, &address) {
            Ok(()) => waiting.push(socket),
            Err(e) => break assert_eq!(e, rustix::io::Errno::AGAIN),
        }
    }
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    drop(waiting);
    let session = engine.session(&"kept".parse().unwrap()).unwrap();
    let outcome = session.run(CommandSpec::shell("echo $v")).await.unwrap();
    assert_eq!((outcome.stdout().as_str(), outcome.end.restored), ("kept\n", None));
    assert!(supervisor.is_alive());
    session.delete().await.unwrap();
}

/// A process that looks like a supervisor, listens on its socket and answers nothing.
fn silent_supervisor(place: &Place, socket: &std::path::Path) -> std::process::Child {
    use std::os::unix::process::CommandExt;
    std::fs::remove_file(socket).unwrap();
    let folder = std::fs::File::open(place.state().join("supervisors")).unwrap();
    let path = format!(
        "/proc/self/fd/{}/{}",
        std::os::fd::AsRawFd::as_raw_fd(&folder),
        socket.file_name().unwrap().to_str().unwrap()
    );
    let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
    // Named as the kernel names a supervisor. It blocks when the pipe that is its output is full.
    let program = place.file("sandcrab-super");
    std::fs::copy("/usr/bin/yes", &program).unwrap();
    let state = place.state().canonicalize().unwrap();
    let mut command = std::process::Command::new(program);
    command.arg0("sandcrab-zygote").arg(state).stdin(std::os::fd::OwnedFd::from(listener));
    command.stdout(std::process::Stdio::piped()).spawn().unwrap()
}

#[tokio::test]
async fn silent_supervisor_is_killed_before_its_executions_are_lost() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    let execution = engine.start(CommandSpec::shell("sleep 60").id(id("silent"))).await.unwrap();
    let supervisor = supervisor_of(&execution);
    drop((execution, engine));
    eventually("the engine is closed", || place.zygotes().is_empty()).await;
    supervisor.kill();
    eventually("it is dead", || !supervisor.is_alive()).await;
    let mut child = silent_supervisor(&place, &sockets(&place)[0]);
    let silent = Seen::of(child.id()).unwrap();
    let engine = place.open().await;
    let execution = engine.execution(&id("silent")).unwrap();
    assert!(execution.status().end().is_none() && silent.is_alive());
    let end = execution.wait().await.unwrap();
    let is_alive = silent.is_alive();
    child.wait().unwrap();
    assert_eq!((end.reason, is_alive), (EndReason::Lost, false));
}
