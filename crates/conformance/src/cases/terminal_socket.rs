//! Terminals over their WebSocket: `/ws/terminal` and `/ws/pty`.

use serde_json::{Value, json};

use super::steps::{fresh, text};
use crate::http::{Request, Target, Viewer, ViewerMessage};
use crate::shape::assert_shape;

pub(super) async fn without_an_upgrade(target: Target) {
    for path in ["/ws/terminal", "/ws/terminal?terminalId=x", "/ws/pty", "/ws/pty?sessionId=x"] {
        target.get(path).await.refused(426, "UPGRADE_REQUIRED");
    }
}

/// With the headers of an upgrade, by hand: the refusal is an ordinary answer.
fn upgrade(path: &str) -> Request {
    Request::get(path)
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
}

pub(super) async fn what_is_refused(target: Target) {
    let id = target.terminal(json!({"command": "cat"})).await;
    let path = format!("/ws/terminal?terminalId={id}");
    target.send(upgrade("/ws/terminal?terminalId=none")).await.refused(404, "TERMINAL_NOT_FOUND");
    target.send(upgrade("/ws/pty?sessionId=none")).await.refused(404, "SESSION_NOT_FOUND");
    for query in
        ["", "?terminal=x", &format!("?terminalId={id}&cols=0&rows=1"), &format!("?terminalId={id}&cols=80")]
    {
        let refused = target.send(upgrade(&format!("/ws/terminal{query}"))).await;
        refused.refused(400, "VALIDATION_FAILED");
    }
    target
        .send(upgrade(&path).header("origin", "http://evil.example"))
        .await
        .refused(403, "PERMISSION_DENIED");
    if let Some(token) = target.token() {
        let stranger = target.with_token(None);
        stranger.send(upgrade(&path)).await.refused(401, "UNAUTHORIZED");
        stranger.send(upgrade("/ws/pty?sessionId=x")).await.refused(401, "UNAUTHORIZED");
        let wrong = [("sec-websocket-protocol", "bearer.wrong".to_owned())];
        assert_eq!(Viewer::try_open(&target, &path, &wrong).await.err().as_deref(), Some("401"));
        // A browser has no other place for the token.
        let right = [("sec-websocket-protocol", format!("bearer.{token}"))];
        let mut viewer = Viewer::try_open(&target, &path, &right).await.expect("it is let in");
        viewer.frame("ready").await;
    }
    target.delete_terminal(&id).await;
}

pub(super) async fn a_repaint_then_what_happens(target: Target) {
    let command = "stty raw -echo; printf 'before\\e]2;title\\a'; exec cat";
    let id = target.terminal(json!({"command": command, "cols": 40, "rows": 10})).await;
    target.shows(&id, "before").await;
    let mut viewer = Viewer::open(&target, &format!("/ws/terminal?terminalId={id}")).await;
    let ViewerMessage::Frame(repaint) = viewer.next().await else { panic!("no repaint first") };
    assert_shape(&repaint, "type:text cursor:int cols:int rows:int");
    assert_eq!(repaint["type"], "repaint");
    let ViewerMessage::Bytes(bytes) = viewer.next().await else { panic!("no bytes after the frame") };
    assert!(String::from_utf8_lossy(&bytes).contains("before"));
    let ViewerMessage::Frame(ready) = viewer.next().await else { panic!("not ready") };
    assert_shape(&ready, "type:text id:text cursor:int cols:int rows:int incarnation:text");
    assert_eq!(
        ready,
        json!({"type": "ready", "id": id, "cursor": repaint["cursor"], "cols": 40, "rows": 10, "incarnation": ready["incarnation"]})
    );
    let one = target.get(format!("/api/terminal/{id}")).await.ok();
    assert_eq!(one["terminal"]["viewers"], 1);
    viewer.send(&b"\x00\xff after"[..]).await;
    viewer.shows(" after").await;
    assert!(viewer.seen.ends_with(b"\x00\xff after"));
    viewer.close().await;
    target.until(&format!("/api/terminal/{id}"), |answer| answer["terminal"]["viewers"] == 0).await;
    target.delete_terminal(&id).await;
}

