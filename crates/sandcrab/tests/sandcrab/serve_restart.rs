//! Killed servers and parents.

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use sandcrab_engine::EndReason;

use crate::support::{
    KillOnDrop, TestDir, children, ended, eventually, id, is_alive, is_server, kill_and_wait, ping, send,
    stat,
};

#[test]
fn killed_server_is_back_soon() {
    let place = TestDir::new();
    let go = place.file("go");
    place.begin("long", "echo before; until [ -e go ]; do sleep 0.01; done; echo after; exit 7");
    let begun = Instant::now();
    let serve = place.serve(&[]);
    // The parent knows by then that the address is printed.
    assert!(serve.answers());
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

/// The parent may learn that the server has ended before it has read that it listened. The address is printed once.
#[test]
fn server_killed_as_it_begins_to_listen_is_restarted() {
    let place = TestDir::new();
    let log = place.file("out.log");
    let mut parent = KillOnDrop(place.command().stdout(File::create(&log).unwrap()).spawn().unwrap());
    eventually("there is a server", || children(parent.0.id()).into_iter().find(is_server));
    send(parent.0.id(), Signal::STOP);
    eventually("it listens", || std::fs::read_to_string(place.state().join("address")).ok());
    let [server] = children(parent.0.id())[..] else { panic!("several servers") };
    send(server, Signal::KILL);
    eventually("it has ended", || stat(server).is_some_and(|(state, _)| state == 'Z').then_some(()));
    send(parent.0.id(), Signal::CONT);
    let lines = || std::fs::read_to_string(&log).unwrap();
    eventually("the address is printed", || lines().contains("token in").then_some(()));
    let address = lines().lines().next().unwrap().strip_prefix("listening on ").unwrap().to_owned();
    assert!(ping(&address).is_some_and(|answer| answer.starts_with("HTTP/1.1 ")));
    send(parent.0.id(), Signal::TERM);
    assert_eq!(ended(&mut parent.0).code(), Some(0));
    let printed = lines();
    assert_eq!(printed.lines().count(), 2, "{printed}");
}

/// Kills the server at times that are spread over its start.
#[test]
fn server_killed_while_it_starts_is_restarted() {
    let count = if std::env::var_os("SANDCRAB_SOAK").is_some() { 100 } else { 8 };
    for number in 0..count {
        let place = TestDir::new();
        let log = place.file("out.log");
        let mut parent = KillOnDrop(place.command().stdout(File::create(&log).unwrap()).spawn().unwrap());
        let server = eventually("there is a server", || children(parent.0.id()).into_iter().find(is_server));
        // Any moment of the start is possible, also those without an event.
        std::thread::sleep(Duration::from_millis(300) * number / count);
        send(server, Signal::KILL);
        let address = eventually("the address is printed", || {
            let lines = std::fs::read_to_string(&log).unwrap();
            let first = lines.split_once('\n')?.0.strip_prefix("listening on ")?.to_owned();
            Some(first)
        });
        let answer = ping(&address);
        assert!(answer.is_some_and(|answer| answer.starts_with("HTTP/1.1 ")), "kill {number} of {count}");
        send(parent.0.id(), Signal::TERM);
        assert_eq!(ended(&mut parent.0).code(), Some(0), "kill {number} of {count}");
    }
}

#[test]
fn repeated_crashes_are_given_up() {
    let place = TestDir::new();
    let mut serve = place.serve(&[]);
    let mut last = 0;
    let status = eventually("it gives up", || {
        let server = children(serve.child.id()).into_iter().find(|pid| *pid != last && is_server(pid));
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
