//! Commands that end or block a shell elsewhere. After each of them, the session runs the next command.

use serde_json::{Value, json};

use super::steps::fresh;
use crate::http::{Request, Target};

/// Returns the response to a command.
async fn answer_of(target: &Target, session: &str, command: &str) -> Value {
    let body = json!({"command": command, "sessionId": session});
    let answer = target.post("/api/execute", body).await;
    let mut json = answer.json();
    if answer.status() != 200 {
        answer.refused(410, "SESSION_TERMINATED");
        json["status"] = json!(410);
    }
    json
}

/// Text that breaks naive wrappers: exit code and output are correct, and the next command runs in the same
/// shell.
pub(super) async fn hostile_text(target: Target) {
    let session = target.new_session().await;
    target.in_session(&session, "kept=yes").await;
    for (command, code, stdout) in [
        ("echo 'unterminated", 2, ""),
        ("echo \"unterminated", 2, ""),
        ("}", 2, ""),
        (")", 2, ""),
        ("echo x; }", 2, ""),
        ("cat <<END\nhere\nEND", 0, "here\n"),
        ("cat <<END\nno end", 0, "no end\n"),
        ("echo a \\", 0, "a \\\n"),
        ("sleep 0 &", 0, ""),
        ("# nothing", 0, ""),
        ("", 0, ""),
        ("\n\n", 0, ""),
        ("return 3", 2, ""),
        ("f() { return 3; }; f", 3, ""),
        ("echo $((1/0))", 1, ""),
        ("unset -f kept; PS1=x PROMPT_COMMAND='echo bad'", 0, ""),
        ("PROMPT_COMMAND='echo bad'; PS1='bad '", 0, ""),
        ("log=1 dir=2 EXIT_CODE=3; echo $log$dir$EXIT_CODE", 0, "123\n"),
        ("echo() { builtin echo mine; }; echo x; unset -f echo", 0, "mine\n"),
        ("trap 'echo bye' EXIT", 0, ""),
        ("trap - EXIT", 0, ""),
        ("wait", 0, ""),
        ("exec 3>/dev/null; exec 3>&-", 0, ""),
        ("printf 'no newline'", 0, "no newline"),
    ] {
        let result = target.in_session(&session, command).await;
        assert_eq!(
            (&result["exitCode"], &result["stdout"]),
            (&json!(code), &json!(stdout)),
            "{command:?}: {result}"
        );
        let next = target.in_session(&session, "builtin echo $kept").await;
        assert_eq!(
            (&next["stdout"], next.get("sessionRestarted")),
            (&json!("yes\n"), None),
            "after {command:?}"
        );
    }
    target.delete_session(&session).await;
}

/// The response is 410 with the result. The shell is restored afterwards.
pub(super) async fn ending_the_shell(target: Target) {
    for (command, code, from) in [
        ("echo out; echo err >&2; exit 3", 3, "exit"),
        ("echo out; echo err >&2; kill -9 $$", 137, "snapshot"),
    ] {
        let session = target.new_session().await;
        target.in_session(&session, "cd /usr; x=kept; f() { echo f; }").await;
        let id = fresh("ends");
        let body = json!({"command": command, "sessionId": session, "executionId": id});
        let refusal = target.post("/api/execute", body).await.refused(410, "SESSION_TERMINATED");
        let context = &refusal["context"];
        assert_eq!((&context["exitCode"], &context["executionId"]), (&json!(code), &json!(id)), "{refusal}");
        assert_eq!((&context["stdout"], &context["stderr"]), (&json!("out\n"), &json!("err\n")), "{refusal}");
        assert_eq!(context["sessionId"], session);
        let next = target.in_session(&session, "echo $PWD $x; f").await;
        assert_eq!((&next["stdout"], &next["sessionRestarted"]), (&json!("/usr kept\nf\n"), &json!(true)));
        assert_eq!(next["restoredFrom"], from, "{next}");
        let after = target.in_session(&session, "true").await;
        assert_eq!(after.get("sessionRestarted"), None);
        let restarts = target.get(format!("/api/session/{session}")).await.ok()["session"]["restarts"].take();
        assert_eq!(restarts, 1);
        target.delete_session(&session).await;
    }
}

