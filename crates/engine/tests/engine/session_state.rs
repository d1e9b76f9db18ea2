//! What a session has after its shell has ended, and what forks of it and processes start from.

use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sandcrab_engine::{CommandSpec, Engine, Outcome, Session, SessionSpec, ShellDriver, StateSource, Stdin};

use crate::support::{Place, Scene, Seen, TEST_TIMEOUT, eventually_async, eventually_blocking};

const DRIVERS: [ShellDriver; 2] = [ShellDriver::Auto, ShellDriver::Portable];

async fn run(session: &Session, text: &str) -> Outcome {
    session.run(CommandSpec::shell(text)).await.unwrap()
}

async fn said(session: &Session, text: &str) -> String {
    run(session, text).await.stdout()
}

/// Has the present state saved: a fork starts from it.
async fn save(session: &Session) {
    session.fork(None).await.unwrap().delete().await.unwrap();
}

async fn open(place: &Place, driver: ShellDriver) -> Engine {
    place.open_with(|config| config.shell_driver = driver).await
}

#[tokio::test]
async fn state_survives_a_command_that_ends_the_shell() {
    let place = Place::new();
    let engine = open(&place, ShellDriver::Auto).await;
    let endings = [
        ("set -e; false", 1),
        ("set -u; echo $nope", 1),
        ("echo ${q?m}", 1),
        ("echo 'exit 4' >$HOME/f.sh; . $HOME/f.sh", 4),
        ("f() { local v=2; exit 5; }; f", 5),
        ("trap 'echo bye' EXIT; exit 6", 6),
        ("exec true", 0),
        ("exec sh -c 'exit 7'", 7),
        ("exec nonexistent", 127),
        ("exec /etc/passwd", 126),
        ("set -e; eval ')'", 2),
    ];
    let home = tempfile::tempdir().unwrap();
    for (ending, status) in endings {
        let spec = SessionSpec::new().env("HOME", home.path());
        let session = engine.create_session(spec).await.unwrap();
        run(&session, "before=1; alias hi='echo hello'").await;
        let ended = run(&session, &format!("v=1; cd /usr; {ending}")).await;
        assert!(ended.end.shell_ended, "{ending}: {:?}", ended.end);
        assert_eq!(ended.end.exit_code, Some(status), "{ending}");
        let next = run(&session, "echo $? $before $v $PWD; hi; false; echo [$nope]").await;
        assert_eq!(next.stdout(), format!("{status} 1 1 /usr\nhello\n[]\n"), "{ending}: {}", next.stderr());
        assert_eq!(next.end.restored_from, Some(StateSource::Exit), "{ending}");
        assert!(next.end.restored.unwrap() < TEST_TIMEOUT, "{ending}: {:?}", next.end);
        assert_eq!(session.info().await.unwrap().restarts, 1, "{ending}");
        let later = run(&session, "true").await;
        assert_eq!((later.end.restored, later.end.restored_from), (None, None), "{ending}");
        session.delete().await.unwrap();
    }
}

/// Over the portable driver the process ends; what earlier commands have done is there.
#[tokio::test]
async fn portable_driver_keeps_the_state_of_completed_commands() {
    let place = Place::new();
    let engine = open(&place, ShellDriver::Portable).await;
    for ending in ["exit 3", "set -e; false", "exec true", "set -u; echo $nope", "echo ${q?m}", "kill -9 $$"]
    {
        let session = engine.create_session(SessionSpec::new()).await.unwrap();
        run(&session, "v=1; cd /usr").await;
        // At once: there is no time in which the state is not safe.
        let ended = run(&session, &format!("w=2; {ending}")).await;
        let next = run(&session, "echo $v $PWD").await;
        assert_eq!(next.stdout(), "1 /usr\n", "{ending}");
        if ended.end.shell_ended {
            assert_eq!(next.end.restored_from, Some(StateSource::Snapshot), "{ending}");
        }
        session.delete().await.unwrap();
    }
}

#[tokio::test]
async fn killed_shell_is_restored_from_its_saved_state() {
    for driver in DRIVERS {
        let place = Place::new();
        let engine = open(&place, driver).await;
        let session = engine.create_session(SessionSpec::new()).await.unwrap();
        run(&session, "v=1; cd /usr").await;
        save(&session).await;
        assert!(run(&session, "sleep 0.2; kill -9 $$").await.end.shell_ended);
        let next = run(&session, "echo $v $PWD").await;
        assert_eq!(next.stdout(), "1 /usr\n");
        assert_eq!(next.end.restored_from, Some(StateSource::Snapshot));
        assert!(next.end.restored.unwrap() >= Duration::from_millis(200), "{:?}", next.end);
        session.delete().await.unwrap();
    }
}

