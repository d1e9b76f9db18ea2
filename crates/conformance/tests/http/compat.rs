//! `--compat sandbox-sdk`: behaviour of the reference that the mode imitates, and native behaviour that it
//! keeps.

use std::time::{Duration, Instant};

use sandcrab_conformance::cases::steps::{fresh, text};
use sandcrab_conformance::http::{Event, Request, Target, Viewer};
use serde_json::{Value, json};

use crate::support::ServerProcess;

async fn serve() -> ServerProcess {
    ServerProcess::start(&["compat=sandbox-sdk"]).await
}

async fn stream(target: &Target, body: Value) -> Vec<Event> {
    target.stream(Request::post("/api/execute/stream", &body)).await.rest().await
}

/// Returns the concatenated data of all events of a type.
fn joined(events: &[Event], kind: &str) -> String {
    events.iter().filter(|event| event.kind() == kind).map(|event| text(&event.data["data"])).collect()
}

fn exit_code(events: &[Event]) -> &Value {
    let last = events.last().unwrap();
    assert_eq!(last.kind(), "complete", "{events:?}");
    &last.data["exitCode"]
}

#[tokio::test]
async fn session_is_created_on_first_use() {
    let server = serve().await;
    let target = &server.target;
    assert_eq!(target.in_session("first", "x=1; echo a").await["stdout"], "a");
    assert_eq!(target.in_session("first", "echo $x").await["stdout"], "1");
    let events = stream(target, json!({"command": "echo b", "sessionId": "second"})).await;
    assert_eq!((joined(&events, "stdout"), exit_code(&events)), ("b\n".into(), &json!(0)));
    let id = target.start(json!({"command": "echo c", "sessionId": "third"})).await;
    assert_eq!(target.ended(&id).await["exitCode"], 0);
    let listed = target.get("/api/session/list").await.ok();
    assert_eq!(listed["data"], json!(["first", "second", "third"]));
    server.stop().await;
}

#[tokio::test]
async fn default_session() {
    let server = serve().await;
    let target = &server.target;
    assert_eq!(target.shell("y=2; echo $y").await["sessionId"], "default");
    assert_eq!(target.run(json!({"command": "echo $y", "sessionId": ""})).await["stdout"], "2");
    assert_eq!(target.in_session("default", "echo $y").await["stdout"], "2");
    let named = Request::post("/api/execute", &json!({"command": "echo ${y-none}"}));
    let named = target.send(named.header("X-Session-Id", "other")).await.ok();
    assert_eq!((&named["sessionId"], &named["stdout"]), (&json!("other"), &json!("none")));
    let none = target.in_session("__DISABLE_SESSION__", "echo ${y-none}").await;
    assert_eq!((&none["sessionId"], &none["stdout"]), (&Value::Null, &json!("none\n")));
    server.stop().await;
}

#[tokio::test]
async fn session_timeout_is_an_error() {
    let server = serve().await;
    let target = &server.target;
    let session = target.make_session(json!({"id": "s", "commandTimeoutMs": 60_000.5})).await;
    let folder = target.folder().await;
    let command = format!("echo a; z=3; sleep 300 & echo $! > {folder}/pid; wait");
    let body = json!({"command": command, "sessionId": session, "timeoutMs": 200});
    let answer = target.post("/api/execute", body).await;
    let refused = answer.json();
    assert_eq!((answer.status(), &refused["httpStatus"]), (500, &json!(500)), "{refused}");
    assert_eq!(refused["code"], "COMMAND_EXECUTION_ERROR");
    let message =
        format!("Failed to execute command '{command}' in session 's': Command timeout after 200ms");
    assert_eq!(refused["message"], message.as_str());
    assert_eq!(refused["context"], json!({"command": command, "stderr": "Command timeout after 200ms"}));
    // Native behaviour: the command is ended, and the session's next command does not wait for it.
    let alive = format!("echo $z; kill -0 $(cat {folder}/pid) 2>/dev/null && echo alive");
    assert_eq!(target.in_session("s", &alive).await["stdout"], "3");
    target.in_session("s", &format!("rm -r {folder}")).await;
    let limited = target.make_session(json!({"commandTimeoutMs": 200})).await;
    let answer = target.post("/api/execute", json!({"command": "sleep 60", "sessionId": limited})).await;
    assert!(text(&answer.json()["message"]).contains("Command timeout after 200ms"));
    // The default timeout applies to foreground commands only.
    let body = json!({"command": "sleep 0.4; echo on", "sessionId": limited});
    assert_eq!(joined(&stream(target, body).await, "stdout"), "on\n");
    server.stop().await;
}

