//! Services: starts, health checks, restarts and ends.

use serde_json::{Value, json};

use super::shapes;
use super::steps::{fresh, text};
use super::stream::{joined, kinds};
use crate::http::{Event, Request, Target};
use crate::shape::assert_shape;

async fn start(target: &Target, body: Value) -> Value {
    target.post("/api/service/start", body).await.ok()
}

async fn get(target: &Target, id: &str) -> Value {
    target.get(format!("/api/service/{id}")).await.ok()["service"].take()
}

async fn until(target: &Target, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/api/service/{id}");
    target.until(&path, |answer| wanted(&answer["service"])).await["service"].take()
}

async fn until_state(target: &Target, id: &str, state: &str) -> Value {
    until(target, id, |service| service["state"] == state).await
}

async fn delete(target: &Target, id: &str) -> Value {
    target.delete(format!("/api/service/{id}?signal=KILL")).await.ok()
}

/// Restarts at once, as far as the API allows it.
fn restarts(policy: &str, most: u32) -> Value {
    json!({"policy": policy, "maxRestarts": most, "backoffMs": 100, "maxBackoffMs": 100})
}

pub(super) async fn response_fields(target: Target) {
    let id = fresh("web");
    let body = json!({"command": "echo begun; sleep 300", "serviceId": id, "name": "A service"});
    let started = start(&target, body).await;
    assert_shape(&started, shapes::SERVICE_STARTED);
    assert_eq!((&started["serviceId"], &started["health"]["status"]), (&json!(id), &json!("running")));
    assert_eq!(started["processId"], started["executionId"]);
    let service = get(&target, &id).await;
    assert_shape(&service, shapes::SERVICE);
    assert_eq!((&service["name"], &service["pid"]), (&json!("A service"), &started["pid"]));
    assert_eq!((&service["restarts"], &service["executions"]), (&json!(0), &json!([])));
    let list = target.get("/api/service/list").await.ok();
    assert_shape(&list, "success:flag services:list timestamp:time");
    assert!(list["services"].as_array().is_some_and(|all| all.iter().any(|one| one["id"] == id)), "{list}");
    let health = target.get(format!("/api/service/{id}/health")).await.ok();
    assert_shape(&health, shapes::SERVICE_HEALTH);
    assert_eq!((&health["success"], &health["status"]), (&json!(true), &json!("running")));
    // The execution is a process.
    let process = target.process(&text(&started["processId"])).await;
    assert_eq!(process["pid"], started["pid"]);
    let path = format!("/api/service/{id}/logs");
    let logs = target.until(&path, |logs| logs["stdout"] == "begun\n").await;
    assert_eq!(logs["processId"], started["processId"]);
    let stopped = target.post(format!("/api/service/{id}/stop"), json!({})).await.ok();
    assert_shape(&stopped, shapes::SERVICE_STOPPED);
    assert!(!stopped["killed"].as_array().expect("a list").is_empty(), "{stopped}");
    let service = get(&target, &id).await;
    assert_eq!((&service["state"], service.get("pid")), (&json!("stopped"), None));
    assert_shape(&service["executions"][0], shapes::SERVICE_EXECUTION);
    assert_eq!(service["executions"][0]["end"]["reason"], "killed");
    assert_shape(&delete(&target, &id).await, shapes::SERVICE_STOPPED);
    target.get(format!("/api/service/{id}")).await.refused(404, "SERVICE_NOT_FOUND");
}

pub(super) async fn failures_are_restarted(target: Target) {
    let id = fresh("fails");
    let command = "echo out; exit 3";
    let body = json!({"command": command, "serviceId": id, "restart": restarts("on-failure", 2)});
    start(&target, body).await;
    let service = until_state(&target, &id, "failed").await;
    assert_eq!(service["restarts"], 2);
    assert!(text(&service["health"]["error"]).contains("code 3"), "{service}");
    let executions = service["executions"].as_array().expect("a list");
    assert_eq!(executions.len(), 3);
    let mut ids = Vec::new();
    for execution in executions {
        assert_eq!(execution["exitCode"], 3);
        // Each has a journal of its own.
        let id = text(&execution["executionId"]);
        assert_eq!(target.get(format!("/api/process/{id}/logs")).await.ok()["stdout"], "out\n");
        ids.push(id);
    }
    ids.dedup();
    assert_eq!((ids.len(), &service["executionId"]), (3, &json!(ids[0])));
    delete(&target, &id).await;
}