/// The state is in memory and on disk, so one more death must not lose it.
#[tokio::test]
async fn shell_killed_again_while_it_is_restored_keeps_its_state() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    // Many variables, so that restoring them takes longer than finding the shell that does it.
    let pids = said(&session, "x=5; for i in {1..10000}; do eval \"v$i=$i\"; done; echo $$ $PPID").await;
    let pids: Vec<u32> = pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    save(&session).await;
    let first = Seen::of(pids[0]).unwrap();
    first.kill();
    let children = format!("/proc/{0}/task/{0}/children", pids[1]);
    let next = || {
        let children = std::fs::read_to_string(&children).unwrap();
        let children = children.split_whitespace().filter_map(|pid| Seen::of(pid.parse().unwrap()));
        children.into_iter().find(|seen| *seen != first)
    };
    let mut second = None;
    eventually_blocking("another shell starts", || {
        second = next();
        second.is_some()
    });
    let second = second.unwrap();
    second.kill();
    eventually_blocking("it is dead", || !second.is_alive());
    let after = run(&session, "echo $x $v10000").await;
    assert_eq!(after.stdout(), "5 10000\n");
    assert!(after.end.restored.is_some(), "{:?}", after.end);
}

#[tokio::test]
async fn changes_are_saved_automatically() {
    let place = Place::new();
    let engine = open(&place, ShellDriver::Auto).await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    // Under steady use, so that it is never idle.
    let begun = Instant::now();
    let mut n = 0;
    while place.count("snapshots") == 0 {
        assert!(begun.elapsed() < TEST_TIMEOUT, "its state is not saved");
        n += 1;
        run(&session, &format!("n={n}")).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    run(&session, "kill -9 $$").await;
    let next = run(&session, "echo $n").await;
    let saved: u64 = next.stdout().trim().parse().unwrap();
    assert!((1..=n).contains(&saved), "{saved} of {n}");
    assert_eq!(next.end.restored_from, Some(StateSource::Snapshot));
    session.delete().await.unwrap();
}

/// Whatever snapshot is on its way, a fork has the state after the last command.
#[tokio::test]
async fn a_fork_has_the_state_after_the_last_command() {
    for driver in DRIVERS {
        let place = Place::new();
        let engine = open(&place, driver).await;
        let session = engine.create_session(SessionSpec::new()).await.unwrap();
        // So that a snapshot takes a while.
        run(&session, "printf -v large '%03000000d' 0").await;
        for (round, wait) in [0, 5, 990, 1010].into_iter().enumerate() {
            run(&session, &format!("x=old{round}")).await;
            tokio::time::sleep(Duration::from_millis(wait)).await;
            run(&session, &format!("x=new{round}")).await;
            let fork = session.fork(None).await.unwrap();
            let process = session.start_process(CommandSpec::shell("echo $x")).await.unwrap();
            assert_eq!(said(&fork, "echo $x").await, format!("new{round}\n"), "{driver:?} after {wait} ms");
            process.wait().await.unwrap();
            let output = process.output(100).unwrap();
            assert_eq!(output.stdout.bytes, format!("new{round}\n").as_bytes(), "{driver:?} after {wait} ms");
            fork.delete().await.unwrap();
        }
        session.delete().await.unwrap();
    }
}

#[tokio::test]
async fn forks_are_taken_in_the_order_of_the_queue() {
    for driver in DRIVERS {
        let place = Place::new();
        let engine = open(&place, driver).await;
        let session = engine.create_session(SessionSpec::new()).await.unwrap();
        let running = CommandSpec::shell("read -r line; x=1").stdin(Stdin::Open);
        let running = session.start(running).await.unwrap();
        let first = tokio::spawn({
            let session = session.clone();
            async move { session.fork(None).await.unwrap() }
        });
        let is_queued = async || session.info().await.unwrap().queued == 1;
        eventually_async("the fork is queued", is_queued).await;
        session.start(CommandSpec::shell("x=2")).await.unwrap();
        running.write_stdin("go\n").await.unwrap();
        let second = session.fork(None).await.unwrap();
        assert_eq!(said(&first.await.unwrap(), "echo $x").await, "1\n", "{driver:?}");
        assert_eq!(said(&second, "echo $x").await, "2\n", "{driver:?}");
    }
}

#[tokio::test]
async fn unavailable_state_is_an_error_instead_of_an_older_one() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    run(&session, "x=1").await;
    save(&session).await;
    // More than is kept of a shell's state.
    run(&session, "x=2; printf -v large %70000000s y").await;
    assert!(session.fork(None).await.is_err());
    assert_eq!(said(&session, "echo $x; unset large").await, "2\n");
    save(&session).await;
}

