//! Output streams: fields, order, ends and heartbeats.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::shapes;
use super::steps::{decode, fresh, text};
use crate::http::{Event, EventStream, Part, Request, Target};
use crate::shape::assert_shape;

/// Maximum interval of heartbeats, with some tolerance for a busy machine.
const HEARTBEAT: Duration = Duration::from_secs(30);

pub(super) fn kinds(events: &[Event]) -> Vec<&str> {
    let mut kinds: Vec<_> = events.iter().map(Event::kind).collect();
    kinds.dedup();
    kinds
}

/// Returns the concatenated data of all events of a type.
pub(super) fn joined(events: &[Event], kind: &str) -> String {
    events.iter().filter(|event| event.kind() == kind).map(|event| text(&event.data["data"])).collect()
}

async fn stream(target: &Target, body: Value) -> EventStream {
    target.stream(Request::post("/api/execute/stream", &body)).await
}

/// The command writes more than a journal holds, and the client begins to read late. The command waits, and
/// nothing is missing.
pub(super) async fn command_waits_for_its_reader(target: Target) {
    let bytes = 90_000_000;
    let command = format!("yes 0123456789abcde | head -c {bytes}");
    let mut events = stream(&target, json!({"command": command, "overflow": "wait"})).await;
    // By then, a command that does not wait would have written everything.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (mut count, mut kind) = (0, String::new());
    while let Ok(Some(event)) = events.try_next().await {
        event.kind().clone_into(&mut kind);
        assert_ne!(kind, "gap", "{:?}", event.data);
        count += if kind == "stdout" { text(&event.data["data"]).len() } else { 0 };
    }
    assert_eq!((count, kind.as_str()), (bytes, "complete"));
    let body = json!({"command": "true", "overflow": "wait"});
    target.post("/api/execute", body.clone()).await.refused(400, "VALIDATION_FAILED");
    target.post("/api/process/start", body).await.ok();
    for path in ["/api/execute", "/api/execute/stream", "/api/process/start"] {
        let body = json!({"command": "true", "overflow": "later"});
        target.post(path, body).await.refused(400, "VALIDATION_FAILED");
    }
}

/// Output of leftovers after the end precedes the last event of later streams, and streams can be resumed for
/// it.
pub(super) async fn output_after_the_end(target: Target) {
    let folder = target.folder().await;
    let (id, gate) = (fresh("late"), format!("{folder}/gate"));
    let command = format!("echo early; (until [ -e {gate} ]; do sleep 0.01; done; echo late) & true");
    let live = stream(&target, json!({"command": command, "executionId": id})).await.rest().await;
    assert_eq!(kinds(&live), ["start", "stdout", "complete"]);
    let Some(last) = live.last().and_then(|event| event.id.clone()) else { panic!("{live:?}") };
    target.shell(&format!("touch {gate}")).await;
    let logs = format!("/api/process/{id}/logs");
    target.until(&logs, |logs| logs["stdout"] == "early\nlate\n").await;
    for follow in [true, false] {
        let path = format!("/api/process/{id}/stream?follow={follow}");
        let all = target.stream(Request::get(&path)).await.rest().await;
        assert_eq!(kinds(&all), ["process_info", "stdout", "exit"]);
        assert_eq!(joined(&all, "stdout"), "early\nlate\n");
        let resumed = target.stream(Request::get(&path).header("last-event-id", &last)).await.rest().await;
        assert_eq!(kinds(&resumed), ["stdout", "exit"]);
        assert_eq!(joined(&resumed, "stdout"), "late\n");
    }
    target.remove(&folder).await;
}