pub(super) async fn every_end_is_a_frame(target: Target) {
    for (command, code, reason, signal) in [
        ("exit 7", 7, "exited", None),
        ("kill -9 $$", 137, "signaled", Some("SIGKILL")),
        ("exec sleep 300", 143, "killed", Some("SIGTERM")),
    ] {
        let command = format!("printf ready; read -r x; {command}");
        let id = target.terminal(json!({"command": command})).await;
        let mut viewer = Viewer::attach(&target, &id, "").await;
        viewer.shows("ready").await;
        viewer.send(&b"\r"[..]).await;
        if reason == "killed" {
            target
                .until(&format!("/api/process/{id}"), |answer| answer["process"].get("waiting").is_none())
                .await;
            target.delete(format!("/api/process/{id}?signal=TERM")).await.ok();
        }
        let exit = viewer.exit().await;
        assert_shape(&exit, "type:text exitCode:int code:int end:object signal?:text");
        assert_eq!((&exit["exitCode"], &exit["code"]), (&json!(code), &json!(code)), "{exit}");
        assert_eq!((&exit["end"]["reason"], exit["signal"].as_str()), (&json!(reason), signal), "{exit}");
        // A viewer that comes later sees the last screen, and the same end.
        let mut late = Viewer::attach(&target, &id, "").await;
        assert!(String::from_utf8_lossy(&late.seen).contains("ready"));
        assert_eq!(late.exit().await, exit);
    }
}

pub(super) async fn resuming_from_a_cursor(target: Target) {
    let id = target.raw_terminal().await;
    let mut viewer = Viewer::attach(&target, &id, "").await;
    viewer.send(&b"one "[..]).await;
    viewer.shows("one ").await;
    let cursor = viewer.cursor;
    viewer.close().await;
    target.type_in(&id, json!({"text": "two "})).await;
    target.shows(&id, "two").await;
    // It gets what it missed, and nothing else.
    let mut resumed = Viewer::attach(&target, &id, &format!("&since={cursor}")).await;
    resumed.shows("two ").await;
    assert_eq!(String::from_utf8_lossy(&resumed.seen), "two ");
    assert_eq!(resumed.repaints, 0);
    assert_eq!(resumed.frames[0]["cursor"], cursor + 4);
    // From a cursor that is none, it gets the screen.
    let mut other = Viewer::attach(&target, &id, "&since=999999999").await;
    assert_eq!(other.repaints, 1);
    other.shows("one two").await;
    target.delete_terminal(&id).await;
}

/// What was answered once must not be answered again.
pub(super) async fn queries_are_not_replayed(target: Target) {
    let command = "stty raw -echo; printf 'ready'; head -c 1 >/dev/null; printf 'a\\e[6nb'; exec cat -v";
    let id = target.terminal(json!({"command": command})).await;
    let mut viewer = Viewer::attach(&target, &id, "").await;
    viewer.shows("ready").await;
    let cursor = viewer.cursor;
    viewer.close().await;
    target.until(&format!("/api/terminal/{id}"), |answer| answer["terminal"]["viewers"] == 0).await;
    target.type_in(&id, json!({"text": "x"})).await;
    target.shows(&id, "ab^[[1;7R").await;
    let resumed = Viewer::attach(&target, &id, &format!("&since={cursor}")).await;
    assert_eq!(resumed.repaints, 1, "the query came again: {:?}", String::from_utf8_lossy(&resumed.seen));
    assert!(!resumed.seen.windows(4).any(|part| part == b"\x1b[6n"));
    target.delete_terminal(&id).await;
}

