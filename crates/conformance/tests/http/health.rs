//! What `/api/health` and `/metrics` report when something is wrong.

use rustix::process::{Pid, Signal, kill_process};
use sandcrab_conformance::cases::steps::text;
use serde_json::{Value, json};

use crate::support::ServerProcess;

fn codes(health: &Value) -> Vec<String> {
    health["problems"].as_array().unwrap().iter().map(|problem| text(&problem["code"])).collect()
}

async fn metrics(server: &ServerProcess) -> String {
    server.target.get("/metrics").await.text()
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_state_directory_is_reported() {
    let server = ServerProcess::start(&[]).await;
    let health = server.target.get("/api/health").await.ok();
    assert!(!codes(&health).contains(&"state_directory_missing".to_owned()), "{health}");
    assert_eq!(health["stateDirectory"]["present"], true);
    assert!(metrics(&server).await.contains("sandcrab_state_directory_present 1\n"));
    // Another directory with the same name does not count.
    let state = server.folder().join("state");
    std::fs::rename(&state, server.folder().join("moved")).unwrap();
    std::fs::create_dir(&state).unwrap();
    let health = server.target.get("/api/health").await.ok();
    assert_eq!(health["status"], "degraded");
    assert_eq!(codes(&health)[0], "state_directory_missing", "{health}");
    assert!(text(&health["problems"][0]["suggestion"]).contains("restart"), "{health}");
    let metrics = metrics(&server).await;
    assert!(metrics.contains("sandcrab_state_directory_present 0\n"), "{metrics}");
    assert!(metrics.contains("sandcrab_problems{code=\"state_directory_missing\"} 1"), "{metrics}");
    assert_eq!(server.target.get("/api/ping").await.ok()["status"], "healthy");
    std::fs::remove_dir(&state).unwrap();
    std::fs::rename(server.folder().join("moved"), &state).unwrap();
    let health = server.target.get("/api/health").await.ok();
    assert_eq!(health["stateDirectory"]["present"], true, "{health}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_supervisors_and_restored_sessions_are_counted() {
    let server = ServerProcess::start(&[]).await;
    let counts = &server.target.get("/api/health").await.ok()["counts"];
    assert_eq!((&counts["lostSupervisors"], &counts["restoredSessions"]), (&json!(0), &json!(0)));
    let session = server.target.new_session().await;
    let id = server.target.start(json!({"command": "echo $PPID; sleep 100"})).await;
    let path = format!("/api/process/{id}/logs");
    let logs =
        server.target.until(&path, |logs| logs["stdout"].as_str().is_some_and(|out| out.ends_with('\n')));
    let supervisor = text(&logs.await["stdout"]).trim().parse().ok().and_then(Pid::from_raw).unwrap();
    kill_process(supervisor, Signal::KILL).unwrap();
    let health = server.target.until("/api/health", |health| health["counts"]["lostSupervisors"] == 1).await;
    assert_eq!(health["status"], "degraded");
    assert!(codes(&health).contains(&"supervisors_lost".to_owned()), "{health}");
    assert!(metrics(&server).await.contains("sandcrab_supervisors_lost 1\n"));
    server.target.post("/api/execute", json!({"command": "kill -9 $$", "sessionId": session})).await;
    assert_eq!(server.target.in_session(&session, "echo on").await["stdout"], "on\n");
    server.target.until("/api/health", |health| health["counts"]["restoredSessions"] == 1).await;
    assert!(metrics(&server).await.contains("sandcrab_sessions_restored 1\n"));
    server.stop().await;
}
