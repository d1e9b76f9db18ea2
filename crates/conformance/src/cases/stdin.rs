//! Standard input that stays open.

use serde_json::{Value, json};

use super::shapes;
use super::steps::decode;
use crate::http::{Request, Response, Target};
use crate::shape::assert_shape;

async fn write(target: &Target, id: &str, bytes: &[u8], close: bool) -> Response {
    let query = if close { "?close=true" } else { "" };
    let request = Request::new("POST", format!("/api/process/{id}/stdin{query}")).body(bytes);
    target.send(request.header("content-type", "application/octet-stream")).await
}

async fn open(target: &Target, command: &str) -> String {
    target.start(json!({"command": command, "keepStdinOpen": true, "encoding": "base64"})).await
}

pub(super) async fn written_and_closed(target: Target) {
    let id = open(&target, "cat").await;
    let logs = format!("/api/process/{id}/logs");
    for (count, piece) in [&b"one\n"[..], b"\0\xff", b"three"].into_iter().enumerate() {
        let answer = write(&target, &id, piece, false).await.ok();
        assert_shape(&answer, shapes::STDIN);
        assert_eq!(answer["written"], piece.len());
        let so_far = [&b"one\n"[..], b"\0\xff", b"three"][..=count].concat();
        target.until(&logs, |logs| decode(&logs["stdout"]) == so_far).await;
    }
    assert_eq!(write(&target, &id, b"!", true).await.ok()["written"], 1);
    assert_eq!(target.ended(&id).await["exitCode"], 0);
    assert_eq!(decode(&target.get(logs).await.ok()["stdout"]), b"one\n\0\xffthree!");
}

pub(super) async fn initial_input_then_open(target: Target) {
    let body = json!({"command": "cat", "stdin": "first ", "keepStdinOpen": true});
    let id = target.start(body).await;
    target.until(&format!("/api/process/{id}/logs"), |logs| logs["stdout"] == "first ").await;
    write(&target, &id, b"second", true).await.ok();
    target.ended(&id).await;
    assert_eq!(target.get(format!("/api/process/{id}/logs")).await.ok()["stdout"], "first second");
}

pub(super) async fn not_open(target: Target) {
    let id = target.start(json!({"command": "sleep 300"})).await;
    write(&target, &id, b"x", false).await.refused(409, "STDIN_NOT_OPEN");
    target.kill(&id).await;
    let closed = open(&target, "cat; sleep 300").await;
    write(&target, &closed, b"", true).await.ok();
    write(&target, &closed, b"x", false).await.refused(409, "STDIN_NOT_OPEN");
    target.kill(&closed).await;
    let answer = write(&target, &closed, b"x", false).await;
    assert_eq!(answer.status(), 409, "{}", answer.text());
}

pub(super) async fn session_command(target: Target) {
    let session = target.new_session().await;
    let id = super::steps::fresh("reads");
    let body = json!({"command": "read line; echo got $line", "sessionId": session, "keepStdinOpen": true,
        "executionId": id});
    let mut reader = target.connect().await;
    reader.send(&Request::post("/api/execute", &body)).await.expect("sent");
    target.until(&format!("/api/session/{session}"), |answer| answer["session"]["busy"] == true).await;
    target.until("/api/process/list?all=true&status=running", |list| contains(list, &id)).await;
    write(&target, &id, b"it\n", false).await.ok();
    assert_eq!(reader.answer().await.expect("an answer").ok()["stdout"], "got it\n");
    assert_eq!(target.in_session(&session, "echo $line").await["stdout"], "it\n");
    target.delete_session(&session).await;
}

fn contains(list: &Value, id: &str) -> bool {
    list["processes"].as_array().is_some_and(|all| all.iter().any(|process| process["id"] == id))
}

/// The kernel reports which processes wait for input.
pub(super) async fn waiting_for_input_is_reported(target: Target) {
    let id = open(&target, "read line; sleep 300").await;
    target.until(&format!("/api/process/{id}"), |answer| answer["process"]["waiting"] == "input").await;
    write(&target, &id, b"x\n", false).await.ok();
    target.until(&format!("/api/process/{id}"), |answer| answer["process"].get("waiting").is_none()).await;
    target.kill(&id).await;
}

/// More than fits into a pipe, to a slow reader.
pub(super) async fn more_than_a_pipe_holds(target: Target) {
    let id = open(&target, "sleep 0.2; sha256sum").await;
    let bytes: Vec<u8> = (0..4_000_000_u32).map(|number| number.to_le_bytes()[number as usize % 3]).collect();
    assert_eq!(write(&target, &id, &bytes, true).await.ok()["written"], bytes.len());
    target.ended(&id).await;
    let expected = {
        let body =
            json!({"command": "sha256sum", "stdin": super::steps::encode(&bytes), "stdinEncoding": "base64"});
        target.run(body).await["stdout"].clone()
    };
    let got = target.get(format!("/api/process/{id}/logs?encoding=utf8")).await.ok();
    assert_eq!(got["stdout"], expected);
}
