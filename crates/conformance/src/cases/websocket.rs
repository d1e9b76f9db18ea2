//! The multiplexed WebSocket.

use serde_json::{Value, json};

use super::steps::{encode, fresh};
use crate::http::{Request, Target};
use crate::shape::assert_shape;

pub(super) async fn missing_upgrade(target: Target) {
    target.get("/ws").await.refused(426, "UPGRADE_REQUIRED");
}

pub(super) async fn responses_match_http(target: Target) {
    let mut socket = target.socket().await;
    socket.request("1", "POST", "/api/execute", json!({"command": "echo out; exit 3"})).await;
    let frame = socket.response("1").await;
    assert_shape(&frame, "type:text id:text status:int body:object done:flag");
    assert_eq!(
        (&frame["type"], &frame["status"], &frame["done"]),
        (&json!("response"), &json!(200), &json!(true))
    );
    assert_shape(&frame["body"], super::shapes::EXECUTE);
    assert_eq!((&frame["body"]["stdout"], &frame["body"]["exitCode"]), (&json!("out\n"), &json!(3)));
    socket.request("2", "GET", "/api/process/nobody", Value::Null).await;
    let frame = socket.response("2").await;
    assert_eq!((&frame["type"], &frame["status"]), (&json!("response"), &json!(404)));
    assert_eq!(frame["body"]["code"], "PROCESS_NOT_FOUND");
}

pub(super) async fn id_is_free_after_the_response(target: Target) {
    let mut socket = target.socket().await;
    for _ in 0..500 {
        socket.request("same", "GET", "/api/ping", Value::Null).await;
        assert_eq!(socket.response("same").await["status"], 200);
    }
}

pub(super) async fn headers_apply(target: Target) {
    let session = target.new_session().await;
    let mut socket = target.socket().await;
    for name in ["x-session-id", "X-Session-Id"] {
        let frame = json!({"type": "request", "id": name, "method": "POST", "path": "/api/execute",
            "headers": {name: session}, "body": {"command": "echo"}});
        socket.send(&frame).await;
        assert_eq!(socket.response(name).await["body"]["sessionId"], session);
    }
    target.delete_session(&session).await;
}

/// A long request does not delay a short one, and responses arrive in any order.
pub(super) async fn requests_run_concurrently(target: Target) {
    let mut socket = target.socket().await;
    let id = fresh("long");
    socket.request("long", "POST", "/api/execute", json!({"command": "sleep 300", "executionId": id})).await;
    for number in 0..50 {
        socket.request(&format!("{number}"), "GET", "/api/ping", Value::Null).await;
    }
    for _ in 0..50 {
        let frame = socket.frame().await;
        assert_eq!((&frame["status"], frame["id"] == "long"), (&json!(200), false));
    }
    socket.request("kill", "DELETE", &format!("/api/process/{id}?signal=KILL"), Value::Null).await;
    assert_eq!(socket.response("long").await["body"]["end"]["reason"], "killed");
}

pub(super) async fn streams_share_a_socket(target: Target) {
    let mut socket = target.socket().await;
    for number in 0..5 {
        let body = json!({"command": format!("for i in 1 2 3; do echo {number}; sleep 0.02; done")});
        socket.request(&format!("{number}"), "POST", "/api/execute/stream", body).await;
    }
    let mut outputs = vec![String::new(); 5];
    let mut left = 5;
    while left > 0 {
        let frame = socket.frame().await;
        let number: usize = frame["id"].as_str().and_then(|id| id.parse().ok()).expect("an id of ours");
        if frame["type"] == "response" {
            assert_eq!((&frame["status"], &frame["done"]), (&json!(200), &json!(true)));
            left -= 1;
            continue;
        }
        assert_shape(&frame, "type:text id:text event?:text data:text eventId?:text");
        let event: Value = serde_json::from_str(frame["data"].as_str().unwrap_or_default()).expect("JSON");
        outputs[number].push_str(event["data"].as_str().unwrap_or_default());
    }
    for (number, output) in outputs.iter().enumerate() {
        assert_eq!(*output, format!("{number}\n").repeat(3));
    }
}

pub(super) async fn refused_stream(target: Target) {
    let mut socket = target.socket().await;
    socket.request("1", "GET", "/api/process/nobody/stream", Value::Null).await;
    let (events, end) = socket.events("1").await;
    assert_eq!((events.len(), &end["type"], &end["status"]), (0, &json!("response"), &json!(404)));
}

