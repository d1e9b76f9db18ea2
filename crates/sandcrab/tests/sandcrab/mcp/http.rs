//! `/mcp` of a server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{TEST_TIMEOUT, TestServer, eventually, is_alive};

/// Sends a message to `/mcp`; returns the whole response.
fn post(server: &TestServer, headers: &str, message: &Value) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let body = message.to_string();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_tools_are_served_over_http() {
    let server = TestServer::new();
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let refused = post(&server, "", &initialize);
    assert!(refused.starts_with("HTTP/1.1 401 ") && refused.contains("UNAUTHORIZED"), "{refused}");
    let token = format!("authorization: Bearer {}\r\n", server.token());
    let foreign = post(&server, &format!("{token}origin: http://evil.example\r\n"), &initialize);
    assert!(foreign.starts_with("HTTP/1.1 403 "), "{foreign}");
    let initialized = post(&server, &token, &initialize);
    assert!(
        initialized.starts_with("HTTP/1.1 200 ") && initialized.contains("\"serverInfo\""),
        "{initialized}"
    );
    let session = initialized.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let headers = format!("{token}mcp-session-id: {session}\r\nmcp-protocol-version: 2025-06-18\r\n");
    post(&server, &headers, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let call = |id: u32, command: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "exec", "arguments": {"command": command}}})
    };
    let answer = post(&server, &headers, &call(2, "echo over http"));
    assert!(answer.contains("\"stdout\":\"over http\\n\""), "{answer}");
    // A cancelled call ends its command.
    let pid = server.file("pid");
    let command = format!("echo $$ > {}.tmp; mv {0}.tmp {0}; sleep 300; echo", pid.display());
    std::thread::scope(|scope| {
        let (call, headers, server) = (&call, &headers, &server);
        let cancelled = scope.spawn(move || post(server, headers, &call(3, &command)));
        let pid = eventually("it runs", || std::fs::read_to_string(&pid).ok());
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
        post(server, headers, &cancel);
        eventually("it is killed", || (!is_alive(pid.trim())).then_some(()));
        // Ends the streams of the session.
        delete(server, headers);
        assert!(!cancelled.join().unwrap().contains("\"result\""));
    });
    let unknown = post(&server, &headers, &call(4, "true"));
    assert!(unknown.starts_with("HTTP/1.1 404 "), "{unknown}");
}

/// Sends a call to `/mcp`, and returns the connection and the id of the first event: the call reports its start.
fn begin(server: &TestServer, headers: &str, id: u32, command: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "exec", "arguments": {"command": command}, "_meta": {"progressToken": id}}})
    .to_string();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    let mut event = None;
    loop {
        let line = lines.next().unwrap();
        if let Some(id) = line.strip_prefix("id:") {
            event = Some(id.trim().to_owned());
        }
        if line.contains("started execution") {
            break;
        }
    }
    // The id may follow the data.
    let event = event.filter(|id| id.contains('/'));
    let event =
        event.or_else(|| lines.find_map(|line| line.strip_prefix("id:").map(|id| id.trim().to_owned())));
    (stream, event.unwrap())
}

