//! Killed servers and parents.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use sandcrab_engine::EndReason;

use crate::support::{TestDir, children, ended, eventually, id, is_alive, kill_and_wait, send, stat};

#[test]
fn killed_server_is_back_soon() {
    let place = TestDir::new();
    let go = place.file("go");
    place.begin("long", "echo before; until [ -e go ]; do sleep 0.01; done; echo after; exit 7");
    let begun = Instant::now();
    let serve = place.serve(&[]);
    // Two seconds, on a machine that has time for it.
    let limit = Duration::from_secs(2) + 5 * begun.elapsed();
    let before = serve.server();
    let killed = Instant::now();
    kill_and_wait(before);
    // A client that connects meanwhile waits, and is not refused.
    assert!(serve.answers());
    assert!(killed.elapsed() < limit, "{:?}", killed.elapsed());
    assert_ne!(serve.server(), before);
    let log = serve.log();
    assert!(log.contains("was ended by signal 9") && log.contains("running=1"), "{log}");
    std::fs::write(go, "").unwrap();
    serve.stop();
    place.with_engine(async |engine| {
        let execution = engine.execution(&id("long")).unwrap();
        let end = execution.wait().await.unwrap();
        assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(7)));
        assert_eq!(execution.output(100).unwrap().stdout.bytes, b"before\nafter\n");
    });
}

#[test]
fn repeated_crashes_are_given_up() {
    let place = TestDir::new();
    let mut serve = place.serve(&[]);
    let mut last = 0;
    let status = eventually("it gives up", || {
        let server = children(serve.child.id()).into_iter().find(|pid| {
            *pid != last
                && std::fs::read(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|l| l.starts_with(b"sandcrab-server"))
        });
        if let Some(server) = server {
            send(server, Signal::KILL);
            last = server;
        }
        serve.child.try_wait().unwrap()
    });
    assert_eq!(status.code(), Some(137));
    let log = serve.log();
    assert!(log.contains("was ended by signal 9, for the 8th time within a minute; giving up"), "{log}");
}

/// A lack of resources may be temporary: the parent keeps retrying, and keeps the address.
#[test]
fn failed_restart_is_retried() {
    let place = TestDir::new();
    let serve = place.serve(&[]);
    // Once without a failure, so that the parent has the listening socket.
    kill_and_wait(serve.server());
    assert!(serve.answers());
    let parent = Pid::from_raw(i32::try_from(serve.child.id()).unwrap());
    let no_more = Rlimit { current: Some(3), maximum: getrlimit(Resource::Nofile).maximum };
    let before = prlimit(parent, Resource::Nofile, no_more).unwrap();
    send(serve.server(), Signal::KILL);
    eventually("it tries on", || (serve.log().matches("; trying again in ").count() > 3).then_some(()));
    prlimit(parent, Resource::Nofile, before).unwrap();
    assert!(serve.answers());
    serve.stop();
}

#[test]
fn killed_parent_ends_the_server_but_not_executions() {
    let place = TestDir::new();
    place.begin("long", "echo begun; exec sleep 300");
    let mut serve = place.serve(&["--stop-executions"]);
    let server = serve.server();
    serve.signal(Signal::KILL);
    ended(&mut serve.child);
    eventually("the server is gone", || (!is_alive(server)).then_some(()));
    let next = place.serve(&[]);
    assert!(next.answers());
    next.stop();
    place.with_engine(async |engine| assert_eq!(engine.health().running, 1));
}

#[test]
fn orphans_of_a_crashed_server_are_reaped() {
    let place = TestDir::new();
    place.begin("long", "echo begun; exec sleep 300");
    let serve = place.serve(&[]);
    let parent = serve.child.id();
    // Started by the server, so it becomes a child of the parent when the server is killed.
    kill_and_wait(serve.server());
    assert!(serve.answers());
    let is_clean = || {
        let below = children(parent);
        let is_zombie = |pid: &u32| stat(*pid).is_some_and(|(state, _)| state == 'Z');
        (!below.is_empty() && !below.iter().any(is_zombie)).then_some(below)
    };
    assert_eq!(eventually("everything is reaped", is_clean), [serve.server()]);
    serve.stop();
}

#[test]
fn stop_signal_between_two_servers_is_not_lost() {
    let place = TestDir::new();
    place.begin("polite", "trap 'echo bye; exit 3' TERM; echo begun; while :; do sleep 0.01; done");
    let mut serve = place.serve(&["--stop-executions"]);
    // Stopped, so that the parent finds both.
    serve.signal(Signal::STOP);
    send(serve.server(), Signal::KILL);
    serve.signal(Signal::TERM);
    serve.signal(Signal::CONT);
    let status = ended(&mut serve.child);
    assert_eq!(status.code(), Some(0), "{}", serve.log());
    place.with_engine(async |engine| {
        let execution = engine.execution(&id("polite")).unwrap();
        assert_eq!(execution.wait().await.unwrap().exit_code, Some(3));
    });
}
