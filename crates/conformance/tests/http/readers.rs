//! Commands that wait for their reader, and readers that stall or vanish.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandcrab_conformance::cases::steps::{decode, fresh, text};
use sandcrab_conformance::http::{Event, EventStream, Request};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{ServerProcess, with_timeout};

/// More than a journal of [`JOURNAL`] and the socket buffers hold. The journal must hold the bytes in transit
/// to a client, which are up to 6 MB on the loopback device.
const BYTES: usize = 40_000_000;
const JOURNAL: &str = "journal-bytes=25165824";

/// A command that writes numbered lines and ends.
fn counting() -> Value {
    json!({"command": format!("seq 1 100000000 | head -c {BYTES}"), "overflow": "wait"})
}

/// Reads until there is this much standard output, or the end. Returns the id of the last event.
async fn read(events: &mut EventStream, output: &mut String, until: usize) -> (String, String) {
    let (mut id, mut kind) = (String::new(), String::new());
    while output.len() < until {
        let Some(event) = with_timeout(events.try_next()).await.unwrap() else { break };
        event.kind().clone_into(&mut kind);
        assert!(!["gap", "error"].contains(&kind.as_str()), "{:?}", event.data);
        if kind == "stdout" {
            output.push_str(&text(&event.data["data"]));
        }
        id = event.id.unwrap_or(id);
    }
    (id, kind)
}

/// A client that reconnects does not know the fate of its old connection, and neither does the server.
async fn resume_beside_a_stalled_connection(by: impl Fn(Request, &str, &str) -> Request, last_kind: &str) {
    let server = ServerProcess::start(&[JOURNAL]).await;
    let id = fresh("again");
    let mut body = counting();
    body["executionId"] = id.as_str().into();
    let start = Request::post("/api/execute/stream", &body).header("idempotency-key", &id);
    let mut stalled = server.target.stream(start.clone()).await;
    let mut output = String::new();
    let (last, _) = read(&mut stalled, &mut output, 200_000).await;
    let mut resumed = server.target.stream(by(start, &id, &last)).await;
    let (_, kind) = read(&mut resumed, &mut output, usize::MAX).await;
    assert_eq!((output.len(), kind.as_str()), (BYTES, last_kind));
    let mut numbers = output.lines().enumerate();
    assert!(numbers.all(|(at, line)| (at + 1).to_string().starts_with(line)));
    drop(stalled);
    server.stop().await;
}

#[tokio::test]
async fn repeated_request_replaces_the_old_connection() {
    let again = |start: Request, _: &str, last: &str| start.header("last-event-id", last);
    resume_beside_a_stalled_connection(again, "complete").await;
}

#[tokio::test]
async fn process_stream_replaces_the_old_connection() {
    let follow =
        |_: Request, id: &str, last: &str| Request::get(format!("/api/process/{id}/stream?since={last}"));
    resume_beside_a_stalled_connection(follow, "exit").await;
}

/// A character whose rest was dropped is sent as a replacement before the gap. The gap follows it, wherever
/// the character was split.
#[tokio::test]
async fn gap_is_sent_after_a_resume() {
    let server = ServerProcess::start(&["journal-bytes=262144"]).await;
    let mut cut_characters = 0;
    // Where the journal splits the output depends on how it arrives.
    for shift in ["", "a", "ab"].into_iter().cycle().take(60) {
        if cut_characters > 0 {
            break;
        }
        let id = fresh("gap");
        let command = format!("printf '{shift}'; yes € | tr -d '\\n' | head -c 3000000; printf x >&2");
        server.target.run(json!({"command": command, "executionId": id})).await;
        let path = format!("/api/process/{id}/stream");
        let all = server.target.stream(Request::get(&path)).await.rest().await;
        let gap = all.iter().position(|event| event.kind() == "gap").unwrap();
        for before in all[1..gap].iter().rev().take(2) {
            let since = before.id.as_deref().unwrap();
            let mut resumed = server.target.stream(Request::get(&path).header("last-event-id", since)).await;
            let mut shown = Vec::new();
            while shown.last().is_none_or(|event: &Event| event.kind() != "gap") {
                shown.push(resumed.next().await);
            }
            let is_cut = |event: &Event| event.data["invalidUtf8"] == true;
            cut_characters += usize::from(is_cut(before));
            let expected = &all[all.iter().position(|event| event.id == before.id).unwrap() + 1..=gap];
            let data = |events: &[Event]| events.iter().map(|event| event.data.clone()).collect::<Vec<_>>();
            assert_eq!(data(&shown), data(expected), "since {since}");
        }
    }
    assert!(cut_characters > 0, "no character was cut");
    server.stop().await;
}

