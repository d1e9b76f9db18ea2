//! What happens to a command whose caller no longer waits for it.

use std::time::Duration;

use sandcrab_client::api::process::ProcessStatus;
use sandcrab_client::api::session::SessionRequest;
use sandcrab_client::{Command, Sandbox};
use tokio::task::JoinSet;

use super::proxies::{Fault, Proxy, faulty_proxy};
use super::sandbox;
use crate::resume::cutting_proxy;
use crate::support::TestServer;

/// Long enough for a busy machine.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

/// Starts `exec` in a task, and waits until the command runs.
async fn running(sandbox: &Sandbox, command: Command) -> JoinSet<()> {
    let mut calls = JoinSet::new();
    let caller = sandbox.clone();
    calls.spawn(async move { drop(caller.exec(command).await) });
    while sandbox.process("x").await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    calls
}

async fn status(sandbox: &Sandbox) -> ProcessStatus {
    sandbox.process("x").await.unwrap().unwrap().wait_for_exit(PATIENCE).await.unwrap().status
}

#[tokio::test]
async fn dropped_exec_ends_its_command() {
    let server = TestServer::new();
    let sandbox = sandbox(&server);
    let mut calls = running(&sandbox, Command::new("sleep 600").id("x")).await;
    calls.shutdown().await;
    assert_eq!(status(&sandbox).await, ProcessStatus::Killed);
}

#[tokio::test]
async fn dropped_exec_keeps_its_command_if_asked() {
    let server = TestServer::new();
    let sandbox = sandbox(&server);
    let gate = server.file("gate");
    let command = format!("until [ -e {} ]; do sleep 0.01; done", gate.display());
    let mut calls = running(&sandbox, Command::new(command).id("x").kill_on_drop(false)).await;
    calls.shutdown().await;
    // A request on another connection is answered after the server has seen the end of the first one.
    assert_eq!(sandbox.exec("echo other").await.unwrap().stdout, "other\n");
    std::fs::write(gate, "").unwrap();
    assert_eq!(status(&sandbox).await, ProcessStatus::Completed);
}

#[tokio::test]
async fn dropped_stream_ends_its_command() {
    let server = TestServer::new();
    let sandbox = sandbox(&server);
    let mut events = sandbox.exec_stream(Command::new("echo begun; sleep 600").id("x")).await.unwrap();
    events.next().await.unwrap().unwrap();
    drop(events);
    assert_eq!(status(&sandbox).await, ProcessStatus::Killed);
}

#[tokio::test]
async fn detached_stream_keeps_its_command() {
    let server = TestServer::new();
    let sandbox = sandbox(&server);
    let gate = server.file("gate");
    let command = format!("until [ -e {} ]; do sleep 0.01; done", gate.display());
    let events = sandbox.exec_stream(Command::new(command).id("x")).await.unwrap();
    assert_eq!(events.detach(), "x");
    std::fs::write(gate, "").unwrap();
    assert_eq!(status(&sandbox).await, ProcessStatus::Completed);
}

/// The response is lost: the request is repeated, and finds the same command.
#[tokio::test]
async fn kept_exec_survives_lost_connections() {
    let server = TestServer::new();
    let mut connections = 0;
    let cut_after = move || {
        connections += 1;
        if connections < 3 { 10 } else { usize::MAX }
    };
    let (address, _proxy) = cutting_proxy(server.address(), cut_after).await;
    let sandbox = Sandbox::connect(&format!("http://{address}"), Some(server.token())).unwrap();
    let runs = server.file("runs");
    let command = Command::new(format!("echo ran | tee -a {}", runs.display())).kill_on_drop(false);
    assert_eq!(sandbox.exec(command).await.unwrap().stdout, "ran\n");
    assert_eq!(std::fs::read_to_string(runs).unwrap(), "ran\n");
}

