//! Many calls at the same time, and calls that are cancelled.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Mcp, TestServer, eventually, is_alive};

#[test]
fn cancellation_ends_the_command() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    let pids = server.file("pids");
    let command =
        format!("trap '' TERM; sleep 300 & echo $$ $! > {}.tmp; mv {0}.tmp {0}; wait; wait", pids.display());
    let id = mcp.send_call("exec", json!({"command": command}), Some(json!("token")));
    let pids = eventually("it runs", || std::fs::read_to_string(&pids).ok());
    let started = mcp.notification("notifications/progress");
    assert_eq!(started["params"]["progressToken"], "token");
    assert!(started["params"]["message"].as_str().unwrap().starts_with("started execution x-"), "{started}");
    // Every second until the end.
    let later = mcp.notification("notifications/progress");
    assert!(later["params"]["progress"].as_f64() > started["params"]["progress"].as_f64(), "{later}");
    mcp.notify("notifications/cancelled", json!({"requestId": id, "reason": "test"}));
    for pid in pids.split_whitespace() {
        eventually("it is killed", || (!is_alive(pid)).then_some(()));
    }
    // The connection is still usable, and the cancelled call gets no response.
    assert_eq!(mcp.call("exec", json!({"command": "echo next"}))["structuredContent"]["stdout"], "next\n");
    assert!(mcp.responses().iter().all(|response| *response != id));
}

#[test]
fn concurrent_calls_are_limited() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    mcp.call("process_start", json!({"id": "p", "command": "sleep 300"}));
    let wait = json!({"id": "p", "waitMs": 600_000});
    let waits: Vec<_> =
        (0..sandcrab_mcp::MAX_CALLS).map(|_| mcp.send_call("process_output", wait.clone(), None)).collect();
    let refused = mcp.call("session_list", json!({}));
    assert_eq!(refused["structuredContent"]["error"]["code"], "LIMIT_EXCEEDED", "{refused}");
    mcp.notify("notifications/cancelled", json!({"requestId": waits[0]}));
    eventually("a call has ended", || {
        (mcp.call("process_kill", json!({"id": "p"}))["isError"] == false).then_some(())
    });
    for wait in &waits[1..] {
        assert_eq!(mcp.response(*wait)["result"]["structuredContent"]["exitCode"], 143);
    }
}

/// Each call has a connection of its own, so that the waits of some clients do not delay others.
#[test]
fn waits_do_not_delay_other_calls() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    mcp.call("process_start", json!({"id": "p", "command": "sleep 300"}));
    let wait = json!({"id": "p", "waitMs": 600_000});
    let waits: Vec<_> = (0..2 * sandcrab_client::MAX_CONNECTIONS)
        .map(|_| mcp.send_call("process_output", wait.clone(), None))
        .collect();
    assert_eq!(mcp.call("process_list", json!({}))["structuredContent"]["count"], 1);
    let output = mcp.call("process_output", json!({"id": "p", "waitMs": 10}));
    assert_eq!(output["structuredContent"]["running"], true, "{output}");
    mcp.call("process_kill", json!({"id": "p"}));
    for wait in waits {
        assert_eq!(mcp.response(wait)["result"]["structuredContent"]["exitCode"], 143);
    }
}

/// The terminal runs, and the call waits for its screen, which changes all the time.
#[test]
fn a_cancelled_open_leaves_no_terminal() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    // The call waits for a quiet screen for up to a second. On a busy machine that may be over before the cancellation.
    for attempt in 0..50 {
        let pid = server.file(&format!("pid-{attempt}"));
        let command = format!(
            "echo $$ > {}.tmp; mv {0}.tmp {0}; while :; do echo $((n++)); sleep 0.01; done",
            pid.display()
        );
        let begun = Instant::now();
        let call = mcp.send_call("terminal_open", json!({"command": command}), None);
        let pid = eventually("it runs", || std::fs::read_to_string(&pid).ok());
        mcp.notify("notifications/cancelled", json!({"requestId": call}));
        if begun.elapsed() < Duration::from_millis(500) {
            eventually("it is closed", || (!is_alive(pid.trim())).then_some(()));
            return;
        }
    }
    panic!("no terminal was cancelled in time");
}
