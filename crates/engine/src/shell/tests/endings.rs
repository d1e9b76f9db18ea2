//! What ends a shell, and the state it hands on; a connection that a command has closed.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

use super::harness::{Ended, Run, Session, begin, set};
use super::table::bash_version;
use crate::shell::{Driver, How, Report, Snapshot};

/// Commands that end the shell but not its process: it is there for the next command.
#[test]
fn a_shell_that_exits_goes_on_with_its_state() {
    let endings = [
        ("exit 3", 3),
        ("set -e; false", 1),
        ("set -e; f() { local v=2; false; }; f", 1),
        ("set -eu; (exit 4)", 4),
        ("set -u; echo $nope", 1),
        ("echo ${q?m}", 1),
        ("echo ${q:?m}", 1),
        ("f() { local v=2 w=3; exit 5; }; f", 5),
        ("echo 'exit 6' >f.sh; . ./f.sh", 6),
        ("trap 'echo bye; cd /; t=1' EXIT; cd /usr/bin; exit 7; cd /", 7),
        ("trap 'exit 8' ERR; false", 8),
        ("for i in 1 2; do break x; done", if bash_version() < (5, 3) { 128 } else { 2 }),
        ("eval 'eval \"exit 9\"'", 9),
        ("exit 1>/dev/null", 0),
        ("x=$(exit 3) || exit 10", 10),
    ];
    for (ending, status) in endings {
        let mut session = Session::new(Driver::Loaded);
        session.run("before=$$; w=kept; sleep 30 & job=$!");
        let run = Run { env: &[set("ONLY", "once")], ..Run::default() };
        let text = format!("v=1; cd /usr; declare -A map=([k]=x); g() {{ echo g; }}; {ending}");
        let outcome = session.run_with(text.as_bytes(), run);
        let is_exit = matches!(outcome.ended, Ended::Done { status: s, how: How::Exit } if s == status);
        assert!(is_exit, "{ending}: {:?} {}", outcome.ended, outcome.err());
        let cwd = if ending.contains("cd /; t=1") { "/" } else { "/usr" };
        let after = session.run(
            "echo $? $v $w $PWD ${map[k]} ${ONLY-gone} $((before == $$)) $-; g; trap -p EXIT; kill -0 $job && echo job; jobs -r | wc -l",
        );
        assert_eq!(
            after.out(),
            format!("{status} 1 kept {cwd} x gone 1 hBs\ng\njob\n1\n"),
            "{ending}: {}",
            after.err()
        );
        // An ordinary failure does not end it again.
        if !ending.contains("ERR") {
            let outcome = session.run("false; echo \"[$nope]\"");
            assert_eq!(outcome.out(), "[]\n", "{ending}");
        }
        session.run("kill $job");
    }
}

fn restored(snapshot: &Snapshot) -> Session {
    let mut session = Session::empty(Driver::Loaded);
    session.restore(snapshot);
    session
}

/// Commands that end the process: its state is handed on before.
#[test]
fn a_shell_that_is_replaced_or_ends_hands_on_its_state() {
    let endings = [
        ("exec true", 0),
        ("exec sh -c 'exit 3'", 3),
        ("f() { local v=2; exec true; }; f", 0),
        ("command exec true", 0),
        ("builtin exec -a name true", 0),
        ("eval 'exec true' >/dev/null", 0),
        ("exec /nonexistent/x", 127),
        ("exec nonexistent", 127),
        ("exec /etc/passwd", 126),
        ("f() { local v=2; exec nonexistent; }; f", 127),
        ("set -e; eval ')'", 2),
        ("set -e; readonly r=1; r=2", 1),
        ("trap 'echo bye' EXIT; exec nonexistent", if bash_version() < (5, 2) { 0 } else { 127 }),
    ];
    for (ending, status) in endings {
        if ending.starts_with("builtin ") && bash_version() < (5, 0) {
            continue; // which does not say that it is `exec`: the session has its last snapshot
        }
        let mut session = Session::new(Driver::Loaded);
        session.run("w=kept; alias hi='echo hello'; declare -r ro=1; exec 3>/dev/null; echo $SHLVL");
        let run = Run { env: &[set("ONLY", "once")], ..Run::default() };
        let text = format!("v=1; cd /usr; declare -A map=([k]=x); g() {{ echo g; }}; {ending}");
        let outcome = session.run_with(text.as_bytes(), run);
        assert_eq!(outcome.ended, Ended::Died(status), "{ending}: {}", outcome.err());
        let state = session.shell.last_state();
        let mut next = restored(&state.unwrap_or_else(|| panic!("{ending}: no state")));
        let after = next.run("echo $v $w $PWD ${map[k]} ${ONLY-gone} $SHLVL $-; g; hi; trap -p EXIT");
        assert_eq!(after.out(), "1 kept /usr x gone 1 hBs\ng\nhello\n", "{ending}: {}", after.err());
    }
}

