//! Output is exact: every byte of both streams, as text, as base64 and raw.

use serde_json::json;

use super::shapes;
use super::steps::decode;
use crate::http::{Request, Target};
use crate::shape::assert_shape;

fn all_bytes() -> Vec<u8> {
    (0..=255).cycle().take(256 * 50).collect()
}

/// Writes every byte value fifty times to both streams: NUL bytes, invalid UTF-8, and no final newline.
fn command() -> String {
    let each = r#"printf "$bytes"; printf "$bytes" >&2"#;
    format!(
        r#"bytes=$(for i in {{0..255}}; do printf '\\x%02x' $i; done); for i in {{1..50}}; do {each}; done"#
    )
}

pub(super) async fn bytes_are_exact(target: Target) {
    let session = target.new_session().await;
    for session in [None, Some(session.as_str())] {
        let result =
            target.run(json!({"command": command(), "encoding": "base64", "sessionId": session})).await;
        assert_eq!(result["encoding"], "base64");
        assert!(decode(&result["stdout"]) == all_bytes(), "stdout differs");
        assert!(decode(&result["stderr"]) == all_bytes(), "stderr differs");
        assert_eq!(result["cursor"], 2 * 256 * 50);
        let id = result["executionId"].as_str().unwrap_or_default();
        let logs = target.get(format!("/api/process/{id}/logs?encoding=base64")).await.ok();
        assert_shape(&logs, shapes::LOGS);
        assert!(decode(&logs["stdout"]) == all_bytes(), "stdout differs in the logs");
        assert!(decode(&logs["stderr"]) == all_bytes(), "stderr differs in the logs");
        for stream in ["stdout", "stderr"] {
            let raw = target.get(format!("/api/process/{id}/output?stream={stream}")).await;
            assert_eq!(raw.header("content-type"), Some("application/octet-stream"));
            assert!(raw.body == all_bytes(), "raw {stream} differs");
        }
    }
    target.delete_session(&session).await;
}

pub(super) async fn invalid_utf8_is_reported(target: Target) {
    let result = target.shell(r"printf 'a\xffb\0c\xc3'").await;
    assert_eq!((&result["stdout"], &result["invalidUtf8"]), (&json!("a\u{fffd}b\0c\u{fffd}"), &json!(true)));
    let result = target.shell(r"printf 'a\xc3\xbcb\0c'").await;
    assert_eq!((&result["stdout"], result.get("invalidUtf8")), (&json!("aüb\0c"), None));
}

pub(super) async fn newlines_are_unchanged(target: Target) {
    for (command, expected) in [
        ("printf x", "x"),
        ("echo x", "x\n"),
        (r"printf 'x\n\n\n'", "x\n\n\n"),
        (r"printf '\n'", "\n"),
        (r"printf '\r\n'", "\r\n"),
        ("true", ""),
    ] {
        let result = target.shell(command).await;
        assert_eq!(result["stdout"], expected, "{command}");
        let id = result["executionId"].as_str().unwrap_or_default();
        let logs = target.get(format!("/api/process/{id}/logs")).await.ok();
        assert_eq!(logs["stdout"], expected, "{command} in the logs");
    }
}

/// Omitted bytes are counted; beginning and end are kept.
pub(super) async fn response_size_is_limited(target: Target) {
    let whole: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
    let body = json!({"command": "seq 1 20000; seq 1 20000 >&2", "maxOutputBytes": 1_000});
    let result = target.run(body).await;
    let truncated = &result["truncated"];
    assert_shape(truncated, shapes::TRUNCATED);
    for stream in ["stdout", "stderr"] {
        let kept = result[stream].as_str().unwrap_or_default();
        let after =
            usize::try_from(truncated[format!("{stream}AfterBytes")].as_u64().unwrap_or(0)).expect("small");
        assert!(
            kept.len() <= 1_000 && after > 0 && after < kept.len(),
            "{} bytes, {after} first",
            kept.len()
        );
        assert!(whole.starts_with(&kept[..after]) && whole.ends_with(&kept[after..]), "{kept}");
        assert_eq!(truncated[format!("{stream}Bytes")], whole.len() - kept.len());
    }
    let id = result["executionId"].as_str().unwrap_or_default();
    assert_eq!(target.get(format!("/api/process/{id}/output")).await.text(), whole);
}

/// Truncation never splits a character.
pub(super) async fn truncation_respects_characters(target: Target) {
    for bound in 0..12 {
        let body = json!({"command": "printf 'aüß€😀%.0s' 1 2 3 4 5", "maxOutputBytes": bound});
        let result = target.run(body).await;
        assert_eq!(result.get("invalidUtf8"), None, "bound {bound}: {result}");
        let kept = result["stdout"].as_str().unwrap_or_default();
        assert!(!kept.contains('\u{fffd}') && kept.len() <= bound, "bound {bound}: {kept:?}");
        assert_eq!(result["truncated"]["stdoutBytes"], 60 - kept.len(), "bound {bound}");
    }
}