/// The last client that resized or typed decides; the others are told.
pub(super) async fn sizes_of_several_viewers(target: Target) {
    let id = target.raw_terminal().await;
    let mut first = Viewer::attach(&target, &id, "&cols=100&rows=30").await;
    assert_eq!(first.frames.last().map(|frame| frame["cols"].clone()), Some(json!(100)));
    let mut second = Viewer::attach(&target, &id, "&cols=90&rows=20").await;
    assert_eq!(first.frame("resize").await, json!({"type": "resize", "cols": 90, "rows": 20}));
    second.resize(70, 10).await;
    assert_eq!(first.frame("resize").await, json!({"type": "resize", "cols": 70, "rows": 10}));
    first.send(&b"x"[..]).await;
    assert_eq!(second.frame("resize").await, json!({"type": "resize", "cols": 100, "rows": 30}));
    let screen = target.screen(&id).await;
    assert_eq!((&screen["cols"], &screen["rows"]), (&json!(100), &json!(30)));
    // The viewer that changed the size gets no frame.
    second.shows("x").await;
    assert!(!first.frames.iter().any(|frame| frame["type"] == "resize" && frame["cols"] == 100));
    target.post(format!("/api/terminal/{id}/resize"), json!({"cols": 81, "rows": 25})).await.ok();
    assert_eq!(first.frame("resize").await["cols"], 81);
    assert_eq!(second.frame("resize").await["cols"], 81);
    target.delete_terminal(&id).await;
}

/// A client that changes its size faster than the terminal is not told its own older sizes: it would change back.
pub(super) async fn sizes_in_quick_succession(target: Target) {
    let id = target.raw_terminal().await;
    let mut first = Viewer::attach(&target, &id, "&cols=100&rows=30").await;
    let mut other = Viewer::attach(&target, &id, "").await;
    for cols in 101..=200 {
        first.resize(cols, 30).await;
    }
    first.send(&b"done"[..]).await;
    first.shows("done").await;
    let told: Vec<_> = first.frames.iter().filter(|frame| frame["type"] == "resize").collect();
    assert!(told.is_empty(), "{told:?}");
    while other.frame("resize").await["cols"] != 200 {}
    let screen = target.screen(&id).await;
    assert_eq!((&screen["cols"], &screen["rows"]), (&json!(200), &json!(30)));
    target.delete_terminal(&id).await;
}