/// Whether or not its response was already sent, a cancelled request gets exactly one last frame. The next
/// request with its id gets its own response.
pub(super) async fn cancelled_id_is_free(target: Target) {
    let mut socket = target.socket().await;
    let mut cancelled = 0;
    for number in 0..200 {
        let command = if number % 2 == 0 { "true" } else { "sleep 0.003" };
        let route = if number % 3 == 0 { "/api/execute/stream" } else { "/api/execute" };
        socket.request("same", "POST", route, json!({"command": command})).await;
        if number % 4 > 1 {
            target.get("/api/ping").await.ok();
        }
        socket.send(&json!({"type": "cancel", "id": "same"})).await;
        socket.request("same", "GET", "/api/version", Value::Null).await;
        let (_, last) = socket.events("same").await;
        match last["type"].as_str() {
            Some("error") => {
                assert_eq!((&last["status"], &last["code"]), (&json!(499), &json!("REQUEST_CANCELLED")));
                cancelled += 1;
            }
            _ => assert!(last["body"]["version"].is_null(), "the answer of the second came first: {last}"),
        }
        let second = socket.frame().await;
        assert!(second["body"]["version"].is_string(), "not the answer of the second: {second}");
    }
    assert!(cancelled > 0, "every answer was quicker than its cancellation");
}

/// Binary bodies arrive as base64, and JSON unchanged.
pub(super) async fn bytes_are_exact(target: Target) {
    let mut socket = target.socket().await;
    let id = target.start(json!({"command": "printf 'a\\377\\0\\n'"})).await;
    target.ended(&id).await;
    socket.request("raw", "GET", &format!("/api/process/{id}/output"), Value::Null).await;
    let frame = socket.response("raw").await;
    assert_shape(&frame, "type:text id:text status:int encoding:text body:text done:flag");
    assert_eq!((&frame["encoding"], &frame["body"]), (&json!("base64"), &json!(encode(b"a\xff\0\n"))));
    socket.request("text", "GET", "/metrics", Value::Null).await;
    let frame = socket.response("text").await;
    assert!(frame["encoding"].is_null() && frame["body"].as_str().is_some_and(|text| text.contains("# EOF")));
    let id = target.start(json!({"command": "cat", "keepStdinOpen": true})).await;
    let frame = json!({"type": "request", "id": "stdin", "method": "POST", "encoding": "base64",
        "path": format!("/api/process/{id}/stdin?close=true"), "body": encode(b"\xfe\0")});
    socket.send(&frame).await;
    assert_eq!(socket.response("stdin").await["body"]["written"], 2);
    target.ended(&id).await;
    let logs = target.get(format!("/api/process/{id}/logs?encoding=base64")).await.ok();
    assert_eq!(logs["stdout"], encode(b"\xfe\0"));
}

/// The same body is the same request over HTTP and over the socket.
pub(super) async fn same_key_over_both_transports(target: Target) {
    let mut socket = target.socket().await;
    for (number, body) in [
        r#"{"command":"echo 1"}"#,
        r#"{ "command" : "echo \u0032" , "env" : {"B":"2", "A":"1"} }"#,
        r#"{"env":{"A":"\ud83e\udd80"},"timeoutMs":10000,"command":"echo 3"}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let key = fresh("key");
        let request = Request::new("POST", "/api/execute").body(body).header("idempotency-key", &key);
        let first = target.send(request).await.ok();
        let frame = format!(
            r#"{{"type":"request","id":"{number}","method":"POST","path":"/api/execute","headers":{{"idempotency-key":"{key}"}},"body":{body}}}"#
        );
        socket.send_text(&frame).await;
        let second = socket.response(&number.to_string()).await;
        assert_eq!(
            (&second["status"], &second["body"]["executionId"]),
            (&json!(200), &first["executionId"]),
            "{body}"
        );
    }
}

