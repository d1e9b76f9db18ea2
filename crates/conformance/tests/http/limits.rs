//! Every limit is enforced, with a documented error code.

use std::process::Command;

use sandcrab_conformance::cases::steps::fresh;
use sandcrab_conformance::http::{Request, Viewer};
use serde_json::json;

use crate::support::{Disk, ServerProcess, with_timeout};

#[tokio::test]
async fn execution_limit() {
    let server = ServerProcess::start(&["max-executions=3"]).await;
    let target = server.target.clone();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(target.start(json!({"command": "sleep 300"})).await);
    }
    for path in ["/api/execute", "/api/process/start", "/api/execute/stream"] {
        let answer = target.post(path, json!({"command": "true"})).await;
        answer.refused(429, "LIMIT_EXCEEDED");
        assert!(answer.header("retry-after").is_some(), "{path} does not say when");
    }
    target.kill(&ids[0]).await;
    assert_eq!(target.shell("true").await["exitCode"], 0);
    server.stop().await;
}

/// Retention counts the bytes that journals keep. A command that writes a multiple of the limit removes
/// neither itself nor others.
#[tokio::test]
async fn retention_limit() {
    let server = ServerProcess::start(&["journal-bytes=262144", "retention-bytes=2097152"]).await;
    let target = server.target.clone();
    let before = target.start(json!({"command": "echo before"})).await;
    target.get(format!("/api/process/{before}/wait")).await.ok();
    let flood = json!({"command": "head -c 50000000 /dev/zero", "maxOutputBytes": 10});
    let flood = target.post("/api/execute", flood).await.ok();
    assert_eq!(flood["exitCode"], 0);
    for _ in 0..20 {
        assert_eq!(target.shell("true").await["exitCode"], 0);
    }
    let id = flood["executionId"].as_str().unwrap();
    let logs = target.get(format!("/api/process/{id}/logs?tail=1")).await.ok();
    assert_eq!(logs["cursor"], flood["cursor"]);
    assert_eq!(target.get(format!("/api/process/{before}/logs")).await.ok()["stdout"], "before\n");
    server.stop().await;
}

/// Running commands leave descriptors for the connections of clients that end them.
#[tokio::test(flavor = "multi_thread")]
async fn commands_leave_descriptors_for_connections() {
    for (path, body) in [
        ("/api/process/start", json!({"command": "sleep 1000"})),
        ("/api/terminal/create", json!({"command": "sleep 1000"})),
        ("/api/session/create", json!({})),
    ] {
        let server = ServerProcess::start(&["descriptors=128"]).await;
        let target = &server.target;
        let mut started = 0;
        let refused = loop {
            let answer = target.post(path, body.clone()).await;
            if answer.status() != 200 {
                break answer;
            }
            started += 1;
            assert!(started < 128, "{path} is not limited");
        };
        refused.refused(429, "LIMIT_EXCEEDED");
        assert!(started >= 8, "{path}: only {started}");
        for _ in 0..20 {
            target.get("/api/health").await.ok();
        }
        let ended = target.post("/api/execute", json!({"command": "true"})).await.status();
        assert!([200, 429].contains(&ended), "{ended}");
        target.delete("/api/process/kill-all").await.ok();
        server.stop().await;
    }
}

/// Silent clients without the token cannot lock out clients with it, or take the descriptors that commands
/// need.
#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_closed_first() {
    let server = ServerProcess::start(&["descriptors=600"]).await;
    let target = server.target.clone();
    let session = target.new_session().await;
    let mut kept = target.connect().await;
    kept.ask(&Request::get("/api/ping")).await.unwrap().ok();
    let mut silent = Vec::new();
    for _ in 0..700 {
        silent.push(tokio::net::TcpStream::connect(target.authority()).await.unwrap());
    }
    for _ in 0..20 {
        target.shell("true").await;
        target.post("/api/execute", json!({"command": "echo hi", "sessionId": session})).await.ok();
    }
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut connection = target.connect().await;
        connection
            .send(&Request::post("/api/execute/stream", &json!({"command": "sleep 300"})))
            .await
            .unwrap();
        streams.push(connection);
    }
    target
        .until("/api/process/list?all=true&status=running", |list| {
            list["processes"].as_array().unwrap().len() == 20
        })
        .await;
    // An authorized connection stays open.
    kept.ask(&Request::get("/api/ping")).await.unwrap().ok();
    server.stop().await;
}

