//! A start with an idempotency key happens exactly once.

use serde_json::{Value, json};

use super::steps::fresh;
use crate::http::{Request, Response, Target};

async fn with_key(target: &Target, path: &str, key: &str, body: &Value) -> Response {
    target.send(Request::post(path, body).header("idempotency-key", key)).await
}

/// A command that appends a line to a file each time it runs.
fn leaves_a_line(folder: &str) -> String {
    format!("echo ran >> {folder}/runs; echo output; exit 3")
}

async fn runs(target: &Target, folder: &str) -> usize {
    let lines = target.shell(&format!("cat {folder}/runs")).await;
    lines["stdout"].as_str().unwrap_or_default().lines().count()
}

pub(super) async fn same_key_and_body(target: Target) {
    let folder = target.folder().await;
    let (key, body) = (fresh("key"), json!({"command": leaves_a_line(&folder)}));
    let first = with_key(&target, "/api/execute", &key, &body).await.ok();
    for _ in 0..3 {
        let again = with_key(&target, "/api/execute", &key, &body).await.ok();
        for field in ["executionId", "stdout", "exitCode", "duration", "timestamp", "cursor"] {
            assert_eq!(again[field], first[field], "{field}");
        }
    }
    assert_eq!(runs(&target, &folder).await, 1);
    let another = with_key(&target, "/api/execute", &fresh("key"), &body).await.ok();
    assert_ne!(another["executionId"], first["executionId"]);
    assert_eq!(runs(&target, &folder).await, 2);
    target.remove(&folder).await;
}

pub(super) async fn same_key_with_another_body(target: Target) {
    let key = fresh("key");
    let id =
        with_key(&target, "/api/execute", &key, &json!({"command": "true"})).await.ok()["executionId"].take();
    let refusal = with_key(&target, "/api/execute", &key, &json!({"command": "false"})).await;
    let error = refusal.refused(409, "EXECUTION_CONFLICT");
    assert_eq!(error["context"]["executionId"], id);
    assert_eq!(error["context"]["idempotencyKey"], key);
    assert!(error["message"].as_str().is_some_and(|message| message.contains(&key)), "{error}");
}

/// With an id chosen by the client, another key is another request: the id of a finished execution can be
/// reused, that of a running one cannot.
pub(super) async fn another_key_and_same_id(target: Target) {
    let folder = target.folder().await;
    let id = fresh("id");
    let body = json!({"command": leaves_a_line(&folder), "executionId": id});
    for count in 1..=3 {
        let key = fresh("key");
        for _ in 0..2 {
            with_key(&target, "/api/execute", &key, &body).await.ok();
            assert_eq!(runs(&target, &folder).await, count);
        }
    }
    let body = json!({"command": "sleep 60", "processId": fresh("process")});
    let key = fresh("key");
    let started = with_key(&target, "/api/process/start", &key, &body).await.ok();
    let again = with_key(&target, "/api/process/start", &key, &body).await.ok();
    assert_eq!(again["pid"], started["pid"]);
    let other = with_key(&target, "/api/process/start", &fresh("key"), &body).await;
    other.refused(409, "PROCESS_ALREADY_EXISTS");
    let path = format!("/api/process/{}", started["processId"].as_str().unwrap_or_default());
    target.send(Request::new("DELETE", &path)).await.ok();
    target.remove(&folder).await;
}

/// Many simultaneous identical requests start one execution.
pub(super) async fn simultaneous_requests(target: Target) {
    let folder = target.folder().await;
    let (key, body) = (fresh("key"), json!({"command": format!("sleep 0.2; {}", leaves_a_line(&folder))}));
    let mut connections = Vec::new();
    for _ in 0..16 {
        let mut connection = target.connect().await;
        let request = Request::post("/api/execute", &body).header("idempotency-key", &key);
        connection.send(&request).await.expect("sent");
        connections.push(connection);
    }
    let mut ids = Vec::new();
    for mut connection in connections {
        let result = connection.answer().await.expect("an answer").ok();
        assert_eq!((&result["stdout"], &result["exitCode"]), (&json!("output\n"), &json!(3)));
        ids.push(result["executionId"].clone());
    }
    ids.dedup();
    assert_eq!((ids.len(), runs(&target, &folder).await), (1, 1));
    target.remove(&folder).await;
}