/// However often a program fails, the list of its executions has a bound.
pub(super) async fn history_is_bounded(target: Target) {
    let id = fresh("loops");
    start(&target, json!({"command": "false", "serviceId": id, "restart": restarts("always", 12)})).await;
    let service = until_state(&target, &id, "failed").await;
    assert_eq!(
        (&service["restarts"], service["executions"].as_array().map(Vec::len)),
        (&json!(12), Some(10))
    );
    delete(&target, &id).await;
}

pub(super) async fn restart_policies(target: Target) {
    for (command, policy, state, count) in [
        ("exit 0", "on-failure", "stopped", 0),
        ("exit 0", "never", "stopped", 0),
        ("exit 1", "never", "failed", 0),
        ("kill -9 $$", "on-failure", "failed", 1),
        ("exit 0", "always", "stopped", 1),
    ] {
        let id = fresh("policy");
        start(&target, json!({"command": command, "serviceId": id, "restart": restarts(policy, 1)})).await;
        let service = until_state(&target, &id, state).await;
        assert_eq!(service["restarts"], count, "{command} {policy}: {service}");
        delete(&target, &id).await;
    }
}

pub(super) async fn stop_during_a_delay(target: Target) {
    let id = fresh("waits");
    let restart = json!({"policy": "on-failure", "backoffMs": 3_600_000, "maxBackoffMs": 3_600_000});
    start(&target, json!({"command": "exit 1", "serviceId": id, "restart": restart})).await;
    let service = until_state(&target, &id, "restarting").await;
    assert!(service["nextRestart"].is_string(), "{service}");
    let stopped = target.post(format!("/api/service/{id}/stop"), json!({})).await.ok();
    assert_eq!((&stopped["killed"], &stopped["success"]), (&json!([]), &json!(true)));
    let service = get(&target, &id).await;
    assert_eq!((&service["state"], &service["restarts"]), (&json!("stopped"), &json!(0)));
    delete(&target, &id).await;
}

pub(super) async fn restart_on_request(target: Target) {
    let id = fresh("again");
    let first = start(&target, json!({"command": "sleep 300", "serviceId": id})).await;
    let path = format!("/api/service/{id}/restart");
    let second = target.post(&path, json!({"signal": "KILL"})).await.ok();
    assert_shape(&second, shapes::SERVICE_STARTED);
    assert_ne!(second["executionId"], first["executionId"]);
    target.until_gone(&first["pid"]).await;
    target.post(format!("/api/service/{id}/stop"), json!({"graceMs": 0})).await.ok();
    target.until_gone(&second["pid"]).await;
    let third = target.post(&path, json!({})).await.ok();
    let service = get(&target, &id).await;
    assert_eq!((&service["state"], &service["pid"]), (&json!("running"), &third["pid"]));
    assert_eq!((&service["restarts"], service["executions"].as_array().map(Vec::len)), (&json!(0), Some(2)));
    delete(&target, &id).await;
}

/// The whole tree is ended, daemons included, before the next execution starts.
pub(super) async fn daemons_end_with_the_service(target: Target) {
    let id = fresh("daemon");
    let command = "setsid -f sleep 301; echo begun; sleep 300";
    start(&target, json!({"command": command, "serviceId": id})).await;
    target.until(&format!("/api/service/{id}/logs"), |logs| logs["stdout"] == "begun\n").await;
    let stopped = target.post(format!("/api/service/{id}/stop"), json!({"signal": "KILL"})).await.ok();
    let killed = stopped["killed"].as_array().expect("a list");
    let daemon = killed.iter().find(|one| text(&one["command"]).ends_with("sleep 301"));
    target.until_gone(&daemon.unwrap_or_else(|| panic!("{stopped}"))["pid"]).await;
    delete(&target, &id).await;
}