pub(super) async fn of_a_command(target: Target) {
    let id = fresh("streamed");
    let command = "echo out; sleep 0.1; echo err >&2; exit 3";
    let mut events = stream(&target, json!({"command": command, "executionId": id})).await;
    assert_eq!(events.head.header("cache-control"), Some("no-cache"));
    let all = events.rest().await;
    assert_eq!(kinds(&all), ["start", "stdout", "stderr", "complete"]);
    let [start, out, err, complete] = &all[..] else { panic!("{all:?}") };
    assert_shape(
        &start.data,
        "type:text command:text executionId:text pid?:int sessionId?:text replaced?:object timestamp:time",
    );
    assert_eq!((&start.data["executionId"], &start.data["command"]), (&json!(id), &json!(command)));
    assert_shape(&out.data, "type:text data:text timestamp:time");
    assert_eq!((&out.data["data"], out.id.as_deref()), (&json!("out\n"), Some("4")));
    assert_eq!((&err.data["data"], err.id.as_deref()), (&json!("err\n"), Some("8")));
    assert_shape(
        &complete.data,
        "type:text exitCode:int end:object usage:object result:object timestamp:time",
    );
    assert_eq!(
        (&complete.data["exitCode"], &complete.data["end"]),
        (&json!(3), &json!({"reason": "exited"}))
    );
    assert_shape(&complete.data["usage"], shapes::USAGE);
    assert_shape(
        &complete.data["result"],
        "success:flag exitCode:int command:text duration:number executionId:text sessionId?:text leftovers?:list \
         leftoverCount?:int sessionRestarted?:flag restoredStateAgeMs?:number restoredFrom?:text shellEnded?:flag \
         truncated?:object timestamp:time",
    );
}

pub(super) async fn of_a_process(target: Target) {
    let id = target.start(json!({"command": "echo out; sleep 0.1; echo err >&2; exit 3"})).await;
    let all = target.stream(Request::get(format!("/api/process/{id}/stream"))).await.rest().await;
    assert_eq!(kinds(&all), ["process_info", "stdout", "stderr", "exit"]);
    let [info, out, _, exit] = &all[..] else { panic!("{all:?}") };
    assert_shape(&info.data, "type:text processId:text command:text status:text timestamp:time");
    assert_shape(&out.data, "type:text data:text processId:text timestamp:time");
    assert_shape(
        &exit.data,
        "type:text processId:text exitCode:int end:object usage:object timestamp:time data?:text",
    );
    assert_eq!((&exit.data["processId"], &exit.data["exitCode"]), (&json!(id), &json!(3)));
}

/// Output arrives while the command runs.
pub(super) async fn output_is_live(target: Target) {
    let folder = target.folder().await;
    let command = "for i in 1 2 3; do echo $i; until [ -e $i ]; do sleep 0.01; done; done";
    let session = target.new_session().await;
    for session in [None, Some(session.as_str())] {
        let mut events =
            stream(&target, json!({"command": command, "cwd": folder, "sessionId": session})).await;
        for number in ["1", "2", "3"] {
            assert_eq!(events.next_of("stdout").await.data["data"], format!("{number}\n"));
            target.run(json!({"command": "touch", "args": [number], "cwd": folder})).await;
        }
        assert_eq!(events.next().await.kind(), "complete");
        target.run(json!({"command": "rm 1 2 3", "cwd": folder})).await;
    }
    target.delete_session(&session).await;
    target.remove(&folder).await;
}

pub(super) async fn base64_encoding(target: Target) {
    let body = json!({"command": r"printf 'a\0\xff'; printf '\xc3' >&2", "encoding": "base64"});
    let all = stream(&target, body).await.rest().await;
    let bytes = |kind: &str| -> Vec<u8> {
        all.iter()
            .filter(|event| event.kind() == kind)
            .flat_map(|event| decode(&event.data["data"]))
            .collect()
    };
    assert_eq!((bytes("stdout"), bytes("stderr")), (b"a\0\xff".to_vec(), b"\xc3".to_vec()));
}

