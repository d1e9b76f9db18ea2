//! The kill matrix: everything that a command may start, by every means that ends a command, with and
//! without each kind of cgroup. Afterwards no process of it is left, and no other process was affected.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use sandcrab_engine::{
    CgroupUse, CommandSpec, EndReason, Execution, ExecutionId, KillReceipt, Session, SessionSpec,
};

use crate::support::{BOTH, Place, Scene, Seen, Stranger, eventually, process_of, running_in, working_in};

/// A grace period that no test waits for.
const LONG_GRACE: Duration = Duration::from_secs(120);

/// What a command starts. Everything ends by itself after a minute at the latest.
#[derive(Debug, Clone, Copy)]
struct Case {
    text: &'static str,
    /// How many `sleep` there are when it is ready.
    sleeps: usize,
    /// Whether its processes stay the same until they are killed.
    stable: bool,
}

const PLAIN: Case = Case { text: "sleep 60; touch went_on", sleeps: 1, stable: true };
const TREE: Case = Case {
    text: "sleep 60 & (sleep 60 & sleep 60 | sleep 60 & wait) & sh -c 'sleep 60 & sleep 60; :' &
           sleep 60; touch went_on",
    sleeps: 7,
    stable: true,
};
const SETSID: Case = Case { text: "setsid sleep 60 & sleep 60; touch went_on", sleeps: 2, stable: true };
const DOUBLE_FORK: Case =
    Case { text: "( ( sleep 60 & ) & ); sleep 60; touch went_on", sleeps: 2, stable: true };
const SETSID_DOUBLE_FORK: Case = Case {
    text: "setsid sh -c '( setsid sleep 60 & ) &' & sleep 60; touch went_on",
    sleeps: 2,
    stable: true,
};
const PARENT_GONE: Case = Case {
    text: "setsid bash -c 'sleep 60 & setsid sleep 60 & exec true'; sleep 60; touch went_on",
    sleeps: 3,
    stable: true,
};
const IGNORES_TERM: Case = Case {
    text: "(trap '' HUP INT TERM; sleep 60 & sleep 60) & sleep 60; touch went_on",
    sleeps: 3,
    stable: true,
};
const NOHUP_DISOWN: Case = Case {
    text: "nohup sleep 60 >/dev/null 2>&1 & disown; sleep 60; touch went_on",
    sleeps: 2,
    stable: true,
};
const ENV_WIPED: Case =
    Case { text: "env -i setsid sleep 60 & sleep 60; touch went_on", sleeps: 2, stable: true };
const STORM: Case = Case {
    text: "for i in {1..150}; do sleep 60 & setsid sleep 60 & done; wait; touch went_on",
    sleeps: 300,
    stable: true,
};
/// Three daemons that start a new child for each that ends, 200 times at most.
const RESPAWNER: Case = Case {
    text: "for i in 1 2 3; do setsid bash -c 'for i in {1..200}; do sleep 60; done' & done
           sleep 60; touch went_on",
    sleeps: 4,
    stable: false,
};
/// A process that lives for milliseconds and is followed by its child, 2000 times at most.
const FORK_CHAIN: Case = Case {
    text: "chain() { (( $1 )) || return; { sleep 0.003; chain $(($1 - 1)); } & }
           chain 2000; sleep 60; touch went_on",
    // Those of the chain are gone before they can be counted.
    sleeps: 1,
    stable: false,
};

/// What ends a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    Kill,
    Timeout,
    Interrupt,
    Delete,
}

/// How long what was asked to end has for it.
const GRACE: Duration = Duration::from_millis(150);
/// Long enough for most cases to be up; what a storm has started by then has to go too.
const TIMEOUT: Duration = Duration::from_millis(250);

/// The processes that must not be affected.
struct Neighbours {
    stranger: Stranger,
    execution: Execution,
    process: Seen,
}

impl Neighbours {
    async fn new(scene: &Scene) -> Self {
        let execution = scene.engine.start(CommandSpec::shell("sleep 1000; :")).await.unwrap();
        let process = process_of(&execution);
        Self { stranger: Stranger::new(), execution, process }
    }

    fn check(&self) {
        assert!(self.stranger.seen.is_alive(), "a stranger was killed");
        assert!(
            self.process.is_alive() && self.execution.status().end().is_none(),
            "another execution ended"
        );
    }
}

/// A session with state, and something that an earlier command has left running.
struct Earlier {
    session: Session,
    shell: u32,
    leftover: Seen,
}

impl Earlier {
    async fn new(scene: &Scene) -> Self {
        let session = scene.session().await;
        let text = "kept=yes; env -i setsid sleep 1000 >/dev/null 2>&1 & echo $$";
        let outcome = session.run(CommandSpec::shell(text)).await.unwrap();
        let [leftover] = outcome.end.leftovers.as_slice() else { panic!("{:?}", outcome.end) };
        let leftover = Seen::of(leftover.pid).unwrap();
        Self { session, shell: outcome.stdout().trim().parse().unwrap(), leftover }
    }