#[tokio::test]
async fn stateless_timeout_is_124() {
    let server = serve().await;
    let target = &server.target;
    for (command, stderr) in [
        ("sleep 60", "Command timed out after 2000ms"),
        ("echo oh >&2; sleep 60", "oh\nCommand timed out after 2000ms"),
        ("printf oh >&2; sleep 60", "oh\nCommand timed out after 2000ms"),
    ] {
        let body = json!({"command": command, "sessionId": "__DISABLE_SESSION__", "timeoutMs": 2000});
        let result = target.run(body).await;
        assert_eq!((&result["exitCode"], &result["success"]), (&json!(124), &json!(false)));
        assert_eq!(result["stderr"], stderr);
    }
    // More output than a small response has.
    let command = "head -c 300000 /dev/zero | tr '\\0' x >&2; sleep 60";
    let body = json!({"command": command, "sessionId": "__DISABLE_SESSION__", "timeoutMs": 2000});
    let stderr = text(&target.run(body).await["stderr"]);
    assert_eq!(stderr.trim_start_matches('x'), "\nCommand timed out after 2000ms");
    assert_eq!(stderr.len(), 300_000 + 31);
    for session in ["__DISABLE_SESSION__", "s"] {
        let body = json!({"command": "echo a; sleep 60", "sessionId": session, "timeoutMs": 2000});
        let events = stream(target, body).await;
        assert_eq!((joined(&events, "stdout"), exit_code(&events)), ("a\n".into(), &json!(124)));
        assert_eq!(joined(&events, "stderr"), "Command timed out after 2000ms\n");
    }
    server.stop().await;
}

#[tokio::test]
async fn exit_discards_state_and_environment() {
    let server = serve().await;
    let target = &server.target;
    for (command, code) in [("exit 42", 42), ("kill -9 $$", 137), ("exec true", 0)] {
        let session = fresh("s");
        target.make_session(json!({"id": session, "env": {"MARK": "m"}, "cwd": "/tmp"})).await;
        assert_eq!(target.in_session(&session, "v=1; echo $MARK $PWD").await["stdout"], "m /tmp");
        let body = json!({"command": command, "sessionId": session});
        let refused = target.post("/api/execute", body).await.refused(410, "SESSION_TERMINATED");
        let message = format!("Session '{session}' shell exited (exit code: {code})");
        assert_eq!(refused["message"], message.as_str());
        assert_eq!(
            (&refused["context"]["sessionId"], &refused["context"]["exitCode"]),
            (&json!(session), &json!(code))
        );
        let next = target.in_session(&session, "echo \"[$MARK$v]\"; [ \"$PWD\" = /tmp ] && echo tmp").await;
        assert_eq!((&next["stdout"], &next["sessionRestarted"]), (&json!("[]"), &Value::Null));
    }
    server.stop().await;
}

