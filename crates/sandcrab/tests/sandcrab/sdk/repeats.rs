//! Which calls the SDK repeats after a lost connection: reads and starts, nothing else.

use std::time::Duration;

use sandcrab_client::api::terminal::TerminalRequest;
use sandcrab_client::{ClientError, Sandbox};
use tokio::task::JoinSet;

use super::sandbox;
use crate::resume::cutting_proxy;
use crate::support::TestServer;

/// A sandbox whose first responses are cut.
async fn behind_cuts(server: &TestServer, cuts: usize) -> (Sandbox, JoinSet<()>) {
    let mut connections = 0;
    let cut_after = move || {
        connections += 1;
        if connections <= cuts { 10 } else { usize::MAX }
    };
    let (address, proxy) = cutting_proxy(server.address(), cut_after).await;
    (Sandbox::connect(&format!("http://{address}"), Some(server.token())).unwrap(), proxy)
}

#[tokio::test]
async fn reads_are_repeated() {
    let server = TestServer::new();
    std::fs::write(server.file("found"), "needle").unwrap();
    let (sandbox, _proxy) = behind_cuts(&server, 3).await;
    assert!(sandbox.ping().await.unwrap().success);
    let (sandbox, _proxy) = behind_cuts(&server, 3).await;
    assert!(sandbox.exists("found").await.unwrap());
    let (sandbox, _proxy) = behind_cuts(&server, 3).await;
    assert_eq!(sandbox.search("needle").await.unwrap().matches.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_survive_a_killed_server() {
    let mut server = TestServer::new();
    let sandbox = sandbox(&server);
    let process = sandbox.start_process("echo kept; sleep 600").await.unwrap();
    process.wait_for_log("kept", None).await.unwrap();
    server.kill();
    let reading = tokio::spawn(async move { process.logs().await });
    // The first attempts are refused.
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.start();
    assert_eq!(reading.await.unwrap().unwrap().stdout, "kept\n");
}

#[tokio::test]
async fn a_wrong_address_fails_at_once() {
    let sandbox = Sandbox::connect("http://127.0.0.1:1", None).unwrap();
    assert!(matches!(sandbox.ping().await, Err(ClientError::Unreachable { .. })));
    assert!(matches!(sandbox.start_process("true").await, Err(ClientError::Unreachable { .. })));
}

/// A terminal that has ended is replaced by one with the same id, so its command would run twice.
#[tokio::test]
async fn other_calls_are_not_repeated() {
    let server = TestServer::new();
    let runs = server.file("runs");
    let (sandbox, _proxy) = behind_cuts(&server, 1).await;
    let command = Some(format!("echo ran >> {}", runs.display()));
    let request = TerminalRequest { command, id: Some("once".into()), ..TerminalRequest::default() };
    let created = sandbox.terminal(request).await;
    assert!(matches!(created, Err(ClientError::ConnectionLost { .. })), "{created:?}");
    sandbox.process("once").await.unwrap().unwrap().wait_for_exit(None).await.unwrap();
    assert_eq!(std::fs::read_to_string(runs).unwrap(), "ran\n");
    let (sandbox, _proxy) = behind_cuts(&server, 1).await;
    let written = sandbox.write_file("file", "x").await;
    assert!(matches!(written, Err(ClientError::ConnectionLost { .. })), "{written:?}");
}