/// Begins a session of `/mcp`; returns the headers of its requests.
fn session(server: &TestServer) -> String {
    let token = format!("authorization: Bearer {}\r\n", server.token());
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let initialized = post(server, &token, &initialize);
    let session = initialized.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let headers = format!("{token}mcp-session-id: {session}\r\nmcp-protocol-version: 2025-06-18\r\n");
    post(server, &headers, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    headers
}

/// Resumes the stream of a call after an event.
fn resume(server: &TestServer, headers: &str, event: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    write!(
        stream,
        "GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n{headers}last-event-id: {event}\r\n\r\n"
    )
    .unwrap();
    stream
}

/// The network of a client fails without a word, it resumes on a new connection, and vanishes.
#[test]
fn a_vanished_client_that_has_resumed_ends_its_command() {
    let server = TestServer::new();
    let headers = session(&server);
    let pid = server.file("pid");
    let command = format!("echo $$ > {}.tmp; mv {0}.tmp {0}; sleep 300; echo", pid.display());
    let (half_open, event) = begin(&server, &headers, 2, &command);
    let pid = eventually("it runs", || std::fs::read_to_string(&pid).ok());
    let mut resumed = resume(&server, &headers, &event);
    let mut beginning = [0; 12];
    resumed.read_exact(&mut beginning).unwrap();
    assert_eq!(&beginning, b"HTTP/1.1 200");
    drop(resumed);
    eventually("it is killed", || (!is_alive(pid.trim())).then_some(()));
    drop(half_open);
}

/// A client with a session that vanishes ends its command, as one without a session does. One that resumes does not.
#[test]
fn a_vanished_client_of_a_session_ends_its_command() {
    let server = TestServer::new();
    let headers = session(&server);
    let (gate, pid) = (server.file("gate"), server.file("pid"));
    let waits = format!("until [ -e {} ]; do sleep 0.01; done; echo resumed", gate.display());
    let (resumed, event) = begin(&server, &headers, 2, &waits);
    drop(resumed);
    let resumed = resume(&server, &headers, &event);
    let command = format!("echo $$ > {}.tmp; mv {0}.tmp {0}; sleep 300; echo", pid.display());
    let (vanishes, _) = begin(&server, &headers, 3, &command);
    let pid = eventually("it runs", || std::fs::read_to_string(&pid).ok());
    drop(vanishes);
    eventually("it is killed", || (!is_alive(pid.trim())).then_some(()));
    // The other call lost its first connection earlier, and still runs.
    std::fs::write(gate, "").unwrap();
    let result = BufReader::new(resumed).lines().map(Result::unwrap).find(|line| line.contains("\"result\""));
    assert!(result.as_ref().is_some_and(|result| result.contains("\"stdout\":\"resumed\\n\"")), "{result:?}");
}

/// Ends a session of `/mcp`.
fn delete(server: &TestServer, headers: &str) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "DELETE /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
}

#[test]
fn an_open_stream_does_not_delay_the_stop_of_a_server() {
    let server = TestServer::with_options(&["--drain-window", "300s"]);
    let token = format!("authorization: Bearer {}\r\n", server.token());
    let initialized = post(
        &server,
        &token,
        &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}),
    );
    let session = initialized.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(
        stream,
        "GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n{token}mcp-session-id: {session}\r\n\r\n"
    )
    .unwrap();
    let mut beginning = [0; 12];
    stream.read_exact(&mut beginning).unwrap();
    assert_eq!(&beginning, b"HTTP/1.1 200");
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed().as_secs() < 200, "{:?}", begun.elapsed());
}

/// Commands, files and errors may have secrets: they are in no log, whatever the level.
#[test]
fn what_clients_send_is_not_logged() {
    const SECRET: &str = "s3cr3t";
    for level in ["info", "trace"] {
        let server = TestServer::with_options(&["--log", level]);
        let headers = session(&server);
        let send = |method: &str, params: Value| {
            post(&server, &headers, &json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params}))
        };
        let call =
            |tool: &str, arguments: Value| send("tools/call", json!({"name": tool, "arguments": arguments}));
        let output = call("exec", json!({"command": format!("echo {SECRET}; exit 3")}));
        assert!(output.contains(SECRET), "{output}");
        call("exec", json!({"command": 7, (SECRET): SECRET}));
        call("file_write", json!({"path": "f", "content": SECRET}));
        call(SECRET, json!({}));
        send(SECRET, json!({"a": SECRET}));
        send("resources/read", json!({"uri": format!("{SECRET}://{SECRET}")}));
        for method in ["notifications/cancelled", SECRET] {
            let params = json!({"requestId": 77, "reason": SECRET});
            post(&server, &headers, &json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
        post(&server, &headers, &json!({"jsonrpc": "2.0", "id": 9, "result": {"a": SECRET}}));
        post(&server, &headers, &json!(SECRET));
        let log = server.log();
        server.stop();
        assert_eq!(log.lines().find(|line| line.contains(SECRET)), None, "{level}");
    }
}
