//! What happens to a command whose caller no longer waits for it.

use std::time::Duration;

use sandcrab_client::api::ErrorCode;
use sandcrab_client::api::process::ProcessStatus;
use sandcrab_client::api::session::SessionRequest;
use sandcrab_client::{Command, ProcessFilter, Sandbox};
use tokio::task::JoinSet;

use super::proxies::{Fault, Proxy, faulty_proxy};
use super::sandbox;
use crate::resume::cutting_proxy;
use crate::support::TestServer;

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts `exec` in a task, and waits until the command runs.
async fn running(sandbox: &Sandbox, command: Command) -> JoinSet<()> {
    let mut calls = JoinSet::new();
    let caller = sandbox.clone();
    calls.spawn(async move { drop(caller.exec(command).await) });
    until("the command runs", async || sandbox.process("x").await.unwrap().is_some()).await;
    calls
}

async fn status(sandbox: &Sandbox) -> ProcessStatus {
    sandbox.process("x").await.unwrap().unwrap().wait_for_exit(Some(PATIENCE)).await.unwrap().status
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
    until("the command runs", async || sandbox.process("x").await.unwrap().is_some()).await;
    server.kill();
    server.start();
    std::fs::write(gate, "").unwrap();
    let result = running.await.unwrap().unwrap();
    assert_eq!(result.stdout, "done\n", "{result:?}");
}

/// The caller has left while there was no connection that the server could see ending.
#[tokio::test(flavor = "multi_thread")]
async fn exec_that_is_dropped_without_a_server_ends_its_command() {
    let mut server = TestServer::new();
    let sandbox = sandbox(&server);
    let mut calls = JoinSet::new();
    let caller = sandbox.clone();
    calls.spawn(async move { drop(caller.exec("sleep 600").await) });
    until("the command runs", async || execution(&sandbox).await.is_some()).await;
    server.kill();
    calls.shutdown().await;
    server.start();
    let id = execution(&sandbox).await.unwrap();
    let end = sandbox.client().wait(&id, Some(PATIENCE)).await.unwrap();
    assert_eq!(end.status, ProcessStatus::Killed);
}

/// A sandbox behind a fault of the first connection.
async fn behind(server: &TestServer, fault: Fault) -> (Sandbox, Proxy) {
    let proxy = faulty_proxy(server.address(), fault, 1).await;
    (proxy.sandbox(server), proxy)
}

/// The id of the only execution.
async fn execution(sandbox: &Sandbox) -> Option<String> {
    let all = ProcessFilter { all: true, ..ProcessFilter::default() };
    Some(sandbox.client().processes(&all).await.unwrap().processes.first()?.id.clone())
}

/// Starts a call, and drops it when a condition is true.
async fn dropped_when<T>(call: impl Future<Output = T>, what: &str, condition: impl AsyncFn() -> bool) {
    tokio::select! {
        _ = call => panic!("the call has returned"),
        () = until(what, condition) => (),
    }
}

/// Polls until a condition is true.
async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let polled = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, polled).await.is_err() {
        panic!("not within {PATIENCE:?}: {what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_that_is_dropped_before_its_answer_ends_its_command() {
    let server = TestServer::new();
    let sandbox = sandbox(&server);
    let (behind, _proxy) = behind(&server, Fault::NoResponse).await;
    let command = Command::new("trap '' TERM; while :; do sleep 0.1; done").grace(Duration::ZERO);
    let runs = async || execution(&sandbox).await.is_some();
    dropped_when(behind.exec_stream(command), "the command runs", runs).await;
    // Killed at once, with the grace period of the command.
    let id = execution(&sandbox).await.unwrap();
    let end = sandbox.client().wait(&id, Some(PATIENCE)).await.unwrap();
    assert_eq!((end.status, end.exit_code), (ProcessStatus::Killed, Some(137)));
}

/// The request to end the command arrives before the one that starts it.
#[tokio::test(flavor = "multi_thread")]
async fn stream_that_is_dropped_before_its_start_ends_its_command() {
    let server = TestServer::new();
    let sandbox = sandbox(&server);
    let (behind, proxy) = behind(&server, Fault::LateRequest).await;
    tokio::select! {
        _ = behind.exec_stream("sleep 600") => panic!("the call has returned"),
        () = proxy.seen.request.notified() => (),
    }
    until("the command runs", async || execution(&sandbox).await.is_some()).await;
    let id = execution(&sandbox).await.unwrap();
    let end = sandbox.client().wait(&id, Some(PATIENCE)).await.unwrap();
    assert_eq!(end.status, ProcessStatus::Killed);
}

/// The id is that of a command that another caller has started.
#[tokio::test]
async fn stream_does_not_end_the_command_of_another_caller() {
    let server = TestServer::new();
    let sandbox = sandbox(&server);
    let gate = server.file("gate");
    let command = format!("until [ -e {} ]; do sleep 0.01; done", gate.display());
    let other = sandbox.start_process(Command::new(command).id("x")).await.unwrap();
    // The refusal does not arrive.
    let (caller, proxy) = behind(&server, Fault::NoResponse).await;
    tokio::select! {
        _ = caller.exec_stream(Command::new("true").id("x")) => panic!("the call has returned"),
        () = proxy.seen.request.notified() => (),
    }
    caller.ping().await.unwrap();
    // The refusal arrives with the second attempt.
    let lost = "HTTP/1.1 502 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned();
    let (caller, _proxy) = behind(&server, Fault::Answers(lost)).await;
    let mut events = caller.exec_stream(Command::new("true").id("x")).await.unwrap();
    assert_eq!(events.next().await.unwrap_err().code(), Some(ErrorCode::ProcessAlreadyExists));
    drop(events);
    caller.ping().await.unwrap();
    std::fs::write(gate, "").unwrap();
    assert_eq!(other.wait_for_exit(Some(PATIENCE)).await.unwrap().status, ProcessStatus::Completed);
}

/// The caller does not know the id, so no other client could end it.
#[tokio::test(flavor = "multi_thread")]
async fn starts_that_are_dropped_before_their_answer_leave_nothing() {
    let server = TestServer::new();
    let sandbox = sandbox(&server);
    let sessions = async || !sandbox.list_sessions().await.unwrap().is_empty();
    let (caller, _proxy) = behind(&server, Fault::NoResponse).await;
    dropped_when(caller.create_session(SessionRequest::default()), "the session exists", &sessions).await;
    until("the session is gone", async || !sessions().await).await;
    let processes = async || {
        let list = sandbox.list_processes().await.unwrap();
        list.iter().any(|process| process.initial_info().status == ProcessStatus::Running)
    };
    let (caller, _proxy) = behind(&server, Fault::NoResponse).await;
    dropped_when(caller.start_process("sleep 600"), "the process exists", &processes).await;
    until("the process is gone", async || !processes().await).await;
    let services = async || !sandbox.list_services().await.unwrap().is_empty();
    let (caller, _proxy) = behind(&server, Fault::NoResponse).await;
    dropped_when(caller.start_service("sleep 600"), "the service exists", &services).await;
    until("the service is gone", async || !services().await).await;
    let terminals = async || {
        let list = sandbox.list_terminals().await.unwrap();
        list.iter().any(|terminal| terminal.exit_code.is_none())
    };
    let (caller, _proxy) = behind(&server, Fault::NoResponse).await;
    dropped_when(caller.terminal("sleep 600"), "the terminal exists", &terminals).await;
    until("the terminal is gone", async || !terminals().await).await;
}