#[tokio::test]
async fn queued_commands_run_in_the_new_session() {
    let server = serve().await;
    let target = &server.target;
    target.make_session(json!({"id": "s", "env": {"MARK": "m"}})).await;
    let gate = server.folder().join("open");
    let exits = format!("until [ -e {} ]; do sleep 0.01; done; exit 7", gate.display());
    // The mode keeps queued commands outside the session, so the API does not show them.
    let arrives = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
    let (exit, first, second, ()) = tokio::join!(
        target.post("/api/execute", json!({"command": exits, "sessionId": "s"})),
        async {
            target.until("/api/session/s", |answer| answer["session"]["busy"] == true).await;
            target.in_session("s", "echo \"[$MARK]\"; w=1").await
        },
        async {
            target.until("/api/session/s", |answer| answer["session"]["busy"] == true).await;
            arrives(1).await;
            target.in_session("s", "echo \"[$MARK$w]\"").await
        },
        async {
            target.until("/api/session/s", |answer| answer["session"]["busy"] == true).await;
            arrives(2).await;
            std::fs::write(&gate, "").unwrap();
        },
    );
    exit.refused(410, "SESSION_TERMINATED");
    assert_eq!((&first["stdout"], &second["stdout"]), (&json!("[]"), &json!("[1]")));
    server.stop().await;
}

#[tokio::test]
async fn disconnect_keeps_the_turn() {
    let server = serve().await;
    let target = &server.target;
    target.make_session(json!({"id": "s", "env": {"MARK": "m"}})).await;
    let gate = server.folder().join("open");
    let command = format!("until [ -e {} ]; do sleep 0.01; done; exit 7", gate.display());
    let body = json!({"command": command, "sessionId": "s"});
    let mut connection = target.connect().await;
    connection.send(&Request::post("/api/execute", &body)).await.unwrap();
    target.until("/api/session/s", |answer| answer["session"]["busy"] == true).await;
    drop(connection);
    let open = async {
        // The next command is to arrive first; the mode does not show that it is queued.
        tokio::time::sleep(Duration::from_secs(1)).await;
        std::fs::write(&gate, "").unwrap();
    };
    let (next, ()) = tokio::join!(target.in_session("s", "echo \"[$MARK]\""), open);
    assert_eq!(next["stdout"], "[]");
    server.stop().await;
}

#[tokio::test]
async fn session_output_has_no_final_newline() {
    let server = serve().await;
    let target = &server.target;
    for (command, stdout) in
        [("printf 'a\\n\\n'", "a\n"), ("printf a", "a"), ("echo", ""), ("true", ""), ("echo é", "é")]
    {
        let result = target.in_session("s", &format!("{command}; {command} >&2")).await;
        assert_eq!((&result["stdout"], &result["stderr"]), (&json!(stdout), &json!(stdout)), "{command}");
    }
    // A large response is written in pieces.
    let long = text(&target.in_session("s", "seq 1 60000").await["stdout"]);
    assert!(long.starts_with("1\n2\n") && long.ends_with("\n59999\n60000"));
    assert_eq!(long.lines().count(), 60_000);
    server.stop().await;
}

#[tokio::test]
async fn streamed_command_runs_beside_the_session() {
    let server = serve().await;
    let target = &server.target;
    target.in_session("s", "x=1; cd /tmp").await;
    let body = json!({"command": "echo $x $PWD; x=2; sleep 300", "sessionId": "s"});
    let mut events = target.stream(Request::post("/api/execute/stream", &body)).await;
    assert_eq!(events.next_of("stdout").await.data["data"], "1 /tmp\n");
    let begun = Instant::now();
    assert_eq!(target.in_session("s", "echo $x").await["stdout"], "1");
    assert!(begun.elapsed() < Duration::from_secs(60), "it does not wait for the stream");
    let listed = target.get("/api/process/list").await.ok();
    assert_eq!(listed["processes"][0]["status"], "running");
    let events = stream(target, json!({"command": "exit 3", "sessionId": "s"})).await;
    assert_eq!(exit_code(&events), &json!(3));
    assert_eq!(target.in_session("s", "echo $x").await["stdout"], "1");
    server.stop().await;
}

