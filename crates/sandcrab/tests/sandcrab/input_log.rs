//! What is typed may be a password: it is in no log, whatever the level.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{TEST_TIMEOUT, TestServer, eventually};

/// Opcodes of WebSocket messages.
const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;

/// The beginning of everything secret in this test. The rest says which way it took.
const SECRET: &str = "s3cr3t-";

/// Sends a request, and returns its connection after the head of the response.
fn open(server: &TestServer, head: &str, body: &[u8]) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let request = format!(
        "{head}\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
        server.token(),
        body.len()
    );
    stream.write_all(&[request.as_bytes(), body].concat()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let answer = String::from_utf8(answer).unwrap();
    (stream, answer)
}

/// Posts a body; returns the status.
fn post(server: &TestServer, path: &str, kind: &str, body: &str) -> String {
    let head = format!("POST {path} HTTP/1.1\r\nconnection: close\r\ncontent-type: {kind}");
    open(server, &head, body.as_bytes()).1.split(' ').nth(1).unwrap().to_owned()
}

/// Opens a WebSocket.
fn socket(server: &TestServer, path: &str) -> TcpStream {
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                   sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
    let (stream, answer) = open(server, &format!("GET {path} HTTP/1.1\r\n{upgrade}"), b"");
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    stream
}

/// Sends a message of at most 64 KiB, with a mask of zeros.
fn send(stream: &mut TcpStream, opcode: u8, payload: &str) {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [opcode, 0x80 | 126, length[0], length[1], 0, 0, 0, 0];
    stream.write_all(&[&head, payload.as_bytes()].concat()).unwrap();
}

/// Reads until this text.
fn until(stream: &mut TcpStream, text: &str) {
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    while !seen.windows(text.len()).any(|part| part == text.as_bytes()) {
        let length = stream.read(&mut piece).unwrap();
        assert!(length > 0, "the connection ended before {text:?}");
        seen.extend_from_slice(&piece[..length]);
    }
}

/// The forms in which a log might contain bytes.
fn forms(bytes: &[u8]) -> Vec<String> {
    let joined =
        |format: fn(&u8) -> String, between: &str| bytes.iter().map(format).collect::<Vec<_>>().join(between);
    vec![
        String::from_utf8_lossy(bytes).into_owned(),
        joined(|byte| format!("{byte:02x}"), ""),
        joined(|byte| format!("{byte:02X}"), ""),
        joined(|byte| format!("{byte:02x}"), " "),
        joined(|byte| byte.to_string(), ", "),
    ]
}

#[test]
fn input_is_in_no_log() {
    for format in ["text", "json"] {
        let server = TestServer::with_options(&["--log", "trace", "--log-format", format]);
        let copy = server.file("copy");
        let program = format!("stty raw -echo; exec cat >{}", copy.display());
        server.run(&["terminal", "create", "--id", "t", "--", "bash", "-c", &program]).with_code(0);
        server
            .run(&["session", "create", "s", "-e", &format!("HOME={}", server.dir().display())])
            .with_code(0);
        let secret = |way: &str| format!("{SECRET}{way}.");
        let input = "/api/terminal/t/input";
        // Ways that reach the program.
        assert_eq!(post(&server, input, "application/octet-stream", &secret("raw")), "200");
        let text = format!(r#"{{"text":"{}"}}"#, secret("text"));
        assert_eq!(post(&server, input, "application/json", &text), "200");
        let keys: Vec<String> = secret("keys").chars().map(String::from).collect();
        let keys = serde_json::json!({ "keys": keys }).to_string();
        assert_eq!(post(&server, input, "application/json", &keys), "200");
        server.run(&["terminal", "send", "t", &secret("command-line")]).with_code(0);
        let mut viewer = socket(&server, "/ws/terminal?terminalId=t");
        send(&mut viewer, BINARY, &secret("viewer"));
        let mut multiplexed = socket(&server, "/ws");
        let frame = format!(
            r#"{{"type":"request","id":"1","method":"POST","path":"{input}","headers":{{"content-type":"application/json"}},"body":{{"text":"{}"}}}}"#,
            secret("multiplexed")
        );
        send(&mut multiplexed, TEXT, &frame);
        let mut pty = socket(&server, "/ws/pty?sessionId=s");
        let pasted = server.file("pasted");
        send(&mut pty, BINARY, &format!("echo {} >{}\r", secret("pty"), pasted.display()));
        let arrived = |file: &std::path::Path, way: &str| {
            eventually(way, || std::fs::read_to_string(file).ok()?.contains(&secret(way)).then_some(()));
        };
        for way in ["raw", "text", "keys", "command-line", "viewer", "multiplexed"] {
            arrived(&copy, way);
        }
        arrived(&pasted, "pty");
        // Mistakes: input where something else is expected.
        for stream in [&mut viewer, &mut multiplexed] {
            send(stream, TEXT, &secret("frame"));
            until(stream, "VALIDATION_FAILED");
        }
        for body in [
            format!(r#"{{"keys":["{0}"]}}"#, secret("key")),
            format!(r#"{{"text":["{0}"]}}"#, secret("array")),
        ] {
            assert_eq!(post(&server, input, "application/json", &body), "400");
        }
        assert_eq!(post(&server, input, "application/json", &secret("no-json")), "400");
        server.run(&["terminal", "delete", "t"]).with_code(0);
        let log = server.log();
        server.stop();
        assert!(log.contains("answered"), "the log has no requests: {log}");
        for form in forms(SECRET.as_bytes()) {
            let line = log.lines().find(|line| line.contains(&form));
            assert_eq!(line, None, "the log has input");
        }
    }
}
