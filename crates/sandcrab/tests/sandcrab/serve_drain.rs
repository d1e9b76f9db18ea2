//! Running requests when a server stops or is killed.

use std::thread;

use rustix::process::Signal;

use crate::support::{Serve, TestDir, ended, eventually, kill_and_wait};

/// A command that reports its start, and ends on request.
const WAITS: &str =
    r#"{"command": "touch begun; until [ -e go ]; do sleep 0.01; done; echo done", "executionId": "waits"}"#;

fn begun(place: &TestDir) {
    eventually("the command has begun", || place.file("begun").exists().then_some(()));
}

fn go(place: &TestDir) {
    std::fs::write(place.file("go"), "").unwrap();
}

fn stopping(serve: &Serve) {
    eventually("it is stopping", || serve.log().contains("stopping").then_some(()));
}

#[test]
fn only_the_token_authorizes() {
    let place = TestDir::new();
    let serve = place.serve(&[]);
    let body = r#"{"command": "echo hello"}"#;
    let answer = serve.ask(&place, "POST /api/execute", body).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("hello\\n"), "{answer}");
    let answer = crate::support::ask(&serve.address, "POST /api/execute", "wrong", body).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    serve.stop();
}

#[test]
fn running_requests_finish_and_new_ones_are_refused() {
    let place = TestDir::new();
    let mut serve = place.serve(&["--drain-window", "1h"]);
    thread::scope(|scope| {
        let running = scope.spawn(|| serve.ask(&place, "POST /api/execute", WAITS).unwrap());
        begun(&place);
        serve.signal(Signal::TERM);
        stopping(&serve);
        let refused = serve.ask(&place, "POST /api/execute", r#"{"command": "true"}"#).unwrap();
        assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("SHUTTING_DOWN"), "{refused}");
        go(&place);
        let answer = running.join().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("done\\n"), "{answer}");
    });
    assert_eq!(ended(&mut serve.child).code(), Some(0), "{}", serve.log());
}

#[test]
fn drain_window_ends_and_the_next_server_has_the_result() {
    let place = TestDir::new();
    let mut serve = place.serve(&["--drain-window", "100ms"]);
    thread::scope(|scope| {
        let running = scope.spawn(|| serve.ask(&place, "POST /api/execute", WAITS));
        begun(&place);
        serve.signal(Signal::TERM);
        let answer = running.join().unwrap().unwrap_or_default();
        assert!(!answer.contains("done\\n"), "{answer}");
    });
    assert_eq!(ended(&mut serve.child).code(), Some(0), "{}", serve.log());
    drop(serve);
    let serve = place.serve(&[]);
    go(&place);
    let ended = serve.ask(&place, "GET /api/process/waits/wait?timeoutMs=20000", "").unwrap();
    assert!(ended.contains("\"exitCode\":0"), "{ended}");
    serve.stop();
}

#[test]
fn command_outlives_its_server() {
    let place = TestDir::new();
    let serve = place.serve(&[]);
    thread::scope(|scope| {
        let running = scope.spawn(|| serve.ask(&place, "POST /api/execute", WAITS));
        begun(&place);
        kill_and_wait(serve.server());
        assert!(!running.join().unwrap().unwrap_or_default().contains("done\\n"));
    });
    go(&place);
    let ended = serve.ask(&place, "GET /api/process/waits/wait?timeoutMs=20000", "").unwrap();
    assert!(ended.contains("\"exitCode\":0"), "{ended}");
    let logs = serve.ask(&place, "GET /api/process/waits/logs", "").unwrap();
    assert!(logs.contains("done\\n"), "{logs}");
    serve.stop();
}
