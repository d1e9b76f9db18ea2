//! Ctrl-C and other signals, and closed output pipes.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Program, TestServer, eventually, is_alive};

/// Shorter than the grace period after the first Ctrl-C.
const AT_ONCE: Duration = Duration::from_secs(8);

#[test]
fn ctrl_c_interrupts_the_command() {
    let server = TestServer::new();
    let program =
        server.spawn(&["exec", "trap 'echo tidied; exit 7' INT; echo $$; while :; do sleep 0.05; done"]);
    program.wait_for("\n");
    let pid = String::from_utf8(program.so_far()).unwrap();
    program.signal(Signal::INT);
    let finished = program.finish().with_code(130);
    assert_eq!(finished.text(), format!("{pid}tidied\n"));
    assert!(!is_alive(&pid));
}

#[test]
fn ctrl_c_ends_the_whole_tree_of_an_embedded_server() {
    let home = tempfile::tempdir().unwrap();
    let mut command = crate::support::sandcrab(home.path());
    std::fs::create_dir(home.path().join("state")).unwrap();
    std::fs::write(home.path().join("state/address"), "unix:/nonexistent").unwrap();
    command.env("SANDCRAB_STATE_DIR", home.path().join("state"));
    command.args(["run", "setsid sleep 600 & echo $!; sleep 601"]);
    let program = Program::start(&mut command);
    program.wait_for("\n");
    let pid = String::from_utf8(program.so_far()).unwrap();
    program.signal(Signal::INT);
    program.finish().with_code(130);
    assert!(!is_alive(&pid));
}

#[test]
fn second_ctrl_c_kills_at_once() {
    let server = TestServer::new();
    let program = server.spawn(&["exec", "trap 'echo caught' INT; echo $$; while :; do sleep 0.05; done"]);
    program.wait_for("\n");
    let pid = String::from_utf8(program.so_far()).unwrap();
    program.signal(Signal::INT);
    program.wait_for("caught");
    let begun = Instant::now();
    program.signal(Signal::INT);
    program.finish().with_code(130);
    assert!(begun.elapsed() < AT_ONCE);
    assert!(!is_alive(&pid));
}

#[test]
fn ctrl_c_without_a_server() {
    let mut server = TestServer::new();
    let program = server.spawn(&["exec", "echo begun; sleep 600"]);
    program.wait_for("begun\n");
    server.kill();
    let begun = Instant::now();
    program.signal(Signal::INT);
    let finished = program.finish().with_code(130);
    assert!(begun.elapsed() < AT_ONCE);
    assert!(
        finished.stderr.contains("the server cannot be reached; the command may still be running"),
        "{finished:?}"
    );
}

#[test]
fn sigterm_is_forwarded() {
    let server = TestServer::new();
    let program =
        server.spawn(&["exec", "trap 'echo term; exit' TERM; echo ready; while :; do sleep 0.05; done"]);
    program.wait_for("ready\n");
    program.signal(Signal::TERM);
    assert_eq!(program.finish().with_code(143).text(), "ready\nterm\n");
}

#[test]
fn sigquit_is_forwarded() {
    let server = TestServer::new();
    let program =
        server.spawn(&["exec", "trap 'echo quit; exit' QUIT; echo ready; while :; do sleep 0.05; done"]);
    program.wait_for("ready\n");
    program.signal(Signal::QUIT);
    let finished = program.finish().with_code(131);
    assert_eq!(finished.text(), "ready\nquit\n");
    assert!(finished.stderr.contains("SIGQUIT was sent to the command"), "{finished:?}");
}

#[test]
fn ctrl_c_ends_a_command_that_waits_for_its_turn() {
    let server = TestServer::new();
    server.run(&["session", "create", "s"]).with_code(0);
    let first = server.spawn(&["exec", "-s", "s", "X=1; echo ready; sleep 600"]);
    first.wait_for("ready");
    let second = server.spawn(&["exec", "-s", "s", "X=2"]);
    let queued = || server.run(&["session", "list", "--json"]).json()["sessions"][0]["queued"] == 1;
    eventually("the second is queued", || queued().then_some(()));
    second.signal(Signal::INT);
    second.finish().with_code(130);
    first.signal(Signal::INT);
    first.finish().with_code(130);
    assert_eq!(server.run(&["exec", "-s", "s", "echo $X"]).with_code(0).text(), "1\n");
}

#[test]
fn closed_pipe_ends_the_command_silently() {
    let server = TestServer::new();
    let mut command = server.sandcrab(&["exec", "echo $$; exec yes"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut begin = [0; 1000];
    stdout.read_exact(&mut begin).unwrap();
    drop(stdout);
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!((child.wait().unwrap().code(), complaint.as_str()), (Some(141), ""));
    let begin = String::from_utf8_lossy(&begin);
    assert!(!is_alive(begin.lines().next().unwrap()));
}

#[test]
fn closed_pipe_of_a_list_is_silent() {
    let server = TestServer::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = server.sandcrab(&["ps"]).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!((child.wait().unwrap().code(), complaint.as_str()), (Some(141), ""));
}

#[test]
fn ignored_signals_stay_ignored() {
    let server = TestServer::new();
    let go = server.file("go");
    let line = format!(
        "trap '' INT; exec {} exec 'echo ready; until [ -e {} ]; do sleep 0.02; done'",
        env!("CARGO_BIN_EXE_sandcrab"),
        go.display()
    );
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &line]).stdin(Stdio::null());
    command.env("SANDCRAB_URL", format!("http://{}", server.address())).env("SANDCRAB_TOKEN", server.token());
    let program = Program::start(&mut command);
    program.wait_for("ready");
    program.signal(Signal::INT);
    std::fs::write(go, "").unwrap();
    program.finish().with_code(0);
}
