//! What ends a shell, and the state it hands on; a connection that a command has closed.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

use super::harness::{Ended, Run, Session, TEST_TIMEOUT, begin, set};
use super::table::bash_version;
use crate::shell::{CommandEnd, Driver, Report, Snapshot};

/// Commands that end the shell but not its process: it is there for the next command.
#[test]
fn shell_continues_with_its_state_after_exit() {
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
        ("set -t\nexit 11", 0),
        ("set -t; (exit 12)\nexit 11", 12),
    ];
    for (ending, status) in endings {
        let mut session = Session::new(Driver::Loaded);
        session.run("before=$$; w=kept; shopt -s dotglob; sleep 30 & job=$!");
        let run = Run { env: &[set("ONLY", "once")], ..Run::default() };
        let text = format!("v=1; cd /usr; declare -A map=([k]=x); g() {{ echo g; }}; {ending}");
        let outcome = session.run_with(text.as_bytes(), run);
        let is_exit =
            matches!(outcome.ended, Ended::Done { status: s, how: CommandEnd::Exit } if s == status);
        assert!(is_exit, "{ending}: {:?} {}", outcome.ended, outcome.err());
        let cwd = if ending.contains("cd /; t=1") { "/" } else { "/usr" };
        let after = session.run(
            "echo $? $v $w $PWD ${map[k]} ${ONLY-gone} $((before == $$)) $-; g; trap -p EXIT; kill -0 $job && echo job; jobs -r | wc -l; shopt -p dotglob",
        );
        assert_eq!(
            after.out(),
            format!("{status} 1 kept {cwd} x gone 1 hBs\ng\njob\n1\nshopt -s dotglob\n"),
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

/// Wherever in the shell it was left, nothing of that place stays.
#[test]
fn a_shell_that_exits_anywhere_is_whole() {
    let endings = [
        "trap 'exit 3' USR1; kill -USR1 $$; sleep 0.1",
        "trap 'exit 3' ERR; false",
        "trap 'exit 3' DEBUG; true",
        "set -T; trap 'exit 3' RETURN; f() { :; }; f",
        "trap 'trap - EXIT; exit 3' EXIT; exit 1",
        "trap 'trap \"exit 3\" USR1; kill -USR1 $$' EXIT; exit 1",
        "f() { exit 3; }; f x y z",
        "echo 'exit 3' >s.sh; . ./s.sh x y z",
        "f() { set -- q; exit 3; }; f x",
        "f() { local IFS=: PATH=/nonexistent LC_ALL=C OPTIND=7; exit 3; }; f",
        "IFS=: PATH=/nonexistent eval 'exit 3'",
        "f() { exit 3; }; IFS=: f",
        "f() { local -; set -f; exit 3; }; f",
        "while read -r l; do exit 3; done <<<a",
        "shopt -s lastpipe; echo a | while read -r l; do exit 3; done",
        "for i in 1 2; do for j in 1 2; do exit 3; done; done",
        "case x in x) exit 3 ;; esac",
        "{ exit 3; } 5>/dev/null 2>/dev/null",
        "until exit 3; do :; done",
        "[[ -n $(exit 3) ]] || exit 3",
        "x=$(exit 3) || { (exit 4); exit 3; }",
        "coproc cat; exit 3",
        "command exit 3",
        "builtin exit 3",
        "time exit 3",
        "! exit 3",
        "mapfile -C 'exit 3 #' -c 1 m <<<a",
        "set -e; f() { g x; }; g() { (exit 3); }; f",
        "echo '(exit 3)' >s.sh; set -e; . ./s.sh x y z",
        "set -eE; trap 'echo err' ERR; f() { local IFS=:; (exit 3); }; f",
        "g() { exit 3; }; complete -F g foo; exit 3",
        "read -t 5 l < <(sleep 0); exit 3",
        "set -o posix; f() { exit 3; }; f; ",
        "printf -v x %s y; set -x; exit 3",
        "exec 3>/dev/null; { exit 3; } >&3",
        "eval 'eval \"f() { exit 3; }; f\"'",
        "function f { trap 'echo r' RETURN; exit 3; }; f",
    ];
    let mut differences = Vec::new();
    for ending in endings {
        let mut session = Session::new(Driver::Loaded);
        session.run("set -- a b; fds=(/proc/$$/fd/*)");
        let outcome = session.run(ending);
        if !matches!(outcome.ended, Ended::Done { status: 3, how: CommandEnd::Exit }) {
            differences.push(format!("\n{ending}: {:?} {}", outcome.ended, outcome.err()));
            continue;
        }
        let text = "set +x +o posix +E +T; shopt -u lastpipe; trap - DEBUG ERR RETURN USR1; unset COPROC
            v=p:q; echo $# $1 $v $- ${#FUNCNAME[@]} ${OPTIND} ${LC_ALL-none}; ls /dev/null
            trap 'echo t' USR2; kill -USR2 $$; echo after; break 2>/dev/null; f() { return 4; }; f; echo $?
            [[ $PATH == */bin* ]] && echo path; echo x | { read -r y; echo $y; }; (exit 5); echo $? $BASH_SUBSHELL";
        let after = session.run(text);
        let expected = "2 a p:q hBs 0 1 none\n/dev/null\nt\nafter\n4\npath\nx\n5 0\n";
        if after.out() != expected {
            differences.push(format!("\n{ending}: then {:?} {}", after.out(), after.err()));
        }
        let after = session.run("now=(/proc/$$/fd/*); echo $((${#now[@]} - ${#fds[@]}))");
        let opened = i32::from(ending.contains("exec 3")) + 2 * i32::from(ending.contains("coproc"));
        if after.out() != format!("{opened}\n") {
            differences.push(format!("\n{ending}: descriptors {:?}", after.out()));
        }
    }
    assert!(differences.is_empty(), "{}", differences.concat());
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
        ("f() { local v=2; exec true; }; f x y z", 0),
        ("command exec true", 0),
        ("builtin exec -a name true", 0),
        ("eval 'exec true' >/dev/null", 0),
        ("exec -l true", 0),
        ("exec -c /bin/true", 0),
        ("exec -cl -a name true 3>/dev/null", 0),
        ("f() { local v=2; exec -c sh -c 'exit 3'; }; f x y z", 3),
        ("command exec -c true", 0),
        ("builtin exec -c true >/dev/null 2>&1", 0),
        ("eval 'exec -c true'", 0),
        ("exec -c /nonexistent/x", 127),
        ("exec -c /etc/passwd", 126),
        ("exec -c nonexistent", 127),
        ("f=/tmp/.sandcrab-script-$$; echo 'v=no; cd /; rm $0; exit 4' >$f; chmod +x $f; exec $f", 4),
        ("f=/tmp/.sandcrab-script-$$; echo 'v=no; cd /; rm $0; exit 4' >$f; chmod +x $f; exec -c $f", 4),
        ("trap 'echo t' USR1; exec true", 0),
        ("exec /nonexistent/x", 127),
        ("exec nonexistent", 127),
        ("exec /etc/passwd", 126),
        ("f() { local v=2; set -- q; exec nonexistent; }; f x", 127),
        ("set -e; eval ')'", 2),
        ("set -e; readonly r=1; r=2", 1),
        ("trap 'echo bye' EXIT; exec nonexistent", if bash_version() < (5, 2) { 0 } else { 127 }),
    ];
    for (ending, status) in endings {
        let mut session = Session::new(Driver::Loaded);
        session
            .run("w=kept; alias hi='echo hello'; declare -r ro=1; exec 3>/dev/null; echo $SHLVL; set -- a b; shopt -s dotglob");
        let run = Run { env: &[set("ONLY", "once")], ..Run::default() };
        let text = format!("v=1; cd /usr; declare -A map=([k]=x); g() {{ echo g; }}; {ending}");
        let outcome = session.run_with(text.as_bytes(), run);
        assert_eq!(outcome.ended, Ended::Died(status), "{ending}: {}", outcome.err());
        let state = session.shell.last_state();
        let mut next = restored(&state.unwrap_or_else(|| panic!("{ending}: no state")));
        let after = next.run(
            "echo $v $w $PWD ${map[k]} ${ONLY-gone} $SHLVL $- $# $1; g; hi; trap -p EXIT; shopt -p dotglob",
        );
        assert_eq!(
            after.out(),
            "1 kept /usr x gone 1 hBs 2 a\ng\nhello\nshopt -s dotglob\n",
            "{ending}: {}",
            after.err()
        );
    }
}

/// Traps too, also if `exec -c` is what replaced it (until 5.1 bash has lost them by then).
#[test]
fn a_shell_that_is_replaced_hands_on_its_traps() {
    for exec in ["exec true", "exec -c true"] {
        let mut session = Session::new(Driver::Loaded);
        session.run(&format!("trap 'echo t' USR1; trap '' USR2; {exec}"));
        let mut next = restored(&session.shell.last_state().unwrap());
        let traps = "trap -- 'echo t' SIGUSR1\ntrap -- '' SIGUSR2\n";
        if exec != "exec -c true" || bash_version() >= (5, 2) {
            assert_eq!(next.run("trap -p").out(), traps, "{exec}");
        }
    }
}

/// What was sent before an `exec` that failed is not the state any more, and the shell deals with signals as before.
#[test]
fn a_failed_exec_takes_its_state_back() {
    for exec in ["exec /etc/passwd", "exec -c /etc/passwd", "exec -c /nonexistent/x", "exec nonexistent"] {
        let mut session = Session::new(Driver::Loaded);
        let outcome = session.run(&format!("shopt -s execfail; {exec}; x=1; kill -9 $$"));
        assert_eq!(outcome.ended, Ended::Died(-9), "{exec}");
        assert_eq!(session.shell.last_state(), None, "{exec}");
        let mut session = Session::new(Driver::Loaded);
        session.run(&format!("shopt -s execfail; x=1; {exec}; y=2"));
        let outcome = session.run("kill -TERM $$; echo no");
        assert_eq!(outcome.ended, Ended::Done { status: 143, how: CommandEnd::Signal }, "{exec}");
        assert_eq!(session.run("echo $x $y").out(), "1 2\n", "{exec}");
    }
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
        "x=1; for f in /proc/$$/fd/*; do f=${f##*/}; ((f > 2)) && eval \"exec $f>&-\"; done; (sleep 300) &";
    begin(&mut session.shell, text);
    // The supervisor looks away, and another process comes first.
    let deadline = Instant::now() + TEST_TIMEOUT;
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
        let report = session.report(TEST_TIMEOUT);
        assert!(matches!(report, Some(Report::Done(done)) if done.status == 0), "{report:?}");
        drop(flood.join());
    });
    assert!(UnixStream::connect_addr(&address).is_err(), "it still listens");
    assert_eq!(listening_name(pid), None);
    assert_eq!(session.run("echo $x; kill %1").out(), "1\n");
}
