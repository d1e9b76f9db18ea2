//! Defects that were observed in the reference implementation, one case each.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::steps::{decode, fresh};
use crate::http::{Part, Request, Target};

pub(super) async fn session_process_output_is_not_lost_at_exit(target: Target) {
    let session = target.new_session().await;
    let whole: String = (1..=15_000).map(|number| format!("{number}\n")).collect();
    for run in 0..10 {
        let id = target.start(json!({"command": "seq 1 15000", "sessionId": session})).await;
        assert_eq!(target.ended(&id).await["exitCode"], 0);
        let logs = target.get(format!("/api/process/{id}/logs")).await.ok();
        assert!(logs["stdout"] == whole, "run {run} lost output");
    }
    target.delete_session(&session).await;
}

pub(super) async fn exit_in_a_streamed_command_completes(target: Target) {
    let session = target.new_session().await;
    let id = fresh("exits");
    let body = json!({"command": "exit 7", "sessionId": session, "executionId": id});
    let all = target.stream(Request::post("/api/execute/stream", &body)).await.rest().await;
    assert_eq!(all.last().map(|event| &event.data["exitCode"]), Some(&json!(7)));
    assert_eq!(target.process(&id).await["exitCode"], 7);
    target.delete_session(&session).await;
}

pub(super) async fn bytes_of_sessions_are_exact(target: Target) {
    let session = target.new_session().await;
    let body = json!({"command": r"printf 'a\0\xff\xfe\n\n'", "sessionId": session, "encoding": "base64"});
    assert_eq!(decode(&target.run(body).await["stdout"]), b"a\0\xff\xfe\n\n");
    target.delete_session(&session).await;
}

pub(super) async fn syntax_error_is_a_result(target: Target) {
    let session = target.new_session().await;
    for command in ["echo 'open", "echo x; }"] {
        let result = target.in_session(&session, command).await;
        assert_eq!((&result["success"], &result["exitCode"]), (&json!(false), &json!(2)), "{command}");
        assert_ne!(result["stderr"], "", "{command}");
    }
    assert_eq!(target.in_session(&session, "echo next").await["stdout"], "next\n");
    target.delete_session(&session).await;
}