pub(super) async fn of_a_process(target: Target) {
    let (key, body) = (fresh("key"), json!({"command": "sleep 300"}));
    let first = with_key(&target, "/api/process/start", &key, &body).await.ok();
    let again = with_key(&target, "/api/process/start", &key, &body).await.ok();
    assert_eq!((&again["processId"], &again["pid"]), (&first["processId"], &first["pid"]));
    let id = first["processId"].as_str().unwrap_or_default();
    target.kill(id).await;
    let ended = with_key(&target, "/api/process/start", &key, &body).await.ok();
    assert_eq!(ended["processId"], id);
    assert_eq!(target.process(id).await["status"], "killed");
}

/// The initial standard input is written only once, too.
pub(super) async fn initial_standard_input(target: Target) {
    let (key, body) = (fresh("key"), json!({"command": "cat", "stdin": "once\n", "keepStdinOpen": true}));
    let first = with_key(&target, "/api/process/start", &key, &body).await.ok();
    let again = with_key(&target, "/api/process/start", &key, &body).await.ok();
    assert_eq!(again["processId"], first["processId"]);
    let id = first["processId"].as_str().unwrap_or_default();
    target.send(Request::new("POST", format!("/api/process/{id}/stdin?close=true"))).await.ok();
    target.ended(id).await;
    assert_eq!(target.get(format!("/api/process/{id}/logs")).await.ok()["stdout"], "once\n");
}

/// A repeated stream request returns the same events.
pub(super) async fn of_a_stream(target: Target) {
    let folder = target.folder().await;
    let (key, body) = (fresh("key"), json!({"command": leaves_a_line(&folder)}));
    let ask = || target.stream(Request::post("/api/execute/stream", &body).header("idempotency-key", &key));
    let first = ask().await.rest().await;
    let again = ask().await.rest().await;
    assert_eq!(super::stream::joined(&first, "stdout"), "output\n");
    assert_eq!(super::stream::joined(&again, "stdout"), "output\n");
    assert_eq!(first[0].data["executionId"], again[0].data["executionId"]);
    let rest = Request::post("/api/execute/stream?since=3", &body).header("idempotency-key", &key);
    assert_eq!(super::stream::joined(&target.stream(rest).await.rest().await, "stdout"), "put\n");
    // Without the key, the execution that the cursor belongs to is unknown.
    let start = Request::post("/api/execute/stream", &body).header("last-event-id", "3");
    target.send(start).await.refused(400, "VALIDATION_FAILED");
    let beyond = Request::post("/api/execute/stream?since=300", &body).header("idempotency-key", &key);
    target.send(beyond).await.refused(400, "VALIDATION_FAILED");
    assert_eq!(runs(&target, &folder).await, 1);
    // A request with a cursor never starts an execution, even if no record exists.
    for body in [body.clone(), json!({"command": body["command"], "executionId": fresh("gone")})] {
        let rest =
            Request::post("/api/execute/stream?since=3", &body).header("idempotency-key", fresh("gone"));
        target.send(rest).await.refused(404, "PROCESS_NOT_FOUND");
        // The first event has cursor 0, so a client that has it knows that the command was started.
        let start = Request::post("/api/execute/stream", &body).header("last-event-id", "0");
        target.send(start.clone()).await.refused(400, "VALIDATION_FAILED");
        let start = start.header("idempotency-key", fresh("gone"));
        target.send(start).await.refused(404, "PROCESS_NOT_FOUND");
    }
    assert_eq!(runs(&target, &folder).await, 1);
    target.remove(&folder).await;
}

pub(super) async fn in_a_session(target: Target) {
    let session = target.new_session().await;
    let (key, body) = (fresh("key"), json!({"command": "echo $((++n))", "sessionId": session}));
    for _ in 0..3 {
        assert_eq!(with_key(&target, "/api/execute", &key, &body).await.ok()["stdout"], "1\n");
    }
    assert_eq!(target.in_session(&session, "echo $n").await["stdout"], "1\n");
    target.delete_session(&session).await;
}

pub(super) async fn invalid_keys(target: Target) {
    for key in ["x".repeat(513), "ü".to_owned()] {
        let answer = with_key(&target, "/api/execute", &key, &json!({"command": "true"})).await;
        answer.refused(400, "VALIDATION_FAILED");
    }
}