pub(super) async fn simultaneous_starts(target: Target) {
    let folder = target.folder().await;
    let id = fresh("one");
    let body =
        json!({"command": format!("echo ran >> {folder}/runs; echo begun; sleep 300"), "serviceId": id});
    let mut connections = Vec::new();
    for _ in 0..8 {
        let mut connection = target.connect().await;
        connection.send(&Request::post("/api/service/start", &body)).await.expect("sent");
        connections.push(connection);
    }
    let mut started = 0;
    for mut connection in connections {
        let answer = connection.answer().await.expect("an answer");
        if answer.status() == 200 {
            started += 1;
        } else {
            answer.refused(409, "SERVICE_ALREADY_EXISTS");
        }
    }
    assert_eq!(started, 1);
    target.until(&format!("/api/service/{id}/logs"), |logs| logs["stdout"] == "begun\n").await;
    delete(&target, &id).await;
    assert_eq!(target.shell(&format!("wc -l < {folder}/runs")).await["stdout"], "1\n");
    target.remove(&folder).await;
}

pub(super) async fn same_key_and_body(target: Target) {
    let (key, body) = (fresh("key"), json!({"command": "sleep 300"}));
    let ask =
        |body: &Value| target.send(Request::post("/api/service/start", body).header("idempotency-key", &key));
    let first = ask(&body).await.ok();
    let again = ask(&body).await.ok();
    assert_eq!((&again["serviceId"], &again["executionId"]), (&first["serviceId"], &first["executionId"]));
    ask(&json!({"command": "sleep 301"})).await.refused(409, "EXECUTION_CONFLICT");
    delete(&target, &text(&first["serviceId"])).await;
}

pub(super) async fn ids_are_reused(target: Target) {
    let id = fresh("reused");
    let first = start(&target, json!({"command": "exit 1", "serviceId": id})).await;
    until_state(&target, &id, "failed").await;
    let second = start(&target, json!({"command": "sleep 300", "serviceId": id})).await;
    assert_ne!(first["executionId"], second["executionId"]);
    let service = get(&target, &id).await;
    assert_eq!((&service["state"], &service["executions"]), (&json!("running"), &json!([])));
    delete(&target, &id).await;
}

pub(super) async fn health_flips(target: Target) {
    let folder = target.folder().await;
    let id = fresh("flips");
    let check = json!({"command": format!("test -e {folder}/well || {{ echo not well >&2; false; }}"),
        "intervalMs": 100, "retries": 1, "startPeriodMs": 3_600_000});
    start(&target, json!({"command": "sleep 300", "serviceId": id, "healthCheck": check})).await;
    let service = until(&target, &id, |service| service["health"]["lastCheck"].is_string()).await;
    assert_eq!(service["state"], "starting");
    assert!(text(&service["health"]["error"]).contains("code 1: not well"), "{service}");
    target.shell(&format!("touch {folder}/well")).await;
    let service = until_state(&target, &id, "healthy").await;
    assert_eq!(service["health"].get("error"), None);
    target.shell(&format!("rm {folder}/well")).await;
    until_state(&target, &id, "unhealthy").await;
    let health = target.get(format!("/api/service/{id}/health")).await.ok();
    assert_eq!((&health["success"], &health["status"]), (&json!(false), &json!("unhealthy")));
    target.shell(&format!("touch {folder}/well")).await;
    let service = until_state(&target, &id, "healthy").await;
    // Without `onUnhealthy`, the program continues.
    assert_eq!(service["restarts"], 0);
    delete(&target, &id).await;
    target.remove(&folder).await;
}

pub(super) async fn unhealthy_services_are_restarted(target: Target) {
    let id = fresh("ill");
    let mut restart = restarts("on-failure", 1);
    restart["onUnhealthy"] = json!(true);
    let check =
        json!({"type": "command", "command": "false", "intervalMs": 100, "retries": 2, "startPeriodMs": 0});
    let body = json!({"command": "sleep 300", "serviceId": id, "healthCheck": check, "restart": restart});
    start(&target, body).await;
    let service = until_state(&target, &id, "failed").await;
    assert_eq!(service["restarts"], 1);
    assert!(text(&service["health"]["error"]).starts_with("unhealthy: "), "{service}");
    delete(&target, &id).await;
}

