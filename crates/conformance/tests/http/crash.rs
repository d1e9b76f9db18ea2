//! The server is killed at arbitrary moments and restarted: executions are not affected, and no client loses
//! output.

use std::time::Duration;

use sandcrab_conformance::cases::steps::{fresh, text};
use sandcrab_conformance::cases::test_rng::TestRng;
use sandcrab_conformance::http::{Connection, EventStream, Request, Target};
use serde_json::json;

use crate::support::{ServerProcess, is_soak, lines_of, with_timeout};

/// Reads the stream of a process to its end across disconnects, and returns its output.
///
/// A client only needs to repeat the request with the id of the last event it received.
pub(crate) async fn follow(target: Target, id: String) -> String {
    let mut output = String::new();
    let mut last: Option<String> = None;
    loop {
        let mut request = Request::get(format!("/api/process/{id}/stream"));
        if let Some(last) = &last {
            request = request.header("last-event-id", last);
        }
        let Ok(mut events) = open(&target, &request).await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        while let Ok(Some(event)) = events.try_next().await {
            last = event.id.clone().or(last);
            match event.kind() {
                "stdout" => output.push_str(event.data["data"].as_str().unwrap()),
                "exit" => return output,
                "process_info" => {}
                other => panic!("an event {other}: {event:?}"),
            }
        }
    }
}

async fn open(target: &Target, request: &Request) -> std::io::Result<EventStream> {
    let mut connection = Connection::open(target).await?;
    connection.send(request).await?;
    let (head, body) = connection.into_body().await?;
    assert_eq!(head.status, 200, "{head:?}");
    Ok(EventStream::new(head, body))
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_readers_lose_nothing() {
    let mut server = ServerProcess::start(&[]).await;
    let command = "for i in {1..600}; do echo \"line $i ü\"; sleep 0.005; done";
    let id = server.target.start(json!({"command": command})).await;
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..5 {
        readers.spawn(follow(server.target.clone(), id.clone()));
    }
    let mut rng = TestRng::new();
    for _ in 0..4 {
        // Any moment is possible, whatever the server is doing.
        tokio::time::sleep(Duration::from_millis(100 + rng.below(400))).await;
        server.crash();
        server.restart().await;
    }
    let expected: String = (1..=600).map(|number| format!("line {number} ü\n")).collect();
    while let Some(output) = with_timeout(readers.join_next()).await {
        assert!(output.unwrap() == expected, "a reader lost something; {rng:?}");
    }
    assert_eq!(server.target.process(&id).await["exitCode"], 0);
    server.stop().await;
}

/// The client does not know whether its request arrived, so it repeats it.
#[tokio::test(flavor = "multi_thread")]
async fn idempotency_key_starts_once() {
    let mut server = ServerProcess::start(&[]).await;
    let mut rng = TestRng::new();
    let rounds = if is_soak() { 100 } else { 8 };
    for round in 0..rounds {
        let (key, file) = (fresh("key"), server.folder().join(format!("runs-{round}")));
        let command = format!("echo ran >> {}; sleep 0.05; echo out; exit 3", file.display());
        let body = json!({"command": command});
        let request = Request::post("/api/execute", &body).header("idempotency-key", &key);
        let mut connection = server.target.connect().await;
        connection.send(&request).await.unwrap();
        tokio::time::sleep(Duration::from_micros(rng.below(60_000))).await;
        server.crash();
        server.restart().await;
        let result = server.target.send(request).await.ok();
        assert_eq!(
            (&result["exitCode"], &result["stdout"]),
            (&json!(3), &json!("out\n")),
            "{rng:?}: {result}"
        );
        assert_eq!(lines_of(&file), 1, "round {round}, {rng:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_survive() {
    let mut server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    let session = target.make_session(json!({"name": "kept", "onShellExit": "restore", "cwd": "/usr"})).await;
    target.in_session(&session, "x=1; f() { echo f; }").await;
    let id = fresh("running");
    let gate = server.folder().join("open");
    let command = format!("echo begun; until [ -e {} ]; do sleep 0.01; done; x=2", gate.display());
    let body = json!({"command": command, "sessionId": session, "executionId": id});
    let mut waiter = target.connect().await;
    waiter.send(&Request::post("/api/execute", &body)).await.unwrap();
    target.until("/api/process/list?all=true&status=running", |list| list.to_string().contains(&id)).await;
    server.crash();
    server.restart().await;
    std::fs::write(&gate, "").unwrap();
    assert_eq!(target.ended(&id).await["exitCode"], 0);
    assert_eq!(target.in_session(&session, "echo $PWD $x; f").await["stdout"], "/usr 2\nf\n");
    let one = target.get(format!("/api/session/{session}")).await.ok();
    assert_eq!(one["session"]["name"], "kept");
    // The options of the session are kept too.
    assert_eq!(target.in_session(&session, "exit 3").await["exitCode"], 3);
    server.stop().await;
}

/// The supervisor of the command enforces its deadlines.
#[tokio::test(flavor = "multi_thread")]
async fn deadlines_work_without_a_server() {
    let mut server = ServerProcess::start(&[]).await;
    let id = server.target.start(json!({"command": "echo begun; sleep 300", "timeoutMs": 1500})).await;
    let pid = server.target.process(&id).await["pid"].clone();
    server.crash();
    let gone = async {
        while std::path::Path::new(&format!("/proc/{pid}")).exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    with_timeout(gone).await;
    server.restart().await;
    let process = server.target.ended(&id).await;
    assert_eq!((&process["end"]["reason"], &process["exitCode"]), (&json!("timeout"), &json!(124)));
    let wall = process["usage"]["wallMs"].as_f64().unwrap();
    assert!((1_500.0..60_000.0).contains(&wall), "{wall} ms");
    assert_eq!(server.target.get(format!("/api/process/{id}/logs")).await.ok()["stdout"], "begun\n");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_and_settings_survive() {
    let mut server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    target.post("/api/env", json!({"vars": {"OF_THE_SANDBOX": "set"}})).await.ok();
    let result = target.run(json!({"command": r"printf '\xff'; exit 4", "encoding": "base64"})).await;
    let id = text(&result["executionId"]);
    server.crash();
    server.restart().await;
    assert_eq!(target.shell("echo $OF_THE_SANDBOX").await["stdout"], "set\n");
    assert_eq!(target.process(&id).await["exitCode"], 4);
    let logs = target.get(format!("/api/process/{id}/logs")).await.ok();
    assert_eq!((&logs["stdout"], &logs["encoding"]), (&result["stdout"], &json!("base64")));
    server.stop().await;
}
