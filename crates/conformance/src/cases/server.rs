//! Routes about the server itself.

use serde_json::{Value, json};

use crate::http::{Request, Target};
use crate::shape::assert_shape;

pub(super) async fn ping(target: Target) {
    let pong = target.get("/api/ping").await.ok();
    assert_shape(&pong, "success:flag status:text message:text timestamp:time");
    assert_eq!((&pong["status"], &pong["message"]), (&json!("healthy"), &json!("pong")));
}

pub(super) async fn version(target: Target) {
    let version = target.get("/api/version").await.ok();
    assert_shape(&version, "success:flag version:text compatible:text timestamp:time");
}

pub(super) async fn health(target: Target) {
    let health = target.get("/api/health").await.ok();
    assert_shape(
        &health,
        "success:flag status:text version:text uptimeMs:int shell:object cgroups:text landlock:flag git?:text \
         pty:flag workspace:text counts:object problems:list stateDirectory:object runAs?:text timestamp:time",
    );
    assert_shape(&health["shell"], "driver:text reason?:text");
    assert_shape(
        &health["counts"],
        "running:int executions:int sessions:int connections:int lostSupervisors:int restoredSessions:int loggedFailures:int",
    );
    assert_shape(&health["stateDirectory"], "present:flag freeBytes:int");
    for problem in health["problems"].as_array().into_iter().flatten() {
        assert_shape(problem, "code:text message:text suggestion:text");
    }
    assert!(health["counts"]["connections"].as_u64() >= Some(1), "{health}");
}

pub(super) async fn health_counts(target: Target) {
    let session = target.new_session().await;
    let id = target.start(json!({"command": "sleep 300"})).await;
    let counts = &target.get("/api/health").await.ok()["counts"];
    assert!(counts["sessions"].as_u64() >= Some(1) && counts["running"].as_u64() >= Some(1), "{counts}");
    target.kill(&id).await;
    target.delete_session(&session).await;
}

pub(super) async fn metrics(target: Target) {
    target.shell("true").await;
    let answer = target.get("/metrics").await;
    assert_eq!(answer.status(), 200, "{answer:?}");
    let kind = answer.header("content-type").unwrap_or_default();
    assert!(kind.starts_with("application/openmetrics-text") || kind.starts_with("text/plain"), "{kind}");
    let text = answer.text();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        assert!(value.is_some() && line.starts_with("sandcrab_"), "expected a metric of Sandcrab: {line:?}");
    }
    assert!(text.lines().any(|line| line.starts_with("# TYPE sandcrab_")), "{text}");
}

pub(super) async fn openapi_describes_every_route(target: Target) {
    let document = target.get("/openapi.json").await.ok();
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")), "{document}");
    let paths = document["paths"].as_object().expect("the document has paths");
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().expect("a path has operations") {
            assert!(operation["operationId"].is_string(), "{method} {path} has no operationId");
            let responses = operation["responses"].as_object().expect("an operation has responses");
            assert!(!responses.contains_key("default"), "{method} {path} says default");
            assert!(responses.contains_key("401"), "{method} {path} does not say 401");
        }
    }
}

/// Every path of the document exists: an unrouted path would be 404 `ROUTE_NOT_FOUND`.
pub(super) async fn openapi_describes_only_existing_routes(target: Target) {
    let document = target.get("/openapi.json").await.ok();
    for (path, operations) in document["paths"].as_object().expect("the document has paths") {
        let path = path.replace("{id}", "nobody");
        let known: Vec<_> = operations.as_object().into_iter().flat_map(|methods| methods.keys()).collect();
        // No route supports PATCH, so the request has no effect, and only the router answers.
        let answer = target.send(Request::new("PATCH", path.as_str())).await;
        answer.refused(405, "METHOD_NOT_ALLOWED");
        let allowed = answer.header("allow").unwrap_or_default().to_ascii_lowercase();
        for method in known {
            assert!(allowed.contains(method.as_str()), "{path} does not allow {method}: {allowed:?}");
        }
    }
}

pub(super) async fn server_events(target: Target) {
    let mut events = target.stream(Request::get("/api/events")).await;
    assert_eq!(events.next().await.kind(), "hello");
    let session = target.new_session().await;
    let created = find(&mut events, "session_created", |data| data["sessionId"] == session).await;
    assert_shape(&created, "type:text sessionId:text name?:text timestamp:time");
    let id = target.start(json!({"command": "sleep 300"})).await;
    let started = find(&mut events, "execution_started", |data| data["process"]["id"] == id).await;
    assert_shape(&started, "type:text process:object timestamp:time");
    assert_shape(&started["process"], super::shapes::PROCESS);
    target.kill(&id).await;
    let ended = find(&mut events, "execution_ended", |data| data["process"]["id"] == id).await;
    assert_eq!(ended["process"]["status"], "killed");
    target.post("/api/process/cleanup", json!({})).await.ok();
    find(&mut events, "execution_removed", |data| data["executionId"] == id).await;
    target.post("/api/execute", json!({"command": "exit 3", "sessionId": session})).await;
    target.in_session(&session, "true").await;
    find(&mut events, "session_restarted", |data| data["sessionId"] == session).await;
    target.delete_session(&session).await;
    find(&mut events, "session_deleted", |data| data["sessionId"] == session).await;
}

async fn find(events: &mut crate::http::EventStream, kind: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let event = events.next_of(kind).await;
        if wanted(&event.data) {
            return event.data;
        }
    }
}