#[tokio::test]
async fn responses_have_the_fields_of_the_reference() {
    let server = serve().await;
    let target = &server.target;
    let made = target.post("/api/session/create", json!({"id": "s", "env": {"SECRET": "x"}})).await.ok();
    assert_eq!((&made["data"]["id"], &made["success"]), (&json!("s"), &json!(true)));
    assert_eq!(made.get("containerPlacementId"), Some(&Value::Null));
    assert!(!made.to_string().contains("SECRET"), "ours: values of variables are not repeated");
    let again = target.post("/api/session/create", json!({"id": "s"})).await;
    let again = again.refused(409, "SESSION_ALREADY_EXISTS");
    assert_eq!(again["message"], "Session 's' already exists");
    assert_eq!(again["context"].get("containerPlacementId"), Some(&Value::Null));
    let version = target.get("/api/version").await.ok();
    assert_eq!((&version["version"], version.get("compatible")), (&json!("0.12.7"), None));
    let id = target.start(json!({"command": "exit 5"})).await;
    target.ended(&id).await;
    let path = format!("/api/process/{id}/stream");
    let events = target.stream(Request::get(path)).await.rest().await;
    assert_eq!(events.last().unwrap().data["data"], "Process failed with exit code 5");
    let unknown = target.get("/api/process/nobody").await.refused(404, "PROCESS_NOT_FOUND");
    assert_eq!(unknown["message"], "Process nobody not found");
    let body = json!({"sessionId": "zzz"});
    let unknown = target.post("/api/session/delete", body).await.refused(500, "INTERNAL_ERROR");
    assert_eq!(unknown["message"], "Session 'zzz' not found");
    server.stop().await;
}

#[tokio::test]
async fn unknown_fields_are_accepted() {
    let server = serve().await;
    let target = &server.target;
    let body = json!({
        "command": "echo a", "sessionId": "s", "origin": "internal", "encoding": "latin1", "timeout": "soon",
        "autoCleanup": true, "unheardOf": {"a": [1]}
    });
    assert_eq!(target.run(body.clone()).await["stdout"], "a");
    assert_eq!(joined(&stream(target, body.clone()).await, "stdout"), "a\n");
    target.start(body).await;
    target.make_session(json!({"id": "t", "isolation": true})).await;
    target.post("/api/session/delete", json!({"sessionId": "t", "force": 1})).await.ok();
    target.make_session(json!({"id": "", "cwd": ""})).await;
    target.post("/api/execute?unheardOf=1", json!({"command": "true"})).await.ok();
    // Routes that the mode shares with the native API refuse them.
    let elsewhere = json!({"path": "/", "unheardOf": 1});
    target.post("/api/exists", elsewhere).await.refused(400, "VALIDATION_FAILED");
    target.get("/api/process/list?unheardOf=1").await.refused(400, "VALIDATION_FAILED");
    let negative = json!({"command": "true", "timeoutMs": -1});
    target.post("/api/execute", negative).await.refused(400, "VALIDATION_FAILED");
    server.stop().await;
}

#[tokio::test]
async fn missing_working_directory() {
    let server = serve().await;
    let target = &server.target;
    let result = target.run(json!({"command": "pwd", "sessionId": "s", "cwd": "/not/there"})).await;
    assert_eq!((&result["exitCode"], &result["stdout"]), (&json!(1), &json!("")));
    assert_eq!(result["stderr"], "Failed to change directory to '/not/there'");
    target.make_session(json!({"id": "t", "cwd": "/not/there"})).await;
    let result = target.in_session("t", "[ \"$PWD\" = \"$HOME\" ] && echo home; echo $LC_ALL").await;
    assert_eq!(result["stdout"], "home\nC.UTF-8");
    server.stop().await;
}

#[tokio::test]
async fn websocket_uses_the_same_routes() {
    let server = serve().await;
    let target = &server.target;
    let mut socket = target.socket().await;
    socket.request("1", "POST", "/api/execute", json!({"command": "echo a", "sessionId": "s"})).await;
    assert_eq!(socket.response("1").await["body"]["stdout"], "a");
    socket.request("2", "POST", "/api/execute", json!({"command": "exit 4", "sessionId": "s"})).await;
    let frame = socket.response("2").await;
    assert_eq!((&frame["status"], &frame["body"]["code"]), (&json!(410), &json!("SESSION_TERMINATED")));
    let body = json!({"command": "sleep 60", "sessionId": "s", "timeoutMs": 100});
    socket.request("3", "POST", "/api/execute", body).await;
    let frame = socket.response("3").await;
    assert_eq!((&frame["status"], &frame["body"]["code"]), (&json!(500), &json!("COMMAND_EXECUTION_ERROR")));
    server.stop().await;
}

