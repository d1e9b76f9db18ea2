//! `sandcrab session`.

use crate::support::TestServer;

#[test]
fn session_keeps_its_state() {
    let server = TestServer::new();
    let create = ["session", "create", "s", "--name", "mine", "-e", "A=1", "--cwd", "/"];
    assert_eq!(server.run(&create).with_code(0).text(), "s\n");
    server.run(&["session", "exec", "s", "cd /tmp; f() { echo \"$A $B\"; }; B=2"]).with_code(0);
    assert_eq!(server.run(&["session", "exec", "s", "f; pwd"]).with_code(0).text(), "1 2\n/tmp\n");
    assert_eq!(
        server.run(&["session", "exec", "s", "--", "echo", "a  b", "$A"]).with_code(0).text(),
        "a  b $A\n"
    );
    let once = ["exec", "--session", "s", "-e", "A=9", "--cwd", "/", "f; pwd"];
    assert_eq!(server.run(&once).with_code(0).text(), "9 2\n/\n");
    assert_eq!(server.run(&["exec", "-s", "s", "f; pwd"]).with_code(0).text(), "1 2\n/tmp\n");
    let list = server.run(&["session", "list"]).with_code(0);
    assert!(
        list.text().contains("mine") && list.text().contains("idle") && list.text().contains("/tmp"),
        "{list:?}"
    );
}

#[test]
fn fork_reset_and_delete() {
    let server = TestServer::new();
    let made = server.run(&["session", "create", "--json"]).with_code(0).json();
    let id = made["id"].as_str().unwrap();
    server.run(&["session", "exec", id, "X=1"]).with_code(0);
    assert_eq!(server.run(&["session", "fork", id, "copy"]).with_code(0).text(), "copy\n");
    server.run(&["session", "reset", id]).with_code(0);
    assert_eq!(server.run(&["session", "exec", id, "echo ${X-gone}"]).with_code(0).text(), "gone\n");
    server.run(&["session", "reset", "--restore", "copy"]).with_code(0);
    assert_eq!(server.run(&["session", "exec", "copy", "echo $X"]).with_code(0).text(), "1\n");
    server.run(&["session", "delete", "copy"]).with_code(0);
    let gone = server.run(&["session", "exec", "copy", "true"]).with_code(125);
    assert!(gone.stderr.contains("hint: `sandcrab session list`"), "{gone:?}");
    let listed = server.run(&["session", "list", "--json"]).with_code(0).json();
    assert_eq!(listed["data"], serde_json::json!([id]));
}

#[test]
fn interrupt_ends_the_command_and_keeps_the_shell() {
    let server = TestServer::new();
    server.run(&["session", "create", "s"]).with_code(0);
    let running = server.spawn(&["session", "exec", "s", "X=kept; echo begun; sleep 600"]);
    running.wait_for("begun");
    let receipt = server.run(&["session", "interrupt", "s"]).with_code(0);
    assert!(receipt.text().contains("sleep 600"), "{receipt:?}");
    assert_eq!(running.finish().code, Some(130));
    assert_eq!(server.run(&["session", "exec", "s", "echo $X"]).with_code(0).text(), "kept\n");
}

/// `exit 3` gives exit code 3, and a note that the shell is restored.
#[test]
fn exit_in_a_session_is_the_exit_code() {
    let server = TestServer::new();
    server.run(&["session", "create", "s"]).with_code(0);
    let ended = server.run(&["session", "exec", "s", "X=kept; echo last; exit 3"]).with_code(3);
    assert_eq!(ended.text(), "last\n");
    assert!(
        ended.stderr.starts_with("note: ") && ended.stderr.contains("the shell is restored"),
        "{ended:?}"
    );
    let next = server.run(&["session", "exec", "s", "echo $X"]).with_code(0);
    assert_eq!(next.text(), "kept\n");
    assert!(next.stderr.contains("restored before this command"), "{next:?}");
    assert_eq!(server.run(&["session", "exec", "s", "true"]).with_code(0).stderr, "");

    let result = server.run(&["session", "exec", "s", "--json", "echo last; exit 4"]).with_code(4).json();
    assert_eq!((&result["exitCode"], &result["stdout"]), (&4.into(), &"last\n".into()));
    assert_eq!((&result["shellEnded"], &result["sessionId"]), (&true.into(), &"s".into()));
    assert_eq!(server.run(&["session", "exec", "s", "kill -9 $$"]).code, Some(137));
    let next = server.run(&["session", "exec", "s", "true"]).with_code(0);
    assert!(next.stderr.contains("from a snapshot that is "), "{next:?}");

    server.run(&["session", "create", "r", "--restore"]).with_code(0);
    let ended = server.run(&["session", "exec", "r", "exit 3"]).with_code(3);
    assert!(ended.stderr.contains("the shell is restored"), "{ended:?}");
}
