//! Sessions: creating, listing, forking, resetting, interrupting and deleting.

use serde_json::{Value, json};

use super::shapes;
use super::steps::{fresh, text};
use crate::http::{Request, Target};
use crate::shape::assert_shape;

pub(super) async fn response_fields(target: Target) {
    let id = fresh("session");
    let body = json!({"id": id, "name": "a name", "cwd": "/", "env": {"A": "1"}});
    let created = target.post("/api/session/create", body).await.ok();
    assert_shape(&created, shapes::SESSION_CREATED);
    assert_shape(&created["data"], shapes::SESSION_MADE);
    assert_eq!((&created["data"]["id"], &created["id"]), (&json!(id), &json!(id)));
    assert_eq!(created["data"]["cwd"], "/");
    let one = target.get(format!("/api/session/{id}")).await.ok();
    assert_shape(&one, shapes::ONE_SESSION);
    assert_shape(&one["session"], shapes::SESSION);
    let session = &one["session"];
    assert_eq!(
        (&session["name"], &session["busy"], &session["restarts"]),
        (&json!("a name"), &json!(false), &json!(0))
    );
    let list = target.get("/api/session/list").await.ok();
    assert_shape(&list, shapes::SESSIONS);
    assert!(list["data"].as_array().is_some_and(|ids| ids.contains(&json!(id))), "{list}");
    list["sessions"].as_array().expect("a list").iter().for_each(|each| assert_shape(each, shapes::SESSION));
    let deleted = target.delete_session(&id).await;
    assert_shape(&deleted, shapes::SESSION_ENDED);
    assert_eq!(deleted["sessionId"], id);
    target.get(format!("/api/session/{id}")).await.refused(404, "SESSION_NOT_FOUND");
}

pub(super) async fn not_found(target: Target) {
    let id = "nobody";
    target.get(format!("/api/session/{id}")).await.refused(404, "SESSION_NOT_FOUND");
    target.post("/api/session/delete", json!({"sessionId": id})).await.refused(404, "SESSION_NOT_FOUND");
    for action in ["interrupt", "fork", "reset"] {
        let answer = target.post(format!("/api/session/{id}/{action}"), json!({})).await;
        assert_eq!(answer.refused(404, "SESSION_NOT_FOUND")["context"]["sessionId"], id);
    }
    for path in ["/api/execute", "/api/execute/stream", "/api/process/start"] {
        let answer = target.post(path, json!({"command": "true", "sessionId": id})).await;
        answer.refused(404, "SESSION_NOT_FOUND");
    }
}

pub(super) async fn duplicate_id(target: Target) {
    let session = target.new_session().await;
    let refusal = target.post("/api/session/create", json!({"id": session})).await;
    assert_eq!(refusal.refused(409, "SESSION_ALREADY_EXISTS")["context"]["sessionId"], session);
    target.delete_session(&session).await;
    assert_eq!(target.make_session(json!({"id": session})).await, session);
    target.delete_session(&session).await;
}

pub(super) async fn missing_working_directory(target: Target) {
    for cwd in ["/no/such/folder", "/etc/passwd"] {
        let id = fresh("nowhere");
        let answer = target.post("/api/session/create", json!({"id": id, "cwd": cwd})).await;
        assert_eq!(answer.status(), 400, "{cwd}: {}", answer.text());
        target.get(format!("/api/session/{id}")).await.refused(404, "SESSION_NOT_FOUND");
    }
}

pub(super) async fn state_is_kept(target: Target) {
    let session = target.new_session().await;
    for command in [
        "cd /usr",
        "x='a b'",
        "f() { echo \"f $1\"; }",
        "declare -A map=([k]=v)",
        "alias hi='echo hi'",
        "false",
    ] {
        target.in_session(&session, command).await;
    }
    let command = "echo $? $PWD \"$x\" ${map[k]}; f 1; alias hi";
    let result = target.in_session(&session, command).await;
    assert_eq!(result["stdout"], "1 /usr a b v\nf 1\nalias hi='echo hi'\n");
    assert_eq!(result["sessionId"], session);
    let cwd = target.get(format!("/api/session/{session}")).await.ok()["session"]["cwd"].take();
    assert_eq!(cwd, "/usr");
    target.delete_session(&session).await;
}

