//! `sandcrab mcp`: clients that begin, vanish and lose the server.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_getfl};
use serde_json::{Value, json};

use crate::support::{Mcp, Program, TEST_TIMEOUT, TestServer, eventually, is_alive};

#[test]
fn a_killed_client_leaves_no_command() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    let pid = server.file("pid");
    let command = format!("echo $$ > {}.tmp; mv {0}.tmp {0}; sleep 300; echo", pid.display());
    mcp.send_call("exec", json!({"command": command}), None);
    let pid = eventually("it runs", || std::fs::read_to_string(&pid).ok());
    mcp.call("process_start", json!({"id": "stays", "command": "sleep 300"}));
    mcp.kill();
    eventually("it is killed", || (!is_alive(pid.trim())).then_some(()));
    let listed = server.run(&["ps", "--json"]).with_code(0).json();
    let stays =
        listed["processes"].as_array().unwrap().iter().find(|process| process["id"] == "stays").unwrap();
    assert_eq!(stays["status"], "running");
}

#[test]
fn exec_continues_after_a_server_kill_and_fails_without_a_server() {
    let mut server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    let (started, go) = (server.file("started"), server.file("go"));
    let command = format!(
        "echo before; touch {}; until [ -e {} ]; do sleep 0.01; done; echo after",
        started.display(),
        go.display()
    );
    let id = mcp.send_call("exec", json!({"command": command}), None);
    eventually("it runs", || started.exists().then_some(()));
    server.kill();
    server.start();
    std::fs::write(&go, "").unwrap();
    let result = mcp.response(id)["result"].clone();
    assert_eq!(result["structuredContent"]["stdout"], "before\nafter\n", "{result}");
    server.kill();
    let error = mcp.call("session_list", json!({}));
    assert_eq!(error["isError"], true);
    let code = error["structuredContent"]["error"]["code"].as_str().unwrap();
    assert!(matches!(code, "UNREACHABLE" | "CONNECTION_LOST"), "{error}");
    server.start();
    assert_eq!(mcp.call("session_list", json!({}))["isError"], false);
}

#[test]
fn a_request_before_initialize_is_refused() {
    let server = TestServer::new();
    let request = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n";
    let refused = Program::fed(&mut server.sandcrab(&["mcp"]), request).finish().with_code(0);
    assert_eq!(refused.json()["error"]["code"], -32602, "{refused:?}");
    // A client may leave at once.
    assert_eq!(Program::fed(&mut server.sandcrab(&["mcp"]), b"").finish().with_code(0).text(), "");
}

/// Clients connect the streams to sockets (Node does), and a program that shares their open file may make it non-blocking.
#[test]
fn the_streams_may_be_non_blocking_sockets() {
    let server = TestServer::new();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    ours.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    ours.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
    let mut command = server.sandcrab(&["mcp"]);
    command.stdin(Stdio::from(OwnedFd::from(theirs.try_clone().unwrap())));
    command.stdout(Stdio::from(OwnedFd::from(theirs.try_clone().unwrap())));
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut answers = BufReader::new(ours.try_clone().unwrap()).lines().map(Result::unwrap);
    let mut answer = || serde_json::from_str::<Value>(&answers.next().unwrap()).unwrap();
    let mut send = |message: &Value| writeln!(ours, "{message}").unwrap();
    send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}));
    assert_eq!(answer()["result"]["serverInfo"]["name"], "sandcrab");
    send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    // More than the socket holds: one side waits for space, while the other one writes.
    let input = "x".repeat(1 << 20);
    let arguments = json!({"command": "cat", "stdin": input, "maxOutputBytes": 50_000});
    for id in 2..12 {
        send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "exec", "arguments": arguments}}));
    }
    let mut ids: Vec<_> = (2..12)
        .map(|_| {
            let answer = answer();
            let fields = &answer["result"]["structuredContent"];
            assert_eq!(fields["exitCode"], 0, "{fields}");
            assert!(fields["stdout"].as_str().unwrap().len() > 30_000);
            answer["id"].as_u64().unwrap()
        })
        .collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(2..12));
    // The mode of the streams belongs to the client, too.
    assert!(fcntl_getfl(&theirs).unwrap().contains(OFlags::NONBLOCK));
    drop(theirs);
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(child.wait().unwrap().success());
}
