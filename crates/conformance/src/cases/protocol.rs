//! HTTP itself, including malformed requests.

use serde_json::json;

use crate::http::{Request, Target};

pub(super) async fn keep_alive(target: Target) {
    let mut connection = target.connect().await;
    for number in 0..100 {
        let request = Request::post("/api/execute", &json!({"command": format!("echo {number}")}));
        let result = connection.ask(&request).await.expect("an answer").ok();
        assert_eq!(result["stdout"], format!("{number}\n"));
        connection
            .ask(&Request::get("/api/nothing"))
            .await
            .expect("an answer")
            .refused(404, "ROUTE_NOT_FOUND");
    }
}

/// Requests can be pipelined.
pub(super) async fn pipelined_requests(target: Target) {
    let mut connection = target.connect().await;
    for number in 0..10 {
        let request = Request::post("/api/execute", &json!({"command": format!("echo {number}")}));
        connection.send(&request).await.expect("sent");
    }
    for number in 0..10 {
        let result = connection.answer().await.expect("an answer").ok();
        assert_eq!(result["stdout"], format!("{number}\n"));
    }
}

pub(super) async fn chunked_body(target: Target) {
    let body = b"5\r\n{\"com\r\n4\r\nmand\r\nd\r\n\":\"echo hi\"} \r\n0\r\n\r\n";
    let request = Request::new("POST", "/api/execute")
        .header("content-type", "application/json")
        .header("transfer-encoding", "chunked")
        .body(&body[..]);
    assert_eq!(target.send(request).await.ok()["stdout"], "hi\n");
}

pub(super) async fn expect_continue(target: Target) {
    let body = b"{\"command\":\"echo hi\"}";
    let request = Request::new("POST", "/api/execute")
        .header("content-type", "application/json")
        .header("expect", "100-continue")
        .header("content-length", body.len().to_string());
    let mut connection = target.connect().await;
    connection.send(&request).await.expect("sent");
    assert_eq!(connection.any_head().await.expect("an interim answer").status, 100);
    connection.send_bytes(body).await.expect("sent");
    assert_eq!(connection.answer().await.expect("an answer").ok()["stdout"], "hi\n");
}

/// A body whose declared length is too large is refused before it is sent.
pub(super) async fn body_too_large(target: Target) {
    for path in ["/api/execute", "/api/session/create"] {
        let request = Request::new("POST", path)
            .header("content-type", "application/json")
            .header("content-length", (1_u64 << 40).to_string());
        target.send(request).await.refused(413, "FILE_TOO_LARGE");
    }
}

/// An incomplete body starts nothing.
pub(super) async fn incomplete_body(target: Target) {
    let folder = target.folder().await;
    let body = format!("{{\"command\":\"touch {folder}/ran\"}}");
    let request = Request::new("POST", "/api/execute")
        .header("content-type", "application/json")
        .header("content-length", (body.len() + 1).to_string())
        .body(body);
    let mut connection = target.connect().await;
    connection.send(&request).await.expect("sent");
    connection.finish_sending().await.expect("half closed");
    if let Ok(answer) = connection.answer().await {
        assert_eq!(answer.status(), 400, "{answer:?}");
    }
    assert_eq!(target.shell(&format!("ls {folder}")).await["stdout"], "");
    target.remove(&folder).await;
}

pub(super) async fn head_request(target: Target) {
    let answer = target.send(Request::new("HEAD", "/api/ping")).await;
    assert_eq!((answer.status(), answer.body.len()), (200, 0));
}