pub(super) async fn frames_that_are_none(target: Target) {
    let id = target.raw_terminal().await;
    let mut viewer = Viewer::attach(&target, &id, "").await;
    for frame in [
        "x",
        "[]",
        "{}",
        r#"{"type":"resize"}"#,
        r#"{"type":"resize","cols":0,"rows":1}"#,
        r#"{"type":"resize","cols":1,"rows":1,"x":1}"#,
        r#"{"type":"input","cols":1,"rows":1}"#,
    ] {
        viewer.send_text(frame).await;
        let error = viewer.frame("error").await;
        assert_shape(&error, "type:text code:text message:text");
        assert_eq!(error["code"], "VALIDATION_FAILED", "{frame}");
    }
    // What a client sends comes back in part only.
    let long = format!(r#"{{"type":"resize","cols":1,"rows":1,"{}":1}}"#, "x".repeat(100_000));
    viewer.send_text(&long).await;
    let error = viewer.frame("error").await;
    assert!(error.to_string().len() < 1_000, "{} bytes", error.to_string().len());
    viewer.send(vec![b'x'; 2 << 20]).await;
    loop {
        match viewer.next().await {
            ViewerMessage::Closed(code, _) => break assert_eq!(code, 1009),
            ViewerMessage::Gone => panic!("no close frame"),
            _ => {}
        }
    }
    target.delete_terminal(&id).await;
}

/// A paste into a program that does not read is refused; what follows is not held up.
pub(super) async fn a_full_queue_is_told(target: Target) {
    let id = target.terminal(json!({"command": "trap 'exit 5' INT; echo ready; sleep 300"})).await;
    let mut viewer = Viewer::attach(&target, &id, "").await;
    viewer.shows("ready").await;
    viewer.send(vec![b'x'; 500_000]).await;
    assert_eq!(viewer.frame("error").await["code"], "TERMINAL_INPUT_FULL");
    viewer.send(&b"\x03"[..]).await;
    assert_eq!(viewer.exit().await["exitCode"], 5);
}

/// It sees everything and changes nothing. Queries of the program are answered as if it were not there.
pub(super) async fn a_viewer_that_only_watches(target: Target) {
    let command = "stty raw -echo; printf ready; head -c 1 >/dev/null; printf 'a\\e[6nb'; exec cat -v";
    let id = target.terminal(json!({"command": command, "cols": 70, "rows": 20})).await;
    for query in ["&readOnly=true&cols=80&rows=24", "&readOnly=maybe"] {
        let refused = target.send(upgrade(&format!("/ws/terminal?terminalId={id}{query}"))).await;
        refused.refused(400, "VALIDATION_FAILED");
    }
    let mut watching = Viewer::attach(&target, &id, "&readOnly=true").await;
    watching.shows("ready").await;
    let one = target.get(format!("/api/terminal/{id}")).await.ok();
    assert_eq!((&one["terminal"]["viewers"], &one["terminal"]["cols"]), (&json!(1), &json!(70)));
    watching.send(&b"typed"[..]).await;
    assert_eq!(watching.frame("error").await["code"], "VALIDATION_FAILED");
    watching.resize(100, 30).await;
    let error = watching.frame("error").await;
    assert_eq!(error["code"], "VALIDATION_FAILED");
    assert!(text(&error["message"]).contains("readOnly"), "{error}");
    // The program has got nothing of it: its first byte is this one.
    target.type_in(&id, json!({"text": "x"})).await;
    target.shows(&id, "ab^[[1;7R").await;
    watching.shows("b^[[1;7R").await;
    let screen = target.screen(&id).await;
    assert_eq!((&screen["cols"], &screen["rows"]), (&json!(70), &json!(20)));
    assert!(!text(&screen["text"]).contains("typed"), "{screen}");
    // It learns the size that others choose, and the end.
    let typing = Viewer::attach(&target, &id, "&cols=90&rows=25").await;
    assert_eq!(watching.frame("resize").await, json!({"type": "resize", "cols": 90, "rows": 25}));
    typing.close().await;
    target.delete_terminal(&id).await;
    assert_eq!(watching.exit().await["end"]["reason"], "killed");
}

/// The reference's terminals: one for each session.
pub(super) async fn the_terminal_of_a_session(target: Target) {
    let session = target.new_session().await;
    target.in_session(&session, "cd /usr; export GREETING=hi").await;
    let path = format!("/ws/pty?sessionId={session}&cols=100&rows=30");
    let mut viewer = Viewer::open(&target, &path).await;
    viewer.frame("ready").await;
    let marker = fresh("marker");
    viewer.send(format!("echo $GREETING $PWD {marker}; stty size\r")).await;
    viewer.shows(&format!("hi /usr {marker}")).await;
    viewer.shows("30 100").await;
    // Frames that it does not know are ignored; bad sizes are told with a message.
    viewer.send_text(r#"{"type":"unknown"}"#).await;
    viewer.send_text(r#"{"type":"resize","cols":0,"rows":0}"#).await;
    let error = viewer.frame("error").await;
    assert!(
        text(&error["message"]).contains("positive") || text(&error["message"]).contains("1 to"),
        "{error}"
    );
    viewer.resize(120, 40).await;
    viewer.send(&b"stty size\r"[..]).await;
    viewer.shows("40 120").await;
    viewer.close().await;
    // Output is there on reconnect, before ready.
    let mut again = Viewer::open(&target, &path).await;
    again.frame("ready").await;
    assert!(String::from_utf8_lossy(&again.seen).contains(&marker));
    // A process that stays does not prevent the next terminal.
    again.send(&b"(setsid sleep 600 &); exit 3\r"[..]).await;
    let exit: Value = again.exit().await;
    assert_eq!((&exit["code"], &exit["exitCode"]), (&json!(3), &json!(3)));
    // A dead one does not stay.
    let mut fresh = Viewer::open(&target, &path).await;
    fresh.frame("ready").await;
    fresh.send(&b"echo alive-$((1+1))\r"[..]).await;
    fresh.shows("alive-2").await;
    let mut second = Viewer::open(&target, &path).await;
    second.frame("ready").await;
    assert!(String::from_utf8_lossy(&second.seen).contains("alive-2"), "the same terminal");
    target.delete_session(&session).await;
    assert_eq!(fresh.exit().await["end"]["reason"], "killed");
}