/// A cursor that splits a character can be used in every way: the bytes before it are neither lost nor joined with
/// others.
#[tokio::test]
async fn cursor_inside_a_character() {
    let server = ServerProcess::start(&["journal-bytes=262144"]).await;
    // More than the part at the beginning that is always kept.
    let head = "head -c 100000 /dev/zero | tr '\\0' a; printf 'abc\\xe2\\x82'";
    for (rest, dropped) in
        [("printf '\\xac!'", false), ("printf '\\xac'; yes € | head -c 2000000", true), ("true", false)]
    {
        let id = fresh("held");
        let gate = server.folder().join(&id);
        let command = format!("{head}; until [ -e {} ]; do sleep 0.01; done; {rest}", gate.display());
        server.target.start(json!({"command": command, "processId": id})).await;
        let path = format!("/api/process/{id}/stream");
        let mut live = server.target.stream(Request::get(&path)).await;
        let since = loop {
            let event = with_timeout(live.next()).await;
            if let Some(id) = event.id.filter(|id| id.contains(':')) {
                break id;
            }
        };
        assert_eq!(since, "100005:2:0");
        std::fs::write(&gate, "").unwrap();
        server.target.get(format!("/api/process/{id}/wait")).await.ok();
        let rest_of = async |encoding: &str, since: &str| {
            let request = Request::get(format!("{path}?encoding={encoding}&since={since}"));
            let events = server.target.stream(request).await.rest().await;
            let shown = events.iter().take_while(|event| event.kind() != "exit");
            shown.map(|event| (event.kind().to_owned(), event.data["data"].clone())).collect::<Vec<_>>()
        };
        let logs = server.target.get(format!("/api/process/{id}/logs?since={since}")).await.ok();
        let text = rest_of("utf8", &since).await;
        let stdout = |data: &str| ("stdout".to_owned(), json!(data));
        if dropped {
            assert_eq!((&text[0], text[1].0.as_str()), (&stdout("\u{fffd}"), "gap"));
            // The two bytes before the cursor are lost, too.
            assert_eq!(logs["gap"]["from"], 100_003, "{logs}");
            let request = Request::get(format!("{path}?encoding=base64&since={since}"));
            let events = server.target.stream(request).await.rest().await;
            let gaps: Vec<_> = events.iter().filter(|event| event.kind() == "gap").collect();
            let ends = |event: &Event| (event.data["from"].clone(), event.data["to"].clone());
            assert_eq!(ends(gaps[0]), (json!(100_003), json!(100_005)));
            assert_eq!(gaps[1].data["from"], 100_005);
            continue;
        }
        let expected = if rest == "true" { "\u{fffd}" } else { "€!" };
        assert_eq!(text, [stdout(expected)]);
        assert_eq!(logs["stdout"], expected, "{logs}");
        assert_eq!(logs["cursor"], if rest == "true" { 100_005 } else { 100_007 });
        let exact = rest_of("base64", &since).await;
        let exact: Vec<_> = exact.iter().flat_map(|(_, data)| decode(data)).collect();
        assert_eq!(exact, if rest == "true" { &b"\xe2\x82"[..] } else { &b"\xe2\x82\xac!"[..] });
    }
    server.stop().await;
}