/// None of these gets a 500 response, and the server continues.
pub(super) async fn malformed_http(target: Target) {
    let host = target.authority();
    for bytes in [
        "\r\n\r\n\r\n".to_owned(),
        "hello\r\n\r\n".to_owned(),
        "GET / HTTP/9.9\r\n\r\n".to_owned(),
        format!("GET /api/ping HTTP/1.1\r\nhost: {host}\r\nbad header\r\n\r\n"),
        format!("GET /api/ping HTTP/1.1\r\nhost: {host}\r\nx: {}\r\n\r\n", "y".repeat(1 << 20)),
        format!(
            "POST /api/execute HTTP/1.1\r\nhost: {host}\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx"
        ),
        format!("POST /api/execute HTTP/1.1\r\nhost: {host}\r\ncontent-length: -1\r\n\r\n"),
        format!("POST /api/execute HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
        "\0\u{1}\u{16}\u{3}\u{1}".to_owned(),
    ] {
        let mut connection = target.connect().await;
        // The server may close the connection before it has read everything.
        drop(connection.send_bytes(bytes.as_bytes()).await);
        drop(connection.finish_sending().await);
        if let Ok(answer) = connection.answer().await {
            assert!((400..500).contains(&answer.status()), "{bytes:?}: {answer:?}");
        }
    }
    target.get("/api/ping").await.ok();
}

/// Requests that a proxy may interpret differently are refused and not executed.
pub(super) async fn ambiguous_requests(target: Target) {
    let (host, folder) = (target.authority().to_owned(), target.folder().await);
    let token = target.token().map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let body = format!("{{\"command\":\"touch {folder}/ran\"}}");
    let (length, chunk) = (body.len(), format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()));
    let post = "POST /api/execute HTTP/1.1\r\n";
    for bytes in [
        format!("{post}host: {host}\r\n{token}transfer-encoding: gzip, chunked\r\n\r\n{chunk}"),
        format!(
            "{post}host: {host}\r\n{token}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n{chunk}"
        ),
        format!("{post}host: {host}\r\nhost: {host}\r\n{token}content-length: {length}\r\n\r\n{body}"),
        format!("{post}host: {host}\r\n{token}x: y\r\n folded\r\ncontent-length: {length}\r\n\r\n{body}"),
        format!("{post}host : {host}\r\n{token}content-length: {length}\r\n\r\n{body}"),
        format!(
            "POST http://other.localhost/api/execute HTTP/1.1\r\nhost: {host}\r\n{token}content-length: {length}\r\n\r\n{body}"
        ),
        format!(
            "POST http://evil.example/api/execute HTTP/1.1\r\nhost: evil.example\r\n{token}content-length: {length}\r\n\r\n{body}"
        ),
    ] {
        let mut connection = target.connect().await;
        drop(connection.send_bytes(bytes.as_bytes()).await);
        let answer = connection.answer().await.expect("an answer");
        assert!((400..500).contains(&answer.status()), "{bytes:?}: {answer:?}");
        let is_closed = connection.ask(&Request::get("/api/ping")).await.is_err();
        assert!(
            is_closed || !bytes.contains("\r\nhost: ") || answer.status() == 403,
            "{bytes:?} left it open"
        );
    }
    assert_eq!(target.shell(&format!("ls {folder}")).await["stdout"], "");
    // With both a length and chunks, the chunks count, and the connection is closed after them: neither
    // reading can smuggle in another request.
    for framing in
        ["content-length: 3\r\ntransfer-encoding: chunked", "transfer-encoding: chunked\r\ncontent-length: 3"]
    {
        let run = |name: &str| {
            let body = format!("{{\"command\":\"touch {folder}/{name}\"}}");
            format!("{post}host: {host}\r\n{token}content-length: {}\r\n\r\n{body}", body.len())
        };
        let (inside, after) = (run("inside"), run("after"));
        let head = format!("{post}host: {host}\r\n{token}{framing}\r\n\r\n");
        let smuggled = format!("{head}{:x}\r\n{inside}\r\n0\r\n\r\n{after}", inside.len());
        let mut connection = target.connect().await;
        connection.send_bytes(smuggled.as_bytes()).await.expect("sent");
        let answer = connection.answer().await.expect("an answer");
        assert_eq!((answer.status(), answer.header("connection")), (400, Some("close")), "{answer:?}");
        assert!(connection.answer().await.is_err(), "a second request was answered");
        assert_eq!(target.shell(&format!("ls {folder}")).await["stdout"], "");
    }
    // An absolute target with the same host is allowed.
    let whole = format!("GET http://{host}/api/ping HTTP/1.1\r\nhost: {host}\r\n{token}\r\n");
    let mut connection = target.connect().await;
    connection.send_bytes(whole.as_bytes()).await.expect("sent");
    connection.answer().await.expect("an answer").ok();
    target.remove(&folder).await;
}