/// A command that has run gets its result even if its output cannot be read, and the omitted bytes of each
/// stream are counted separately.
#[tokio::test]
async fn result_without_descriptors_to_read_output() {
    let server = ServerProcess::start(&[]).await;
    let gate = server.folder().join("gate");
    let wait = format!("until [ -e {} ]; do sleep 0.01; done", gate.display());
    let command = format!("{wait}; head -c 7000 /dev/zero; head -c 5000 /dev/zero >&2");
    let mut connection = server.target.connect().await;
    let body = json!({"command": command, "executionId": "unread"});
    connection.send(&Request::post("/api/execute", &body)).await.unwrap();
    server.target.until("/api/process/unread", |found| found["process"]["status"] == "running").await;
    let limit = |soft: &str| {
        let pid = server.pid().to_string();
        let limit = format!("--nofile={soft}:");
        assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    };
    limit("5");
    std::fs::write(&gate, "").unwrap();
    let answer = with_timeout(connection.answer()).await.unwrap().ok();
    limit("1000");
    let truncated =
        json!({"stdoutBytes": 7000, "stdoutAfterBytes": 0, "stderrBytes": 5000, "stderrAfterBytes": 0});
    assert_eq!((&answer["truncated"], &answer["stdout"]), (&truncated, &json!("")), "{answer}");
    assert_eq!(
        server.target.get("/api/process/unread/logs").await.ok()["stdout"].as_str().unwrap().len(),
        7000
    );
    server.stop().await;
}

/// Without its state directory, a server starts nothing and reports the reason.
#[tokio::test]
async fn removed_state_directory() {
    let server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    let session = target.new_session().await;
    std::fs::remove_dir_all(server.folder().join("state")).unwrap();
    for path in ["/api/execute", "/api/process/start", "/api/execute/stream"] {
        for body in [json!({"command": "true"}), json!({"command": "true", "sessionId": session})] {
            target.post(path, body).await.refused(503, "STATE_DIR_MISSING");
        }
    }
    target.post("/api/session/create", json!({})).await.refused(503, "STATE_DIR_MISSING");
}

#[tokio::test]
async fn sessions() {
    let server = ServerProcess::start(&["max-sessions=2"]).await;
    let target = server.target.clone();
    let one = target.new_session().await;
    target.new_session().await;
    target.post("/api/session/create", json!({})).await.refused(429, "LIMIT_EXCEEDED");
    target.post(format!("/api/session/{one}/fork"), json!({})).await.refused(429, "LIMIT_EXCEEDED");
    target.delete_session(&one).await;
    target.new_session().await;
    server.stop().await;
}

#[tokio::test]
async fn session_queue_limit() {
    let server = ServerProcess::start(&["requests-per-socket=2000"]).await;
    let session = server.target.new_session().await;
    let mut socket = server.target.socket().await;
    // One runs, a thousand are queued.
    for number in 0..=1_001 {
        let body = json!({"command": "sleep 300", "sessionId": session});
        socket.request(&format!("{number}"), "POST", "/api/execute", body).await;
    }
    let refusal = socket.frame().await;
    assert_eq!((&refusal["status"], &refusal["body"]["code"]), (&json!(429), &json!("LIMIT_EXCEEDED")));
    server.target.delete_session(&session).await;
    server.stop().await;
}

#[tokio::test]
async fn socket_request_limit() {
    let server = ServerProcess::start(&["requests-per-socket=5"]).await;
    let mut socket = server.target.socket().await;
    for number in 0..6 {
        socket.request(&format!("{number}"), "POST", "/api/execute", json!({"command": "sleep 300"})).await;
    }
    let frame = socket.frame().await;
    assert_eq!((&frame["type"], &frame["id"]), (&json!("error"), &json!("5")));
    assert_eq!((&frame["code"], &frame["status"]), (&json!("LIMIT_EXCEEDED"), &json!(429)));
    server.stop().await;
}

#[tokio::test]
async fn body_size_limit() {
    let server = ServerProcess::start(&["body-bytes=1000"]).await;
    let target = server.target.clone();
    let large = json!({"command": format!("echo {}", "x".repeat(1_000))});
    target.post("/api/execute", large.clone()).await.refused(413, "FILE_TOO_LARGE");
    let text = large.to_string();
    let chunked = Request::new("POST", "/api/execute")
        .header("transfer-encoding", "chunked")
        .body(format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len()));
    target.send(chunked).await.refused(413, "FILE_TOO_LARGE");
    // Streamed standard input is not held in memory, so it is not limited.
    let id = target.start(json!({"command": "wc -c", "keepStdinOpen": true})).await;
    let request =
        Request::new("POST", format!("/api/process/{id}/stdin?close=true")).body(vec![b'x'; 100_000]);
    assert_eq!(target.send(request).await.ok()["written"], 100_000);
    target.ended(&id).await;
    assert_eq!(target.get(format!("/api/process/{id}/logs")).await.ok()["stdout"], "100000\n");
    server.stop().await;
}

