//! Which calls the SDK repeats after a lost connection: reads and starts, nothing else.

use std::time::Duration;

use sandcrab_client::api::ErrorCode;
use sandcrab_client::api::terminal::{TerminalRequest, TerminalWaitRequest};
use sandcrab_client::{Client, ClientError, Command, Sandbox};
use tokio::task::JoinSet;

use super::proxies::{Fault, Proxy, faulty_proxy, slow_gateway};
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

/// A sandbox behind a proxy that answers the first requests itself.
async fn behind_answers(server: &TestServer, response: &str, count: usize) -> (Sandbox, Proxy) {
    let proxy = faulty_proxy(server.address(), Fault::Answers(response.to_owned()), count).await;
    (proxy.sandbox(server), proxy)
}

/// A reverse proxy in front of a server that restarts, or that takes longer than the timeout of the proxy.
#[tokio::test]
async fn answers_of_a_proxy_are_lost_connections() {
    let server = TestServer::new();
    for status in ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"] {
        let response = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>"
        );
        let (sandbox, _proxy) = behind_answers(&server, &response, 2).await;
        assert!(sandbox.ping().await.unwrap().success);
        let runs = server.file(&format!("runs-{}", &status[..3]));
        let command = format!("echo ran | tee -a {}", runs.display());
        let (sandbox, _proxy) = behind_answers(&server, &response, 2).await;
        let result = sandbox.exec(Command::new(command.as_str()).kill_on_drop(false)).await.unwrap();
        assert_eq!(result.stdout, "ran\n");
        let (sandbox, _proxy) = behind_answers(&server, &response, 2).await;
        let mut events = sandbox.exec_stream(command.as_str()).await.unwrap();
        while events.next().await.unwrap().is_some() {}
        let (sandbox, _proxy) = behind_answers(&server, &response, 2).await;
        let process = sandbox.start_process(command.as_str()).await.unwrap();
        let (sandbox, _proxy) = behind_answers(&server, &response, 2).await;
        let ended = sandbox.client().wait(process.id(), None).await.unwrap();
        assert_eq!(ended.exit_code, Some(0));
        assert_eq!(std::fs::read_to_string(runs).unwrap(), "ran\n".repeat(3));
        let (sandbox, _proxy) = behind_answers(&server, &response, 1).await;
        let written = sandbox.write_file("file", "x").await;
        assert!(matches!(written, Err(ClientError::ConnectionLost { .. })), "{written:?}");
    }
}

/// How long a server may be away, and a gateway that needs longer to notice it.
const WINDOW: Duration = Duration::from_millis(100);
const GATEWAY_TIMEOUT: Duration = Duration::from_millis(150);

/// Every attempt takes longer than the server may be away.
#[tokio::test]
async fn a_slow_gateway_without_a_server_is_an_error() {
    let server = TestServer::new();
    let process = sandbox(&server).start_process("sleep 600").await.unwrap();
    for status in ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"] {
        let gateway = slow_gateway(server.address(), status, GATEWAY_TIMEOUT, "/", usize::MAX).await;
        let sandbox = gateway.sandbox(&server).with_reconnect_timeout(WINDOW);
        let calls = async {
            let errors = [
                sandbox.ping().await.map(drop),
                sandbox.exec("true").await.map(drop),
                sandbox.client().wait(process.id(), None).await.map(drop),
                match sandbox.exec_stream("true").await {
                    Ok(mut events) => events.next().await.map(drop),
                    Err(error) => Err(error),
                },
            ];
            for error in errors {
                assert!(matches!(error, Err(ClientError::ConnectionLost { .. })), "{error:?}");
            }
        };
        tokio::time::timeout(Duration::from_secs(60), calls).await.expect("the calls give up");
    }
}

/// The server has nothing to answer yet, and is there.
#[tokio::test]
async fn a_wait_outlasts_the_timeout_of_a_gateway() {
    let server = TestServer::new();
    let process = sandbox(&server).start_process("exit 7").await.unwrap();
    let status = "504 Gateway Timeout";
    let gateway = slow_gateway(server.address(), status, GATEWAY_TIMEOUT, "/wait", 3).await;
    let behind = gateway.sandbox(&server).with_reconnect_timeout(WINDOW);
    assert_eq!(behind.client().wait(process.id(), None).await.unwrap().exit_code, Some(7));
}

/// The server is away for the rest of the wait, and could be so for longer.
#[tokio::test(flavor = "multi_thread")]
async fn waits_end_at_their_deadline() {
    let mut server = TestServer::new();
    let sandbox = sandbox(&server);
    let process = sandbox.start_process("exit 7").await.unwrap();
    let terminal = sandbox.terminal("sleep 600").await.unwrap();
    assert_eq!(process.wait_for_exit(Some(Duration::MAX)).await.unwrap().exit_code, Some(7));
    server.kill();
    let patient = sandbox.with_reconnect_timeout(Duration::MAX);
    let limit = Some(Duration::from_millis(50));
    let waits = async {
        let waited = patient.client().wait(process.id(), limit).await;
        assert_eq!(waited.unwrap_err().code(), Some(ErrorCode::WaitTimeout));
        let request = TerminalWaitRequest { timeout_ms: Some(50), ..TerminalWaitRequest::from("never") };
        let waited = patient.client().wait_for_screen(terminal.id(), &request).await;
        assert_eq!(waited.unwrap_err().code(), Some(ErrorCode::WaitTimeout));
    };
    tokio::time::timeout(Duration::from_secs(60), waits).await.expect("the waits end");
}

/// A busy server says when to ask again. A client for the command line tells its user instead, and so does a start.
#[tokio::test]
async fn reads_wait_for_a_busy_server() {
    let server = TestServer::new();
    let body = r#"{"code":"LIMIT_EXCEEDED","message":"too many","context":{},"httpStatus":429,"timestamp":"2026-01-31T12:00:00.000Z","requestId":"r"}"#;
    let response = format!(
        "HTTP/1.1 429 X\r\nretry-after: 1\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let (sandbox, _proxy) = behind_answers(&server, &response, 1).await;
    assert!(sandbox.ping().await.unwrap().success);
    let (sandbox, _proxy) = behind_answers(&server, &response, 1).await;
    let client = Client::connect(&sandbox.client().address().to_string(), Some(server.token())).unwrap();
    assert_eq!(client.ping().await.unwrap_err().code(), Some(ErrorCode::LimitExceeded));
    let (sandbox, _proxy) = behind_answers(&server, &response, usize::MAX).await;
    let refused = [
        sandbox.exec("true").await.map(drop),
        sandbox.start_process("true").await.map(drop),
        sandbox.exec_stream("true").await.map(drop),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().code(), Some(ErrorCode::LimitExceeded));
    }
}

#[tokio::test]
async fn the_time_of_repeats_can_be_chosen() {
    let server = TestServer::new();
    let (sandbox, _proxy) = behind_cuts(&server, 1).await;
    let impatient = sandbox.with_reconnect_timeout(Duration::ZERO);
    assert!(matches!(impatient.ping().await, Err(ClientError::ConnectionLost { .. })));
    assert!(impatient.ping().await.unwrap().success);
}