/// The port of another process is not that of the service.
pub(super) async fn foreign_port(target: Target) {
    let port: u16 = target.authority().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    for kind in ["tcp", "http"] {
        let id = fresh("foreign");
        let mut check =
            json!({"type": kind, "port": port, "intervalMs": 100, "retries": 1, "startPeriodMs": 0});
        if kind == "http" {
            check["statusMax"] = json!(499);
        }
        start(&target, json!({"command": "sleep 300", "serviceId": id, "healthCheck": check})).await;
        let service = until_state(&target, &id, "unhealthy").await;
        let error = text(&service["health"]["error"]);
        assert!(error.contains("not part of this service"), "{service}");
        delete(&target, &id).await;
    }
}

pub(super) async fn readiness(target: Target) {
    let check = |command: &str| json!({"command": command, "intervalMs": 100, "startPeriodMs": 3_600_000});
    let ask = |body: Value| target.post("/api/service/start", body);
    let id = fresh("ready");
    let body =
        json!({"command": "sleep 300", "serviceId": id, "healthCheck": check("true"), "waitForReady": true});
    assert_eq!(ask(body).await.ok()["health"]["status"], "healthy");
    delete(&target, &id).await;
    let body = json!({"command": "sleep 300", "serviceId": id, "healthCheck": check("false"), "waitForReady": true,
        "readyTimeoutMs": 1});
    let error = ask(body).await.refused(408, "PROCESS_READY_TIMEOUT");
    assert_eq!(error["context"]["serviceId"], id);
    // It continues.
    assert_eq!(get(&target, &id).await["state"], "starting");
    delete(&target, &id).await;
    let body =
        json!({"command": "exit 3", "serviceId": id, "healthCheck": check("false"), "waitForReady": true});
    ask(body).await.refused(409, "PROCESS_ENDED");
    delete(&target, &id).await;
}

/// A stream shows one execution after another, and says which.
pub(super) async fn stream_follows_restarts(target: Target) {
    let id = fresh("streamed");
    let command = "echo out; echo err >&2; exit 1";
    let body = json!({"command": command, "serviceId": id, "restart": restarts("on-failure", 1)});
    let first = start(&target, body).await;
    let mut stream = target.stream(Request::get(format!("/api/service/{id}/stream"))).await;
    let events = stream.rest().await;
    let service = until_state(&target, &id, "failed").await;
    let ended: Vec<_> =
        kinds(&events).into_iter().filter(|kind| *kind != "stdout" && *kind != "stderr").collect();
    // The first execution may have been over when the stream was opened.
    let shown: Vec<_> = events.iter().filter(|event| event.kind() == "execution").collect();
    let last = shown.last().expect("an execution");
    assert_eq!(last.data["executionId"], service["executionId"]);
    assert_eq!(ended, [&["execution", "exit"].repeat(shown.len())[..], &["end"]].concat());
    assert_eq!(joined(&events, "stdout"), "out\n".repeat(shown.len()));
    assert_eq!(events.last().expect("events").data["state"], "failed");
    // A client resumes after any event, and gets the others once.
    let path = format!("/api/service/{id}/stream?since=1/0");
    let all = target.stream(Request::get(&path)).await.rest().await;
    assert_eq!(joined(&all, "stdout"), "out\nout\n");
    assert_eq!(all.iter().filter(|event| event.kind() == "execution").count(), 1);
    for (at, event) in all.iter().enumerate() {
        let last = event.id.clone().expect("a cursor");
        let request = Request::get(format!("/api/service/{id}/stream")).header("last-event-id", last);
        let rest = target.stream(request).await.rest().await;
        // The last event is sent again.
        let kinds = |events: &[Event]| events.iter().map(|event| event.kind().to_owned()).collect::<Vec<_>>();
        assert_eq!(kinds(&rest), kinds(&all[(at + 1).min(all.len() - 1)..]), "after {event:?}");
    }
    assert_eq!(first["serviceId"], id);
    let path = format!("/api/service/{id}/stream?follow=false");
    let events = target.stream(Request::get(&path)).await.rest().await;
    assert_eq!(events.last().map(|event| event.kind().to_owned()).as_deref(), Some("caught_up"));
    for wrong in ["x", "1", "99/0"] {
        let path = format!("/api/service/{id}/stream?since={wrong}");
        target.get(&path).await.refused(400, "VALIDATION_FAILED");
    }
    delete(&target, &id).await;
}

