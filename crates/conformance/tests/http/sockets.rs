//! Limits of a WebSocket: bytes of messages, requests and responses, and the time without data.

use std::time::Duration;

use sandcrab_conformance::http::{Socket, TEST_TIMEOUT};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{ServerProcess, with_timeout};

/// A request as the text of a message.
fn ping(id: &str) -> String {
    json!({"type": "request", "id": id, "method": "GET", "path": "/api/ping"}).to_string()
}

async fn answers(socket: &mut Socket) {
    socket.send_text(&ping("ping")).await;
    assert_eq!(socket.response("ping").await["status"], 200);
}

/// Bytes of incomplete messages count with the bodies of all other requests.
#[tokio::test]
async fn unfinished_messages() {
    let server = ServerProcess::start(&["held-body-bytes=10000000"]).await;
    let mut open = server.target.socket().await;
    let mut sockets = Vec::new();
    for is_last in [true, false, true, false] {
        let mut socket = server.target.socket().await;
        socket.begin_message(if is_last { 8_000_000 } else { 4_000_000 }, is_last).await;
        // The server may close the socket before it has read everything.
        drop(socket.send_raw(&[b' '; 4_000_000]).await);
        sockets.push(socket);
    }
    let closed = futures_util::future::select_all(sockets.iter_mut().map(|socket| Box::pin(socket.closed())));
    let ((code, reason), ..) = with_timeout(closed).await;
    assert!(code == 1013 && reason.contains("wait for some to end"), "{code} {reason}");
    // Small messages still pass.
    answers(&mut open).await;
    drop(sockets);
    server.target.until("/api/health", |health| health["counts"]["connections"].as_u64() <= Some(2)).await;
    let mut socket = server.target.socket().await;
    let body = json!({"command": "wc -c", "stdin": "x".repeat(7_000_000)});
    socket.request("1", "POST", "/api/execute", body).await;
    assert_eq!(socket.response("1").await["body"]["stdout"], "7000000\n");
    server.stop().await;
}

/// Control frames between the fragments of a message are not part of it, and are not accumulated.
#[tokio::test]
async fn pings_do_not_accumulate() {
    let server = ServerProcess::start(&["held-body-bytes=100000"]).await;
    let mut socket = server.target.socket().await;
    socket.begin_message(1, false).await;
    socket.send_raw(b"{").await.unwrap();
    let mut ping = vec![0x89, 0x80 | 125, 0, 0, 0, 0];
    ping.extend([b'p'; 125]);
    for _ in 0..4_000 {
        socket.send_raw(&ping).await.unwrap();
    }
    // The last fragment of the message: an invalid frame is refused, and the socket stays usable.
    socket.send_raw(&[0x80, 0x81, 0, 0, 0, 0, b'}']).await.unwrap();
    assert_eq!(socket.frame().await["code"], "VALIDATION_FAILED");
    answers(&mut socket).await;
    server.stop().await;
}

/// Sending a message may take longer than the timeout of a silent client.
#[tokio::test]
async fn slow_sender_stays_connected() {
    let server = ServerProcess::start(&["socket-ping-ms=2000"]).await;
    let mut socket = server.target.socket().await;
    let message = format!("{:200}", ping("slow"));
    socket.begin_message(message.len() as u64, true).await;
    let begun = Instant::now();
    let mut rest = message.as_bytes();
    while begun.elapsed() < Duration::from_secs(8) && rest.len() > 1 {
        let (next, after) = rest.split_at(1);
        socket.send_raw(next).await.unwrap();
        rest = after;
        tokio::time::sleep(Duration::from_millis(75)).await;
    }
    socket.send_raw(rest).await.unwrap();
    assert_eq!(socket.response("slow").await["status"], 200);
    server.stop().await;
}