/// A silent stream sends a heartbeat at least every 15 seconds.
pub(super) async fn heartbeat(target: Target) {
    let id = target.start(json!({"command": "sleep 300"})).await;
    let mut streams = [
        target.stream(Request::get(format!("/api/process/{id}/stream"))).await,
        target.stream(Request::get("/api/events")).await,
    ];
    for events in &mut streams {
        let first = events.next().await;
        assert!(["process_info", "hello"].contains(&first.kind()), "{first:?}");
    }
    let since = Instant::now();
    for events in &mut streams {
        loop {
            let left = HEARTBEAT.saturating_sub(since.elapsed());
            match tokio::time::timeout(left, events.part()).await {
                Ok(part) => match part.expect("the stream was cut").expect("the stream has ended") {
                    Part::Comment(_) => break,
                    // Other executions may cause events meanwhile.
                    Part::Event(event) => assert!(events.head.status == 200 && event.kind() != "exit"),
                },
                Err(_) => panic!("no comment within {HEARTBEAT:?}"),
            }
        }
    }
    target.kill(&id).await;
}

pub(super) async fn follow_false(target: Target) {
    let id = target.start(json!({"command": "echo so far; sleep 300"})).await;
    target.until(&format!("/api/process/{id}/logs"), |logs| logs["stdout"] == "so far\n").await;
    let all =
        target.stream(Request::get(format!("/api/process/{id}/stream?follow=false"))).await.rest().await;
    assert_eq!(kinds(&all), ["process_info", "stdout", "caught_up"]);
    assert_shape(&all[2].data, "type:text processId:text timestamp:time");
    target.kill(&id).await;
    let all =
        target.stream(Request::get(format!("/api/process/{id}/stream?follow=false"))).await.rest().await;
    assert_eq!(kinds(&all), ["process_info", "stdout", "exit"]);
}

pub(super) async fn end_events(target: Target) {
    for (options, reason) in [
        (json!({"command": "true"}), "exited"),
        (json!({"command": "kill -9 $$"}), "signaled"),
        (json!({"command": "sleep 300", "timeoutMs": 100}), "timeout"),
        (json!({"command": "sleep 300", "idleTimeoutMs": 100}), "idle_timeout"),
        (json!({"command": "yes", "limits": {"outputBytes": 1000}}), "output_limit"),
    ] {
        let all = stream(&target, options.clone()).await.rest().await;
        let last = all.last().expect("a stream has events");
        assert_eq!((last.kind(), &last.data["end"]["reason"]), ("complete", &json!(reason)), "{options}");
    }
    let id = fresh("killed");
    let mut events = stream(&target, json!({"command": "sleep 300", "executionId": id})).await;
    events.next_of("start").await;
    target.kill(&id).await;
    assert_eq!(events.next().await.data["end"]["reason"], "killed");
}

/// A refused request gets an error response with JSON, not a stream.
pub(super) async fn errors_are_not_streams(target: Target) {
    let ask = |body: Value| target.post("/api/execute/stream", body);
    ask(json!({"command": "x", "args": [], "cwd": "/no/such"})).await.refused(400, "VALIDATION_FAILED");
    ask(json!({"command": "x", "sessionId": "nobody"})).await.refused(404, "SESSION_NOT_FOUND");
    target.get("/api/process/nobody/stream").await.refused(404, "PROCESS_NOT_FOUND");
}

/// Bytes that were dropped because of the journal limit are reported.
pub(super) async fn dropped_bytes_are_reported(target: Target) {
    let total = 100 << 20;
    let id = target.start(json!({"command": format!("head -c {total} /dev/zero | tr '\\0' x")})).await;
    target.ended(&id).await;
    let path = format!("/api/process/{id}/stream?encoding=base64");
    let mut events = target.stream(Request::get(path)).await;
    let (mut position, mut gaps) = (0, 0);
    while let Some(event) = events.try_next().await.expect("the stream was cut") {
        match event.kind() {
            "stdout" => position += decode(&event.data["data"]).len() as u64,
            "gap" => {
                assert_shape(&event.data, "type:text from:int to:int timestamp:time");
                assert_eq!(event.data["from"], position);
                position = event.data["to"].as_u64().expect("a cursor");
                gaps += 1;
            }
            _ => continue,
        }
        assert_eq!(event.id, Some(position.to_string()));
    }
    assert_eq!(position, total, "with {gaps} gaps");
    assert!(gaps > 0, "the journal is larger than the test thinks");
    target.post("/api/process/cleanup", json!({})).await.ok();
}
