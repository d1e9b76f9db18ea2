//! Signals that stop a server.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use sandcrab_engine::EndReason;

use crate::support::{TestDir, children, ended, eventually, id, ping};

/// Reports SIGTERM and exits.
const POLITE: &str = "trap 'echo bye; exit 3' TERM; echo begun; while :; do sleep 0.01; done";
/// Ignores everything but SIGKILL.
const STUBBORN: &str = "trap '' TERM; echo begun; while :; do sleep 0.01; done";

#[test]
fn stop_leaves_executions_running() {
    let place = TestDir::new();
    place.begin("long", "echo begun; exec sleep 300");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut serve = place.serve(&[]);
        serve.signal(signal);
        assert_eq!(ended(&mut serve.child).code(), Some(0), "{signal:?}: {}", serve.log());
        assert!(ping(&serve.address).is_none());
    }
    place.with_engine(async |engine| assert_eq!(engine.health().running, 1));
}

#[test]
fn stop_executions_ends_them() {
    let place = TestDir::new();
    place.begin("polite", POLITE);
    place.begin("stubborn", STUBBORN);
    place.serve(&["--stop-executions", "--stop-grace", "500ms"]).stop();
    place.with_engine(async |engine| {
        assert_eq!(engine.health().running, 0);
        let polite = engine.execution(&id("polite")).unwrap();
        assert_eq!(polite.wait().await.unwrap().exit_code, Some(3));
        assert_eq!(polite.output(100).unwrap().stdout.bytes, b"begun\nbye\n");
        let end = engine.execution(&id("stubborn")).unwrap().wait().await.unwrap();
        assert_eq!((end.reason, end.signal), (EndReason::Killed, Some(9)));
    });
}

#[test]
fn second_signal_stops_at_once() {
    let place = TestDir::new();
    place.begin("stubborn", STUBBORN);
    let mut serve = place.serve(&["--stop-executions", "--stop-grace", "1h"]);
    serve.signal(Signal::TERM);
    eventually("it is stopping", || serve.log().contains("stopping").then_some(()));
    assert!(serve.answers(), "clients are still told");
    let hurried = Instant::now();
    serve.signal(Signal::INT);
    assert_eq!(ended(&mut serve.child).code(), Some(0), "{}", serve.log());
    assert!(hurried.elapsed() < Duration::from_secs(60));
    place.with_engine(async |engine| {
        let end = engine.execution(&id("stubborn")).unwrap().wait().await.unwrap();
        assert_eq!((end.reason, end.signal), (EndReason::Killed, Some(9)));
    });
}

#[test]
fn ignored_signals_stay_ignored() {
    let place = TestDir::new();
    let mut command = std::process::Command::new("nohup");
    place.prepare(&mut command);
    command.args([crate::support::PROGRAM, "serve"]);
    let serve = crate::support::Serve::start(&place, &mut command);
    serve.signal(Signal::HUP);
    // The parent handles signals in order, and does not ignore this one.
    serve.signal(Signal::USR1);
    eventually("it writes its state", || serve.log().contains("state of the server").then_some(()));
    assert!(!serve.log().contains("stopping"));
    assert_eq!(children(serve.child.id()).len(), 1);
    serve.stop();
}
