//! Processes: starting, listing, waiting, signalling, ending and removing.

use serde_json::{Value, json};

use super::shapes;
use super::steps::{fresh, text};
use crate::http::{Request, Target};
use crate::shape::assert_shape;

fn ids(list: &Value) -> Vec<String> {
    list["processes"].as_array().expect("a list").iter().map(|process| text(&process["id"])).collect()
}

pub(super) async fn response_fields(target: Target) {
    let id = fresh("process");
    let body = json!({"command": "sleep 300", "processId": id});
    let started = target.post("/api/process/start", body).await.ok();
    assert_shape(&started, shapes::STARTED);
    assert_eq!((&started["processId"], &started["command"]), (&json!(id), &json!("sleep 300")));
    assert!(target.is_alive(&started["pid"]).await, "{started}");
    let one = target.get(format!("/api/process/{id}")).await.ok();
    assert_shape(&one, shapes::ONE_PROCESS);
    assert_shape(&one["process"], shapes::PROCESS);
    let process = &one["process"];
    assert_eq!((&process["status"], &process["background"]), (&json!("running"), &json!(true)));
    assert_eq!(process["pid"], started["pid"]);
    let killed = target.kill(&id).await;
    assert_shape(&killed, shapes::KILLED);
    assert_shape(&killed["killed"][0], shapes::KILLED_PROCESS);
    assert_eq!((&killed["processId"], &killed["survivors"]), (&json!(id), &json!([])));
    target.until_gone(&started["pid"]).await;
    let process = target.process(&id).await;
    assert_shape(&process, shapes::PROCESS);
    assert_shape(&process["usage"], shapes::USAGE);
    assert_eq!((&process["status"], &process["exitCode"]), (&json!("killed"), &json!(137)));
    assert_eq!(process["end"], json!({"reason": "killed", "signal": 9}));
    assert!(process["endTime"].as_str() >= process["startTime"].as_str(), "{process}");
}

pub(super) async fn statuses(target: Target) {
    for (command, status, code) in
        [("true", "completed", 0), ("exit 3", "failed", 3), ("kill -9 $$", "failed", 137)]
    {
        let id = target.start(json!({"command": command})).await;
        let process = target.ended(&id).await;
        assert_eq!((&process["status"], &process["exitCode"]), (&json!(status), &json!(code)), "{command}");
    }
    let id = target.start(json!({"command": "sleep 300", "timeoutMs": 50})).await;
    let process = target.ended(&id).await;
    assert_eq!((&process["status"], &process["exitCode"]), (&json!("killed"), &json!(124)));
}

pub(super) async fn list_processes(target: Target) {
    let session = target.new_session().await;
    let running = target.start(json!({"command": "sleep 300", "sessionId": session})).await;
    let ended = target.start(json!({"command": "exit 3"})).await;
    target.ended(&ended).await;
    let executed = text(&target.shell("true").await["executionId"]);
    let list = |query: String| {
        let target = target.clone();
        async move { target.get(format!("/api/process/list{query}")).await.ok() }
    };
    let all = list(String::new()).await;
    assert_shape(&all, shapes::PROCESSES);
    all["processes"].as_array().expect("a list").iter().for_each(|each| assert_shape(each, shapes::PROCESS));
    let named = ids(&all);
    assert!(named.contains(&running) && named.contains(&ended) && !named.contains(&executed), "{named:?}");
    let order = |id: &String| named.iter().position(|other| other == id);
    assert!(order(&running) < order(&ended), "the oldest come first: {named:?}");
    assert!(ids(&list("?all=true".to_owned()).await).contains(&executed));
    let failed = ids(&list("?status=failed".to_owned()).await);
    assert!(failed.contains(&ended) && !failed.contains(&running));
    assert_eq!(ids(&list(format!("?sessionId={session}")).await), [running.as_str()]);
    target.delete_session(&session).await;
}

pub(super) async fn not_found(target: Target) {
    let id = "nobody";
    let get = |rest: &str| Request::get(format!("/api/process/{id}{rest}"));
    let post = |rest: &str, body: Value| Request::post(format!("/api/process/{id}{rest}"), &body);
    for request in [
        get(""),
        get("/logs"),
        get("/output"),
        get("/stream"),
        get("/wait"),
        Request::new("DELETE", format!("/api/process/{id}")),
        post("/signal", json!({"signal": "TERM"})),
        post("/stdin", json!({})),
    ] {
        let refusal = target.send(request).await.refused(404, "PROCESS_NOT_FOUND");
        assert_eq!(refusal["context"]["processId"], id);
    }
    for path in ["/api/process/..%2f..%2fetc%2fpasswd", "/api/process/%00", "/api/process/a%20b"] {
        target.get(path).await.refused(404, "PROCESS_NOT_FOUND");
    }
}