/// The `cwd` of a command does not affect later commands.
pub(super) async fn working_directory_of_one_command(target: Target) {
    let session = target.make_session(json!({"cwd": "/usr"})).await;
    let body = json!({"command": "pwd", "cwd": "/", "sessionId": session});
    assert_eq!(target.run(body).await["stdout"], "/\n");
    assert_eq!(target.in_session(&session, "pwd").await["stdout"], "/usr\n");
    target.delete_session(&session).await;
}

pub(super) async fn command_defaults(target: Target) {
    let session = target.make_session(json!({"commandTimeoutMs": 200, "maxOutputSizeBytes": 100})).await;
    let result = target.in_session(&session, "sleep 300").await;
    assert_eq!((&result["exitCode"], &result["end"]["reason"]), (&json!(124), &json!("timeout")));
    let result = target.in_session(&session, "seq 1 1000").await;
    assert!(result["stdout"].as_str().is_some_and(|text| text.len() <= 100), "{result}");
    let body = json!({"command": "sleep 0.4; seq 1 1000", "sessionId": session, "timeoutMs": 20000, "maxOutputBytes": 9999});
    let result = target.run(body).await;
    assert_eq!((&result["exitCode"], result.get("truncated")), (&json!(0), None));
    let body = json!({"command": "sleep 0.4", "sessionId": session, "timeoutMs": 0, "idleTimeoutMs": 0});
    assert_eq!(target.run(body).await["exitCode"], 0);
    target.delete_session(&session).await;
}

pub(super) async fn interrupt_keeps_the_shell(target: Target) {
    let session = target.new_session().await;
    target.in_session(&session, "kept=1; f() { while :; do :; done; }").await;
    for command in ["sleep 300", "f", "trap '' INT; sleep 300"] {
        let mut waiter = target.connect().await;
        let body = json!({"command": command, "sessionId": session});
        waiter.send(&Request::post("/api/execute", &body)).await.expect("sent");
        let path = format!("/api/session/{session}");
        target.until(&path, |answer| answer["session"]["busy"] == true).await;
        let ended = target.post(format!("/api/session/{session}/interrupt"), json!({})).await.ok();
        assert_shape(&ended, shapes::SESSION_ENDED);
        let result = waiter.answer().await.expect("an answer").ok();
        assert_eq!(result["end"]["reason"], "killed", "{command}");
        let next = target.in_session(&session, "echo $kept").await;
        assert_eq!((&next["stdout"], next.get("sessionRestarted")), (&json!("1\n"), None), "{command}");
    }
    let idle = target.post(format!("/api/session/{session}/interrupt"), json!({"signal": "TERM"})).await.ok();
    assert_eq!(idle["killed"], json!([]));
    target.delete_session(&session).await;
}

/// The limit of a state that is copied. The session itself has none.
pub(super) async fn fork_of_a_large_state_is_refused(target: Target) {
    let session = target.make_session(json!({})).await;
    let run = async |command: &str| {
        target.post("/api/execute", json!({"command": command, "sessionId": session})).await.ok()
    };
    run("v=$(head -c 70000000 /dev/zero | tr '\\0' x); keep=1").await;
    let refusal = target.post(format!("/api/session/{session}/fork"), json!({})).await;
    let refusal = refusal.refused(413, "SESSION_STATE_TOO_LARGE");
    assert!(refusal["message"].as_str().is_some_and(|text| text.contains("64 MiB")), "{refusal}");
    let start = json!({"command": "true", "sessionId": session});
    target.post("/api/process/start", start.clone()).await.refused(413, "SESSION_STATE_TOO_LARGE");
    // The client follows the message.
    assert_eq!(run("echo ${#v} $keep; unset v").await["stdout"], "70000000 1\n");
    let fork = target.post(format!("/api/session/{session}/fork"), json!({})).await.ok();
    let fork = fork["data"]["id"].as_str().expect("an id");
    let kept = target.post("/api/execute", json!({"command": "echo $keep", "sessionId": fork})).await.ok();
    assert_eq!(kept["stdout"], "1\n");
    target.delete_session(fork).await;
    target.delete_session(&session).await;
}