    async fn check(&self) {
        assert!(self.leftover.is_alive(), "what an earlier command left was killed");
        let outcome = self.session.run(CommandSpec::shell("echo $kept $$")).await.unwrap();
        assert_eq!(outcome.stdout(), format!("yes {}\n", self.shell), "{:?}", outcome.end);
    }
}

/// Everything of the command that is there, without the shell that runs it.
fn left_in(folder: &Path, shell: Option<u32>) -> Vec<Seen> {
    working_in(folder).into_iter().filter(|seen| Some(seen.pid) != shell).collect()
}

/// Checks that a receipt lists the processes that existed.
fn check_receipt(receipt: &KillReceipt, there: &[Seen]) {
    assert!(receipt.survivors.is_empty(), "{receipt:?}");
    let named: BTreeSet<_> = receipt.killed.iter().map(|killed| killed.pid).collect();
    let unnamed: Vec<_> = there.iter().filter(|seen| !named.contains(&seen.pid)).collect();
    assert!(unnamed.is_empty(), "not in the receipt: {unnamed:?} of {there:?}");
}

/// Starts the command, ends it, and looks at what is left.
async fn end_one(scene: &Scene, session: Option<&Earlier>, case: Case, means: Means, number: usize) {
    let folder = scene.folder(&number.to_string());
    let mut spec = CommandSpec::shell(case.text).cwd(&folder);
    if means == Means::Timeout {
        spec = spec.timeout(TIMEOUT);
    }
    let execution = match session {
        Some(earlier) => earlier.session.start(spec).await.unwrap(),
        None => scene.engine.start(spec).await.unwrap(),
    };
    let shell = session.map(|earlier| earlier.shell);
    let mut there = Vec::new();
    if means != Means::Timeout {
        eventually("the command is up", || {
            there = running_in(&folder, "sleep");
            there.len() >= case.sleeps
        })
        .await;
    }
    let receipt = match means {
        Means::Kill => Some(execution.kill(libc::SIGTERM, GRACE).await.unwrap()),
        Means::Interrupt => Some(session.unwrap().session.interrupt(libc::SIGINT, GRACE).await.unwrap()),
        Means::Delete => Some(session.unwrap().session.delete().await.unwrap()),
        Means::Timeout => None,
    };
    if let Some(receipt) = &receipt {
        check_receipt(receipt, if case.stable { &there } else { &[] });
        let left: Vec<_> = left_in(&folder, shell).into_iter().map(|seen| (seen, seen.name())).collect();
        assert!(left.is_empty(), "{means:?} left {left:?}");
    }
    let end = execution.wait().await.unwrap();
    let reason = match means {
        Means::Kill | Means::Interrupt => EndReason::Killed,
        Means::Timeout => EndReason::Timeout,
        Means::Delete => EndReason::SessionEnded,
    };
    assert_eq!((end.reason, end.leftovers.len()), (reason, 0), "{end:?}");
    // A deadline's end does not wait for the last of them to go.
    eventually("nothing is left", || left_in(&folder, shell).is_empty()).await;
    assert!(there.iter().all(|seen| !seen.is_alive()));
    assert!(!folder.join("went_on").exists(), "the command went on after {means:?}");
}

async fn in_runs(cgroups: CgroupUse, case: Case, repetitions: usize) {
    let scene = Scene::open_with(|config| config.cgroups = cgroups).await;
    let neighbours = Neighbours::new(&scene).await;
    for number in 0..repetitions {
        let means = [Means::Kill, Means::Timeout][number % 2];
        end_one(&scene, None, case, means, number).await;
        neighbours.check();
    }
    neighbours.execution.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
}

async fn in_sessions(cgroups: CgroupUse, case: Case, repetitions: usize) {
    let scene = Scene::open_with(|config| config.cgroups = cgroups).await;
    let neighbours = Neighbours::new(&scene).await;
    let mut earlier = Earlier::new(&scene).await;
    for number in 0..repetitions {
        let means = [Means::Kill, Means::Timeout, Means::Interrupt, Means::Delete][number % 4];
        end_one(&scene, Some(&earlier), case, means, number).await;
        neighbours.check();
        if means == Means::Delete {
            assert!(!earlier.leftover.is_alive(), "a leftover outlived its session");
            earlier = Earlier::new(&scene).await;
        } else {
            earlier.check().await;
        }
    }
    earlier.session.delete().await.unwrap();
    neighbours.execution.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
}

