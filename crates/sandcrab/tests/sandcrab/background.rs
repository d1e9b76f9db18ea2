//! `start` and what is done to a background process: `stdin`, `signal`, `inspect`, `cleanup`; `env` and `events`.

use crate::support::{Program, TestServer, eventually};

#[test]
fn start_prints_the_id() {
    let server = TestServer::new();
    let id = server.run(&["start", "echo out; exit 3"]).with_code(0);
    let id = id.text().trim();
    server.run(&["wait", id]).with_code(3);
    assert_eq!(server.run(&["logs", id]).with_code(0).text(), "out\n");
    assert_eq!(server.run(&["start", "--id", "mine", "sleep 600"]).with_code(0).text(), "mine\n");
    let again = server.run(&["start", "--id", "mine", "sleep 600"]).with_code(125);
    assert!(again.stderr.starts_with("error: "), "{again:?}");
    let started = server.run(&["start", "--json", "--", "sleep", "600"]).with_code(0).json();
    assert!(started["processId"].is_string() && started["pid"].is_number(), "{started}");
}

#[test]
fn start_from_a_session() {
    let server = TestServer::new();
    server.run(&["session", "create", "s"]).with_code(0);
    server.run(&["session", "exec", "s", "cd /usr; f() { echo \"f in $PWD\"; }"]).with_code(0);
    server.run(&["start", "--id", "p", "-s", "s", "f"]).with_code(0);
    server.run(&["start", "--id", "kept", "-s", "s", "--on-session-end", "keep", "sleep 600"]).with_code(0);
    server.run(&["start", "--id", "lost", "-s", "s", "sleep 600"]).with_code(0);
    server.run(&["wait", "p"]).with_code(0);
    assert_eq!(server.run(&["logs", "p"]).with_code(0).text(), "f in /usr\n");
    server.run(&["session", "delete", "s"]).with_code(0);
    server.run(&["wait", "lost"]);
    assert_eq!(server.run(&["ps", "-q"]).with_code(0).text(), "kept\n");
}

#[test]
fn stdin_is_written_in_pieces_and_closed() {
    let server = TestServer::new();
    server.run(&["start", "--id", "c", "-i", "cat"]).with_code(0);
    for input in ["one\n", "two\n"] {
        Program::fed(&mut server.sandcrab(&["stdin", "c"]), input.as_bytes()).finish().with_code(0);
    }
    let last = Program::fed(&mut server.sandcrab(&["stdin", "c", "--close", "--json"]), b"three\n");
    let done = last.finish().with_code(0).json();
    assert_eq!((&done["written"], &done["closed"]), (&6.into(), &true.into()));
    server.run(&["wait", "c"]).with_code(0);
    assert_eq!(server.run(&["logs", "c"]).with_code(0).text(), "one\ntwo\nthree\n");

    server.run(&["start", "--id", "closed", "sleep 600"]).with_code(0);
    let refused = Program::fed(&mut server.sandcrab(&["stdin", "closed"]), b"x").finish().with_code(125);
    assert!(refused.stderr.contains("hint: start the process with `sandcrab start -i`"), "{refused:?}");
}

#[test]
fn signal_sends_a_signal_and_nothing_else() {
    let server = TestServer::new();
    let trap = "trap 'echo got it' USR1; echo ready; while :; do sleep 0.05; done";
    for id in ["a", "b"] {
        server.run(&["start", "--id", id, trap]).with_code(0);
        eventually("the trap is set", || {
            (server.run(&["logs", id]).with_code(0).text() == "ready\n").then_some(())
        });
    }
    server.run(&["signal", "USR1", "a", "b"]).with_code(0);
    for id in ["a", "b"] {
        eventually("the signal", || {
            server.run(&["logs", id]).with_code(0).text().contains("got it").then_some(())
        });
    }
    assert_eq!(server.run(&["ps", "-q"]).with_code(0).text(), "a\nb\n");
    let refused = server.run(&["signal", "NONSENSE", "a"]).with_code(2);
    assert!(refused.stderr.contains("NONSENSE"), "{refused:?}");
}

#[test]
fn inspect_shows_one_process_in_detail() {
    let server = TestServer::new();
    server.run(&["start", "--id", "p", "-i", "cat"]).with_code(0);
    eventually("it waits for input", || {
        let shown = server.run(&["inspect", "p"]).with_code(0);
        shown.text().contains("waiting for  input").then_some(())
    });
    server.run(&["kill", "p"]).with_code(0);
    let shown = server.run(&["inspect", "p"]).with_code(0);
    for word in ["id ", "status ", "killed", "exit code", "143", "max RSS"] {
        assert!(shown.text().contains(word), "{word}: {shown:?}");
    }
    assert_eq!(server.run(&["inspect", "p", "--json"]).with_code(0).json()["end"]["reason"], "killed");
    server.run(&["inspect", "nope"]).with_code(125);
}

#[test]
fn cleanup_removes_finished_records() {
    let server = TestServer::new();
    server.run(&["start", "--id", "a", "--keep-record", "true"]).with_code(0);
    server.run(&["start", "--id", "b", "sleep 600"]).with_code(0);
    server.run(&["wait", "a"]).with_code(0);
    assert_eq!(server.run(&["cleanup"]).with_code(0).text(), "1\n");
    assert_eq!(server.run(&["ps", "-aq"]).with_code(0).text(), "b\n");
    assert_eq!(server.run(&["cleanup", "--json"]).with_code(0).json()["cleanedCount"], 0);
}

#[test]
fn env_changes_later_commands_or_a_session() {
    let server = TestServer::new();
    server.run(&["session", "create", "s"]).with_code(0);
    let passed = Program::start(server.sandcrab(&["env", "A=one two", "B"]).env("B", "b")).finish();
    passed.with_code(0);
    assert_eq!(server.run(&["exec", "echo \"$A-$B\""]).with_code(0).text(), "one two-b\n");
    server.run(&["env", "--unset", "A"]).with_code(0);
    assert_eq!(server.run(&["exec", "echo ${A-unset}-$B"]).with_code(0).text(), "unset-b\n");
    server.run(&["env", "-s", "s", "A=session", "--unset", "B"]).with_code(0);
    assert_eq!(server.run(&["exec", "-s", "s", "echo $A-${B-unset}"]).with_code(0).text(), "session-unset\n");
    assert_eq!(server.run(&["exec", "echo ${A-unset}"]).with_code(0).text(), "unset\n");
    let unset = server.run(&["env", "NOT_SET_ANYWHERE"]).with_code(2);
    assert!(unset.stderr.contains("is not set in this environment"), "{unset:?}");
}

#[test]
fn events_are_printed_as_they_happen() {
    let server = TestServer::new();
    let text = server.spawn(&["events"]);
    let json = server.spawn(&["events", "--json"]);
    text.wait_for(" connected\n");
    json.wait_for("\"type\":\"hello\"");
    server.run(&["session", "create", "s"]).with_code(0);
    server.run(&["exec", "--id", "x", "exit 3"]).with_code(3);
    server.run(&["session", "delete", "s"]).with_code(0);
    for line in
        [" session_created s\n", " execution_started x exit 3\n", " execution_ended x exited, exit code 3\n"]
    {
        text.wait_for(line);
    }
    text.wait_for(" session_deleted s\n");
    json.wait_for("\"type\":\"session_deleted\"");
    for line in String::from_utf8(json.so_far()).unwrap().lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).unwrap()["type"].is_string(), "{line}");
    }
    server.stop();
    assert!(text.finish().with_code(0).text().ends_with(" server_stopping\n"));
    json.finish().with_code(0);
}