/// Files and archives of any size have a route over HTTP, which the error names.
pub(super) async fn too_large_for_a_frame(target: Target) {
    let folder = target.folder().await;
    target.shell(&format!("truncate -s 65M {folder}/large")).await;
    let mut socket = target.socket().await;
    let file = format!("/api/file?path={folder}/large");
    for (id, path, route) in [
        ("file", file.clone(), "GET /api/file over HTTP"),
        ("folder", format!("/api/folder?path={folder}"), "GET /api/folder over HTTP"),
    ] {
        socket.request(id, "GET", &path, Value::Null).await;
        let frame = socket.response(id).await;
        let body = &frame["body"];
        assert_eq!((&frame["status"], &body["code"]), (&json!(413), &json!("FILE_TOO_LARGE")), "{frame}");
        assert!(body["message"].as_str().is_some_and(|message| message.contains(route)), "{frame}");
    }
    let part = json!({"type": "request", "id": "part", "method": "GET", "path": file, "headers": {"range": "bytes=0-2"}});
    socket.send(&part).await;
    let frame = socket.response("part").await;
    assert_eq!((&frame["status"], &frame["body"]), (&json!(206), &json!(encode(b"\0\0\0"))), "{frame}");
    target.remove(&folder).await;
}

/// Responses with output have no length limit but that of the output.
pub(super) async fn long_response(target: Target) {
    let mut socket = target.socket().await;
    let size = 34 << 20;
    let command = format!("head -c {size} /dev/zero | tr '\\0' x; echo end >&2");
    let body = json!({"command": command, "maxOutputBytes": size});
    socket.request("long", "POST", "/api/execute", body).await;
    let frame = socket.response("long").await;
    let (stdout, stderr) = (frame["body"]["stdout"].as_str().unwrap_or_default(), &frame["body"]["stderr"]);
    assert_eq!((&frame["status"], stdout.len(), stderr), (&json!(200), size, &json!("end\n")));
    assert!(stdout.bytes().all(|byte| byte == b'x') && frame["body"]["executionId"].is_string());
}

/// The same for an error response, which is not streamed.
pub(super) async fn long_error(target: Target) {
    let mut socket = target.socket().await;
    let session = target.new_session().await;
    let body = json!({"command": "head -c 1000000 /dev/zero; exit 3", "sessionId": session});
    socket.request("long", "POST", "/api/execute", body).await;
    let frame = socket.response("long").await;
    let stdout = frame["body"]["context"]["stdout"].as_str().unwrap_or_default();
    assert_eq!((&frame["status"], stdout.len()), (&json!(410), 1_000_000));
    target.delete_session(&session).await;
}

/// An unreadable message is answered with a close frame that states the reason.
pub(super) async fn messages_that_close_the_socket(target: Target) {
    let mut socket = target.socket().await;
    socket.send_bytes(vec![b' '; (8 << 20) + 1]).await;
    let (code, reason) = socket.closed().await;
    assert!(code == 1009 && reason.contains("8388608"), "{code} {reason}");
    let mut socket = target.socket().await;
    socket.send_bytes(b"\"\xff\"".to_vec()).await;
    assert_eq!(socket.closed().await.0, 1007);
}

pub(super) async fn cancel(target: Target) {
    let mut socket = target.socket().await;
    let (kept, killed) = (fresh("kept"), fresh("killed"));
    for (id, policy) in [(&kept, "keep"), (&killed, "kill")] {
        let body = json!({"command": "echo begun; sleep 300", "executionId": id, "onDisconnect": policy});
        socket.request(id, "POST", "/api/execute/stream", body).await;
        target.until("/api/process/list?all=true", |list| list.to_string().contains(id.as_str())).await;
        socket.send(&json!({"type": "cancel", "id": id})).await;
        socket.send(&json!({"type": "cancel", "id": id})).await;
        let (_, last) = socket.events(id).await;
        assert_eq!(
            (&last["type"], &last["status"], &last["code"]),
            (&json!("error"), &json!(499), &json!("REQUEST_CANCELLED"))
        );
    }
    socket.send(&json!({"type": "cancel", "id": "nobody"})).await;
    assert_eq!(target.ended(&killed).await["end"]["reason"], "killed");
    target.until(&format!("/api/process/{kept}"), |found| found["process"]["status"] == "running").await;
    socket.request("ping", "GET", "/api/ping", Value::Null).await;
    assert_eq!(socket.response("ping").await["status"], 200);
    target.kill(&kept).await;
}

pub(super) async fn close_does_not_affect_commands(target: Target) {
    let mut socket = target.socket().await;
    let id = fresh("outlives");
    let body = json!({"command": "sleep 0.3; echo done", "executionId": id});
    socket.request("1", "POST", "/api/execute", body).await;
    target.until("/api/process/list?all=true", |list| list.to_string().contains(id.as_str())).await;
    drop(socket);
    assert_eq!(target.ended(&id).await["exitCode"], 0);
}

