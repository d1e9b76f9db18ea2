//! Running a command and waiting for its end.

use serde_json::{Value, json};

use super::shapes;
use super::steps::{decode, encode, fresh};
use crate::http::Target;
use crate::shape::assert_shape;

pub(super) async fn response_fields(target: Target) {
    let result = target.shell("echo out; echo err >&2").await;
    assert_shape(&result, shapes::EXECUTE);
    assert_shape(&result["end"], shapes::END);
    assert_shape(&result["usage"], shapes::USAGE);
    let expected = json!({
        "success": true, "exitCode": 0, "stdout": "out\n", "stderr": "err\n", "command": "echo out; echo err >&2",
        "end": {"reason": "exited"}, "cursor": 8,
    });
    for (field, value) in expected.as_object().expect("an object") {
        assert_eq!(&result[field], value, "{field} in {result}");
    }
    assert_eq!((result.get("sessionId"), result.get("args"), result.get("truncated")), (None, None, None));
}

pub(super) async fn failing_command_is_not_an_error(target: Target) {
    for code in [1, 2, 42, 127, 255] {
        let result = target.shell(&format!("exit {code}")).await;
        assert_eq!((&result["success"], &result["exitCode"]), (&json!(false), &json!(code)));
        assert_eq!(result["end"], json!({"reason": "exited"}));
    }
}

pub(super) async fn end_by_signal(target: Target) {
    for signal in [9, 15, 11] {
        let result = target.shell(&format!("ulimit -c 0; kill -{signal} $$")).await;
        assert_eq!(result["exitCode"], 128 + signal);
        assert_eq!(result["end"], json!({"reason": "signaled", "signal": signal}));
    }
}

pub(super) async fn arguments_without_a_shell(target: Target) {
    let body = json!({"command": "printf", "args": ["%s|", "a b", "$HOME", "*", "", "'\""]});
    let result = target.run(body).await;
    assert_eq!(result["stdout"], "a b|$HOME|*||'\"|");
    assert_eq!(result["args"], json!(["%s|", "a b", "$HOME", "*", "", "'\""]));
}

pub(super) async fn arguments_in_a_session_are_quoted(target: Target) {
    let session = target.new_session().await;
    target.in_session(&session, "show() { printf '%s|' \"$@\"; }").await;
    let body = json!({"command": "show", "args": ["a b", "$HOME", "*", "", "'\"\n"], "sessionId": session});
    assert_eq!(target.run(body).await["stdout"], "a b|$HOME|*||'\"\n|");
    target.delete_session(&session).await;
}

pub(super) async fn missing_program(target: Target) {
    let answer = target.post("/api/execute", json!({"command": "/no/such/program", "args": []})).await;
    answer.refused(404, "COMMAND_NOT_FOUND");
    let answer = target.post("/api/process/start", json!({"command": "nosuchprogram", "args": []})).await;
    answer.refused(404, "COMMAND_NOT_FOUND");
    // With a shell, the shell reports the missing program.
    assert_eq!(target.shell("nosuchprogram").await["exitCode"], 127);
}

pub(super) async fn program_without_permission(target: Target) {
    let answer = target.post("/api/execute", json!({"command": "/etc/passwd", "args": []})).await;
    answer.refused(403, "PERMISSION_DENIED");
}

pub(super) async fn working_directory(target: Target) {
    assert_eq!(target.run(json!({"command": "pwd", "cwd": "/"})).await["stdout"], "/\n");
    for path in ["/api/execute", "/api/process/start"] {
        let missing = target.post(path, json!({"command": "pwd", "cwd": "/no/such/folder"})).await;
        missing.refused(400, "VALIDATION_FAILED");
        let file = target.post(path, json!({"command": "pwd", "cwd": "/etc/passwd"})).await;
        file.refused(400, "NOT_DIRECTORY");
    }
}

pub(super) async fn default_standard_input_is_empty(target: Target) {
    assert_eq!(target.shell("cat; echo $?").await["stdout"], "0\n");
}

pub(super) async fn given_standard_input(target: Target) {
    let given = "grüße\nno newline";
    let result = target.run(json!({"command": "cat", "stdin": given})).await;
    assert_eq!(result["stdout"], given);
    let bytes: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    let body = json!({
        "command": "cat", "stdin": encode(&bytes), "stdinEncoding": "base64", "encoding": "base64",
    });
    assert!(decode(&target.run(body).await["stdout"]) == bytes, "standard input came out changed");
    let bad = json!({"command": "cat", "stdin": "*", "stdinEncoding": "base64"});
    target.post("/api/execute", bad).await.refused(400, "VALIDATION_FAILED");
}

pub(super) async fn timeout_ends_the_command(target: Target) {
    let result =
        target.run(json!({"command": "echo before; sleep 300; echo after", "timeoutMs": 1500})).await;
    assert_eq!((&result["exitCode"], &result["stdout"]), (&json!(124), &json!("before\n")));
    assert_eq!(result["end"]["reason"], "timeout");
    let duration = result["duration"].as_f64().unwrap_or_default();
    assert!((1_500.0..5_000.0).contains(&duration), "it took {duration} ms");
}

pub(super) async fn timeout_has_a_grace_period(target: Target) {
    let command = "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done";
    for (grace, expected) in [(json!(null), "up\nbye\n"), (json!(20_000), "up\nbye\n"), (json!(0), "up\n")] {
        let body = json!({"command": command, "timeoutMs": 3000, "graceMs": grace});
        let result = target.run(body).await;
        assert_eq!((&result["exitCode"], &result["end"]["reason"]), (&json!(124), &json!("timeout")));
        assert_eq!(result["stdout"], expected, "graceMs {grace}");
    }
}