pub(super) async fn kill_after_the_end(target: Target) {
    let id = target.start(json!({"command": "exit 3"})).await;
    target.ended(&id).await;
    let killed = target.delete(format!("/api/process/{id}")).await.ok();
    assert_eq!((&killed["success"], &killed["killed"]), (&json!(true), &json!([])));
    assert_eq!(target.process(&id).await["exitCode"], 3);
}

pub(super) async fn kill_with_grace_period(target: Target) {
    let command = "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let id = target.start(json!({"command": command})).await;
    target.until(&format!("/api/process/{id}/logs"), |logs| logs["stdout"] == "ready\n").await;
    target.delete(format!("/api/process/{id}?graceMs=20000")).await.ok();
    let process = target.process(&id).await;
    assert_eq!((&process["exitCode"], &process["end"]["reason"]), (&json!(5), &json!("killed")));
    assert_eq!(target.get(format!("/api/process/{id}/logs")).await.ok()["stdout"], "ready\ncaught\n");
}

/// An id cannot be reused while its process runs, and can be afterwards.
pub(super) async fn duplicate_id(target: Target) {
    let id = fresh("twice");
    let body = json!({"command": "sleep 300", "processId": id});
    let started = target.post("/api/process/start", body.clone()).await.ok();
    let refusal =
        target.post("/api/process/start", body.clone()).await.refused(409, "PROCESS_ALREADY_EXISTS");
    assert_eq!(refusal["context"]["processId"], id);
    assert_eq!(target.process(&id).await["pid"], started["pid"]);
    target.kill(&id).await;
    let again = target.post("/api/process/start", body).await.ok();
    assert_ne!(again["pid"], started["pid"]);
    target.kill(&id).await;
}

pub(super) async fn wait_for_the_end(target: Target) {
    let id = target.start(json!({"command": "sleep 300"})).await;
    let answer = target.get(format!("/api/process/{id}/wait?timeoutMs=50")).await;
    answer.refused(408, "PROCESS_READY_TIMEOUT");
    assert_eq!(target.process(&id).await["status"], "running");
    let mut waiter = target.connect().await;
    waiter.send(&Request::get(format!("/api/process/{id}/wait"))).await.expect("sent");
    target.kill(&id).await;
    let answer = waiter.answer().await.expect("an answer").ok();
    assert_shape(&answer, shapes::ONE_PROCESS);
    assert_eq!(answer["process"]["status"], "killed");
}

pub(super) async fn send_signals(target: Target) {
    let command = "trap 'echo hup' HUP; trap 'echo usr1' USR1; echo ready; while :; do sleep 0.01; done";
    let id = target.start(json!({"command": command})).await;
    let logs = format!("/api/process/{id}/logs");
    target.until(&logs, |logs| logs["stdout"] == "ready\n").await;
    let mut expected = "ready\n".to_owned();
    for (signal, word) in
        [(json!("HUP"), "hup"), (json!("SIGUSR1"), "usr1"), (json!(1), "hup"), (json!("10"), "usr1")]
    {
        let path = format!("/api/process/{id}/signal");
        assert_shape(&target.post(path, json!({"signal": signal})).await.ok(), shapes::DONE);
        expected.extend([word, "\n"]);
        target.until(&logs, |logs| logs["stdout"] == expected).await;
    }
    for bad in [json!("NOSUCH"), json!(0), json!(999), json!(-1), json!(null), json!({})] {
        let answer = target.post(format!("/api/process/{id}/signal"), json!({"signal": bad})).await;
        answer.refused(400, "VALIDATION_FAILED");
    }
    target.kill(&id).await;
    let answer = target.post(format!("/api/process/{id}/signal"), json!({"signal": "TERM"})).await;
    answer.refused(409, "PROCESS_ENDED");
}

pub(super) async fn kill_all(target: Target) {
    let session = target.new_session().await;
    let other = target.start(json!({"command": "sleep 300"})).await;
    let mut own = Vec::new();
    for _ in 0..3 {
        own.push(target.start(json!({"command": "sleep 300", "sessionId": session})).await);
    }
    let answer = target.delete(format!("/api/process/kill-all?sessionId={session}")).await.ok();
    assert_shape(&answer, shapes::CLEANED);
    assert_eq!(answer["cleanedCount"], 3);
    assert_eq!(target.process(&other).await["status"], "running");
    let answer = target.delete("/api/process/kill-all").await.ok();
    assert!(answer["cleanedCount"].as_u64() >= Some(1), "{answer}");
    assert_eq!(target.process(&other).await["status"], "killed");
    target.delete_session(&session).await;
}

pub(super) async fn cleanup(target: Target) {
    let ended = target.start(json!({"command": "true", "autoCleanup": false})).await;
    target.ended(&ended).await;
    let running = target.start(json!({"command": "sleep 300"})).await;
    // The record may still be in use by a reader directly after the end.
    let cleaned = target.post("/api/process/cleanup", json!({})).await.ok();
    assert_shape(&cleaned, shapes::CLEANED);
    target.get(format!("/api/process/{ended}")).await.refused(404, "PROCESS_NOT_FOUND");
    assert_eq!(target.process(&running).await["status"], "running");
    target.kill(&running).await;
}