/// An invalid frame is answered with an error frame, and the socket stays usable.
pub(super) async fn invalid_frames(target: Target) {
    let mut socket = target.socket().await;
    for bad in [
        "{",
        "[]",
        "{}",
        r#"{"type":"odd","id":"1"}"#,
        r#"{"type":"request","id":"1"}"#,
        r#"{"type":"request","id":1,"method":"GET","path":"/"}"#,
        r#"{"type":"request","id":"x","method":"G T","path":"/"}"#,
        r#"{"type":"request","id":"x","method":"GET","path":"no slash"}"#,
        r#"{"type":"request","id":"x","method":"GET","path":"/ws"}"#,
        r#"{"type":"request","id":"x","method":"GET","path":"/ws/terminal?terminalId=x"}"#,
        r#"{"type":"request","id":"x","method":"GET","path":"/ws/pty?sessionId=x"}"#,
        r#"{"type":"request","id":"x","method":"GET","path":"/","headers":{"a b":"c"}}"#,
    ] {
        socket.send_text(bad).await;
        let frame = socket.frame().await;
        assert_shape(&frame, "type:text id?:text code:text message:text status:int context?:object");
        assert_eq!((&frame["type"], &frame["status"]), (&json!("error"), &json!(400)), "{bad}");
    }
    // Error messages are truncated, and over-long ids are refused.
    let long = "é".repeat(100_000);
    for (frame, has_id) in [
        (json!({"type": "request", "id": long, "method": "GET", "path": "/api/ping"}), false),
        (json!({"type": "cancel", "id": long}), false),
        (json!({"type": long, "id": "x"}), false),
        (json!({"type": "request", "id": "x", "method": "GET", "path": "/", "headers": {&long: "c"}}), true),
    ] {
        socket.send(&frame).await;
        let frame = socket.frame().await;
        assert_eq!((&frame["type"], &frame["status"]), (&json!("error"), &json!(400)));
        assert_eq!(frame["id"] == "x", has_id, "{frame}");
        assert!(frame.to_string().len() < 1_000, "{frame}");
    }
    let id = "i".repeat(256);
    socket.request(&id, "GET", "/api/ping", Value::Null).await;
    assert_eq!(socket.response(&id).await["status"], 200);
    socket.request("ping", "GET", "/api/ping", Value::Null).await;
    assert_eq!(socket.response("ping").await["status"], 200);
}

/// A target must be a path, without a host.
pub(super) async fn invalid_targets(target: Target) {
    let mut socket = target.socket().await;
    for path in [
        "http://evil/api/ping",
        "http://evil",
        "https://evil/",
        "evil:80/api/ping",
        "*",
        "",
        "?x",
        "api/ping",
    ] {
        socket.request("odd", "GET", path, Value::Null).await;
        let frame = socket.response("odd").await;
        assert_eq!((&frame["type"], &frame["status"]), (&json!("error"), &json!(400)), "{path}: {frame}");
    }
}

/// Ids in paths come from callers and may be unencoded. Every such request is refused, and never reaches
/// another route.
pub(super) async fn unusual_paths(target: Target) {
    let mut socket = target.socket().await;
    for path in
        ["/api/process/a b/../c?x#y", "/api/process/../execute", "/api/process/\u{fc}", "//evil/api/ping"]
    {
        socket.request("odd", "GET", path, Value::Null).await;
        let frame = socket.response("odd").await;
        assert!(matches!(frame["status"].as_u64(), Some(400 | 404 | 405)), "{path}: {frame}");
    }
}

pub(super) async fn concurrent_duplicate_id(target: Target) {
    let mut socket = target.socket().await;
    let id = fresh("twice");
    socket.request("1", "POST", "/api/execute", json!({"command": "sleep 300", "executionId": id})).await;
    socket.request("1", "GET", "/api/ping", Value::Null).await;
    let frame = socket.frame().await;
    assert_eq!((&frame["type"], &frame["id"]), (&json!("error"), &json!("1")));
    socket.request("2", "DELETE", &format!("/api/process/{id}?signal=KILL"), Value::Null).await;
    assert_eq!(socket.response("2").await["status"], 200);
}

/// A web page of another site cannot open the socket.
pub(super) async fn foreign_page(target: Target) {
    let request = Request::get("/ws")
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("origin", "http://evil.example");
    target.send(request).await.refused(403, "PERMISSION_DENIED");
}