pub(super) async fn fork_has_the_same_state(target: Target) {
    let session = target.new_session().await;
    target.in_session(&session, "cd /usr; x=1; f() { echo f; }").await;
    let id = fresh("fork");
    let fork = target.post(format!("/api/session/{session}/fork"), json!({"id": id})).await.ok();
    assert_shape(&fork, shapes::SESSION_CREATED);
    assert_eq!((&fork["data"]["id"], &fork["data"]["cwd"]), (&json!(id), &json!("/usr")));
    assert_eq!(target.in_session(&id, "echo $PWD $x; f; x=2").await["stdout"], "/usr 1\nf\n");
    assert_eq!(target.in_session(&session, "echo $x").await["stdout"], "1\n");
    let taken = target.post(format!("/api/session/{session}/fork"), json!({"id": id})).await;
    taken.refused(409, "SESSION_ALREADY_EXISTS");
    let made = target.post(format!("/api/session/{session}/fork"), json!({})).await.ok();
    for session in [session, id, text(&made["data"]["id"])] {
        target.delete_session(&session).await;
    }
}

pub(super) async fn reset_with_and_without_state(target: Target) {
    let session = target.new_session().await;
    let reset = |body: Value| target.post(format!("/api/session/{session}/reset"), body);
    target.in_session(&session, "x=1").await;
    assert_shape(&reset(json!({"restore": true})).await.ok(), shapes::DONE);
    assert_eq!(target.in_session(&session, "echo ${x-none}").await["stdout"], "1\n");
    reset(json!({})).await.ok();
    assert_eq!(target.in_session(&session, "echo ${x-none}").await["stdout"], "none\n");
    target.delete_session(&session).await;
}

/// Deleting does not wait for running commands, and the id is free when the response is sent.
pub(super) async fn delete_while_a_command_runs(target: Target) {
    let session = target.new_session().await;
    let mut waiter = target.connect().await;
    let body = json!({"command": "trap '' TERM INT HUP; sleep 300; sleep 300", "sessionId": session});
    waiter.send(&Request::post("/api/execute", &body)).await.expect("sent");
    let path = format!("/api/session/{session}");
    target.until(&path, |answer| answer["session"]["busy"] == true).await;
    let deleted = target.delete_session(&session).await;
    assert_eq!((&deleted["success"], &deleted["survivors"]), (&json!(true), &json!([])));
    target.make_session(json!({"id": session})).await;
    assert_eq!(target.in_session(&session, "echo new").await["stdout"], "new\n");
    let ended = waiter.answer().await.expect("an answer");
    assert!(matches!(ended.status(), 200 | 410), "{}", ended.text());
    target.delete_session(&session).await;
}

/// Queued commands are told that the session is gone.
pub(super) async fn delete_while_a_command_is_queued(target: Target) {
    let session = target.new_session().await;
    let mut waiters = Vec::new();
    let path = format!("/api/session/{session}");
    for queued in 0..3 {
        let mut waiter = target.connect().await;
        let body = json!({"command": "sleep 300", "sessionId": session});
        waiter.send(&Request::post("/api/execute", &body)).await.expect("sent");
        target
            .until(&path, |answer| answer["session"]["busy"] == true && answer["session"]["queued"] == queued)
            .await;
        waiters.push(waiter);
    }
    target.delete_session(&session).await;
    for mut waiter in waiters.into_iter().skip(1) {
        waiter.answer().await.expect("an answer").refused(410, "SESSION_DESTROYED");
    }
}
