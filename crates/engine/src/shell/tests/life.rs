//! A shell from its start to its end: interrupts, lost connections, what it uses and how long it takes.

use std::path::Path;
use std::time::{Duration, Instant};

use super::harness::{BOTH, Ended, Run, Session, TEST_TIMEOUT, bash, begin, set, unset};
use super::table::bash_version;
use crate::shell::{CommandEnd, Driver, Report, probe};

#[test]
fn the_object_works_with_this_bash() {
    assert_eq!(probe(&bash()), (Driver::Loaded, None));
}

#[test]
fn a_program_that_is_not_bash_gets_a_reason() {
    let (driver, reason) = probe(Path::new("/bin/true"));
    assert_eq!(driver, Driver::Portable);
    assert!(reason.unwrap().contains("did not load the object"));
}

/// What earlier commands left running is not ended by an interrupt, so `wait` must not wait for it.
#[test]
fn wait_for_running_jobs_can_be_interrupted() {
    let mut session = Session::new(Driver::Loaded);
    session.run("sleep 600 &");
    for text in ["wait; echo no", "wait $!; echo no", "wait -n; echo no", "f() { wait; echo no; }; f"] {
        begin(&mut session.shell, text);
        std::thread::sleep(Duration::from_millis(50));
        let mut report = None;
        for _ in 0..3000 {
            session.shell.interrupt().unwrap();
            report = session.report(Duration::from_millis(20));
            if report.is_some() {
                break;
            }
        }
        match report {
            Some(Report::Done(done)) => {
                assert_eq!((done.status, done.how), (130, CommandEnd::Interrupted), "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
        assert_eq!(session.run("kill -0 $! && echo there; jobs -r | wc -l").out(), "there\n1\n", "{text}");
    }
    session.run("kill %1");
}

/// Interrupts at any moment, and looks whether everything is still as it was.
#[test]
fn interrupts_at_any_moment() {
    let texts = [
        "f() { local a=(1 2 3) i; for ((i = 0; i < 100000; i++)); do a[i]=$(echo $i); done; }; while :; do f; done",
        "while :; do x=${x:0:100}$RANDOM; case $x in *1*) y=1 ;; *) y=0 ;; esac; { :; } >/dev/null 2>&1 <<<\"$x\"; done",
        "while :; do eval 'eval \"for i in {1..50}; do :; done\"'; . /dev/stdin <<<'z=1'; done",
        "trap 'while :; do break; done' DEBUG RETURN ERR; while :; do false; done",
        "while :; do (exit 3) | cat | (read -r x; exit 4); wait; done",
        "while :; do printf '%s\\n' {1..500}; done",
        "trap 'while :; do :; done' EXIT; while :; do (:); [[ abc =~ (a)(b) ]] && break; done; exit 3",
        "while :; do read -r -t 0.001 x </dev/zero; mapfile -t m < <(echo a; echo b); done",
        "g() { (($1 > 200)) || g $(($1 + 1)); }; while :; do g 0; done",
    ];
    let mut session = Session::new(Driver::Loaded);
    session.run("keep=1; kept() { echo kept$keep; }; cd /usr");
    let mut delay = 1_u64;
    for round in 0..18 {
        // An interrupt within a sequence like {1..9} makes 4.4 free what it has not allocated.
        let broken = |text: &&str| bash_version() < (5, 0) && text.contains("..");
        for text in texts.into_iter().filter(|text| !broken(text)) {
            delay = delay * 1_103_515_245 % 2_147_483_647;
            let after = Duration::from_micros(200 + delay % 6000);
            let outcome = session.run_with(text.as_bytes(), Run { interrupt: Some(after), ..Run::default() });
            assert!(
                matches!(
                    outcome.ended,
                    Ended::Done { status: 130, how: CommandEnd::Interrupted | CommandEnd::Signal }
                ),
                "{round} {text}: {:?} {}",
                outcome.ended,
                outcome.err()
            );
            session.run("trap - DEBUG RETURN ERR EXIT; wait");
            let outcome = session.run("kept; pwd; echo ${#FUNCNAME[@]} $LINENO $#");
            assert_eq!(outcome.out(), "kept1\n/usr\n0 1 0\n", "{round} {text}: {}", outcome.err());
        }
    }
}

#[test]
fn a_shell_does_not_grow() {
    let mut session = Session::new(Driver::Loaded);
    let rss = |session: &Session| {
        let pid = session.shell.pid().as_raw_nonzero();
        let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let env = [set("A", "b"), unset("C")];
    let mut round = |count: usize| {
        for i in 0..count {
            let how = Run { env: &env, cwd: Some(Path::new("/tmp")), ..Run::default() };
            session.run_with(b"f() { local x=$1; g() { exit 3; }; g; }; f 1", how);
            session.run("echo 'a");
            session.run("return 3");
            if i % 10 == 0 {
                session.snapshot().unwrap();
            }
        }
        rss(&session)
    };
    let before = round(200);
    let after = round(800);
    assert!(after < before + (512 << 10), "{before} {after}");
}

#[test]
fn usage_is_the_commands_own() {
    let mut session = Session::new(Driver::Loaded);
    session.run("for ((i = 0; i < 100000; i++)); do :; done");
    let busy = session
        .run("for ((i = 0; i < 200000; i++)); do :; done; (for ((i = 0; i < 100000; i++)); do :; done)")
        .done
        .unwrap()
        .usage
        .unwrap();
    let idle = session.run("true").done.unwrap().usage.unwrap();
    assert!(busy.user > Duration::from_millis(20), "{busy:?}");
    assert!(idle.user + idle.system < busy.user / 4, "{idle:?} {busy:?}");
    assert!(idle.max_rss_bytes > 1 << 20, "{idle:?}");
}

#[test]
fn shell_exits_without_a_supervisor() {
    for driver in BOTH {
        let mut session = Session::new(driver);
        let file = session.directory.path().join("bye");
        session.run(&format!("trap 'echo bye >{}' EXIT", file.display()));
        session.disconnect();
        let deadline = Instant::now() + TEST_TIMEOUT;
        while session.died().is_none() {
            assert!(Instant::now() < deadline, "{driver:?}: it is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(std::fs::read_to_string(file).unwrap(), "bye\n", "{driver:?}");
    }
}

#[test]
fn the_shell_dies_with_its_supervisor() {
    for driver in BOTH {
        // To the kernel, the parent is the thread that forked.
        let mut session = std::thread::spawn(move || {
            let mut session = Session::new(driver);
            session.run("trap '' TERM INT HUP");
            session
        })
        .join()
        .unwrap();
        let deadline = Instant::now() + TEST_TIMEOUT;
        while session.died().is_none() {
            assert!(Instant::now() < deadline, "{driver:?}: it is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(session.died(), Some(-9), "{driver:?}");
    }
}

#[test]
fn shell_with_few_descriptors_continues() {
    for limit in 3..9 {
        let mut session = Session::new(Driver::Loaded);
        session.run(&format!("x=1; ulimit -n {limit}"));
        let outcome = session.run("echo $x; y=1");
        assert_eq!((outcome.status(), outcome.out().as_str()), (0, "1\n"), "{limit}: {}", outcome.err());
        if limit > 4 {
            assert_eq!(session.run("echo $(echo sub) $y; (echo fork)").out(), "sub 1\nfork\n", "{limit}");
        }
        assert_eq!(session.run("ulimit -n").out(), format!("{limit}\n"));
    }
}

#[test]
fn a_starved_shell_is_seen() {
    // It may break, but not hang.
    let mut session = Session::new(Driver::Loaded);
    session.run("ulimit -n 2");
    begin(&mut session.shell, "true");
    let deadline = Instant::now() + TEST_TIMEOUT;
    while let Ok(None) = session.shell.receive() {
        if session.died().is_some() {
            break;
        }
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn strange_environments() {
    let env = [
        ("BASH_FUNC_enable%%", "() { echo stolen; }"),
        ("BASH_FUNC_f%%", "() { echo imported; }"),
        ("SHELLOPTS", "noexec:xtrace"),
        ("BASH_ENV", "/etc/passwd"),
        ("PS4", "$(echo pwned)"),
        ("POSIXLY_CORRECT", ""),
        ("IFS", "/"),
        ("with.dot", "1"),
        ("PROMPT_COMMAND", "exit 3"),
        ("TMOUT", "1"),
    ];
    let mut session = Session::with_env(Driver::Loaded, &env);
    assert_eq!(
        session.run("f; echo $BASH_ENV; env | grep with.dot").out(),
        "imported\n/etc/passwd\nwith.dot=1\n"
    );
    let mut session = Session::with_env(Driver::Portable, &env[1..8]);
    assert_eq!(
        session.run("f; echo $BASH_ENV; env | grep with.dot").out(),
        "imported\n/etc/passwd\nwith.dot=1\n"
    );
}

#[test]
fn a_command_before_the_shell_is_ready() {
    for driver in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let mut shell = crate::shell::Shell::start(&crate::shell::ShellConfig {
            driver,
            bash: &bash(),
            env: &[],
            cwd: directory.path(),
            setup: &crate::spawn::ProcessSetup::default(),
        })
        .unwrap();
        begin(&mut shell, "(exit 7)");
        let mut reports = Vec::new();
        let deadline = Instant::now() + TEST_TIMEOUT;
        while reports.len() < 2 && Instant::now() < deadline {
            reports.extend(shell.receive().unwrap());
        }
        assert!(
            matches!(&reports[..], [Report::Ready, Report::Done(done)] if done.status == 7 && done.how == CommandEnd::Normal),
            "{driver:?} {reports:?}"
        );
        drop(crate::sys::send_signal(shell.pid(), libc::SIGKILL));
        rustix::process::waitpid(Some(shell.pid()), rustix::process::WaitOptions::empty()).unwrap();
    }
}

#[test]
fn a_failing_start_is_visible() {
    let directory = tempfile::tempdir().unwrap();
    let started = crate::shell::Shell::start(&crate::shell::ShellConfig {
        driver: Driver::Loaded,
        bash: Path::new("/nonexistent/bash"),
        env: &[],
        cwd: directory.path(),
        setup: &crate::spawn::ProcessSetup::default(),
    });
    assert_eq!(started.unwrap_err().kind(), std::io::ErrorKind::NotFound);
}
