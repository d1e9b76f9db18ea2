//! A stream that was cut off resumes where it was: without gaps or duplicates.

use serde_json::json;

use super::steps::{decode, fresh};
use super::test_rng::TestRng;
use crate::http::{Event, Request, Target};

/// Writes characters of one to four bytes to both streams, byte by byte with occasional pauses, so that they
/// are split at every boundary.
const WRITER: &str = r"
    for round in {1..6}; do
        for byte in a '\xc3' '\xbc' '\xe2' '\x82' '\xac' '\xf0' '\x9f' '\xa6' '\x80'; do
            printf $byte; printf $byte >&2
            if (( RANDOM % 3 == 0 )); then sleep 0.002; fi
        done
    done";
const WRITTEN: &str = "aü€🦀";
const ROUNDS: usize = 6;

/// How a client sends its cursor.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Header,
    Query,
}

/// Reads a stream to its end with random disconnects. Returns its events and the number of disconnects.
async fn read_with_cuts(
    target: &Target,
    id: &str,
    encoding: &str,
    by: By,
    rng: &mut TestRng,
) -> (Vec<Event>, usize) {
    let mut got: Vec<Event> = Vec::new();
    let mut last: Option<String> = None;
    let mut cuts = 0;
    loop {
        let path = format!("/api/process/{id}/stream?encoding={encoding}");
        let request = match (&last, by) {
            (None, _) => Request::get(path),
            (Some(last), By::Header) => Request::get(path).header("last-event-id", last),
            (Some(last), By::Query) => Request::get(format!("{path}&since={last}")),
        };
        let mut events = target.stream(request).await;
        let mut left = 1 + rng.below(6);
        loop {
            if left == 0 {
                cuts += 1;
                break;
            }
            let event = events.next().await;
            if let Some(id) = &event.id {
                last = Some(id.clone());
            }
            let is_end = event.kind() == "exit";
            if event.kind() != "process_info" {
                got.push(event);
                left -= 1;
            }
            if is_end {
                return (got, cuts);
            }
        }
    }
}

fn bytes(events: &[Event], kind: &str, encoding: &str) -> Vec<u8> {
    let of = |event: &Event| match encoding {
        "base64" => decode(&event.data["data"]),
        _ => event.data["data"].as_str().expect("data is a string").as_bytes().to_vec(),
    };
    events.iter().filter(|event| event.kind() == kind).flat_map(of).collect()
}

async fn cuts_lose_nothing(target: Target, by: By) {
    let mut rng = TestRng::new();
    let expected = WRITTEN.repeat(ROUNDS).into_bytes();
    for encoding in ["utf8", "base64"] {
        for is_live in [true, false] {
            let id = target.start(json!({"command": WRITER})).await;
            if !is_live {
                target.ended(&id).await;
            }
            let (events, cuts) = read_with_cuts(&target, &id, encoding, by, &mut rng).await;
            for kind in ["stdout", "stderr"] {
                let got = bytes(&events, kind, encoding);
                assert!(
                    got == expected,
                    "{kind} in {encoding}, live {is_live}, {cuts} cuts, {rng:?}: {:?}",
                    String::from_utf8_lossy(&got)
                );
            }
            let flagged = events.iter().any(|event| event.data["invalidUtf8"] == true);
            assert!(!flagged, "a character was split");
        }
    }
}

pub(super) async fn resume_by_header(target: Target) {
    cuts_lose_nothing(target, By::Header).await;
}

pub(super) async fn resume_by_query(target: Target) {
    cuts_lose_nothing(target, By::Query).await;
}

/// Every byte offset is a valid cursor: the stream resumes with exactly the rest.
pub(super) async fn resume_from_every_cursor(target: Target) {
    let result = target.run(json!({"command": WRITER, "encoding": "base64"})).await;
    let id = result["executionId"].as_str().unwrap_or_default();
    let total = 2 * WRITTEN.len() * ROUNDS;
    assert_eq!(result["cursor"], total);
    for since in 0..=total {
        let path = format!("/api/process/{id}/stream?encoding=base64&since={since}");
        let events = target.stream(Request::get(path)).await.rest().await;
        let (out, err) = (bytes(&events, "stdout", "base64"), bytes(&events, "stderr", "base64"));
        assert_eq!(out.len() + err.len(), total - since, "since {since}");
        let (all_out, all_err) = (decode(&result["stdout"]), decode(&result["stderr"]));
        assert!(all_out.ends_with(&out) && all_err.ends_with(&err), "since {since}");
    }
}

/// In text mode, a stream that resumes inside a character does not return its remaining bytes as garbage.
pub(super) async fn resume_text_from_every_event(target: Target) {
    let id = target.start(json!({"command": WRITER})).await;
    let whole = target.stream(Request::get(format!("/api/process/{id}/stream"))).await.rest().await;
    for (index, event) in whole.iter().enumerate() {
        let Some(cursor) = &event.id else { continue };
        let path = format!("/api/process/{id}/stream?since={cursor}");
        let rest = target.stream(Request::get(path)).await.rest().await;
        for kind in ["stdout", "stderr"] {
            let mut parts = bytes(&whole[..=index], kind, "utf8");
            parts.extend(bytes(&rest, kind, "utf8"));
            assert!(
                parts == WRITTEN.repeat(ROUNDS).into_bytes(),
                "{kind} after cursor {cursor}: {:?}",
                String::from_utf8_lossy(&parts)
            );
        }
    }
}

/// The stream of `execute` can be resumed as the stream of its process.
pub(super) async fn of_a_command(target: Target) {
    let id = fresh("resumed");
    let body =
        json!({"command": "for i in {1..200}; do echo $i; done; sleep 0.1; echo end", "executionId": id});
    let mut events = target.stream(Request::post("/api/execute/stream", &body)).await;
    events.next_of("start").await;
    let first = events.next_of("stdout").await;
    drop(events);
    let cursor = first.id.clone().expect("output has a cursor");
    let path = format!("/api/process/{id}/stream?since={cursor}");
    let rest = target.stream(Request::get(path)).await.rest().await;
    let whole: String = (1..=200).map(|number| format!("{number}\n")).chain(["end\n".to_owned()]).collect();
    let got = [bytes(&[first], "stdout", "utf8"), bytes(&rest, "stdout", "utf8")].concat();
    assert_eq!(String::from_utf8_lossy(&got), whole);
}

pub(super) async fn invalid_cursor(target: Target) {
    let id = target.start(json!({"command": "echo x"})).await;
    target.ended(&id).await;
    let request = Request::get(format!("/api/process/{id}/stream")).header("last-event-id", "soon");
    target.send(request).await.refused(400, "VALIDATION_FAILED");
}
