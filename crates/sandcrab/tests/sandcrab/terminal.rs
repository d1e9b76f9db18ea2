//! Output on a terminal: colours and indented JSON.

use std::process::{Command, Stdio};

use crate::support::{Program, TestServer};

/// Runs the program on a terminal.
fn on_terminal(server: &TestServer, arguments: &str, no_colour: &str) -> String {
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_sandcrab"));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).env("TERM", "xterm");
    command.env("SANDCRAB_URL", format!("http://{}", server.address())).env("SANDCRAB_TOKEN", server.token());
    command.env("NO_COLOR", no_colour);
    String::from_utf8(Program::start(&mut command).finish().stdout).unwrap()
}

#[test]
fn colours_only_on_terminals() {
    let server = TestServer::new();
    server.run(&["exec", "exit 1"]).with_code(1);
    assert!(on_terminal(&server, "ps --all", "").contains("\x1b["));
    assert!(!on_terminal(&server, "ps --all", "1").contains("\x1b["));
    assert!(on_terminal(&server, "wait nope", "").contains("\x1b[1;31merror:\x1b[0m"));
    assert!(on_terminal(&server, "wait nope", "1").starts_with("error: "));
    assert!(!server.run(&["ps", "--all"]).with_code(0).text().contains('\x1b'));
}

#[test]
fn json_is_indented_on_a_terminal_only() {
    let server = TestServer::new();
    assert!(on_terminal(&server, "health --json", "").starts_with("{\r\n  \""));
    assert_eq!(server.run(&["health", "--json"]).with_code(0).text().lines().count(), 1);
}

#[test]
fn health_is_a_list() {
    let server = TestServer::new();
    let shown = server.run(&["health"]).with_code(0);
    for word in ["address ", "status ", "healthy", "workspace", "shell driver"] {
        assert!(shown.text().contains(word), "{word}: {shown:?}");
    }
}