/// Every case in one way of using cgroups: once by every means, and two hundred times when soaking.
macro_rules! matrix {
    ($module:ident, $kind:ident, $cgroups:ident, $once:literal: $($name:ident, $soak:ident, $case:ident;)*) => {
        mod $module {
            use super::*;
            $(
                #[tokio::test]
                async fn $name() {
                    $kind(CgroupUse::$cgroups, $case, $once).await;
                }

                #[tokio::test]
                async fn $soak() {
                    $kind(CgroupUse::$cgroups, $case, 200).await;
                }
            )*
        }
    };
}

macro_rules! matrices {
    ($($module:ident, $kind:ident, $cgroups:ident, $once:literal;)*) => {
        $(matrix! { $module, $kind, $cgroups, $once:
            plain, soak_plain, PLAIN;
            tree, soak_tree, TREE;
            setsid, soak_setsid, SETSID;
            double_fork, soak_double_fork, DOUBLE_FORK;
            setsid_and_double_fork, soak_setsid_and_double_fork, SETSID_DOUBLE_FORK;
            the_parent_is_gone, soak_the_parent_is_gone, PARENT_GONE;
            ignores_sigterm, soak_ignores_sigterm, IGNORES_TERM;
            nohup_and_disown, soak_nohup_and_disown, NOHUP_DISOWN;
            env_wiped, soak_env_wiped, ENV_WIPED;
            a_storm_of_300, soak_a_storm_of_300, STORM;
            a_respawner, soak_a_respawner, RESPAWNER;
            a_fork_chain, soak_a_fork_chain, FORK_CHAIN;
        })*
    };
}

matrices! {
    runs_without_cgroups, in_runs, Off, 2;
    runs_with_v1, in_runs, V1, 2;
    runs_with_v2, in_runs, V2, 2;
    sessions_without_cgroups, in_sessions, Off, 4;
    sessions_with_v1, in_sessions, V1, 4;
    sessions_with_v2, in_sessions, V2, 4;
}

#[tokio::test]
async fn kill_of_an_ended_command_does_nothing() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let running = scene.start(kind, CommandSpec::shell("true")).await;
        running.execution.wait().await.unwrap();
        let receipt = running.execution.kill(libc::SIGTERM, GRACE).await.unwrap();
        assert_eq!(receipt, KillReceipt::default());
        running.close().await;
    }
}

#[tokio::test]
async fn kill_with_a_grace_period_lets_a_program_clean_up() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let folder = scene.folder(&format!("{kind:?}"));
        let text = "bash -c 'trap \"echo tidy; exit 0\" TERM; touch up; while :; do sleep 0.01; done'";
        let running = scene.start(kind, CommandSpec::shell(text).cwd(&folder)).await;
        eventually("its trap is set", || folder.join("up").exists()).await;
        let receipt = running.execution.kill(libc::SIGTERM, Duration::from_secs(10)).await.unwrap();
        assert!(receipt.survivors.is_empty() && !receipt.killed.is_empty());
        assert!(receipt.killed.iter().all(|killed| killed.signal == libc::SIGTERM), "{receipt:?}");
        assert!(running.execution.output(100).unwrap().stdout.bytes.starts_with(b"tidy"), "{kind:?}");
        running.close().await;
    }
}

#[tokio::test]
async fn a_queued_command_is_killed_without_running() {
    let scene = Scene::open().await;
    let folder = scene.folder("work");
    let session = scene.session().await;
    let first = session.start(CommandSpec::shell("sleep 60")).await.unwrap();
    let second = session.start(CommandSpec::shell("touch ran").cwd(&folder)).await.unwrap();
    assert_eq!(second.kill(libc::SIGTERM, GRACE).await.unwrap(), KillReceipt::default());
    assert_eq!(second.wait().await.unwrap().reason, EndReason::Killed);
    assert!(first.status().end().is_none());
    first.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
    assert_eq!(session.run(CommandSpec::shell("echo next")).await.unwrap().stdout(), "next\n");
    assert!(!folder.join("ran").exists());
    session.delete().await.unwrap();
}

/// The shell may start a process after everything that was there is gone.
#[tokio::test]
async fn kill_before_the_first_process() {
    let scene = Scene::open().await;
    let earlier = Earlier::new(&scene).await;
    for number in 0..30 {
        let folder = scene.folder(&number.to_string());
        let execution = earlier.session.start(CommandSpec::shell("sleep 300").cwd(&folder)).await.unwrap();
        execution.wait_started().await.unwrap();
        let signal = [libc::SIGTERM, libc::SIGINT, libc::SIGKILL][number % 3];
        let receipt = execution.kill(signal, LONG_GRACE).await.unwrap();
        assert!(receipt.survivors.is_empty());
        let end = execution.wait().await.unwrap();
        assert!(end.usage.wall < LONG_GRACE / 2, "{end:?}");
        assert_eq!(left_in(&folder, Some(earlier.shell)), []);
    }
    earlier.check().await;
    earlier.session.delete().await.unwrap();
}