pub(super) async fn ending_the_shell_in_a_stream(target: Target) {
    let session = target.new_session().await;
    let body = json!({"command": "echo out; exit 3", "sessionId": session});
    let all = target.stream(Request::post("/api/execute/stream", &body)).await.rest().await;
    assert_eq!(super::stream::kinds(&all), ["start", "stdout", "error"]);
    let error = &all.last().expect("a stream has events").data;
    assert_eq!((&error["code"], &error["exitCode"]), (&json!("SESSION_TERMINATED"), &json!(3)));
    crate::shape::assert_shape(
        error,
        "type:text error:text data:text code:text exitCode?:int executionId?:text timestamp:time",
    );
    // The next stream reports the source of the state.
    let body = json!({"command": "true", "sessionId": session});
    let all = target.stream(Request::post("/api/execute/stream", &body)).await.rest().await;
    let result = &all.last().expect("a stream has events").data["result"];
    assert_eq!(
        (&result["sessionRestarted"], &result["restoredFrom"]),
        (&json!(true), &json!("exit")),
        "{result}"
    );
    assert!(result["restoredStateAgeMs"].is_number(), "{result}");
    target.delete_session(&session).await;
}

pub(super) async fn other_ways_to_end_the_shell(target: Target) {
    for command in [
        "exec true",
        "set -e; false",
        "exec sleep 0.01",
        "set -u; echo $nope",
        "echo ${q?m}",
        "f() { exit 3; }; f",
        "exec nonexistent",
        "trap 'echo bye' EXIT; exit 4",
    ] {
        let session = target.new_session().await;
        target.in_session(&session, "x=kept").await;
        answer_of(&target, &session, &format!("v=1; cd /usr; {command}")).await;
        let next = target.in_session(&session, "echo $x $v $PWD").await;
        assert_eq!(next["stdout"], "kept 1 /usr\n", "after {command:?}");
        assert_eq!((&next["sessionRestarted"], &next["restoredFrom"]), (&json!(true), &json!("exit")));
        target.delete_session(&session).await;
    }
}

pub(super) async fn on_shell_exit_restore(target: Target) {
    let session = target.make_session(json!({"onShellExit": "restore"})).await;
    target.in_session(&session, "x=kept").await;
    let result = target.in_session(&session, "echo out; exit 3").await;
    assert_eq!((&result["exitCode"], &result["stdout"]), (&json!(3), &json!("out\n")));
    assert_eq!((&result["shellEnded"], &result["success"]), (&json!(true), &json!(false)));
    let next = target.in_session(&session, "echo $x").await;
    assert_eq!((&next["stdout"], &next["sessionRestarted"]), (&json!("kept\n"), &json!(true)));
    target.delete_session(&session).await;
}

/// Creating a session whose shell has ended replaces it.
pub(super) async fn create_replaces_a_dead_shell(target: Target) {
    let session = target.new_session().await;
    target.in_session(&session, "x=old").await;
    let body = json!({"command": "exit 3", "sessionId": session});
    target.post("/api/execute", body).await.refused(410, "SESSION_TERMINATED");
    target.make_session(json!({"id": session})).await;
    assert_eq!(target.in_session(&session, "echo ${x-none}").await["stdout"], "none\n");
    target.delete_session(&session).await;
}

pub(super) async fn script_of_a_million_bytes(target: Target) {
    let session = target.new_session().await;
    let script = format!("{}echo $n", "n=$((n+1)) # padding padding\n".repeat(36_000));
    assert!(script.len() > 1_000_000);
    assert_eq!(target.in_session(&session, &script).await["stdout"], "36000\n");
    target.delete_session(&session).await;
}

/// A timeout ends the command, not the shell.
pub(super) async fn timeout_keeps_the_shell(target: Target) {
    let session = target.new_session().await;
    target.in_session(&session, "x=kept; f() { while :; do :; done; }").await;
    for command in ["sleep 300", "f", "trap '' INT TERM; f"] {
        let result = target.run(json!({"command": command, "sessionId": session, "timeoutMs": 150})).await;
        assert_eq!(
            (&result["exitCode"], &result["end"]["reason"]),
            (&json!(124), &json!("timeout")),
            "{command}"
        );
        let next = target.in_session(&session, "echo $x; trap - INT TERM").await;
        assert_eq!((&next["stdout"], next.get("sessionRestarted")), (&json!("kept\n"), None), "{command}");
    }
    target.delete_session(&session).await;
}
