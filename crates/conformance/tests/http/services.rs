//! Services whose server is killed, and checks of ports.

use std::time::Duration;

use sandcrab_conformance::cases::steps::{fresh, text};
use sandcrab_conformance::cases::test_rng::TestRng;
use sandcrab_conformance::http::{Request, Target};
use serde_json::{Value, json};

use crate::support::{ServerProcess, is_soak, lines_of};

async fn start(target: &Target, body: Value) -> Value {
    target.post("/api/service/start", body).await.ok()
}

async fn until(target: &Target, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/api/service/{id}");
    target.until(&path, |answer| wanted(&answer["service"])).await["service"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn next_server_adopts_the_execution() {
    let mut server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    let check = json!({"command": "true", "intervalMs": 100});
    let body =
        json!({"command": "sleep 300", "serviceId": "web", "healthCheck": check, "waitForReady": true});
    let started = start(&target, body).await;
    server.crash();
    server.restart().await;
    let service = until(&target, "web", |service| service["state"] == "healthy").await;
    assert_eq!(
        (&service["pid"], &service["executionId"], &service["restarts"]),
        (&started["pid"], &started["executionId"], &json!(0))
    );
    server.stop().await;
}

/// Each execution writes a line. There are as many lines as executions, whenever the server was killed.
#[tokio::test(flavor = "multi_thread")]
async fn restarts_continue_and_happen_once() {
    let mut server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    let runs = server.folder().join("runs");
    let command = format!("echo ran >> {}; exit 1", runs.display());
    let restart =
        json!({"policy": "on-failure", "maxRestarts": 1_000_000, "backoffMs": 100, "maxBackoffMs": 100});
    start(&target, json!({"command": command, "serviceId": "loops", "restart": restart})).await;
    let mut rng = TestRng::new();
    let rounds = if is_soak() { 50 } else { 6 };
    for _ in 0..rounds {
        // Any moment is possible, whatever the service is doing.
        tokio::time::sleep(Duration::from_millis(rng.below(300))).await;
        server.crash();
        server.restart().await;
        let before = target.get("/api/service/loops").await.ok()["service"]["restarts"].as_u64().unwrap();
        until(&target, "loops", |service| service["restarts"].as_u64() > Some(before + 1)).await;
    }
    target.post("/api/service/loops/stop", json!({})).await.ok();
    let service = target.get("/api/service/loops").await.ok()["service"].take();
    let executions = service["restarts"].as_u64().unwrap() + 1;
    // The stop may have ended the last one before it wrote.
    let killed = u64::from(service["executions"][0]["end"]["reason"] == "killed");
    let lines = lines_of(&runs) as u64;
    assert!((executions - killed..=executions).contains(&lines), "{lines} lines, {rng:?}: {service}");
    server.stop().await;
}

/// The client does not know whether its request arrived, so it repeats it.
#[tokio::test(flavor = "multi_thread")]
async fn interrupted_start_happens_once() {
    let mut server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    let mut rng = TestRng::new();
    for round in 0..if is_soak() { 100 } else { 8 } {
        let (key, file) = (fresh("key"), server.folder().join(format!("starts-{round}")));
        let id = format!("once-{round}");
        let body = json!({"command": format!("echo ran >> {}; sleep 300", file.display()), "serviceId": id});
        let request = Request::post("/api/service/start", &body).header("idempotency-key", &key);
        let mut connection = target.connect().await;
        connection.send(&request).await.unwrap();
        tokio::time::sleep(Duration::from_micros(rng.below(40_000))).await;
        server.crash();
        server.restart().await;
        let started = target.send(request).await.ok();
        assert_eq!(started["serviceId"], id, "{rng:?}");
        until(&target, &id, |service| service["state"] == "running" && lines_of(&file) > 0).await;
        target.delete(format!("/api/service/{id}?signal=KILL")).await.ok();
        assert_eq!(lines_of(&file), 1, "round {round}, {rng:?}");
    }
    server.stop().await;
}

/// As on a full disk: the restart is tried again, and counted once.
#[tokio::test(flavor = "multi_thread")]
async fn restarts_that_cannot_be_recorded_are_not_counted() {
    let server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    let go = server.folder().join("go");
    let command = format!("until [ -e {} ]; do sleep 0.05; done; exit 1", go.display());
    let restart = json!({"policy": "always", "backoffMs": 100, "maxBackoffMs": 100});
    start(&target, json!({"command": command, "serviceId": "one", "restart": restart})).await;
    let records = server.folder().join("state/services");
    let record = std::fs::read_dir(&records).unwrap().next().unwrap().unwrap().file_name();
    let draft = records.join(format!("{}.new", record.to_str().unwrap()));
    std::fs::create_dir_all(draft.join("occupied")).unwrap();
    std::fs::write(&go, "").unwrap();
    let tries = std::cell::RefCell::new(std::collections::BTreeSet::new());
    until(&target, "one", |service| {
        assert_eq!(service["restarts"], 0, "{service}");
        let mut tries = tries.borrow_mut();
        tries.extend(service["nextRestart"].as_str().map(ToOwned::to_owned));
        tries.len() >= 4
    })
    .await;
    std::fs::remove_dir_all(draft).unwrap();
    std::fs::remove_file(&go).unwrap();
    let service = until(&target, "one", |service| service["state"] == "running").await;
    assert_eq!(service["restarts"], 1, "{service}");
    server.stop().await;
}

/// The start of a service waits in the queue of its session. A stop does not.
#[tokio::test(flavor = "multi_thread")]
async fn services_of_busy_sessions_can_be_stopped() {
    let server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    target.post("/api/session/create", json!({"id": "busy"})).await.ok();
    let (release, marker) = (server.folder().join("release"), server.folder().join("marker"));
    let wait = format!("until [ -e {} ]; do sleep 0.05; done", release.display());
    let mut busy = target.connect().await;
    busy.send(&Request::post("/api/execute", &json!({"command": wait, "sessionId": "busy"}))).await.unwrap();
    target.until("/api/session/list", |list| list["sessions"][0]["busy"] == true).await;
    for (id, method) in [("stopped", "POST"), ("deleted", "DELETE")] {
        let command = format!("echo {id} >> {}", marker.display());
        let body = json!({"command": command, "serviceId": id, "sessionId": "busy"});
        let mut first = target.connect().await;
        first.send(&Request::post("/api/service/start", &body)).await.unwrap();
        target
            .until("/api/service/list", |list| {
                list["services"].as_array().unwrap().iter().any(|service| service["id"] == id)
            })
            .await;
        match method {
            "POST" => drop(target.post(&format!("/api/service/{id}/stop"), json!({})).await.ok()),
            _ => drop(target.delete(&format!("/api/service/{id}")).await.ok()),
        }
        first.answer().await.unwrap().refused(409, "EXECUTION_CONFLICT");
    }
    let state = until(&target, "stopped", |_| true).await["state"].clone();
    assert_eq!(state, "stopped");
    std::fs::write(release, "").unwrap();
    assert_eq!(busy.answer().await.unwrap().status(), 200);
    // Behind everything in the queue.
    target.post("/api/execute", json!({"command": "true", "sessionId": "busy"})).await.ok();
    assert!(!marker.exists(), "a stopped service was started");
    server.stop().await;
}

/// A server that is killed while it ends a service does not undo the stop.
#[tokio::test(flavor = "multi_thread")]
async fn accepted_stop_is_not_undone() {
    let mut server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    let restart = json!({"policy": "always", "backoffMs": 100, "maxBackoffMs": 100});
    for (id, method) in [("stopped", "POST"), ("deleted", "DELETE")] {
        let command = "trap '' TERM; echo begun; while :; do sleep 1; done";
        let started = start(&target, json!({"command": command, "serviceId": id, "restart": restart})).await;
        target.until(&format!("/api/service/{id}/logs"), |logs| logs["stdout"] == "begun\n").await;
        let mut client = target.connect().await;
        let request = match method {
            "POST" => Request::post(format!("/api/service/{id}/stop"), &json!({"graceMs": 600_000})),
            _ => Request::new("DELETE", format!("/api/service/{id}?graceMs=600000")),
        };
        client.send(&request).await.unwrap();
        until(&target, id, |service| service["state"] == "stopping").await;
        server.crash();
        server.restart().await;
        match method {
            "POST" => {
                let service = until(&target, id, |service| service["state"] == "stopped").await;
                assert_eq!(service["restarts"], 0);
            }
            _ => {
                target
                    .until("/api/service/list", |list| {
                        list["services"].as_array().unwrap().iter().all(|service| service["id"] != id)
                    })
                    .await;
            }
        }
        target.until_gone(&started["pid"]).await;
    }
    server.crash();
    server.restart().await;
    let list = target.get("/api/service/list").await.ok();
    let states: Vec<_> = list["services"].as_array().unwrap().iter().map(|one| text(&one["state"])).collect();
    assert_eq!(states, ["stopped"], "{list}");
    server.stop().await;
}

/// The delay before a restart survives the server, and so does its end.
#[tokio::test(flavor = "multi_thread")]
async fn delay_survives() {
    let mut server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    for (id, backoff) in [("short", 1_000), ("long", 3_600_000)] {
        let restart = json!({"policy": "on-failure", "backoffMs": backoff, "maxBackoffMs": backoff});
        let marker = server.folder().join(id);
        let command = format!("[ -e {0} ] && exec sleep 300; touch {0}; exit 1", marker.display());
        start(&target, json!({"command": command, "serviceId": id, "restart": restart})).await;
        until(&target, id, |service| service["state"] == "restarting" || service["restarts"] == 1).await;
    }
    let before = target.get("/api/service/long").await.ok()["service"]["nextRestart"].take();
    server.crash();
    server.restart().await;
    let long = target.get("/api/service/long").await.ok()["service"].take();
    assert_eq!((&long["state"], &long["nextRestart"]), (&json!("restarting"), &before));
    let short = until(&target, "short", |service| service["state"] == "running").await;
    assert_eq!(short["restarts"], 1);
    server.stop().await;
}

/// A server that stops leaves the service to the next one.
#[tokio::test(flavor = "multi_thread")]
async fn services_survive_a_stop() {
    let mut server = ServerProcess::start(&["keep-executions=1", "drain-ms=1"]).await;
    let target = server.target.clone();
    let started = start(&target, json!({"command": "sleep 300", "serviceId": "kept"})).await;
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.ended().await, Some(0));
    server.restart().await;
    let service = until(&target, "kept", |service| service["state"] == "running").await;
    assert_eq!(service["pid"], started["pid"]);
    target.delete("/api/service/kept?signal=KILL").await.ok();
    server.stop().await;
}

/// A server that ends its executions when it stops starts services again when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn services_come_back_with_the_server() {
    let mut server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    let restart = json!({"policy": "on-failure", "backoffMs": 100});
    let body = json!({"command": "sleep 300", "serviceId": "back", "restart": restart});
    let started = start(&target, body).await;
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.ended().await, Some(0));
    server.restart().await;
    // Until the server has read the end of the execution, the service is what it was before the stop.
    let service =
        until(&target, "back", |service| service["restarts"] == 1 && service["state"] == "running").await;
    assert_ne!(service["executionId"], started["executionId"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn number_is_limited() {
    let server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    for number in 0..256 {
        start(&target, json!({"command": "true", "args": [], "serviceId": format!("s{number}")})).await;
    }
    let body = json!({"command": "true", "serviceId": "more"});
    let error = target.post("/api/service/start", body.clone()).await.refused(429, "LIMIT_EXCEEDED");
    assert!(text(&error["message"]).contains("256"), "{error}");
    // A stopped one with the same id is replaced.
    until(&target, "s0", |service| service["state"] == "stopped").await;
    start(&target, json!({"command": "true", "serviceId": "s0"})).await;
    target.delete("/api/service/s1").await.ok();
    start(&target, body).await;
    server.stop().await;
}

/// A listener on a free port, which it prints.
const LISTENER: &str = r#"
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 500)
        self.end_headers()
    def log_message(self, *args):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_checked() {
    let server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let program = json!(["-c", LISTENER, port.to_string()]);
    let service = |id: &str, check: Value| json!({"command": "python3", "args": program, "serviceId": id, "healthCheck": check});
    for (id, extra) in [("tcp", json!({"type": "tcp"})), ("http", json!({"path": "/health"}))] {
        let mut check = json!({"port": port, "intervalMs": 100});
        check.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let mut body = service(id, check);
        body["waitForReady"] = json!(true);
        assert_eq!(start(&target, body).await["health"]["status"], "healthy");
        target.delete(format!("/api/service/{id}?signal=KILL")).await.ok();
    }
    let check = json!({"port": port, "path": "/other", "intervalMs": 100, "retries": 1, "startPeriodMs": 0});
    start(&target, service("ill", check)).await;
    let ill = until(&target, "ill", |service| service["health"].to_string().contains("status 500")).await;
    assert_eq!(ill["state"], "unhealthy");
    server.stop().await;
}

/// A stopped service with the same id is replaced, but not by one that cannot be started.
#[tokio::test(flavor = "multi_thread")]
async fn failed_start_keeps_the_stopped_service() {
    let mut server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    start(&target, json!({"command": "sleep 300", "serviceId": "web"})).await;
    target.post("/api/service/web/stop", json!({})).await.ok();
    let before = target.get("/api/service/web").await.ok()["service"].take();
    for _ in 0..2 {
        let body = json!({"command": "/no/such/program", "args": [], "serviceId": "web"});
        target.post("/api/service/start", body).await.refused(404, "COMMAND_NOT_FOUND");
        assert_eq!(target.get("/api/service/web").await.ok()["service"], before);
    }
    server.crash();
    server.restart().await;
    let after = target.get("/api/service/web").await.ok()["service"].take();
    assert_eq!((&after["command"], &after["state"]), (&json!("sleep 300"), &json!("stopped")));
    target.post("/api/service/web/restart", json!({})).await.ok();
    until(&target, "web", |service| service["state"] == "running").await;
    // One that can be started replaces it.
    target.post("/api/service/web/stop", json!({})).await.ok();
    start(&target, json!({"command": "sleep 301", "serviceId": "web"})).await;
    server.crash();
    server.restart().await;
    assert_eq!(until(&target, "web", |_| true).await["command"], "sleep 301");
    target.delete("/api/service/web?signal=KILL").await.ok();
    server.stop().await;
}

/// The commands of all executions, also of those that have ended.
async fn commands(target: &Target) -> Vec<String> {
    let list = target.get("/api/process/list?all=true").await.ok();
    list["processes"].as_array().unwrap().iter().map(|process| text(&process["command"])).collect()
}

/// Waits until no record of a check exists.
async fn until_no_check(target: &Target) {
    target
        .until("/api/process/list?all=true", |list| {
            let all = list["processes"].as_array().unwrap();
            all.iter().all(|process| !text(&process["command"]).contains("check-marker"))
        })
        .await;
}

/// The body of a service whose check does not end in time.
fn with_slow_check(server: &ServerProcess, id: &str, command: &str) -> Value {
    let begun = server.folder().join(format!("{id}-begun"));
    let check = format!(": check-marker; touch {}; sleep 300", begun.display());
    let check = json!({"command": check, "intervalMs": 100, "timeoutMs": 60_000});
    json!({"command": command, "serviceId": id, "healthCheck": check})
}

async fn until_checked(server: &ServerProcess, id: &str) {
    let begun = server.folder().join(format!("{id}-begun"));
    let deadline = std::time::Instant::now() + sandcrab_conformance::http::TEST_TIMEOUT;
    while !begun.exists() {
        assert!(std::time::Instant::now() < deadline, "the check of {id} has not begun");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// By a stop, a deletion, and a crash of the server. None of them waits for the check.
#[tokio::test(flavor = "multi_thread")]
async fn interrupted_checks_leave_no_records() {
    let mut server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    // More than there are places for checks.
    for round in 0..20 {
        let id = format!("s{round}");
        start(&target, with_slow_check(&server, &id, "sleep 300")).await;
        until_checked(&server, &id).await;
        let begun = std::time::Instant::now();
        match round % 2 {
            0 => drop(target.post(&format!("/api/service/{id}/stop"), json!({})).await.ok()),
            _ => drop(target.delete(&format!("/api/service/{id}")).await.ok()),
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "it waits for the check");
    }
    until_no_check(&target).await;
    start(&target, with_slow_check(&server, "last", "sleep 300")).await;
    until_checked(&server, "last").await;
    std::fs::remove_file(server.folder().join("last-begun")).unwrap();
    server.crash();
    server.restart().await;
    // The next server has a check of its own.
    until_checked(&server, "last").await;
    target.delete("/api/service/last").await.ok();
    until_no_check(&target).await;
    assert!(!commands(&target).await.is_empty());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_of_a_service_that_ends_leave_no_records() {
    let server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    let go = server.folder().join("go");
    let command = format!("until [ -e {} ]; do sleep 0.05; done; exit 3", go.display());
    start(&target, with_slow_check(&server, "ends", &command)).await;
    until_checked(&server, "ends").await;
    std::fs::write(go, "").unwrap();
    until(&target, "ends", |service| service["state"] == "failed").await;
    until_no_check(&target).await;
    server.stop().await;
}
