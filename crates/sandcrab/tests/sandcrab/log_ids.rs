//! The lines of the log about one request have its id, and those of its execution and its session.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::support::{TEST_TIMEOUT, TestServer, eventually};

/// Runs a command in a session, in a request with this id.
fn execute(server: &TestServer, request: &str, body: &Value) {
    let body = body.to_string();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let head = format!(
        "POST /api/execute HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-request-id: {request}\r\n\
         authorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        server.token(),
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn lines_about_a_command_have_the_ids_of_request_execution_and_session() {
    let server = TestServer::with_options(&["--log", "debug", "--log-format", "json"]);
    server.run(&["session", "create", "s"]).with_code(0);
    // The second one is started by a task of its own.
    for (request, on_disconnect) in [("first", "keep"), ("second", "kill")] {
        let id = format!("command-{request}");
        let body = serde_json::json!({
            "command": "true", "sessionId": "s", "processId": id, "onDisconnect": on_disconnect
        });
        execute(&server, request, &body);
        for message in ["started", "ended"] {
            let line = eventually(message, || {
                let log = server.log();
                let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
                lines.find(|line| line["message"] == message && line["execution"] == id.as_str())
            });
            assert_eq!(line["session"], "s", "{line}");
            let span = &line["span"];
            assert_eq!((&span["name"], &span["id"]), (&"request".into(), &request.into()), "{line}");
            assert_eq!((&span["execution"], &span["session"]), (&id.as_str().into(), &"s".into()), "{line}");
        }
    }
    server.stop();
}
