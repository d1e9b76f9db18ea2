//! Viewers of terminals that do not read, that send what is invalid, and servers that lack what a viewer needs.

use std::process::Command;
use std::time::Duration;

use sandcrab_conformance::cases::steps::{fresh, text};
use sandcrab_conformance::http::{Target, Viewer};
use serde_json::{Value, json};

use crate::support::ServerProcess;

const MIB: u64 = 1 << 20;
/// A client that does not read is not taken for dead within the time of a test.
const PATIENT: &str = "socket-ping-ms=60000";

/// Creates a terminal with different attributes in every cell of its screen, whose repaint has megabytes. It ends with a line.
async fn large_screen(target: &Target, rows: u16) -> String {
    let line = "i=0; line=; while ((i < 1000)); do line+=$'\\e[3'$((i % 8))'mx'; ((++i)); done";
    let command = format!(
        "{line}; for ((r = 1; r < {rows}; ++r)); do printf '%s\\r\\n' \"$line\"; done; printf 'the end'; read -r x; exit 4"
    );
    let body = json!({"id": fresh("large"), "command": command, "cols": 1000, "rows": rows});
    let id = target.terminal(body).await;
    target.shows(&id, "the end").await;
    id
}

/// The unsent bytes of all connections, as the server counts them.
async fn outgoing_bytes(target: &Target) -> u64 {
    let metrics = target.get("/metrics").await.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix("sandcrab_outgoing_bytes "));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no figure in {metrics}"))
}

/// Waits until the unsent bytes are as wanted.
async fn until_outgoing(target: &Target, wanted: impl Fn(u64) -> bool) {
    let looking = async {
        while !wanted(outgoing_bytes(target).await) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(120), looking).await.is_err() {
        panic!("{} bytes are unsent", outgoing_bytes(target).await);
    }
}

/// A repaint is a message of several fragments. Other messages wait for its end.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_does_not_split_a_repaint() {
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    let id = large_screen(target, 400).await;
    let mut viewer = Viewer::open(target, &format!("/ws/terminal?terminalId={id}")).await;
    let count = 40;
    for _ in 0..count {
        viewer.send_text("x").await;
    }
    viewer.frame("ready").await;
    viewer.shows("the end").await;
    let errors = |viewer: &Viewer| viewer.frames.iter().filter(|frame| frame["type"] == "error").count();
    while errors(&viewer) < count {
        viewer.frame("error").await;
    }
    viewer.send(&b"\r"[..]).await;
    assert_eq!(viewer.exit().await["exitCode"], 4);
    server.stop().await;
}

/// A client that sends invalid frames and does not read the answers is not read any more.
#[tokio::test(flavor = "multi_thread")]
async fn unread_errors_are_bounded() {
    let server = ServerProcess::start(&[PATIENT]).await;
    let target = &server.target;
    let id = target.terminal(json!({"command": "cat"})).await;
    let mut viewer = Viewer::attach(target, &id, "").await;
    let before = server.resident_bytes();
    let frame = format!(r#"{{"type":"resize","cols":1,"rows":1,"{}":1}}"#, "x".repeat(300));
    let is_taken = viewer.flood(&frame, 300_000, Duration::from_secs(2)).await;
    let grown = server.peak_bytes().saturating_sub(before);
    assert!(grown < 32 * MIB, "the server grew by {grown} bytes");
    assert!(!is_taken, "the server has read everything");
    // It is read again when it reads.
    viewer.frame("error").await;
    target.delete_terminal(&id).await;
    viewer.exit().await;
    server.stop().await;
}

/// The memory of a repaint is free again if the client does not read it, and the client is repainted when it reads.
#[tokio::test(flavor = "multi_thread")]
async fn unread_repaints_are_bounded() {
    let server = ServerProcess::start(&[PATIENT]).await;
    let target = &server.target;
    let id = large_screen(target, 400).await;
    let before = server.resident_bytes();
    let mut viewers = Vec::new();
    for _ in 0..24 {
        viewers.push(Viewer::open_narrow(target, &id).await);
    }
    // Two repaints at least. Of each, two pieces at most stay.
    until_outgoing(target, |bytes| bytes > 4 * MIB).await;
    let few = viewers.len() as u64 * 160 * 1024;
    until_outgoing(target, |bytes| bytes < few).await;
    let grown = server.peak_bytes().saturating_sub(before);
    assert!(grown < 256 * MIB, "the server grew by {grown} bytes");
    // Others are not delayed meanwhile.
    assert!(text(&target.screen(&id).await["text"]).ends_with("the end"));
    let mut viewer = viewers.remove(0);
    viewer.frame("ready").await;
    viewer.shows("the end").await;
    server.stop().await;
}

/// A viewer that has read nothing when its terminal ends and the id is used again still gets the end.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_reaches_a_viewer_whose_record_is_gone() {
    let server = ServerProcess::start(&[PATIENT]).await;
    let target = &server.target;
    let id = large_screen(target, 1000).await;
    let mut viewer = Viewer::open_narrow(target, &id).await;
    until_outgoing(target, |bytes| bytes > 2 * MIB).await;
    // Its repaint is dropped.
    until_outgoing(target, |bytes| bytes < MIB).await;
    target.type_in(&id, json!({"keys": ["enter"]})).await;
    assert_eq!(target.ended(&id).await["exitCode"], 4);
    let again = target.post("/api/terminal/create", json!({"id": id, "command": "cat"})).await.ok();
    assert_eq!(again["created"], true);
    assert_eq!(viewer.exit().await["exitCode"], 4);
    target.delete_terminal(&id).await;
    server.stop().await;
}

