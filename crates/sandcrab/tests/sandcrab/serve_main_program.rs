//! `serve -- COMMAND`: a main program beside the server.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Serve, TestDir, ended, eventually, send};

/// Writes its process id to `pid` and received signals to `signals`.
const WATCHER: &str = "for s in TERM INT HUP USR2 QUIT; do trap \"echo $s >> signals\" $s; done; echo $$ > pid.new; \
                       mv pid.new pid; while :; do sleep 0.01; done";

fn serve(place: &TestDir, script: &str) -> Serve {
    place.serve(&["--", "sh", "-c", script])
}

fn lines(place: &TestDir, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(place.file(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The process id of the main program.
fn pid(place: &TestDir) -> u32 {
    eventually("the main program runs", || lines(place, "pid").first()?.parse().ok())
}

fn is_gone(pid: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn streams_arguments_and_environment_pass_through() {
    let place = TestDir::new();
    let mut command = place.command();
    command.env("MARK", "m").args([
        "--",
        "sh",
        "-c",
        "echo out $MARK $0 $1 $2; echo err >&2",
        "a b",
        "--help",
        "--",
    ]);
    let serve = Serve::start(&place, &mut command);
    assert!(serve.line().starts_with("token in"));
    assert_eq!(serve.line(), "out m a b --help --");
    eventually("standard error", || serve.log().lines().any(|line| line == "err").then_some(()));
    // The program succeeded, so the server stays.
    assert!(serve.answers());
    serve.stop();
}

#[test]
fn no_words_after_the_dashes() {
    let place = TestDir::new();
    let serve = place.serve(&["--"]);
    assert!(serve.answers());
    serve.stop();
}

#[test]
fn failure_stops_the_server_with_its_code() {
    for (script, code) in [("exit 7", 7), ("kill -KILL $$", 137), ("sleep 0.2; exit 3", 3)] {
        let place = TestDir::new();
        let mut serve = serve(&place, script);
        assert_eq!(ended(&mut serve.child).code(), Some(code), "{script}: {}", serve.log());
        assert!(serve.log().contains("the main program"), "{}", serve.log());
        assert!(!serve.answers());
    }
}

#[test]
fn unstartable_program_is_a_failure() {
    let place = TestDir::new();
    for (program, code) in [("/not/there", 127), ("/dev/null", 126)] {
        let mut serve = place.serve(&["--", program]);
        assert_eq!(ended(&mut serve.child).code(), Some(code), "{}", serve.log());
        assert!(serve.log().contains(&format!("failed to start {program}")), "{}", serve.log());
    }
}

#[test]
fn stop_signals_are_forwarded() {
    let place = TestDir::new();
    let mut serve = serve(&place, WATCHER);
    let program = pid(&place);
    for (signal, name) in [(Signal::USR2, "USR2"), (Signal::QUIT, "QUIT")] {
        serve.signal(signal);
        eventually(name, || lines(&place, "signals").contains(&name.to_owned()).then_some(()));
    }
    // This signal is for the server alone.
    serve.signal(Signal::USR1);
    eventually("the server logs its state", || serve.log().contains("state of the server").then_some(()));
    assert!(serve.answers() && !is_gone(program));
    serve.signal(Signal::INT);
    eventually("INT", || lines(&place, "signals").contains(&"INT".to_owned()).then_some(()));
    // The program ignores all signals, so the second one ends it.
    eventually("the server has ended", || (!serve.answers()).then_some(()));
    serve.signal(Signal::TERM);
    assert_eq!(ended(&mut serve.child).code(), Some(0), "{}", serve.log());
    assert!(is_gone(program));
}

#[test]
fn stopped_program_is_waited_for() {
    let place = TestDir::new();
    let script =
        "trap 'sleep 0.3; echo done > done; exit 9' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let mut serve = serve(&place, script);
    pid(&place);
    serve.signal(Signal::TERM);
    assert_eq!(ended(&mut serve.child).code(), Some(0), "{}", serve.log());
    assert_eq!(lines(&place, "done"), ["done"]);
}

#[test]
fn server_crash_does_not_affect_it() {
    let place = TestDir::new();
    let serve = serve(&place, "echo $$ >> pid; exec sleep 300");
    let program = pid(&place);
    let before = serve.server();
    send(before, Signal::KILL);
    eventually("there is another server", || (serve.server() != before).then_some(()));
    assert!(serve.answers() && !is_gone(program));
    assert_eq!(lines(&place, "pid").len(), 1, "it is started once");
    let begun = Instant::now();
    serve.stop();
    assert!(begun.elapsed() < Duration::from_secs(60) && is_gone(program));
}