/// Polling every 50 ms would show in the median. On a busy machine, a ping is slow, too.
pub(super) async fn serial_no_polling(target: Target) {
    let session = target.new_session().await;
    let mut connection = target.connect().await;
    let request = Request::post("/api/execute", &json!({"command": "true", "sessionId": session}));
    let (mut took, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..101 {
        for (request, times) in [(&Request::get("/api/ping"), &mut floor), (&request, &mut took)] {
            let since = Instant::now();
            connection.ask(request).await.expect("an answer").ok();
            times.push(since.elapsed());
        }
    }
    took.sort_unstable();
    floor.sort_unstable();
    let limit = Duration::from_millis(20) + 10 * floor[50];
    assert!(took[50] < limit, "the median is {:?}, that of a ping {:?}", took[50], floor[50]);
    target.delete_session(&session).await;
}

pub(super) async fn timeout_ends_running_processes(target: Target) {
    let session = target.new_session().await;
    for session in [None, Some(session.as_str())] {
        for path in ["/api/execute", "/api/process/start"] {
            let folder = target.folder().await;
            let command = format!("sleep 300 & echo $! > {folder}/pid; wait");
            let body = json!({"command": command, "timeoutMs": 1000, "sessionId": session});
            let answer = target.post(path, body).await.ok();
            if let Some(id) = answer["processId"].as_str() {
                assert_eq!(target.ended(id).await["end"]["reason"], "timeout");
            }
            let pid: Value = target.shell(&format!("cat {folder}/pid")).await["stdout"]
                .as_str()
                .and_then(|text| text.trim().parse().ok())
                .expect("a pid");
            target.until_gone(&pid).await;
            target.remove(&folder).await;
        }
    }
    target.delete_session(&session).await;
}

pub(super) async fn delete_does_not_wait(target: Target) {
    let session = target.new_session().await;
    let id = target.start(json!({"command": "true", "sessionId": session})).await;
    target.ended(&id).await;
    let mut busy = target.connect().await;
    let body = json!({"command": "sleep 300", "sessionId": session});
    busy.send(&Request::post("/api/execute", &body)).await.expect("sent");
    let path = format!("/api/session/{session}");
    target.until(&path, |answer| answer["session"]["busy"] == true).await;
    target.delete_session(&session).await;
}

/// The reference closes a silent stream after 256 s.
pub(super) async fn soak_silent_stream_stays_open(target: Target) {
    let id = target.start(json!({"command": "sleep 270; echo end"})).await;
    let mut events = target.stream(Request::get(format!("/api/process/{id}/stream"))).await;
    let (mut comments, mut last) = (0, Instant::now());
    loop {
        let part = events.part().await.expect("the stream was cut").expect("it ends with an event");
        assert!(last.elapsed() < Duration::from_secs(30), "silent for {:?}", last.elapsed());
        last = Instant::now();
        match part {
            Part::Comment(_) => comments += 1,
            Part::Event(event) if event.kind() == "exit" => break,
            Part::Event(_) => {}
        }
    }
    assert!(comments >= 17, "{comments} comments");
}

pub(super) async fn kill_ends_all_children(target: Target) {
    let folder = target.folder().await;
    let children = "(trap '' TERM INT HUP; echo $BASHPID >> pids; exec sleep 300) &
        setsid bash -c 'echo $$ >> pids; exec sleep 300' >/dev/null 2>&1 < /dev/null &
        (setsid bash -c 'trap \"\" TERM; echo $$ >> pids; exec sleep 300' &) &
        nohup bash -c 'echo $$ >> pids; exec sleep 300' >/dev/null 2>&1 & disown
        echo $$ >> pids; while :; do sleep 0.1; done";
    let id = target.start(json!({"command": children, "cwd": folder})).await;
    let pids = loop {
        let lines = target.run(json!({"command": "cat pids; true", "cwd": folder})).await;
        let lines = lines["stdout"].as_str().unwrap_or_default().to_owned();
        if lines.lines().count() == 5 {
            break lines;
        }
    };
    let killed = target.delete(format!("/api/process/{id}?graceMs=200")).await.ok();
    assert_eq!((&killed["success"], &killed["survivors"]), (&json!(true), &json!([])));
    for pid in pids.lines() {
        let pid: Value = pid.parse().expect("a pid");
        assert!(!target.is_alive(&pid).await, "{pid} survived");
    }
    target.remove(&folder).await;
}

pub(super) async fn variables_and_traps_of_the_user(target: Target) {
    let session = target.new_session().await;
    target.in_session(&session, "log=a dir=b EXIT_CODE=c; trap 'echo bye' EXIT").await;
    let result = target.in_session(&session, "echo $log $dir $EXIT_CODE; trap -p EXIT").await;
    assert_eq!(result["stdout"], "a b c\ntrap -- 'echo bye' EXIT\n");
    let own = target.in_session(&session, "compgen -v | grep -ic sandcrab").await;
    assert_eq!(own["stdout"], "0\n");
    target.delete_session(&session).await;
}

pub(super) async fn process_id_is_not_a_path(target: Target) {
    let folder = target.folder().await;
    for id in ["../../../../../../tmp/escaped", "..", "a/../b", "/tmp/escaped"] {
        let body = json!({"command": "true", "processId": id, "cwd": folder});
        target.post("/api/process/start", body).await.refused(400, "VALIDATION_FAILED");
    }
    target.remove(&folder).await;
}

pub(super) async fn create_session_returns_no_values(target: Target) {
    let secret = fresh("secret");
    let answer = target.post("/api/session/create", json!({"env": {"TOKEN": secret}})).await;
    assert!(!answer.text().contains(&secret), "{}", answer.text());
    target.delete_session(answer.ok()["data"]["id"].as_str().unwrap_or_default()).await;
}

pub(super) async fn duration_is_the_run_time(target: Target) {
    let session = target.new_session().await;
    for session in [None, Some(session.as_str())] {
        let result = target.run(json!({"command": "sleep 0.25", "sessionId": session})).await;
        let duration = result["duration"].as_f64().unwrap_or_default();
        assert!((250.0..5_000.0).contains(&duration), "{duration} ms");
    }
    target.delete_session(&session).await;
}

pub(super) async fn fifty_concurrent_sessions(target: Target) {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..50 {
        let target = target.clone();
        tasks.spawn(async move {
            let session = target.new_session().await;
            for run in 1..=20 {
                let result = target.in_session(&session, &format!("echo {number} $((++n))")).await;
                assert_eq!(result["stdout"], format!("{number} {run}\n"));
            }
            target.delete_session(&session).await;
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("a session failed");
    }
    target.get("/api/ping").await.ok();
}