/// A duplicate of a single-value header is refused, even with the same value.
pub(super) async fn duplicate_headers(target: Target) {
    let (host, folder) = (target.authority().to_owned(), target.folder().await);
    let token = target.token().map(|token| format!("Bearer {token}")).unwrap_or_default();
    let body = format!("{{\"command\":\"touch {folder}/ran\"}}");
    for (name, first, second) in [
        ("idempotency-key", "a", "a"),
        ("Idempotency-Key", "a", "b"),
        ("x-session-id", "a", "__DISABLE_SESSION__"),
        ("last-event-id", "1", "2"),
        ("x-request-id", "a", "b"),
        ("content-encoding", "identity", "identity"),
        ("content-type", "application/json", "text/plain"),
        ("range", "bytes=0-1", "bytes=0-1"),
        ("origin", "http://127.0.0.1", "http://127.0.0.1"),
        ("authorization", token.as_str(), token.as_str()),
        ("authorization", "Bearer wrong", token.as_str()),
        ("authorization", token.as_str(), "Bearer wrong"),
    ] {
        let own = if name == "authorization" { String::new() } else { format!("authorization: {token}\r\n") };
        let head = format!("POST /api/execute/stream HTTP/1.1\r\nhost: {host}\r\n{own}{name}: {first}\r\n");
        let head = format!("{head}{name}: {second}\r\ncontent-length: {}\r\n\r\n", body.len());
        let mut connection = target.connect().await;
        connection.send_bytes(format!("{head}{body}").as_bytes()).await.expect("sent");
        let refusal = connection.answer().await.expect("an answer").refused(400, "VALIDATION_FAILED");
        assert_eq!(refusal["context"]["field"], name.to_ascii_lowercase(), "{refusal}");
    }
    let mut socket = target.socket().await;
    let frame = json!({"type": "request", "id": "1", "method": "POST", "path": "/api/execute",
        "headers": {"idempotency-key": "a", "Idempotency-Key": "b"}, "body": {"command": format!("touch {folder}/ran")}});
    socket.send(&frame).await;
    assert_eq!(socket.response("1").await["status"], 400);
    assert_eq!(target.shell(&format!("ls {folder}")).await["stdout"], "");
    target.remove(&folder).await;
}

/// A token in a subprotocol only authorizes WebSocket requests.
pub(super) async fn token_position(target: Target) {
    let Some(token) = target.token().map(str::to_owned) else { return };
    let open = target.with_token(None);
    let offer = Request::get("/api/ping").header("sec-websocket-protocol", format!("bearer.{token}"));
    open.send(offer.clone()).await.refused(401, "UNAUTHORIZED");
    open.send(offer.header("upgrade", "websocket")).await.refused(401, "UNAUTHORIZED");
    // Two tokens are ambiguous, also if both are right.
    let upgrade = Request::get("/ws")
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    for (offered, authorization) in [
        (format!("bearer.{token}, bearer.{token}"), None),
        (format!("bearer.{token}, bearer.wrong"), None),
        (format!("bearer.{token}, bearer64.wrong"), None),
        (format!("bearer.{token}"), Some(format!("Bearer {token}"))),
        ("x, bearer.wrong".to_owned(), Some(format!("Bearer {token}"))),
    ] {
        let mut request = upgrade.clone().header("sec-websocket-protocol", offered);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let refusal = open.send(request).await.refused(400, "VALIDATION_FAILED");
        assert_eq!(refusal["context"]["field"], "sec-websocket-protocol", "{refusal}");
    }
}

/// Many headers, long paths and unusual bytes are refused or ignored.
pub(super) async fn unusual_requests(target: Target) {
    let mut request = Request::get("/api/ping");
    for number in 0..60 {
        request = request.header(&format!("x-{number}"), "y".repeat(100));
    }
    target.send(request).await.ok();
    let long = format!("/api/process/{}", "x".repeat(8_000));
    target.get(long).await.refused(404, "PROCESS_NOT_FOUND");
    for query in ["a=b&".repeat(1_000), "%zz=%ff".into()] {
        target.get(format!("/api/ping?{query}")).await.refused(400, "VALIDATION_FAILED");
    }
}

/// A client that sends half a request does not block others.
pub(super) async fn incomplete_request(target: Target) {
    let mut halves = Vec::new();
    for _ in 0..200 {
        let mut connection = target.connect().await;
        connection.send_bytes(b"POST /api/execute HTTP/1.1\r\nhost: x").await.expect("sent");
        halves.push(connection);
    }
    assert_eq!(target.shell("echo hi").await["stdout"], "hi\n");
}