#[tokio::test]
async fn session_is_deleted_at_once() {
    let server = serve().await;
    let target = &server.target;
    target.make_session(json!({"id": "s"})).await;
    let body = json!({"command": "sleep 300", "sessionId": "s"});
    let (ended, deleted) = tokio::join!(target.post("/api/execute", body), async {
        target.until("/api/session/s", |answer| answer["session"]["busy"] == true).await;
        target.delete_session("s").await
    });
    assert_eq!(deleted["sessionId"], "s");
    let refused = ended.refused(410, "SESSION_DESTROYED");
    assert_eq!(refused["message"], "Session 's' was destroyed during command execution");
    assert_eq!(target.in_session("s", "echo new").await["stdout"], "new");
    server.stop().await;
}

/// The reference's terminal client connects before anything else exists.
#[tokio::test]
async fn a_terminal_creates_its_session() {
    let server = serve().await;
    let target = &server.target;
    let mut viewer = Viewer::open(target, "/ws/pty?sessionId=new&cols=100&rows=30").await;
    viewer.frame("ready").await;
    viewer.send(&b"echo made-$((1+1)); stty size\n"[..]).await;
    viewer.shows("made-2").await;
    viewer.shows("30 100").await;
    assert_eq!(target.get("/api/session/list").await.ok()["data"], json!(["new"]));
    target.get("/ws/pty?sessionId=new").await.refused(426, "UPGRADE_REQUIRED");
    server.stop().await;
}

/// A session that a path names need not exist, and errors have the words of the reference.
#[tokio::test]
async fn files() {
    let server = serve().await;
    let target = &server.target;
    let folder = server.folder().join("files");
    let file = folder.join("a.txt");
    for session in ["", "unknown", "__DISABLE_SESSION__"] {
        let body = json!({"path": file, "content": session, "sessionId": session});
        target.post("/api/write", body).await.ok();
        let answer = target.post("/api/read", json!({"path": file, "sessionId": session})).await.ok();
        assert_eq!((&answer["content"], &answer["encoding"]), (&json!(session), &json!("utf-8")));
    }
    target.in_session("there", &format!("cd {}", folder.display())).await;
    let relative = target.post("/api/exists", json!({"path": "a.txt", "sessionId": "there"})).await.ok();
    assert_eq!(relative["exists"], true);
    let missing = target.post("/api/read", json!({"path": folder.join("none")})).await;
    let refusal = missing.refused(404, "FILE_NOT_FOUND");
    assert!(text(&refusal["message"]).starts_with("File not found: "), "{refusal}");
    let refusal = target.post("/api/delete", json!({"path": folder})).await.refused(400, "IS_DIRECTORY");
    assert!(text(&refusal["message"]).starts_with("Cannot delete directory with deleteFile()"), "{refusal}");
    server.stop().await;
}

/// The name decides whether media are binary, and a failed clone has no reason.
#[tokio::test]
async fn types_of_files_and_failed_clones() {
    let server = serve().await;
    let target = &server.target;
    let image = server.folder().join("a.png");
    target.post("/api/write", json!({"path": image, "content": "aGk="})).await.ok();
    let answer = target.post("/api/read", json!({"path": image})).await.ok();
    let expected = (&json!("base64"), &json!(true), &json!("image/png"));
    assert_eq!((&answer["encoding"], &answer["isBinary"], &answer["mimeType"]), expected);
    assert_eq!(answer["content"], "YUdrPQ==");
    let missing = json!({"repoUrl": format!("file://{}/none.git", server.folder().display())});
    let answer = target.post("/api/git/checkout", missing).await;
    let refusal = answer.json();
    assert_eq!((answer.status(), &refusal["code"]), (500, &json!("GIT_OPERATION_FAILED")), "{refusal}");
    assert!(text(&refusal["message"]).contains("does not appear to be a git repository"), "{refusal}");
    server.stop().await;
}
