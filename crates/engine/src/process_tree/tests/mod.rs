//! Tests with real processes.
//!
//! Each runs in a process of its own, which is a subreaper as a supervisor is, and in which nothing else
//! forks or reaps. What the scripts start is bounded in number and ends by itself within a minute.

mod below;
mod cgroups;
mod kill;
mod tags;
mod waiting;

use std::ffi::CString;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getpid, set_child_subreaper};

use super::*;
use crate::end::KillReceipt;
use crate::spawn::{self, ProcessSetup, Spawn};
use crate::sys;

static REAPED: AtomicUsize = AtomicUsize::new(0);
const ALONE: &str = "SANDCRAB_TEST_ALONE";

/// Makes tests of functions that [run alone](run_alone).
macro_rules! alone {
    ($($(#[$attribute:meta])* fn $name:ident() $body:block)*) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            crate::process_tree::tests::run_alone(concat!(module_path!(), "::", stringify!($name)), || $body);
        }
    )*};
}
use alone;

/// Runs a test in a process of its own, next to a stranger that has to survive it.
fn run_alone(path: &str, body: impl FnOnce()) {
    if std::env::var(ALONE).is_ok_and(|name| name == path) {
        set_child_subreaper(Some(getpid())).unwrap();
        return body();
    }
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    let (_, name) = path.split_once("::").unwrap();
    let mut test = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let status = wait_for(Duration::from_secs(240), || test.try_wait().unwrap());
    assert_eq!(stranger.try_wait().unwrap(), None, "a stranger was ended");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    if status.is_none() {
        test.kill().unwrap();
    }
    assert!(status.is_some_and(|status| status.success()), "{path} failed: {status:?}");
}

fn wait_for<T>(limit: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = condition() {
            return Some(value);
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reaps until something holds.
#[track_caller]
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let held = wait_for(Duration::from_secs(20), || {
        reap_all();
        condition().then_some(())
    });
    assert!(held.is_some(), "never happened: {what}; there are {:?}", commands());
}

fn reap_all() {
    while sys::reap().is_some() {
        REAPED.fetch_add(1, Ordering::Relaxed);
    }
}

fn live() -> Vec<Pid> {
    walk::descendants(getpid())
}

fn commands() -> Vec<String> {
    live().into_iter().map(walk::command_line).collect()
}

/// Whether many children have come and gone since the last start.
fn is_busy() -> bool {
    REAPED.load(Ordering::Relaxed) > 50
}

/// Starts a bash with some text, tagged and in a cgroup as a command of a supervisor would be.
fn start(text: &str, tag: Option<Tag>, cgroup: Option<&Cgroup>) -> Pid {
    start_argv(&["/bin/bash", "-c", text], tag, cgroup)
}

fn start_argv(argv: &[&str], tag: Option<Tag>, cgroup: Option<&Cgroup>) -> Pid {
    REAPED.store(0, Ordering::Relaxed);
    let path = CString::new(std::env::var("PATH").map(|path| format!("PATH={path}")).unwrap()).unwrap();
    let spawn = Spawn {
        program: argv[0].as_ref(),
        argv: argv.iter().map(|word| CString::new(*word).unwrap()).collect(),
        env: vec![path],
        cwd: "/".as_ref(),
        stdio: spawn::Stdio::Streams {
            stdin: rustix::stdio::stdin(),
            stdout: rustix::stdio::stdout(),
            stderr: rustix::stdio::stderr(),
        },
        inherited: &[],
        setup: &ProcessSetup { tag, cgroup, ..ProcessSetup::default() },
    };
    spawn.start().unwrap()
}

/// Ends a scope as a supervisor's loop would.
fn end(scope: Scope, signal: Signal, grace: Duration, cgroup: Option<&Cgroup>) -> KillReceipt {
    let mut ending = Ending::new(scope, signal, grace, cgroup);
    loop {
        match ending.step(Instant::now()) {
            Step::Done(receipt) => return receipt,
            Step::Wait { until } => {
                reap_all();
                let wait = until.saturating_duration_since(Instant::now());
                let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
                let fds = ending.poll_fds();
                let mut fds = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect::<Vec<_>>();
                poll(&mut fds, Some(&wait)).unwrap();
            }
        }
    }
}

/// No cgroup, and one of each kind that this machine has.
fn each_cgroup(nonce: Nonce, mut run: impl FnMut(&str, Option<&Cgroup>)) {
    run("no cgroup", None);
    for (name, choice) in [("v1", CgroupChoice::V1), ("v2", CgroupChoice::V2)] {
        let cgroups = Cgroups::detect(choice);
        if cgroups.support().kill {
            let mut cgroup = cgroups.create(nonce, name, &crate::Limits::default()).unwrap();
            run(name, Some(&cgroup));
            until("the cgroup is removed", || cgroup.remove().is_ok());
        }
    }
}
