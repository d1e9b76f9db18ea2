//! `kill`, `wait` and `logs` with several ids, and `kill --all`.

use crate::support::{TestServer, eventually};

fn start(server: &TestServer, id: &str, command: &str) {
    server.run(&["start", "--id", id, command]).with_code(0);
}

#[test]
fn wait_returns_the_first_failure() {
    let server = TestServer::new();
    for (id, command) in [("a", "true"), ("b", "exit 3"), ("c", "exit 4")] {
        start(&server, id, command);
    }
    let waited = server.run(&["wait", "a", "b", "c"]).with_code(3);
    let ids: Vec<_> = waited.text().lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    server.run(&["wait", "a"]).with_code(0);
    let json = server.run(&["wait", "--json", "a", "c"]).with_code(4);
    let codes: Vec<_> = json
        .text()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["exitCode"].as_i64())
        .collect();
    assert_eq!(codes, [Some(0), Some(4)]);
    // A missing id does not prevent waiting for the others.
    let waited = server.run(&["wait", "nope", "c"]).with_code(125);
    assert!(waited.text().starts_with("c exited") && waited.stderr.contains("nope"), "{waited:?}");
}

/// Each error says which of the ids it is about.
#[test]
fn errors_name_the_id() {
    let server = TestServer::new();
    start(&server, "long-1", "exec sleep 600");
    start(&server, "long-2", "exec sleep 600");
    let late = server.run(&["wait", "--timeout", "1ms", "long-1", "long-2"]).with_code(75);
    let errors: Vec<_> = late.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(errors[0].contains("long-1") && errors[1].contains("long-2"), "{late:?}");
    server.run(&["kill", "--all"]).with_code(0);
    let ended = server.run(&["signal", "--json", "USR1", "long-1", "long-2"]).with_code(125);
    for (line, id) in ended.stderr.lines().zip(["long-1", "long-2"]) {
        let error: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(error["error"]["message"].as_str().unwrap().contains(id), "{ended:?}");
    }
}

#[test]
fn kill_ends_several() {
    let server = TestServer::new();
    for id in ["a", "b", "c"] {
        start(&server, id, "exec sleep 600");
    }
    let receipt = server.run(&["kill", "a", "nope", "b", "a"]).with_code(125);
    assert!(receipt.stderr.contains("nope"), "{receipt:?}");
    for id in ["a ", "b "] {
        assert!(
            receipt.text().lines().any(|line| line.starts_with(id) && line.contains("SIGTERM")),
            "{receipt:?}"
        );
    }
    assert_eq!(receipt.text().lines().count(), 3, "{receipt:?}");
    assert_eq!(server.run(&["ps", "-q"]).with_code(0).text(), "c\n");
    let json = server.run(&["kill", "--json", "a", "c"]).with_code(0);
    assert_eq!(json.text().lines().count(), 2, "{json:?}");
}

#[test]
fn kill_all_ends_everything_that_ps_lists() {
    let server = TestServer::new();
    server.run(&["session", "create", "s"]).with_code(0);
    start(&server, "background", "exec sleep 600");
    server.run(&["exec", "--id", "left", "setsid sleep 600 >/dev/null 2>&1 &"]).with_code(0);
    let exec = server.spawn(&["exec", "--id", "fore", "echo begun; exec sleep 600"]);
    exec.wait_for("begun");
    let in_session = server.spawn(&["exec", "-s", "s", "--id", "session", "X=1; echo begun; sleep 600"]);
    in_session.wait_for("begun");
    server.run(&["kill", "--all", "--session", "s"]).with_code(0);
    in_session.finish().with_code(143);
    assert_eq!(server.run(&["ps", "-q"]).with_code(0).text(), "background\nleft\nfore\n");
    let receipt = server.run(&["kill", "--all", "--signal", "KILL", "--grace", "0"]).with_code(0);
    for id in ["background ", "left ", "fore "] {
        assert!(
            receipt.text().lines().any(|line| line.starts_with(id) && line.contains("SIGKILL")),
            "{receipt:?}"
        );
    }
    exec.finish().with_code(137);
    assert_eq!(server.run(&["ps", "-q"]).with_code(0).text(), "");
    assert_eq!(server.run(&["kill", "--all"]).with_code(0).text(), "nothing was running\n");
    // The session's shell is not a command.
    assert_eq!(server.run(&["exec", "-s", "s", "echo $X"]).with_code(0).text(), "1\n");
}

#[test]
fn logs_of_several_ids_are_prefixed() {
    let server = TestServer::new();
    start(&server, "a", "echo one; echo error >&2; printf two");
    start(&server, "long", "echo three");
    server.run(&["wait", "a", "long"]).with_code(0);
    let shown = server.run(&["logs", "a", "long"]).with_code(0);
    assert_eq!(shown.text(), "a    | one\na    | two\nlong | three\n");
    assert_eq!(shown.stderr, "a    | error\n");
    let tail = server.run(&["logs", "-n", "1", "a", "long"]).with_code(0);
    assert_eq!(tail.text(), "a    | two\nlong | three\n");
    let json = server.run(&["logs", "--json", "a", "long"]).with_code(0);
    let lines: Vec<serde_json::Value> =
        json.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        lines.iter().any(|line| line["processId"] == "a")
            && lines.iter().any(|line| line["processId"] == "long")
    );
    let missing = server.run(&["logs", "nope", "long"]).with_code(125);
    assert_eq!(missing.text(), "long | three\n");
    server.run(&["logs", "a", "long", "--since", "0"]).with_code(2);
}

#[test]
fn logs_of_several_are_followed_together() {
    let server = TestServer::new();
    let go = server.file("go");
    for id in ["a", "b"] {
        let wait = format!("echo begun; until [ -e {} ]; do sleep 0.02; done; echo over", go.display());
        start(&server, id, &wait);
    }
    let following = server.spawn(&["logs", "-f", "a", "b"]);
    following.wait_for("a | begun\n");
    following.wait_for("b | begun\n");
    std::fs::write(go, "").unwrap();
    let finished = following.finish().with_code(0);
    let mut lines: Vec<_> = finished.text().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a | begun", "a | over", "b | begun", "b | over"]);
    eventually("both have ended", || server.run(&["ps", "-q"]).with_code(0).text().is_empty().then_some(()));
}