/// A process that was started from a session gets every signal from the moment its start is answered, also while its shell
/// was still coming to the session's state a moment ago.
#[tokio::test]
async fn a_process_of_a_session_gets_the_first_signal() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    let state = "for i in {1..300}; do eval \"f$i() { echo $i; }; v$i=$i\"; done";
    session.run(CommandSpec::shell(state)).await.unwrap();
    for round in 0..20 {
        for text in ["while :; do :; done", "sleep 300; sleep 300"] {
            let process = session.start_process(CommandSpec::shell(text).background()).await.unwrap();
            let begun = std::time::Instant::now();
            if round % 2 == 0 {
                process.kill(15, LONG_GRACE).await.unwrap();
            } else {
                process.signal(15).await.unwrap();
            }
            let end = process.wait().await.unwrap();
            assert!(begun.elapsed() < LONG_GRACE / 2, "{text}: {:?}", begun.elapsed());
            assert_eq!(end.exit_code, Some(143), "{text}: {end:?}");
        }
    }
    session.delete().await.unwrap();
}

/// One whose shell has not come to the session's state yet is ended at once, and its start says so.
#[tokio::test]
async fn a_process_of_a_session_is_ended_before_it_starts() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    // Takes a second or so to come back to.
    session.run(CommandSpec::shell("a=({1..400000})")).await.unwrap();
    let mut spec = CommandSpec::shell("echo no; sleep 300").background();
    spec.id = Some(crate::support::id("early"));
    let starting = {
        let session = session.clone();
        tokio::spawn(async move { session.start_process(spec).await })
    };
    let mut found = None;
    eventually("it is known", || {
        found = scene.engine.execution(&crate::support::id("early"));
        found.is_some()
    })
    .await;
    let process = found.unwrap();
    let begun = std::time::Instant::now();
    process.kill(15, LONG_GRACE).await.unwrap();
    let end = process.wait().await.unwrap();
    assert!(begun.elapsed() < LONG_GRACE / 2, "{:?}", begun.elapsed());
    assert_eq!((end.reason, end.exit_code), (EndReason::Killed, Some(143)), "{end:?}");
    drop(starting.await.unwrap());
    session.delete().await.unwrap();
}

/// A command that a session's shell runs itself, without a process of its own, gets signals too.
#[tokio::test]
async fn a_signal_reaches_a_command_without_a_process() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    let shell = session.run(CommandSpec::shell("echo $$")).await.unwrap().stdout();
    let up = |execution: &Execution| execution.output(100).unwrap().stdout.bytes.starts_with(b"up");
    let loops = session.start(CommandSpec::shell("echo up; while :; do :; done")).await.unwrap();
    eventually("it runs", || up(&loops)).await;
    loops.signal(15).await.unwrap();
    let end = loops.wait().await.unwrap();
    assert_eq!((end.reason, end.exit_code), (EndReason::Signaled, Some(143)), "{end:?}");
    let text = "trap 'echo got; stop=1' USR1; echo up; until [[ $stop ]]; do :; done; trap - USR1";
    let traps = session.start(CommandSpec::shell(text)).await.unwrap();
    eventually("it runs", || up(&traps)).await;
    traps.signal(libc::SIGUSR1).await.unwrap();
    assert_eq!(traps.wait().await.unwrap().exit_code, Some(0));
    assert_eq!(traps.output(100).unwrap().stdout.bytes, b"up\ngot\n");
    assert_eq!(session.run(CommandSpec::shell("echo $$")).await.unwrap().stdout(), shell);
    session.delete().await.unwrap();
}

/// A client may choose the id, and kill before its start has been answered: from the moment at which the id is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_right_after_the_id_is_known_ends_the_command() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    for i in 0..400 {
        let id: ExecutionId = format!("early-{i}").parse().unwrap();
        let (engine, wanted) = (engine.clone(), id.clone());
        let killer = tokio::task::spawn_blocking(move || {
            loop {
                if let Some(execution) = engine.execution(&wanted) {
                    return execution;
                }
                std::hint::spin_loop();
            }
        });
        let killed =
            tokio::spawn(async move { killer.await.unwrap().kill(15, Duration::from_secs(5)).await });
        let run = session.run(CommandSpec::shell("sleep 60").id(id));
        let outcome = tokio::time::timeout(Duration::from_secs(20), run).await;
        let outcome = outcome.unwrap_or_else(|_| panic!("the kill of command {i} was lost")).unwrap();
        assert_eq!(outcome.end.reason, EndReason::Killed, "{i}");
        killed.await.unwrap().unwrap();
    }
}
