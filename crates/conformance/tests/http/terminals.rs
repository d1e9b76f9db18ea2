//! Terminals under load, with viewers that do not read, and across crashes.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sandcrab_conformance::cases::steps::{fresh, text};
use sandcrab_conformance::http::{Request, Target, Viewer, ViewerMessage};
use serde_json::{Value, json};

use crate::support::{ServerProcess, with_timeout};

const MIB: u64 = 1 << 20;

/// Creates a terminal that prints this many bytes of lines, and then `the end`, when it gets a line.
async fn flooding(target: &Target, bytes: u64) -> String {
    let command = format!(
        "stty -echo; line=$(printf 'fox %.0s' {{1..50}}); printf ready; read -r x; yes \"$line\" | head -c {bytes}; \
         printf '\\r\\nthe end'; read -r x; exit 3"
    );
    let id = target.terminal(json!({"command": command})).await;
    target.shows(&id, "ready").await;
    id
}

async fn enter(target: &Target, id: &str) {
    target.type_in(id, json!({"keys": ["enter"]})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_viewers_see_the_same() {
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    let id = flooding(target, 200_000).await;
    let mut viewers = Vec::new();
    for _ in 0..10 {
        viewers.push(Viewer::attach(target, &id, "").await);
    }
    let one = target.get(format!("/api/terminal/{id}")).await.ok();
    assert_eq!(one["terminal"]["viewers"], 10);
    let starts: Vec<_> = viewers.iter().map(|viewer| viewer.seen.len()).collect();
    enter(target, &id).await;
    let mut seen = Vec::new();
    for (viewer, start) in viewers.iter_mut().zip(starts) {
        viewer.shows("the end").await;
        seen.push(viewer.seen[start..].to_vec());
    }
    assert!(seen.iter().all(|bytes| bytes == &seen[0]), "viewers differ");
    assert!(seen[0].len() > 200_000);
    enter(target, &id).await;
    for viewer in &mut viewers {
        assert_eq!(viewer.exit().await["exitCode"], 3);
    }
    server.stop().await;
}

/// All bytes reach a viewer that reads, and the server holds none of them.
async fn flood_to_a_viewer(bytes: u64) {
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    let id = flooding(target, bytes).await;
    let mut viewer = Viewer::attach(target, &id, "").await;
    let before = server.resident_bytes();
    enter(target, &id).await;
    let mut tail = Vec::new();
    while !tail.windows(7).any(|part| part == b"the end") {
        let message = viewer.next().await;
        let ViewerMessage::Bytes(bytes) = message else { continue };
        tail.extend(bytes);
        tail.drain(..tail.len().saturating_sub(64));
        viewer.seen.clear();
    }
    let screen = target.screen(&id).await;
    let shown = text(&screen["text"]);
    assert!(shown.starts_with("fox ") && shown.ends_with("the end"), "{screen}");
    let grown = server.peak_bytes().saturating_sub(before);
    assert!(grown < 64 * MIB, "the server grew by {grown} bytes");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_reaches_a_viewer() {
    flood_to_a_viewer(10_000_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_large_flood_reaches_a_viewer() {
    flood_to_a_viewer(100_000_000).await;
}

/// A viewer that stops reading delays no other one, costs little memory, and is repainted when it reads again.
async fn stalled_viewer(bytes: u64) {
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    let id = flooding(target, bytes).await;
    let mut stalled = Viewer::attach(target, &id, "").await;
    let mut reading = Viewer::attach(target, &id, "").await;
    let before = server.resident_bytes();
    enter(target, &id).await;
    reading.shows("the end").await;
    target.shows(&id, "the end").await;
    // Longer than a busy machine may delay a viewer.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 48 * MIB, "the server grew by {grown} bytes");
    stalled.shows("the end").await;
    assert_eq!(stalled.repaints, 2, "the viewer was not repainted");
    let received = stalled.seen.len() as u64;
    assert!(received < bytes - 4_000_000, "the viewer got {received} bytes of history");
    // From here on it is like any other.
    enter(target, &id).await;
    assert_eq!(stalled.exit().await["exitCode"], 3);
    assert_eq!(reading.exit().await["exitCode"], 3);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_viewer_is_repainted() {
    stalled_viewer(24_000_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_stalled_viewer_of_a_large_flood_is_repainted() {
    stalled_viewer(200_000_000).await;
}

/// A viewer that does not read blocks neither the id of its terminal nor the end of the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_viewer_blocks_nothing() {
    // Longer than `stop` waits: a server that waited for the client would fail the test.
    let server = ServerProcess::start(&["drain-ms=600000"]).await;
    let target = &server.target;
    let id = fresh("reused");
    let command = "yes \"$(printf 'fox %.0s' {1..50})\" | head -c 16000000; exit 4";
    let body = json!({"id": id, "command": format!("printf ready; read -r x; {command}")});
    target.terminal(body).await;
    let mut stalled = Viewer::attach(target, &id, "").await;
    stalled.shows("ready").await;
    enter(target, &id).await;
    assert_eq!(target.ended(&id).await["exitCode"], 4);
    let again = target.post("/api/terminal/create", json!({"id": id, "command": "cat"})).await.ok();
    assert_eq!(again["created"], true);
    target.delete_terminal(&id).await;
    server.stop().await;
}

/// The process of a terminal's supervisor.
fn supervisor_of(pid: &Value) -> Pid {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let parent: i32 = after_name.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    Pid::from_raw(parent).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_reaches_every_viewer() {
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    for (end, reason, source) in [
        ("exit", "exited", "live"),
        ("kill", "signaled", "live"),
        ("lost", "lost", "journal"),
        ("idle", "idle_timeout", "live"),
    ] {
        let idle = if end == "idle" { json!(700) } else { Value::Null };
        let id = fresh("ending");
        let body = json!({"id": id, "command": "printf 'the last screen'; read -r x; exit 7", "idleTimeoutMs": idle});
        let created = target.post("/api/terminal/create", body).await.ok();
        let mut viewers = Vec::new();
        for _ in 0..3 {
            viewers.push(Viewer::attach(target, &id, "").await);
        }
        target.shows(&id, "the last screen").await;
        match end {
            "exit" => enter(target, &id).await,
            "kill" => {
                target.shell(&format!("kill -9 {}", created["pid"])).await;
            }
            "lost" => kill_process(supervisor_of(&created["pid"]), Signal::KILL).unwrap(),
            _ => {}
        }
        for viewer in &mut viewers {
            let exit = viewer.exit().await;
            assert_eq!(exit["end"]["reason"], reason, "{exit}");
            if end == "exit" {
                assert_eq!((&exit["exitCode"], &exit["code"]), (&json!(7), &json!(7)));
            }
        }
        let screen = target.screen(&id).await;
        assert!(text(&screen["text"]).starts_with("the last screen"), "{screen}");
        assert_eq!(screen["source"], source, "{screen}");
        let again = target.post("/api/terminal/create", json!({"id": id, "command": "cat"})).await.ok();
        assert_eq!(again["created"], true, "{end}");
        target.delete_terminal(&id).await;
    }
    server.stop().await;
}

/// The server is killed: the terminal goes on, and the screen is the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_screen_survives_the_server() {
    let mut server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    let command = "stty raw -echo; printf '\\e[?1049h\\e[2J\\e[5;10H\\e[1;32mgreen\\e[0m\\e]2;kept\\a\\e[?2004h'; exec cat";
    let id = target.terminal(json!({"command": command, "cols": 90, "rows": 30})).await;
    target.shows(&id, "green").await;
    let mut viewer = Viewer::attach(&target, &id, "").await;
    let cells = || async { target.get(format!("/api/terminal/{id}/screen?format=cells")).await.ok() };
    let before = cells().await;
    server.crash();
    let gone =
        async { while !matches!(viewer.next().await, ViewerMessage::Gone | ViewerMessage::Closed(..)) {} };
    with_timeout(gone).await;
    server.restart().await;
    // Also in a list, before a client looks at the screen.
    target.until("/api/terminal/list", |list| list["terminals"][0]["title"] == "kept").await;
    let mut after = cells().await;
    after["timestamp"] = before["timestamp"].clone();
    assert_eq!(after, before);
    let mut again = Viewer::attach(&target, &id, "").await;
    assert!(String::from_utf8_lossy(&again.seen).contains("green"));
    again.send(&b" typed"[..]).await;
    again.shows(" typed").await;
    target.delete_terminal(&id).await;
    server.stop().await;
}

/// A screen of the largest size, with different attributes in every cell.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_screen_is_bounded() {
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    let line = "i=0; line=; while ((i < 1000)); do line+=$'\\e[3'$((i % 8))'mx'; ((++i)); done";
    let command = format!(
        "{line}; for ((r = 0; r < 999; ++r)); do printf '%s\\r\\n' \"$line\"; done; printf 'the end'; read -r x"
    );
    let body = json!({"command": command, "cols": 1000, "rows": 1000});
    let id = target.terminal(body).await;
    target.shows(&id, "the end").await;
    let before = server.resident_bytes();
    let mut viewer = Viewer::attach(target, &id, "").await;
    assert!(viewer.seen.len() > 1_000_000);
    viewer.seen.clear();
    let refused = target.get(format!("/api/terminal/{id}/screen?format=cells")).await;
    refused.refused(429, "LIMIT_EXCEEDED");
    let screen = target.screen(&id).await;
    assert!(text(&screen["text"]).len() > 900_000);
    let grown = server.peak_bytes().saturating_sub(before);
    assert!(grown < 256 * MIB, "the server grew by {grown} bytes");
    target.delete_terminal(&id).await;
    server.stop().await;
}

/// A wait does not delay the end of the server, whatever the drain window is.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_when_the_server_begins_to_stop() {
    let mut server = ServerProcess::start(&["drain-ms=300000", "keep-executions=1"]).await;
    let target = server.target.clone();
    let id = target.terminal(json!({"command": "echo ready; cat"})).await;
    target.shows(&id, "ready").await;
    let mut waiter = target.connect().await;
    let body = json!({"text": "never"});
    waiter.send(&Request::post(format!("/api/terminal/{id}/wait"), &body)).await.unwrap();
    // So that it has begun.
    target.screen(&id).await;
    server.signal(Signal::TERM);
    // A connection whose request was not read is closed.
    if let Ok(answer) = with_timeout(waiter.answer()).await {
        answer.refused(503, "SHUTTING_DOWN");
    }
    assert_eq!(server.ended().await, Some(0));
    // Without a server, the supervisor of the terminal would notice only after 30 s that the test is over.
    server.restart().await;
    target.delete_terminal(&id).await;
}

/// The server closes the connection of a viewer as soon as the client has confirmed the close frame.
#[tokio::test(flavor = "multi_thread")]
async fn the_connection_of_a_viewer_ends_with_the_terminal() {
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let id = target.terminal(json!({"command": "read -r x; exit 4"})).await;
        let mut viewer = Viewer::attach(target, &id, "").await;
        viewer.send(&b"\r"[..]).await;
        assert_eq!(viewer.exit().await["exitCode"], 4);
        let since = std::time::Instant::now();
        assert_eq!(viewer.next().await, ViewerMessage::Gone);
        fastest = fastest.min(since.elapsed());
    }
    // It waits for two seconds if the client confirms nothing.
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
    server.stop().await;
}

/// A list has the titles of terminals that ended before the server started.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_the_titles_of_ended_terminals() {
    let mut server = ServerProcess::start(&["keep-executions=1"]).await;
    let target = server.target.clone();
    let id = target.terminal(json!({"command": "printf '\\e]0;the last title\\a'; exit 0"})).await;
    target.ended(&id).await;
    server.crash();
    server.restart().await;
    let target = server.target.clone();
    for _ in 0..2 {
        let list =
            target.until("/api/terminal/list", |list| list.to_string().contains("the last title")).await;
        assert_eq!(list["terminals"][0]["id"], id, "{list}");
    }
    server.stop().await;
}

/// The record of a terminal may be removed while a request reads it.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_that_is_removed_meanwhile_is_not_found() {
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    for _ in 0..30 {
        let id = target.terminal(json!({"command": "exit 0"})).await;
        target.ended(&id).await;
        let screens =
            futures_util::future::join_all((0..8).map(|_| target.get(format!("/api/terminal/{id}/screen"))));
        let (screens, _) = tokio::join!(screens, target.delete_terminal(&id));
        for screen in screens.iter().filter(|screen| screen.status() != 200) {
            screen.refused(404, "TERMINAL_NOT_FOUND");
        }
    }
    server.stop().await;
}

/// A cursor belongs to one terminal, and not to a later one with the same id.
#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_of_an_earlier_terminal_is_not_resumed() {
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    let id = fresh("reused");
    let body = json!({"id": id, "command": "echo the first one; cat"});
    target.terminal(body).await;
    target.shows(&id, "the first one").await;
    let mut viewer = Viewer::open(target, &format!("/ws/terminal?terminalId={id}")).await;
    let ready = viewer.frame("ready").await;
    let resume = format!("&since={}&incarnation={}", ready["cursor"], text(&ready["incarnation"]));
    let again = Viewer::attach(target, &id, &resume).await;
    assert_eq!(again.repaints, 0);
    target.delete_terminal(&id).await;
    target.terminal(json!({"id": id, "command": "echo the second one has more output; cat"})).await;
    target.shows(&id, "the second one").await;
    let mut other = Viewer::attach(target, &id, &resume).await;
    assert_eq!(other.repaints, 1);
    other.shows("the second one has more output").await;
    target.delete_terminal(&id).await;
    server.stop().await;
}

/// Requests that wait do not stop the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_with_the_server() {
    let server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    let id = target.terminal(json!({"command": "cat"})).await;
    let body = json!({"text": "never"});
    let mut waiter = target.connect().await;
    waiter.send(&Request::post(format!("/api/terminal/{id}/wait"), &body)).await.unwrap();
    let mut viewer = Viewer::attach(&target, &id, "").await;
    server.stop().await;
    // It gets the end of the terminal, which ends with this server, or learns that the server stops.
    loop {
        match viewer.next().await {
            ViewerMessage::Closed(code, _) => break assert!([1000, 1001].contains(&code), "{code}"),
            ViewerMessage::Gone => panic!("no close frame"),
            _ => {}
        }
    }
}
