//! What happens to a command whose caller no longer waits for it.

use std::time::Duration;

use sandcrab_client::api::process::ProcessStatus;
use sandcrab_client::{Command, Sandbox};
use tokio::task::JoinSet;

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
