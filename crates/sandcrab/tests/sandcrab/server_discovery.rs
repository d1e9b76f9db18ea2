//! The default server is found through its state directory, over TCP and a socket, and `run` uses it while it
//! is running.

use crate::support::{Finished, Program, sandcrab};
use crate::support::{Serve, TestDir};

/// Runs the program with only the state directory configured.
fn run(place: &TestDir, args: &[&str]) -> Finished {
    let mut command = sandcrab(&place.file("home"));
    Program::start(command.env("SANDCRAB_STATE_DIR", place.state()).args(args)).finish()
}

#[test]
fn over_tcp_and_over_a_socket() {
    let place = TestDir::new();
    let socket = format!("unix:{}", place.file("socket").display());
    for listen in ["127.0.0.1:0", &socket] {
        let serve: Serve = place.serve(&["--listen", listen]);
        assert_eq!(run(&place, &["exec", "echo hello"]).with_code(0).text(), "hello\n");
        assert_eq!(run(&place, &["run", "echo there"]).with_code(0).text(), "there\n");
        let all = run(&place, &["ps", "--all"]).with_code(0);
        assert!(all.text().contains("echo hello") && all.text().contains("echo there"), "{all:?}");
        serve.stop();
        assert!(!place.state().join("address").exists());
    }
}

#[test]
fn killed_server_is_not_used() {
    let place = TestDir::new();
    let mut serve = place.serve(&[]);
    serve.child.kill().unwrap();
    crate::support::eventually("the server follows its parent", || (!serve.answers()).then_some(()));
    assert_eq!(run(&place, &["run", "echo alone"]).with_code(0).text(), "alone\n");
    drop(serve.child.wait());
}

#[test]
fn server_restart_is_transparent() {
    let place = TestDir::new();
    let serve = place.serve(&[]);
    let mut command = sandcrab(&place.file("home"));
    command.env("SANDCRAB_STATE_DIR", place.state());
    let text = "for i in $(seq 1 300); do echo line $i; sleep 0.005; done; exit 5";
    let program = Program::start(command.args(["exec", text]));
    program.wait_for("line 50\n");
    crate::support::send(serve.server(), rustix::process::Signal::KILL);
    let lines: String = (1..=300).map(|i| format!("line {i}\n")).collect();
    assert_eq!(program.finish().with_code(5).text(), lines);
    serve.stop();
}

/// With an explicit server, the address file is not read, so one that another user can change is not an
/// error.
#[test]
fn explicit_server_needs_no_address_file() {
    use std::os::unix::fs::PermissionsExt;
    let (place, other) = (TestDir::new(), TestDir::new());
    let serve = place.serve(&[]);
    std::fs::create_dir_all(other.state()).unwrap();
    let file = other.state().join("address");
    std::fs::write(&file, "http://127.0.0.1:1\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let token = place.state().join("token");
    let named = ["--url", &serve.address, "--token-file", token.to_str().unwrap(), "exec", "echo there"];
    assert_eq!(run(&other, &named).with_code(0).text(), "there\n");
    assert!(run(&other, &["ps"]).code != Some(0));
    serve.stop();
}
