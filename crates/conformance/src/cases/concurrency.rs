//! What waits for what. No case depends on timing: a command that must not wait opens the gate at which
//! another one waits.

use serde_json::{Value, json};

use super::steps::fresh;
use crate::http::{Connection, Request, Target};

/// A command that waits until a file exists.
fn gate(folder: &str) -> String {
    format!("until [ -e {folder}/open ]; do sleep 0.005; done")
}

async fn send(target: &Target, body: Value) -> Connection {
    let mut connection = target.connect().await;
    connection.send(&Request::post("/api/execute", &body)).await.expect("sent");
    connection
}

async fn until_busy(target: &Target, session: &str, queued: usize) {
    let path = format!("/api/session/{session}");
    let wanted = |answer: &Value| answer["session"]["busy"] == true && answer["session"]["queued"] == queued;
    target.until(&path, wanted).await;
}

/// A stateless command never waits for a session: here one opens the gate.
pub(super) async fn session_commands_run_in_order(target: Target) {
    let (session, folder) = (target.new_session().await, target.folder().await);
    let mut first = send(&target, json!({"command": gate(&folder), "sessionId": session})).await;
    until_busy(&target, &session, 0).await;
    let mut waiting = Vec::new();
    for number in 1..=20 {
        let body = json!({"command": format!("echo {number} $((++count))"), "sessionId": session});
        waiting.push(send(&target, body).await);
        until_busy(&target, &session, number).await;
    }
    target.shell(&format!("touch {folder}/open")).await;
    assert_eq!(first.answer().await.expect("an answer").ok()["exitCode"], 0);
    for (index, connection) in waiting.iter_mut().enumerate() {
        let number = index + 1;
        let result = connection.answer().await.expect("an answer").ok();
        assert_eq!(result["stdout"], format!("{number} {number}\n"));
    }
    target.delete_session(&session).await;
    target.remove(&folder).await;
}

pub(super) async fn sessions_run_concurrently(target: Target) {
    let (one, other, folder) =
        (target.new_session().await, target.new_session().await, target.folder().await);
    let mut waits = send(&target, json!({"command": gate(&folder), "sessionId": one})).await;
    until_busy(&target, &one, 0).await;
    target.in_session(&other, &format!("touch {folder}/open")).await;
    assert_eq!(waits.answer().await.expect("an answer").ok()["exitCode"], 0);
    target.delete_session(&one).await;
    target.delete_session(&other).await;
    target.remove(&folder).await;
}

pub(super) async fn kill_does_not_wait(target: Target) {
    let session = target.new_session().await;
    let (running, queued) = (fresh("running"), fresh("queued"));
    let body = |id: &str| json!({"command": "sleep 300", "sessionId": session, "executionId": id});
    let mut first = send(&target, body(&running)).await;
    until_busy(&target, &session, 0).await;
    let mut second = send(&target, body(&queued)).await;
    until_busy(&target, &session, 1).await;
    // Queued commands can be killed too.
    target.kill(&queued).await;
    assert_eq!(second.answer().await.expect("an answer").ok()["end"]["reason"], "killed");
    assert_eq!(target.process(&running).await["status"], "running");
    target.kill(&running).await;
    assert_eq!(first.answer().await.expect("an answer").ok()["end"]["reason"], "killed");
    assert_eq!(target.in_session(&session, "echo next").await["stdout"], "next\n");
    target.delete_session(&session).await;
}

/// A process started from a session has its state, and does not delay or change it.
pub(super) async fn process_start_precedes_later_commands(target: Target) {
    let session = target.new_session().await;
    target.in_session(&session, "cd /usr; x=1; f() { echo \"f $x $PWD\"; }").await;
    let id = target.start(json!({"command": "f; x=2; sleep 300", "sessionId": session})).await;
    assert_eq!(target.in_session(&session, "echo $x").await["stdout"], "1\n");
    target.until(&format!("/api/process/{id}/logs"), |logs| logs["stdout"] == "f 1 /usr\n").await;
    let background = json!({"command": "sleep 300", "sessionId": session, "background": true});
    target.run(background).await;
    assert_eq!(target.in_session(&session, "echo $x").await["stdout"], "1\n");
    target.delete_session(&session).await;
}

/// Read requests about a busy session are answered while it is busy.
pub(super) async fn reads_do_not_wait(target: Target) {
    let session = target.new_session().await;
    let id = fresh("busy");
    let body = json!({"command": "echo so far; sleep 300", "sessionId": session, "executionId": id});
    let mut busy = send(&target, body).await;
    until_busy(&target, &session, 0).await;
    target.until(&format!("/api/process/{id}/logs"), |logs| logs["stdout"] == "so far\n").await;
    target.process(&id).await;
    target.get("/api/session/list").await.ok();
    target.get("/api/process/list?all=true").await.ok();
    target.get("/api/health").await.ok();
    target.kill(&id).await;
    busy.answer().await.expect("an answer").ok();
    target.delete_session(&session).await;
}

/// A child that holds the output open does not delay the response.
pub(super) async fn background_child_does_not_delay(target: Target) {
    let session = target.new_session().await;
    for session in [None, Some(session.as_str())] {
        let result = target.run(json!({"command": "sleep 300 & echo now $!", "sessionId": session})).await;
        let line = result["stdout"].as_str().unwrap_or_default().to_owned();
        let pid = line.trim_end().strip_prefix("now ").expect("a pid");
        target.shell(&format!("kill -9 {pid}")).await;
    }
    target.delete_session(&session).await;
}