pub(super) async fn changes_are_events(target: Target) {
    let id = fresh("announced");
    let mut events = target.stream(Request::get("/api/events")).await;
    events.next_of("hello").await;
    start(&target, json!({"command": "sleep 300", "serviceId": id})).await;
    delete(&target, &id).await;
    let mut states = Vec::new();
    loop {
        let event = events.next().await;
        match event.kind() {
            "service_changed" if event.data["service"]["id"] == id => {
                states.push(text(&event.data["service"]["state"]));
            }
            "service_removed" if event.data["serviceId"] == id => break,
            _ => {}
        }
    }
    states.dedup();
    assert_eq!(states, ["running", "stopping"]);
}

pub(super) async fn of_a_session(target: Target) {
    let session = target.new_session().await;
    target.in_session(&session, "x=1; cd /usr").await;
    let id = fresh("of-session");
    let body = json!({"command": "echo $x $PWD; sleep 300", "serviceId": id, "sessionId": session,
        "restart": restarts("on-failure", 5)});
    start(&target, body).await;
    target.until(&format!("/api/service/{id}/logs"), |logs| logs["stdout"] == "1 /usr\n").await;
    target.delete_session(&session).await;
    let service = until_state(&target, &id, "stopped").await;
    assert_eq!(service["health"]["error"], "its session was deleted");
    // There is no session to start from.
    target.post(format!("/api/service/{id}/restart"), json!({})).await.refused(404, "SESSION_NOT_FOUND");
    delete(&target, &id).await;
}

pub(super) async fn invalid_requests(target: Target) {
    let refused =
        async |body: Value, status, code| target.post("/api/service/start", body).await.refused(status, code);
    for (field, body) in [
        ("healthCheck.port", json!({"command": "true", "healthCheck": {}})),
        ("healthCheck.retries", json!({"command": "true", "healthCheck": {"port": 80, "retries": 0}})),
        ("restart.backoffMs", json!({"command": "true", "restart": {"backoffMs": 1}})),
        ("serviceId", json!({"command": "true", "serviceId": "list"})),
        ("serviceId", json!({"command": "true", "serviceId": "../x"})),
        ("name", json!({"command": "true", "name": "n".repeat(129)})),
        ("graceMs", json!({"command": "true", "graceMs": 600_001})),
        ("cwd", json!({"command": "true", "cwd": "/no/such/directory"})),
    ] {
        let error = refused(body, 400, "VALIDATION_FAILED").await;
        assert_eq!(error["context"]["field"], field, "{error}");
    }
    refused(json!({"command": "true", "healthCheck": {"port": 0}}), 400, "INVALID_PORT").await;
    refused(json!({"command": "true", "serviceId": "s".repeat(97)}), 400, "NAME_TOO_LONG").await;
    refused(json!({"command": "true", "sessionId": fresh("none")}), 404, "SESSION_NOT_FOUND").await;
    refused(json!({"command": "x".repeat(1 << 20)}), 413, "FILE_TOO_LARGE").await;
    // A program that cannot be started is an error, and leaves no service.
    let id = fresh("missing");
    let body = json!({"command": "/no/such/program", "args": [], "serviceId": id});
    refused(body, 404, "COMMAND_NOT_FOUND").await;
    target.get(format!("/api/service/{id}")).await.refused(404, "SERVICE_NOT_FOUND");
}

pub(super) async fn unknown_services(target: Target) {
    let id = fresh("none");
    for path in ["", "/health", "/logs", "/stream"] {
        target.get(format!("/api/service/{id}{path}")).await.refused(404, "SERVICE_NOT_FOUND");
    }
    target.delete(format!("/api/service/{id}")).await.refused(404, "SERVICE_NOT_FOUND");
    for path in ["stop", "restart"] {
        let path = format!("/api/service/{id}/{path}");
        target.post(path, json!({})).await.refused(404, "SERVICE_NOT_FOUND");
    }
    let id = fresh("signalled");
    start(&target, json!({"command": "sleep 300", "serviceId": id})).await;
    for body in [json!({"signal": "NOPE"}), json!({"graceMs": 600_001}), json!({"now": true})] {
        target.post(format!("/api/service/{id}/stop"), body).await.refused(400, "VALIDATION_FAILED");
    }
    delete(&target, &id).await;
}