pub(super) async fn idle_timeout_ends_the_command(target: Target) {
    let body =
        json!({"command": "for i in 1 2 3; do echo $i; sleep 0.1; done; sleep 300", "idleTimeoutMs": 3000});
    let result = target.run(body).await;
    assert_eq!((&result["stdout"], &result["end"]["reason"]), (&json!("1\n2\n3\n"), &json!("idle_timeout")));
}

pub(super) async fn background_responds_at_once(target: Target) {
    let id = fresh("background");
    let body = json!({"command": "sleep 300", "background": true, "executionId": id});
    let answer = target.run(body).await;
    assert_shape(&answer, shapes::STARTED);
    assert_eq!(answer["processId"], id);
    assert_eq!(target.process(&id).await["background"], true);
    target.kill(&id).await;
}

pub(super) async fn id_chosen_by_the_client(target: Target) {
    let id = fresh("mine");
    let result = target.run(json!({"command": "echo kept", "executionId": id})).await;
    assert_eq!(result["executionId"], id);
    assert_eq!(target.process(&id).await["status"], "completed");
    assert_eq!(target.get(format!("/api/process/{id}/logs")).await.ok()["stdout"], "kept\n");
}

pub(super) async fn output_limit_ends_the_command(target: Target) {
    let body = json!({"command": "yes", "limits": {"outputBytes": 100_000}, "maxOutputBytes": 10});
    let result = target.run(body).await;
    assert_eq!(result["end"]["reason"], "output_limit");
    assert!(result["cursor"].as_u64() >= Some(100_000), "{result}");
}

pub(super) async fn kernel_limits(target: Target) {
    let limits = json!({"openFiles": 33, "fileSizeBytes": 4096, "cpuSeconds": 77});
    let command = "ulimit -n; ulimit -t; head -c 9000 /dev/zero > limited; stat -c %s limited; rm limited";
    let folder = target.folder().await;
    let result = target.run(json!({"command": command, "limits": limits, "cwd": folder})).await;
    assert_eq!(result["stdout"], "33\n77\n4096\n", "{result}");
    target.remove(&folder).await;
}

/// A limit that cannot be enforced is refused, never ignored.
pub(super) async fn unenforceable_limit(target: Target) {
    let session = target.new_session().await;
    let body = json!({"command": "ulimit -n", "limits": {"openFiles": 33}, "sessionId": session});
    let answer = target.post("/api/execute", body).await;
    if answer.status() == 200 {
        assert_eq!(answer.json()["stdout"], "33\n");
    } else {
        answer.refused(400, "LIMIT_NOT_SUPPORTED");
    }
    target.delete_session(&session).await;
}

pub(super) async fn leftovers(target: Target) {
    let command = "sleep 300 >/dev/null 2>&1 & echo $!";
    let kept = target.shell(command).await;
    assert_eq!(kept["leftoverCount"], 1, "{kept}");
    let leftover = &kept["leftovers"][0];
    assert_shape(leftover, "pid:int command:text");
    assert_eq!(format!("{}\n", leftover["pid"]), kept["stdout"].as_str().unwrap_or_default());
    assert!(target.is_alive(&leftover["pid"]).await, "it should have been kept");
    // Leftovers are listed with their execution, whose record is kept meanwhile, and can be ended by its id.
    let id = kept["executionId"].as_str().expect("an id");
    let list = target.get("/api/process/list?all=true").await.ok();
    let all = list["processes"].as_array().expect("a list");
    let own = all.iter().find(|process| process["id"] == id).expect("it is listed");
    assert_eq!((&own["leftoverCount"], &own["leftovers"][0]["pid"]), (&json!(1), &leftover["pid"]), "{own}");
    assert_eq!(own["leftovers"][0]["command"], "sleep 300", "{own}");
    target.post("/api/process/cleanup", json!({})).await.ok();
    assert!(target.is_alive(&leftover["pid"]).await, "a record was removed, not a process ended");
    let answer = target.delete(format!("/api/process/{id}")).await.ok();
    assert_eq!(answer["killed"][0]["pid"], leftover["pid"], "{answer}");
    target.until_gone(&leftover["pid"]).await;
    let again = target.delete(format!("/api/process/{id}")).await.ok();
    assert_eq!(again["killed"], json!([]), "{again}");

    let killed = target.run(json!({"command": command, "leftovers": "kill"})).await;
    let pid: Value = killed["stdout"].as_str().unwrap_or_default().trim().parse().expect("a pid");
    target.until_gone(&pid).await;

    let adopted = target.run(json!({"command": command, "leftovers": "adopt"})).await;
    let pid: Value = adopted["stdout"].as_str().unwrap_or_default().trim().parse().expect("a pid");
    let listed = target
        .until("/api/process/list?status=running", |list| {
            list["processes"].as_array().is_some_and(|all| all.iter().any(|process| process["pid"] == pid))
        })
        .await;
    let all = listed["processes"].as_array().expect("a list");
    let id = all.iter().find(|process| process["pid"] == pid).expect("it is listed")["id"].clone();
    target.kill(id.as_str().unwrap_or_default()).await;
    target.until_gone(&pid).await;
}