/// A slow client gets the number of bytes that were dropped while it read.
#[tokio::test]
async fn output_dropped_during_a_response_is_counted() {
    /// More than the socket buffers hold, and at most as much as a response has.
    const FIRST: u64 = 10_000_000;
    let server = ServerProcess::start(&["journal-bytes=12582912"]).await;
    let id = fresh("slow");
    let gate = server.folder().join(&id);
    let fill = |letter, bytes| format!("head -c {bytes} /dev/zero | tr '\\0' {letter}");
    let (first, second) = (fill('a', FIRST), fill('b', 40_000_000));
    let command = format!("{first}; until [ -e {} ]; do sleep 0.01; done; {second}", gate.display());
    server.target.start(json!({"command": command, "processId": id})).await;
    let path = format!("/api/process/{id}/logs");
    with_timeout(async {
        while server.target.get(format!("{path}?tail=0")).await.ok()["cursor"] != FIRST {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let mut slow = tokio::net::TcpStream::connect(server.target.authority()).await.unwrap();
    // Without chunks.
    let (host, token) = (server.target.authority(), server.target.token().unwrap());
    let request = format!("GET {path} HTTP/1.0\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\r\n");
    slow.write_all(request.as_bytes()).await.unwrap();
    let mut response = vec![slow.read_u8().await.unwrap()];
    std::fs::write(&gate, "").unwrap();
    server.target.get(format!("/api/process/{id}/wait")).await.ok();
    with_timeout(slow.read_to_end(&mut response)).await.unwrap();
    let text = String::from_utf8(response).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{head}");
    let logs: Value = serde_json::from_str(body).unwrap();
    let shown = logs["stdout"].as_str().unwrap().len() as u64;
    let dropped = logs["truncated"]["stdoutBytes"].as_u64().unwrap();
    assert!(dropped > 0 && shown + dropped == FIRST, "{shown} and {dropped}");
    assert_eq!(logs["cursor"], FIRST);
    server.stop().await;
}

/// Ends the process with its network namespace on drop.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// If the machine of a client is gone, no packet ever tells the server. The command continues after a while.
#[tokio::test]
async fn soak_root_vanished_client_does_not_block_a_command() {
    let server = ServerProcess::start_alone(&[JOURNAL]).await;
    let done = server.folder().join("done");
    let mut body = counting();
    body["command"] = format!("{}; echo > {}", text(&body["command"]), done.display()).into();
    let body = body.to_string();
    let (host, port) = server.target.authority().split_once(':').unwrap();
    let token = server.target.token().unwrap();
    let head = format!(
        "POST /api/execute/stream HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: Bearer {token}\r\n\
         content-length: {}\r\ncontent-type: application/json\r\n\r\n",
        body.len()
    );
    let pid = server.pid().to_string();
    let within = |words: &[&str]| {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &pid]).args(words).stdin(Stdio::null());
        command
    };
    // The client reads nothing.
    let client = r#"exec 3<>/dev/tcp/$1/$2; printf '%s%s' "$3" "$4" >&3; sleep 1000"#;
    let client = within(&["bash", "-c", client, "client", host, port, &head, &body]).spawn().unwrap();
    let client = Ended(client);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!done.exists(), "it did not wait for its reader");
    assert!(within(&["ip", "link", "set", "lo", "down"]).status().unwrap().success());
    let begun = Instant::now();
    // The server notices after 60 s and one check interval, and the client then has 30 s to reconnect.
    while !done.exists() {
        // The server can announce nothing: its network is down. The command creates the file.
        assert!(begun.elapsed() < Duration::from_secs(150), "the command stands still");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(begun.elapsed() > Duration::from_secs(60), "{:?}", begun.elapsed());
    drop(client);
    server.stop().await;
}
