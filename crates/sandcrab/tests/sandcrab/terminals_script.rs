//! Terminals for scripts: `terminal create`, `send`, `screen`, `wait`, `resize`, `list`, `delete`.

use crate::support::{Program, TestServer, is_alive};

fn create(server: &TestServer, id: &str, args: &[&str]) {
    let line = [&["terminal", "create", "--id", id][..], args].concat();
    assert_eq!(server.run(&line).with_code(0).text(), format!("{id}\n"));
}

#[test]
fn a_script_drives_a_program_with_a_screen() {
    let server = TestServer::new();
    create(&server, "t", &["--size", "100x30", "-e", "PS1=$ ", "--", "bash", "--norc"]);
    server.run(&["terminal", "wait", "t", "--text", "$", "--timeout", "30s"]).with_code(0);
    server.run(&["terminal", "send", "t", "stty size; echo a$((20+22))b", "-k", "enter"]).with_code(0);
    let found =
        server.run(&["terminal", "wait", "t", "--regex", "a[0-9]+b", "--timeout", "30s"]).with_code(0);
    assert_eq!(found.text(), "a42b\n");
    let screen = server.run(&["terminal", "screen", "t"]).with_code(0);
    assert!(screen.text().contains("30 100\na42b\n$"), "{screen:?}");
    server.run(&["terminal", "resize", "t", "60x20"]).with_code(0);
    server.run(&["terminal", "send", "t", "stty size", "-k", "enter"]).with_code(0);
    server.run(&["terminal", "wait", "t", "--text", "20 60", "--timeout", "30s"]).with_code(0);
    // Keys: a program is interrupted, a line is edited.
    server.run(&["terminal", "send", "t", "sleep 1000", "-k", "enter"]).with_code(0);
    server.run(&["terminal", "wait", "t", "--idle", "200ms", "--timeout", "30s"]).with_code(0);
    server.run(&["terminal", "send", "t", "-k", "ctrl-c"]).with_code(0);
    server.run(&["terminal", "send", "t", "echo ab", "-k", "left", "-k", "X", "-k", "enter"]).with_code(0);
    server.run(&["terminal", "wait", "t", "--text", "aXb", "--timeout", "30s"]).with_code(0);
    let timeout =
        server.run(&["terminal", "wait", "t", "--text", "never", "--timeout", "50ms"]).with_code(75);
    assert!(timeout.stderr.contains("`sandcrab terminal screen t` shows the screen"), "{timeout:?}");
}

#[test]
fn a_screen_has_text_colours_and_cells() {
    let server = TestServer::new();
    create(&server, "t", &[r"printf '\e]2;a title\a\e[1;31mred\e[0m plain'; sleep 1000"]);
    server.run(&["terminal", "wait", "t", "--text", "plain"]).with_code(0);
    assert_eq!(server.run(&["terminal", "screen", "t"]).with_code(0).text(), "red plain\n");
    let ansi = server.run(&["terminal", "screen", "t", "--format", "ansi"]).with_code(0);
    assert_eq!(ansi.text(), "\x1b[1;31mred\x1b[0m plain\n");
    let json = server.run(&["terminal", "screen", "t", "--json"]).with_code(0).json();
    assert_eq!(
        (&json["title"], &json["cursor"]["col"], &json["cols"]),
        (&"a title".into(), &9.into(), &80.into())
    );
    let cells = server.run(&["terminal", "screen", "t", "--format", "cells"]).with_code(0).json();
    assert_eq!((&cells["cells"][0][0]["text"], &cells["cells"][0][0]["fg"]), (&"red".into(), &1.into()));
}

#[test]
fn standard_input_is_sent_as_fast_as_it_is_read() {
    let server = TestServer::new();
    // More than the queue holds, into a program that begins late.
    let text: String = (0..20_000).map(|i| format!("line {i}\n")).collect();
    let copy = server.file("copy");
    create(
        &server,
        "t",
        &["--", "bash", "-c", &format!("stty -echo; sleep 0.5; exec cat >{}", copy.display())],
    );
    let sent =
        Program::fed(&mut server.sandcrab(&["terminal", "send", "t", "--json"]), text.as_bytes()).finish();
    assert_eq!(sent.with_code(0).json()["written"], text.len());
    crate::support::eventually("everything has arrived", || {
        (std::fs::read_to_string(&copy).ok()? == text).then_some(())
    });
}

#[test]
fn terminals_are_listed_and_deleted() {
    let server = TestServer::new();
    create(&server, "one", &["--", "bash", "-c", "setsid sleep 1000 & echo pid=$!; wait"]);
    create(&server, "two", &["exit 3"]);
    let again = server.run(&["terminal", "create", "--id", "one"]).with_code(0);
    assert!(again.stderr.contains("already running"), "{again:?}");
    let pid = server.run(&["terminal", "wait", "one", "--regex", "pid=[0-9]+"]).with_code(0);
    let pid = pid.text().trim().strip_prefix("pid=").unwrap().to_owned();
    server.run(&["wait", "two"]).with_code(3);
    let listed = server.run(&["terminal", "list"]).with_code(0);
    for word in ["one", "running", "80x24", "two", "exited", "exit 3"] {
        assert!(listed.text().contains(word), "{word}: {listed:?}");
    }
    assert_eq!(server.run(&["terminal", "list", "-q"]).with_code(0).text(), "one\ntwo\n");
    let deleted = server.run(&["terminal", "delete", "one", "nope"]).with_code(125);
    assert!(deleted.text().contains(&pid) && deleted.stderr.contains("nope"), "{deleted:?}");
    assert!(!is_alive(&*pid));
    for wrong in [
        &["terminal", "send", "two", "x"][..],
        &["terminal", "screen", "nope"],
        &["terminal", "send", "one", "-k", "no-such-key"],
    ] {
        assert_ne!(server.run(wrong).code, Some(0), "{wrong:?}");
    }
    for wrong in [
        &["terminal", "resize", "one", "80"][..],
        &["terminal", "wait", "one"],
        &["terminal", "create", "--size", "0x1"],
        &["shell", "--detach-keys", "nope"],
        &["exec", "--detach-keys", "ctrl-x", "true"],
        &["exec", "-t", "--leftovers", "kill", "true"],
    ] {
        server.run(wrong).with_code(2);
    }
}