/// What was sent before an `exec` that failed is not the state any more.
#[test]
fn a_failed_exec_takes_its_state_back() {
    let mut session = Session::new(Driver::Loaded);
    let outcome = session.run("shopt -s execfail; exec /etc/passwd; x=1; kill -9 $$");
    assert_eq!(outcome.ended, Ended::Died(-9));
    assert_eq!(session.shell.last_state(), None);
    // Nor is what a command before it had.
    let mut session = Session::new(Driver::Loaded);
    session.run("exec 3>/dev/null; echo $SHLVL; eval 'echo $SHLVL'");
    assert_eq!(session.run("kill -9 $$").ended, Ended::Died(-9));
    assert_eq!(session.shell.last_state(), None);
}

/// The abstract name at which this process listens.
fn listening_name(pid: i32) -> Option<Vec<u8>> {
    let inodes: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .ok()?
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    let sockets = std::fs::read_to_string("/proc/net/unix").ok()?;
    sockets.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let name = fields.get(7)?.strip_prefix('@')?;
        let listens = fields[3] == "00010000";
        inodes.iter().any(|inode| inode == fields[6] && listens).then(|| name.as_bytes().to_vec())
    })
}

/// A shell listens only while its connection is lost, and to its supervisor alone.
#[test]
fn others_cannot_take_the_place_of_the_supervisor() {
    let mut session = Session::new(Driver::Loaded);
    let pid = session.shell.pid().as_raw_nonzero().get();
    assert_eq!(listening_name(pid), None);
    assert_eq!(listening_name(std::process::id().cast_signed()), None);
    let text =
        "x=1; for f in /proc/$$/fd/*; do f=${f##*/}; ((f > 2)) && eval \"exec $f>&-\"; done; (sleep 5) &";
    begin(&mut session.shell, text);
    // The supervisor looks away, and another process comes first.
    let deadline = Instant::now() + Duration::from_secs(5);
    let name = loop {
        if let Some(name) = listening_name(pid) {
            break name;
        }
        assert!(Instant::now() < deadline, "it does not listen");
        std::thread::sleep(Duration::from_millis(1));
    };
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    std::thread::scope(|scope| {
        // Another process than the supervisor: to the kernel, connections made here are the supervisor's own.
        let name = String::from_utf8(name.clone()).unwrap();
        let script = format!(
            "import socket\nfor _ in range(2000):\n s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n try: s.connect('\\0{name}')\n except OSError: pass"
        );
        let flood = scope.spawn(move || std::process::Command::new("python3").args(["-c", &script]).status());
        let report = session.report(Duration::from_secs(5));
        assert!(matches!(report, Some(Report::Done(done)) if done.status == 0), "{report:?}");
        drop(flood.join());
    });
    assert!(UnixStream::connect_addr(&address).is_err(), "it still listens");
    assert_eq!(listening_name(pid), None);
    assert_eq!(session.run("echo $x; kill %1").out(), "1\n");
}