pub(super) async fn on_session_end(target: Target) {
    let session = target.new_session().await;
    let goes = target.start(json!({"command": "sleep 300", "sessionId": session})).await;
    let stays =
        target.start(json!({"command": "sleep 300", "sessionId": session, "onSessionEnd": "keep"})).await;
    target.delete_session(&session).await;
    assert_eq!(target.ended(&goes).await["status"], "killed");
    assert_eq!(target.process(&stays).await["status"], "running");
    target.kill(&stays).await;
}

/// If its supervisor is killed, the outcome of a process is unknown. Its output is kept, and the server
/// continues.
pub(super) async fn lost_process(target: Target) {
    // If the supervisor is killed before the start is acknowledged, the start fails with `EXECUTION_LOST`
    // instead.
    let command = "echo before; read line; kill -9 $PPID; sleep 300";
    let id = target.start(json!({"command": command, "keepStdinOpen": true})).await;
    let logs = format!("/api/process/{id}/logs");
    target.until(&logs, |logs| logs["stdout"] == "before\n").await;
    let request = Request::new("POST", format!("/api/process/{id}/stdin")).body("go\n");
    // The supervisor may be gone before it can acknowledge the write.
    target.send(request).await;
    let process = target.ended(&id).await;
    assert_eq!((&process["status"], &process["end"]["reason"]), (&json!("error"), &json!("lost")));
    assert_eq!(target.get(logs).await.ok()["stdout"], "before\n");
    target.until_gone(&process["pid"]).await;
    assert_eq!(target.shell("echo next").await["stdout"], "next\n");
}

/// A queued command cannot be signalled, but it can be killed.
pub(super) async fn queued_command(target: Target) {
    let session = target.new_session().await;
    let path = format!("/api/session/{session}");
    let mut waiting = Vec::new();
    let id = fresh("queued");
    for (queued, id) in [fresh("running"), id.clone()].into_iter().enumerate() {
        let body = json!({"command": "sleep 300", "sessionId": session, "executionId": id});
        let mut connection = target.connect().await;
        connection.send(&Request::post("/api/execute", &body)).await.expect("sent");
        waiting.push(connection);
        let wanted =
            |answer: &Value| answer["session"]["busy"] == true && answer["session"]["queued"] == queued;
        target.until(&path, wanted).await;
    }
    assert_eq!(target.process(&id).await["status"], "starting");
    let answer = target.post(format!("/api/process/{id}/signal"), json!({"signal": "TERM"})).await;
    answer.refused(409, "PROCESS_NOT_STARTED");
    target.kill(&id).await;
    target.delete_session(&session).await;
}

/// The id of a finished process can be reused. The response describes the previous process.
pub(super) async fn reused_id(target: Target) {
    let id = fresh("again");
    let start = json!({"command": "exit 3", "processId": id});
    let first = target.post("/api/process/start", start.clone()).await.ok();
    assert!(first["replaced"].is_null(), "{first}");
    target.ended(&id).await;
    target.until(&format!("/api/process/{id}"), |answer| answer["process"]["status"] == "failed").await;
    let second = target.post("/api/process/start", start).await.ok();
    assert_eq!(second["replaced"], json!({"exitCode": 3, "end": {"reason": "exited"}}));
    target.ended(&id).await;
    let run = target.run(json!({"command": "true", "executionId": id})).await;
    assert_eq!(run["replaced"]["exitCode"], 3);
}

pub(super) async fn metrics_of_the_tree(target: Target) {
    let id = target.start(json!({"command": "setsid -f sleep 300; exec 9</dev/null; sleep 300; true"})).await;
    let path = format!("/api/process/{id}?metrics=true");
    let answer =
        target.until(&path, |answer| answer["process"]["metrics"]["processes"].as_u64() >= Some(3)).await;
    let metrics = &answer["process"]["metrics"];
    assert_shape(metrics, shapes::METRICS);
    for (field, least) in [("threads", 3), ("openFiles", 9), ("residentBytes", 100_000)] {
        assert!(metrics[field].as_u64() >= Some(least), "{field}: {metrics}");
    }
    assert_eq!(target.process(&id).await.get("metrics"), None);
    let totals = target.get("/metrics").await.text();
    let total = |name: &str| {
        let line = totals.lines().find_map(|line| line.strip_prefix(&format!("sandcrab_{name} ")));
        line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name}: {totals}"))
    };
    assert!(total("processes") >= 3.0 && total("processes_resident_bytes") >= 100_000.0, "{totals}");
    target.kill(&id).await;
    // Without processes.
    let answer = target.get(&path).await.ok();
    assert_eq!(answer["process"]["metrics"]["processes"], 0, "{answer}");
}
