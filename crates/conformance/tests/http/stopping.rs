//! A stopping server: new work is refused, running requests finish, and commands continue.

use rustix::process::Signal;
use sandcrab_conformance::cases::steps::fresh;
use sandcrab_conformance::http::Request;
use serde_json::json;

use crate::support::ServerProcess;

#[tokio::test]
async fn running_requests_finish_and_new_work_is_refused() {
    let mut server = ServerProcess::start(&["drain-ms=300000", "keep-executions=1"]).await;
    let target = server.target.clone();
    let gate = server.folder().join("open");
    let id = fresh("running");
    let command = format!("until [ -e {} ]; do sleep 0.01; done; echo done", gate.display());
    let mut running = target.connect().await;
    let body = json!({"command": command, "executionId": id});
    running.send(&Request::post("/api/execute", &body)).await.unwrap();
    target.until("/api/process/list?all=true&status=running", |list| list.to_string().contains(&id)).await;
    // A connection with a running request stays open, so a socket can send another request.
    let mut socket = target.socket().await;
    socket.request("running", "GET", &format!("/api/process/{id}/wait"), json!(null)).await;
    let mut idle = target.socket().await;
    idle.request("before", "GET", "/api/ping", json!(null)).await;
    assert_eq!(idle.response("before").await["status"], 200);
    let since = std::time::Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(idle.closed().await.0, 1001);
    let refused = loop {
        socket.request("new", "POST", "/api/execute", json!({"command": "true"})).await;
        let answer = socket.response("new").await;
        if answer["status"] != 200 {
            break answer;
        }
    };
    assert_eq!((&refused["status"], &refused["body"]["code"]), (&json!(503), &json!("SHUTTING_DOWN")));
    std::fs::write(&gate, "").unwrap();
    assert_eq!(running.answer().await.unwrap().ok()["stdout"], "done\n");
    assert_eq!(socket.response("running").await["status"], 200);
    // The close frame follows the last response.
    assert_eq!(socket.closed().await.0, 1001);
    assert_eq!(server.ended().await, Some(0));
    assert!(since.elapsed() < std::time::Duration::from_secs(60), "sockets delayed the end");
}

/// After the drain window, waiting requests are told so, and the command continues.
#[tokio::test]
async fn drain_window_ends() {
    let mut server = ServerProcess::start(&["drain-ms=200", "keep-executions=1"]).await;
    let target = server.target.clone();
    let id = fresh("outlives");
    let mut running = target.connect().await;
    let gate = server.folder().join("open");
    let command = format!("until [ -e {} ]; do sleep 0.01; done; echo done", gate.display());
    let body = json!({"command": command, "executionId": id});
    running.send(&Request::post("/api/execute", &body)).await.unwrap();
    target.until("/api/process/list?all=true&status=running", |list| list.to_string().contains(&id)).await;
    server.signal(Signal::TERM);
    let refusal = running.answer().await.unwrap().refused(503, "SHUTTING_DOWN");
    assert_eq!(refusal["context"]["executionId"], id);
    assert_eq!(server.ended().await, Some(0));
    server.restart().await;
    std::fs::write(&gate, "").unwrap();
    assert_eq!(target.ended(&id).await["exitCode"], 0);
    assert_eq!(target.get(format!("/api/process/{id}/logs")).await.ok()["stdout"], "done\n");
}

/// A watch ends with an error that a client resumes, as other streams do.
#[tokio::test]
async fn watches_are_told() {
    let mut server = ServerProcess::start(&["drain-ms=300000"]).await;
    let watch = Request::post("/api/watch", &json!({"path": server.folder()}));
    let mut events = server.target.clone().stream(watch).await;
    assert_eq!(events.next().await.kind(), "watching");
    server.signal(Signal::TERM);
    let last = events.rest().await;
    assert_eq!(last.len(), 1, "{last:?}");
    assert_eq!((last[0].kind(), &last[0].data["code"]), ("error", &json!("SHUTTING_DOWN")));
    assert_eq!(server.ended().await, Some(0));
}