/// Incomplete bodies count too: slow clients together cannot exhaust the memory.
#[tokio::test]
async fn total_body_limit() {
    let server = ServerProcess::start(&["held-body-bytes=100000"]).await;
    let half =
        Request::new("POST", "/api/execute").header("content-length", "60001").body(vec![b' '; 60_000]);
    let (mut one, mut other) = (server.target.connect().await, server.target.connect().await);
    one.send(&half).await.unwrap();
    other.send(&half).await.unwrap();
    // Which of the two is refused depends on whose bytes arrive last.
    let refused = async {
        tokio::select! { answer = one.answer() => answer, answer = other.answer() => answer }
    };
    crate::support::with_timeout(refused).await.unwrap().refused(429, "LIMIT_EXCEEDED");
    drop((one, other));
    server.target.shell("true").await;
    server.stop().await;
}

/// A client cannot occupy its share forever by sending nothing more.
#[tokio::test]
async fn stalled_body() {
    let server = ServerProcess::start(&["body-timeout-ms=100"]).await;
    let mut stalled = server.target.connect().await;
    let half = Request::new("POST", "/api/execute").header("content-length", "9").body("{");
    stalled.send(&half).await.unwrap();
    let answer = crate::support::with_timeout(stalled.answer()).await.unwrap();
    let refusal = answer.refused(400, "VALIDATION_FAILED");
    assert_eq!(refusal["context"]["field"], "body", "{refusal}");
    server.stop().await;
}

/// Without disk space for another journal, starts are refused. Running commands continue, and starts work
/// again when there is space.
#[tokio::test]
async fn root_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::mount(dir.path().join("disk"), "4m");
    let server = ServerProcess::start_in(dir, disk.path.join("state"), &[]).await;
    let target = server.target.clone();
    let running = target.start(json!({"command": "sleep 300"})).await;
    let filler = disk.path.join("filler");
    drop(std::fs::write(&filler, vec![0; 8 << 20]));
    let refused = async {
        loop {
            let answer =
                target.post("/api/execute", json!({"command": "echo x", "executionId": fresh("x")})).await;
            if answer.status() != 200 {
                return answer.refused(507, "NO_SPACE");
            }
        }
    };
    crate::support::with_timeout(refused).await;
    assert_eq!(target.process(&running).await["status"], "running");
    let health = target.get("/api/health").await.ok();
    assert!(health["status"] == "degraded" && health.to_string().contains("disk_full"), "{health}");
    std::fs::remove_file(&filler).unwrap();
    assert_eq!(target.shell("echo again").await["stdout"], "again\n");
    server.stop().await;
}

/// Clients of a terminal are told that output is missing while the disk is full. The screen is exact when there is space.
#[tokio::test(flavor = "multi_thread")]
async fn root_full_disk_of_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::mount(dir.path().join("disk"), "4m");
    let server = ServerProcess::start_in(dir, disk.path.join("state"), &[]).await;
    let target = &server.target;
    let command = "stty -echo; echo ready; read x; seq 3000; echo the end; read x";
    let id = target.terminal(json!({"command": command})).await;
    target.shows(&id, "ready").await;
    assert!(target.screen(&id).await.get("outputDropped").is_none());
    let mut viewer = Viewer::attach(target, &id, "").await;
    let filler = disk.path.join("filler");
    drop(std::fs::write(&filler, vec![0; 8 << 20]));
    viewer.send("\r").await;
    assert_eq!(viewer.frame("error").await["code"], "NO_SPACE");
    assert_eq!(target.screen(&id).await["outputDropped"], true);
    std::fs::remove_file(&filler).unwrap();
    viewer.frame("repaint").await;
    target.shows(&id, "the end").await;
    viewer.shows("the end").await;
    let screen = target.screen(&id).await;
    assert!(screen.get("outputDropped").is_none(), "{screen}");
    let lines: Vec<_> = screen["text"].as_str().unwrap().lines().filter(|line| !line.is_empty()).collect();
    let mut expected: Vec<_> = (2979..=3000).map(|n| n.to_string()).collect();
    expected.push("the end".into());
    assert_eq!(lines, expected);
    target.delete_terminal(&id).await;
    server.stop().await;
}
