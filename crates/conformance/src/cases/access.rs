//! Access control: the token, the host, the origin; and data that must not leak.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::json;

use super::steps::fresh;
use crate::http::{Request, Socket, Target};

const ROUTES: [(&str, &str); 8] = [
    ("POST", "/api/execute"),
    ("POST", "/api/process/start"),
    ("GET", "/api/process/list"),
    ("POST", "/api/session/create"),
    ("GET", "/api/events"),
    ("GET", "/metrics"),
    ("GET", "/ws"),
    ("GET", "/no/such/route"),
];

pub(super) async fn missing_token(target: Target) {
    let stranger = target.with_token(None);
    for (method, path) in ROUTES {
        let refused = stranger.send(Request::new(method, path)).await;
        refused.refused(401, "UNAUTHORIZED");
        assert!(
            refused.header("www-authenticate").is_some_and(|value| value.starts_with("Bearer")),
            "{path}"
        );
    }
}

pub(super) async fn wrong_token(target: Target) {
    let token = target.token().unwrap_or_default().to_owned();
    let mut flipped = token.clone().into_bytes();
    flipped[0] = if flipped[0] == b'a' { b'b' } else { b'a' };
    let flipped = String::from_utf8(flipped).expect("the token is ASCII");
    let tries = [
        "Bearer".to_owned(),
        "Bearer x".to_owned(),
        format!("Bearer {flipped}"),
        format!("Bearer {}", &token[1..]),
        format!("Bearer {token}x"),
        format!("Basic {token}"),
        token.clone(),
    ];
    for value in tries {
        let answer = target.send(Request::get("/api/process/list").header("authorization", &value)).await;
        let body = answer.refused(401, "UNAUTHORIZED").to_string();
        assert!(!body.contains(&flipped) && !body.contains(&token), "a token is in the refusal: {body}");
    }
    let scheme = format!("bearer {token}");
    target.send(Request::get("/api/ping").header("authorization", scheme)).await.ok();
}

/// The server never selects the subprotocol that contains the token, because the response would repeat the
/// token.
pub(super) async fn token_as_subprotocol(target: Target) {
    let token = target.token().unwrap_or_default();
    let encoded = BASE64_URL_SAFE_NO_PAD.encode(token);
    for offered in [format!("sandcrab, bearer.{token}"), format!("bearer64.{encoded}, sandcrab")] {
        let opened = Socket::try_open(&target, Some(("sec-websocket-protocol", offered))).await;
        let (mut socket, agreed) = opened.expect("the token is right");
        assert_eq!(agreed.as_deref(), Some("sandcrab"));
        socket.request("1", "GET", "/api/ping", json!(null)).await;
        assert_eq!(socket.response("1").await["status"], 200);
    }
    for wrong in [None, Some("bearer.nobody".to_owned()), Some(format!("bearer64.{token}"))] {
        let header = wrong.map(|wrong| ("sec-websocket-protocol", format!("sandcrab, {wrong}")));
        assert_eq!(Socket::try_open(&target, header).await.map(|_| ()), Err("401".to_owned()));
    }
}

pub(super) async fn foreign_host(target: Target) {
    for host in ["evil.example", "evil.example:7070", "127.0.0.1.evil.example", "localhost.evil.example"] {
        let answer = target.send(Request::get("/api/ping").header("host", host)).await;
        answer.refused(403, "PERMISSION_DENIED");
    }
    for host in ["localhost", "localhost:1", "127.0.0.1", "[::1]:7070"] {
        target.send(Request::get("/api/ping").header("host", host)).await.ok();
    }
}

pub(super) async fn foreign_origin(target: Target) {
    let command = json!({"command": "true"});
    for origin in ["http://evil.example", "https://127.0.0.1.evil.example", "null"] {
        let request = Request::post("/api/execute", &command).header("origin", origin);
        let answer = target.send(request).await;
        answer.refused(403, "PERMISSION_DENIED");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    let own = format!("http://{}", target.authority());
    target.send(Request::post("/api/execute", &command).header("origin", own)).await.ok();
}

pub(super) async fn foreign_preflight(target: Target) {
    let request = Request::new("OPTIONS", "/api/execute")
        .header("origin", "http://evil.example")
        .header("access-control-request-method", "POST");
    let answer = target.send(request).await;
    assert!(answer.status() >= 400, "{answer:?}");
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

pub(super) async fn request_id_is_returned(target: Target) {
    let made = target.get("/api/ping").await;
    assert!(made.header("x-request-id").is_some_and(|id| !id.is_empty()), "{made:?}");
    let given = fresh("request");
    let answer = target.send(Request::get("/api/process/nobody").header("x-request-id", &given)).await;
    assert_eq!(answer.refused(404, "PROCESS_NOT_FOUND")["requestId"], given);
}

/// An invalid request id of a client is never logged or returned.
pub(super) async fn invalid_request_id_is_replaced(target: Target) {
    let long = "x".repeat(5_000);
    for bad in ["a b", "a\tb", long.as_str()] {
        let answer = target.send(Request::get("/api/ping").header("x-request-id", bad)).await;
        answer.ok();
        assert_ne!(answer.header("x-request-id"), Some(bad));
    }
}

pub(super) async fn variable_values_are_not_listed(target: Target) {
    let secret = fresh("secret");
    let session = target.make_session(json!({"env": {"SECRET": secret}})).await;
    let id = target.start(json!({"command": "sleep 300", "env": {"OTHER": secret}})).await;
    let paths =
        ["/api/session/list", "/api/process/list?all=true", "/api/health", "/metrics"].map(str::to_owned);
    for path in paths.into_iter().chain([format!("/api/process/{id}"), format!("/api/session/{session}")]) {
        let answer = target.get(path.as_str()).await;
        assert_eq!(answer.status(), 200);
        assert!(!answer.text().contains(&secret), "{path} shows the value of a variable");
    }
    let again = target.post("/api/session/create", json!({"id": session, "env": {"SECRET": secret}})).await;
    assert!(!again.refused(409, "SESSION_ALREADY_EXISTS").to_string().contains(&secret));
    target.kill(&id).await;
    target.delete_session(&session).await;
}
