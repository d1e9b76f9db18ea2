//! `ports wait`.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::support::TestServer;

/// Answers requests for `/ready` with 204, and others with 500.
fn answer(listener: &TcpListener) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut request = [0; 4096];
        let length = stream.read(&mut request).unwrap_or_default();
        let is_ready = request[..length].starts_with(b"GET /ready ");
        let status = if is_ready { "204 No Content" } else { "500 Internal Server Error" };
        // A check that has timed out has closed the connection.
        drop(write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
    }
}

#[test]
fn wait_ends_when_the_port_is_ready() {
    let server = TestServer::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    assert_eq!(server.run(&["ports", "wait", &port, "--tcp"]).with_code(0).text(), "");
    std::thread::spawn(move || answer(&listener));
    let ready = server.run(&["ports", "wait", &port, "--path", "/ready", "--json"]).with_code(0).json();
    assert_eq!((ready["port"].to_string(), &ready["statusCode"]), (port.clone(), &204.into()));
    let late = server.run(&["ports", "wait", &port, "--timeout", "300ms"]).with_code(75);
    assert!(late.stderr.contains("was not ready within 300ms\nhint: `sandcrab ports`"), "{late:?}");
}

#[test]
fn wait_ends_with_the_process() {
    let server = TestServer::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    drop(listener);
    server.run(&["start", "--id", "web", "exit 3"]).with_code(0);
    let ended = server.run(&["ports", "wait", &port, "--process", "web"]).with_code(1);
    assert!(ended.stderr.contains("process web ended with exit code 3 before port"), "{ended:?}");
    assert!(ended.stderr.contains("hint: `sandcrab logs web` prints its output"), "{ended:?}");
    server.run(&["ports", "wait", &port, "--process", "none"]).with_code(125);
    for invalid in
        [&["ports", "wait"][..], &["ports", "wait", "0"], &["ports", "wait", "1", "--tcp", "--path", "/"]]
    {
        server.run(invalid).with_code(2);
    }
}
