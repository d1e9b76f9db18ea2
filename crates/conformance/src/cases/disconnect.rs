//! Disconnected clients: the command continues, unless the request says otherwise.

use serde_json::{Value, json};

use super::steps::fresh;
use crate::http::{Request, Target};

/// Starts a command over this route, disconnects when it runs, and returns its id.
async fn abandoned(target: &Target, path: &str, options: Value) -> String {
    let id = fresh("abandoned");
    let mut body = json!({"executionId": id});
    for (name, value) in options.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    let mut connection = target.connect().await;
    connection.send(&Request::post(path, &body)).await.expect("sent");
    // The execution may not exist yet.
    target
        .until("/api/process/list?all=true&status=running", |list| {
            list["processes"].as_array().is_some_and(|all| all.iter().any(|process| process["id"] == id))
        })
        .await;
    target.until(&format!("/api/process/{id}/logs"), |logs| logs["stdout"] == "begun\n").await;
    drop(connection);
    id
}

const ROUTES: [&str; 2] = ["/api/execute", "/api/execute/stream"];

pub(super) async fn command_continues(target: Target) {
    for path in ROUTES {
        for mut options in [json!({}), json!({"onDisconnect": "keep"})] {
            let folder = target.folder().await;
            let command = format!("echo begun; until [ -e {folder}/go ]; do sleep 0.05; done; echo done");
            options["command"] = command.into();
            let id = abandoned(&target, path, options).await;
            target.shell(&format!("touch {folder}/go")).await;
            assert_eq!(target.ended(&id).await["exitCode"], 0);
            let logs = target.get(format!("/api/process/{id}/logs")).await.ok();
            assert_eq!(logs["stdout"], "begun\ndone\n");
            target.remove(&folder).await;
        }
    }
}

pub(super) async fn command_is_killed_on_request(target: Target) {
    let session = target.new_session().await;
    for path in ROUTES {
        for session in [None, Some(session.as_str())] {
            let options =
                json!({"onDisconnect": "kill", "sessionId": session, "command": "echo begun; sleep 300"});
            let id = abandoned(&target, path, options).await;
            assert_eq!(target.ended(&id).await["end"]["reason"], "killed", "{path}, session {session:?}");
        }
    }
    assert_eq!(target.in_session(&session, "echo next").await["stdout"], "next\n");
    target.delete_session(&session).await;
}

/// A client that follows a process does not affect it.
pub(super) async fn process_reader_disconnects(target: Target) {
    let id = target.start(json!({"command": "echo begun; sleep 300", "onDisconnect": "keep"})).await;
    let mut events = target.stream(Request::get(format!("/api/process/{id}/stream"))).await;
    events.next_of("stdout").await;
    drop(events);
    assert_eq!(target.shell("sleep 0.3").await["exitCode"], 0);
    assert_eq!(target.process(&id).await["status"], "running");
    target.kill(&id).await;
}