pub(super) async fn ranges_of_raw_output(target: Target) {
    let result = target.shell("seq 1 1000").await;
    let whole: String = (1..=1000).map(|number| format!("{number}\n")).collect();
    let size = whole.len();
    let id = result["executionId"].as_str().unwrap_or_default();
    let ask =
        |range: &str| target.send(Request::get(format!("/api/process/{id}/output")).header("range", range));
    for (range, first, last) in [
        ("bytes=0-9", 0, 9),
        ("bytes=10-10", 10, 10),
        ("bytes=3000-", 3000, size - 1),
        ("bytes=-7", size - 7, size - 1),
        ("bytes=3000-999999", 3000, size - 1),
        ("bytes=-999999", 0, size - 1),
    ] {
        let part = ask(range).await;
        assert_eq!(part.status(), 206, "{range}: {part:?}");
        assert_eq!(part.text(), whole[first..=last], "{range}");
        assert_eq!(part.header("content-range"), Some(format!("bytes {first}-{last}/{size}").as_str()));
    }
    for range in [format!("bytes={size}-"), "bytes=999999-1000000".to_owned(), "bytes=-0".to_owned()] {
        let answer = ask(&range).await;
        answer.refused(416, "RANGE_NOT_SATISFIABLE");
        assert_eq!(answer.header("content-range"), Some(format!("bytes */{size}").as_str()));
    }
    // Invalid and multiple ranges are ignored, as HTTP allows.
    for range in ["lines=1-2", "bytes=9-3", "bytes=x", "bytes=0-1,3-4"] {
        let answer = ask(range).await;
        assert_eq!((answer.status(), answer.body.len()), (200, size), "{range}");
    }
    let head = target.send(Request::new("HEAD", format!("/api/process/{id}/output"))).await;
    assert_eq!((head.status(), head.header("accept-ranges")), (200, Some("bytes")));
}

pub(super) async fn logs_from_a_cursor(target: Target) {
    let result = target.shell("printf 0123456789").await;
    let id = result["executionId"].as_str().unwrap_or_default();
    for since in [0, 3, 9, 10] {
        let logs = target.get(format!("/api/process/{id}/logs?since={since}")).await.ok();
        assert_eq!((&logs["stdout"], &logs["cursor"]), (&json!("0123456789"[since..]), &json!(10)));
    }
    for route in ["logs", "stream"] {
        let beyond = target.get(format!("/api/process/{id}/{route}?since=11")).await;
        beyond.refused(400, "VALIDATION_FAILED");
    }
}

/// A polling client gets every character whole and exactly once.
pub(super) async fn logs_do_not_split_characters(target: Target) {
    let command = r"printf 'a\xe2\x82'; read x; printf '\xac\n'; read x";
    let id = target.start(json!({"command": command, "keepStdinOpen": true})).await;
    let raw = format!("/api/process/{id}/output");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while target.get(raw.as_str()).await.body.len() < 3 {
        assert!(std::time::Instant::now() < deadline, "it wrote nothing");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let first = target.get(format!("/api/process/{id}/logs?since=0")).await.ok();
    target.send(Request::new("POST", format!("/api/process/{id}/stdin")).body("\n")).await.ok();
    let mut cursor = first["cursor"].clone();
    let mut text = first["stdout"].as_str().unwrap_or_default().to_owned();
    while !text.ends_with('\n') {
        assert!(std::time::Instant::now() < deadline, "{text:?} is not all");
        let next = target.get(format!("/api/process/{id}/logs?since={cursor}")).await.ok();
        text.push_str(next["stdout"].as_str().unwrap_or_default());
        cursor = next["cursor"].clone();
    }
    assert_eq!(text, "a€\n");
    target.kill(&id).await;
}

/// Output of leftover processes is recorded with their command.
pub(super) async fn late_output_is_recorded(target: Target) {
    let folder = target.folder().await;
    let command = format!("(until [ -e {folder}/go ]; do sleep 0.05; done; echo late) & echo now");
    let result = target.shell(&command).await;
    assert_eq!(result["stdout"], "now\n");
    target.shell(&format!("touch {folder}/go")).await;
    let id = result["executionId"].as_str().unwrap_or_default();
    target.until(&format!("/api/process/{id}/logs"), |logs| logs["stdout"] == "now\nlate\n").await;
    target.remove(&folder).await;
}

pub(super) async fn long_lines_of_both_streams(target: Target) {
    let command = "for i in {1..40}; do printf '%020000d' 0; printf '%020000d' 1 >&2; done";
    let result = target.shell(command).await;
    let expected = |last: char| format!("{}{last}", "0".repeat(19_999)).repeat(40);
    assert!(result["stdout"] == expected('0'), "stdout is mixed");
    assert!(result["stderr"] == expected('1'), "stderr is mixed");
}