/// A client that answers pings stays connected; one that does not is disconnected.
#[tokio::test]
async fn dead_client_is_disconnected() {
    let server = ServerProcess::start(&["socket-ping-ms=2000"]).await;
    let mut alive = server.target.socket().await;
    let begun = Instant::now();
    // A socket that is not polled answers nothing.
    let dead = server.target.socket().await;
    let health = server.target.get("/api/health").await.ok();
    assert_eq!(health["counts"]["connections"], 3, "{health}");
    let id = "wait";
    let body = json!({"command": "sleep 300", "executionId": id});
    alive.request(id, "POST", "/api/execute", body).await;
    tokio::select! {
        // It answers pings meanwhile.
        frame = alive.response(id) => panic!("it ended: {frame}"),
        _ = server.target.until("/api/health", |health| health["counts"]["connections"] == 2) => {}
    }
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    answers(&mut alive).await;
    drop(dead);
    server.stop().await;
}

/// A client that sends only the beginning of a message cannot occupy memory forever.
#[tokio::test]
async fn stalled_message() {
    let server = ServerProcess::start(&["socket-ping-ms=100", "body-timeout-ms=500"]).await;
    let mut socket = server.target.socket().await;
    socket.begin_message(4, false).await;
    socket.send_raw(b"half").await.unwrap();
    // It answers pings meanwhile.
    let (code, reason) = with_timeout(socket.closed()).await;
    assert!(code == 1008 && reason.contains("no data of an unfinished message"), "{code} {reason}");
    server.stop().await;
}

/// The bodies of all running requests on one socket share a limit.
#[tokio::test]
async fn running_request_bodies_limit() {
    let server = ServerProcess::start(&[]).await;
    let mut socket = server.target.socket().await;
    let body = |id: &str| json!({"command": "sleep 300", "executionId": id, "stdin": "x".repeat(6_000_000)});
    for id in ["one", "two", "three"] {
        socket.request(id, "POST", "/api/execute", body(id)).await;
    }
    let frame = socket.frame().await;
    assert_eq!((&frame["type"], &frame["id"]), (&json!("error"), &json!("three")));
    assert_eq!((&frame["code"], &frame["status"]), (&json!("LIMIT_EXCEEDED"), &json!(429)));
    // Requests without a body are not affected, and freed space is used again.
    answers(&mut socket).await;
    socket.request("kill", "DELETE", "/api/process/one?signal=KILL", Value::Null).await;
    assert_eq!(socket.response("one").await["body"]["end"]["reason"], "killed");
    socket.request("three", "POST", "/api/execute", body("three")).await;
    server.target.until("/api/process/list?all=true", |list| list.to_string().contains("three")).await;
    server.stop().await;
}

/// If a client does not read its responses, no more of its requests are read.
#[tokio::test]
async fn unread_responses_stop_reading() {
    let server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    let session = target.new_session().await;
    let mut socket = target.socket().await;
    // Each response is a 410 with 1 MB of output, held whole in memory.
    let command = "head -c 1000000 /dev/zero | tr '\\0' x; exit 3";
    let body = json!({"command": command, "sessionId": session});
    let ran = |list: &Value| {
        list["processes"].as_array().unwrap().iter().filter(|process| process["status"] == "failed").count()
    };
    let mut read = 0;
    for number in 0..40 {
        socket.request(&number.to_string(), "POST", "/api/execute", body.clone()).await;
        // One after the other, so that each request meets the responses of those before it.
        let until = target.until("/api/process/list?all=true", |list| ran(list) > number);
        if tokio::time::timeout(TEST_TIMEOUT / 3, until).await.is_err() {
            read = number;
            break;
        }
    }
    // The kernel buffers some for a client that does not read.
    assert!((4..30).contains(&read), "{read} requests were read");
    // Responses arrive in any order.
    let mut unanswered: std::collections::BTreeSet<_> = (0..=read).map(|number| number.to_string()).collect();
    while !unanswered.is_empty() {
        let frame = socket.frame().await;
        assert_eq!(frame["status"], 410, "{frame}");
        assert!(unanswered.remove(frame["id"].as_str().unwrap()), "{} was answered twice", frame["id"]);
    }
    server.stop().await;
}