#[tokio::test]
async fn a_signal_to_the_shells_group_does_not_reach_the_fork_that_saves_its_state() {
    let scene = Scene::open().await;
    for round in 0..5 {
        let session = scene.session().await;
        run(&session, &format!("x={round}")).await;
        save(&session).await;
        assert!(run(&session, "kill -9 0").await.end.shell_ended);
        assert_eq!(said(&session, "echo $x").await, format!("{round}\n"));
        let begun = Instant::now();
        run(&session, "x=again").await;
        run(&session, "suspend -f").await;
        assert_eq!(said(&session, "echo $x").await, "again\n");
        assert!(begun.elapsed() < TEST_TIMEOUT, "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn stopped_fork_that_saves_the_state_is_continued() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    // Large enough for the fork to be there still when the next command looks for it.
    run(&session, "printf -v x '%030000000d' 0").await;
    let fork = tokio::spawn({
        let session = session.clone();
        async move { session.fork(None).await.unwrap() }
    });
    let text = "for p in $(</proc/$PPID/task/$PPID/children); do
        [ $p = $$ ] || { kill -STOP $p && echo stopped; }; done; kill -9 $$";
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(said(&session, text).await, "stopped\n");
    assert_eq!(said(&session, "echo ${#x}").await, "30000000\n");
    assert_eq!(said(&fork.await.unwrap(), "echo ${#x}").await, "30000000\n");
    assert!(begun.elapsed() < TEST_TIMEOUT, "{:?}", begun.elapsed());
}

/// Bash looks at some variables only when it starts.
#[tokio::test]
async fn a_session_starts_with_its_environment() {
    let scene = Scene::open().await;
    let spec = SessionSpec::new()
        .env("SHLVL", "5")
        .env("PPID", "1")
        .env("PWD", "/nonexistent")
        .env("SHELLOPTS", "noglob")
        .cwd("/usr");
    let session = scene.engine.create_session(spec).await.unwrap();
    let text = "echo $SHLVL $((PPID == 1)) $PWD *; cd /var; echo $PWD";
    assert_eq!(said(&session, text).await, "6 0 /usr *\n/var\n");
    session.delete().await.unwrap();
}

/// Nothing listens for a shell, so nothing can be connected to.
#[tokio::test]
async fn shells_of_sessions_do_not_listen_on_sockets() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    let text = "for p in $$ $PPID; do for f in /proc/$p/fd/*; do readlink $f; done; done |
        sed -n 's/socket:\\[\\(.*\\)\\]/\\1/p' | sort -u >$HOME/inodes
        awk 'NR == FNR {own[$1]; next} $7 in own && $8 ~ /^@/ {print}' $HOME/inodes /proc/net/unix; echo none";
    let home = tempfile::tempdir().unwrap();
    let spec = CommandSpec::shell(text).env("HOME", home.path());
    assert_eq!(session.run(spec).await.unwrap().stdout(), "none\n");
    session.delete().await.unwrap();
}

#[tokio::test]
async fn a_state_that_is_too_large_is_refused_with_the_remedy() {
    let place = Place::new();
    let engine = open(&place, ShellDriver::Auto).await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    run(&session, "small=1; printf -v large '%070000000d' 0").await;
    let refused = session.fork(None).await.unwrap_err().to_string();
    assert!(refused.contains("64 MiB") && refused.contains("unset large variables"), "{refused}");
    // A shell that does not die needs no saved state.
    assert_eq!(said(&session, "exit 3").await, "");
    assert_eq!(said(&session, "echo $small ${#large}; unset large").await, "1 70000000\n");
    assert_eq!(said(&session.fork(None).await.unwrap(), "echo $small").await, "1\n");
}

/// Also when they are restored: bash's recursion is as deep as a list of commands is long. With a small stack a few
/// thousand are as many as tens of thousands with the usual one.
#[tokio::test]
async fn thousands_of_variables_are_set_at_once() {
    let maximum = getrlimit(Resource::Stack).maximum;
    setrlimit(Resource::Stack, Rlimit { current: Some(512 << 10), maximum }).unwrap();
    // The portable driver takes long to print so many.
    for (driver, count) in DRIVERS.into_iter().zip([5000, 2000]) {
        let place = Place::new();
        let engine = open(&place, driver).await;
        let variables = |numbers: std::ops::Range<u32>| -> Vec<_> {
            let one = |number: u32| (format!("v{number}").into(), Some(number.to_string().into()));
            numbers.map(one).collect()
        };
        let spec = SessionSpec { env: variables(0..1000), ..SessionSpec::new() };
        let session = engine.create_session(spec).await.unwrap();
        session.set_env(&variables(1000..count)).await.unwrap();
        let last = count - 1;
        let text = format!("echo $v0 $v999 $v1000 $v{last}");
        let expected = format!("0 999 1000 {last}\n");
        let outcome = run(&session, &text).await;
        assert_eq!((outcome.stdout(), outcome.end.restored), (expected.clone(), None), "{driver:?}");
        let fork = session.fork(None).await.unwrap();
        assert_eq!(said(&fork, &text).await, expected, "{driver:?}: the fork");
        assert_eq!(said(&session, &format!("kill -9 $$; {text}")).await, "", "{driver:?}");
        assert_eq!(said(&session, &text).await, expected, "{driver:?}: the restored session");
    }
}