/// Without free descriptors the server closes no viewer. Output and repaints come when there are some again.
#[tokio::test(flavor = "multi_thread")]
async fn viewers_stay_when_descriptors_are_short() {
    let server = ServerProcess::start(&["journal-bytes=1048576"]).await;
    let target = &server.target;
    let command = "stty -echo; printf ready; read -r x; yes 0123456789abcdef | head -c 8000000; \
                   printf '\\r\\nthe end'; read -r x; exit 3";
    let id = target.terminal(json!({"command": command})).await;
    target.shows(&id, "ready").await;
    let mut reading = Viewer::attach(target, &id, "").await;
    let mut stalled = Viewer::open_narrow(target, &id).await;
    stalled.frame("ready").await;
    let limit = |soft: &str| {
        let (pid, limit) = (server.pid().to_string(), format!("--nofile={soft}:"));
        assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    };
    limit("5");
    reading.send(&b"\r"[..]).await;
    // What they need of the journal is in files that cannot be opened.
    for viewer in [&mut reading, &mut stalled] {
        let shown = tokio::time::timeout(Duration::from_secs(3), viewer.shows("the end")).await;
        assert!(shown.is_err(), "the journal was read without descriptors");
    }
    limit("1000");
    reading.shows("the end").await;
    stalled.shows("the end").await;
    reading.send(&b"\r"[..]).await;
    for viewer in [&mut reading, &mut stalled] {
        assert_eq!(viewer.exit().await["exitCode"], 3);
    }
    server.stop().await;
}

/// A connection between server and supervisor is lost: no viewer notices, and input and sizes arrive.
#[tokio::test(flavor = "multi_thread")]
async fn viewers_stay_when_the_supervisor_is_lost_for_a_moment() {
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    let id = target.terminal(json!({"command": "stty raw -echo; printf ready; exec cat"})).await;
    let mut viewer = Viewer::attach(target, &id, "").await;
    viewer.shows("ready").await;
    for round in 0..10_u16 {
        assert!(server.break_links() > 0, "there is no connection in round {round}");
        let marker = format!("<{round}>");
        viewer.send(marker.as_bytes()).await;
        viewer.shows(&marker).await;
        assert!(server.break_links() > 0, "there is no connection in round {round}");
        viewer.resize(80 + round, 24).await;
        target.until(&format!("/api/terminal/{id}"), |answer| answer["terminal"]["cols"] == 80 + round).await;
    }
    let failed: Vec<&Value> = viewer.frames.iter().filter(|frame| frame["type"] == "error").collect();
    assert!(failed.is_empty(), "{failed:?}");
    let all = String::from_utf8_lossy(&viewer.seen).into_owned();
    assert!(all.ends_with("<7><8><9>"), "{all:?}");
    target.delete_terminal(&id).await;
    assert_eq!(viewer.exit().await["end"]["reason"], "killed");
    server.stop().await;
}

/// A program that prints without end does not keep its screen from being read.
#[tokio::test(flavor = "multi_thread")]
async fn a_screen_is_read_during_a_flood() {
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    let id = target.terminal(json!({"command": "yes flood"})).await;
    target.shows(&id, "flood").await;
    for _ in 0..5 {
        assert!(text(&target.screen(&id).await["text"]).contains("flood"));
        let mut viewer = Viewer::attach(target, &id, "").await;
        viewer.shows("flood").await;
    }
    target.delete_terminal(&id).await;
    server.stop().await;
}

/// An expression whose search takes long, again and again: other requests are answered, and its own timeout counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_expression_delays_no_other_client() {
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    // Each position of the screen may be the start of a match, and is followed to the end of its text.
    let command = "line=$(printf 'a%.0s' {1..199}); for ((r = 1; r < 50; ++r)); do echo \"$line\"; done; printf 'the end'; read -r x";
    let id = target.terminal(json!({"command": command, "cols": 200, "rows": 50})).await;
    target.shows(&id, "the end").await;
    let slow = json!({"regex": "a[ -~\\n]{0,300}[ -~\\n]{0,300}[ -~\\n]{0,300}never", "timeoutMs": 1000});
    let mut waits = Vec::new();
    for _ in 0..8 {
        let (target, id, slow) = (target.clone(), id.clone(), slow.clone());
        waits.push(tokio::spawn(async move { target.post(format!("/api/terminal/{id}/wait"), slow).await }));
    }
    for _ in 0..20 {
        target.get("/api/ping").await.ok();
        assert!(text(&target.screen(&id).await["text"]).ends_with("the end"));
    }
    for wait in waits {
        wait.await.unwrap().refused(408, "PROCESS_READY_TIMEOUT");
    }
    target.delete_terminal(&id).await;
    server.stop().await;
}