/// The server has restarted: the command continues, and the repeated request finds it.
#[tokio::test(flavor = "multi_thread")]
async fn exec_returns_its_result_after_a_server_kill() {
    let mut server = TestServer::new();
    let sandbox = sandbox(&server);
    let gate = server.file("gate");
    let command = Command::new(format!("until [ -e {} ]; do sleep 0.01; done; echo done", gate.display()));
    let caller = sandbox.clone();
    let running = tokio::spawn(async move { caller.exec(command.id("x")).await });
    while sandbox.process("x").await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.kill();
    server.start();
    std::fs::write(gate, "").unwrap();
    let result = running.await.unwrap().unwrap();
    assert_eq!(result.stdout, "done\n", "{result:?}");
}

/// A sandbox behind a fault of the first connection.
async fn behind(server: &TestServer, fault: Fault) -> (Sandbox, Proxy) {
    let proxy = faulty_proxy(server.address(), fault, 1).await;
    (proxy.sandbox(server), proxy)
}

/// Starts a call, and drops it when a condition is true.
async fn dropped_when<T>(call: impl Future<Output = T>, condition: impl AsyncFn() -> bool) {
    tokio::select! {
        _ = call => panic!("the call has returned"),
        () = until(condition) => (),
    }
}

async fn until(condition: impl AsyncFn() -> bool) {
    while !condition().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_that_is_dropped_before_its_answer_ends_its_command() {
    let server = TestServer::new();
    let sandbox = sandbox(&server);
    let (behind, _proxy) = behind(&server, Fault::NoResponse).await;
    let command = Command::new("trap '' TERM; while :; do sleep 0.1; done").id("x").grace(Duration::ZERO);
    dropped_when(behind.exec_stream(command), async || sandbox.process("x").await.unwrap().is_some()).await;
    // Killed at once, with the grace period of the command.
    let end = sandbox.process("x").await.unwrap().unwrap().wait_for_exit(PATIENCE).await.unwrap();
    assert_eq!((end.status, end.exit_code), (ProcessStatus::Killed, Some(137)));
}

/// The request to end the command arrives before the one that starts it.
#[tokio::test(flavor = "multi_thread")]
async fn stream_that_is_dropped_before_its_start_ends_its_command() {
    let server = TestServer::new();
    let sandbox = sandbox(&server);
    let (behind, proxy) = behind(&server, Fault::LateRequest).await;
    tokio::select! {
        _ = behind.exec_stream(Command::new("sleep 600").id("x")) => panic!("the call has returned"),
        () = proxy.seen.request.notified() => (),
    }
    while sandbox.process("x").await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(status(&sandbox).await, ProcessStatus::Killed);
}

/// The caller does not know the id, so nobody else could end it.
#[tokio::test(flavor = "multi_thread")]
async fn starts_that_are_dropped_before_their_answer_leave_nothing() {
    let server = TestServer::new();
    let sandbox = sandbox(&server);
    let sessions = async || !sandbox.list_sessions().await.unwrap().is_empty();
    let (caller, _proxy) = behind(&server, Fault::NoResponse).await;
    dropped_when(caller.create_session(SessionRequest::default()), &sessions).await;
    until(async || !sessions().await).await;
    let processes = async || {
        let list = sandbox.list_processes().await.unwrap();
        list.iter().any(|process| process.initial_info().status == ProcessStatus::Running)
    };
    let (caller, _proxy) = behind(&server, Fault::NoResponse).await;
    dropped_when(caller.start_process("sleep 600"), &processes).await;
    until(async || !processes().await).await;
    let services = async || !sandbox.list_services().await.unwrap().is_empty();
    let (caller, _proxy) = behind(&server, Fault::NoResponse).await;
    dropped_when(caller.start_service("sleep 600"), &services).await;
    until(async || !services().await).await;
    let terminals = async || {
        let list = sandbox.list_terminals().await.unwrap();
        list.iter().any(|terminal| terminal.exit_code.is_none())
    };
    let (caller, _proxy) = behind(&server, Fault::NoResponse).await;
    dropped_when(caller.terminal("sleep 600"), &terminals).await;
    until(async || !terminals().await).await;
}
