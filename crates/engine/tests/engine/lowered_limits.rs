//! Commands that lower resource limits of processes that are not theirs, as any process may do to those of its own user.

use std::time::Duration;

use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use sandcrab_engine::{CommandSpec, EndReason, Engine, SessionSpec, StartError, StateSource};

use crate::support::{Place, Seen, descendants, eventually, id, process_of, supervisor_of, with_argument};

/// Runs a test in which no process but this one may raise a hard limit, as none of an ordinary user may.
fn without_privileges(test: impl AsyncFnOnce()) {
    // Of this thread and those that it starts; programs that they execute do not get it back. Other users do not have it.
    if rustix::process::geteuid().is_root() {
        remove_capability_from_bounding_set(CapabilitySet::SYS_RESOURCE).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test());
}

/// Prints all limits but the one that holds the tag of the command.
const LIMITS: &str = "ulimit -a | grep -v real-time.non-blocking; ulimit -aH";

/// Lowers limits of these processes.
fn lower(limits: &str, pids: &str) -> CommandSpec {
    CommandSpec::shell(format!("for p in {pids}; do prlimit --pid $p {limits} || exit 9; done; echo lowered"))
}

/// Lowers limits of a process that may have made way for another.
fn lower_from_outside(limits: &str, pid: &str) {
    let mut prlimit = std::process::Command::new("prlimit");
    prlimit.args(["--pid", pid]).args(limits.split(' ')).status().unwrap();
}

/// The processes that an engine keeps ready: supervisors, and shells that have run nothing.
fn ready_processes(place: &Place) -> String {
    let supervisors = place.supervisors();
    let shells = supervisors.iter().flat_map(|seen| descendants(seen.pid));
    let pids = supervisors.iter().map(|seen| seen.pid).chain(shells);
    pids.map(|pid| pid.to_string()).collect::<Vec<_>>().join(" ")
}

async fn ready(place: &Place) -> Engine {
    let engine = place.open_with(|config| config.ready_shells = 2).await;
    eventually("supervisors are ready", || engine.health().ready == 2).await;
    engine
}

async fn prints(engine: &Engine, text: &str) -> String {
    let outcome = engine.run(CommandSpec::shell(text)).await.unwrap();
    assert_eq!(outcome.exit_code(), 0, "{:?} {}", outcome.end, outcome.stderr());
    outcome.stdout()
}

/// What is kept ready for commands: each of them, whichever limit was lowered, is put right or replaced.
#[test]
fn later_commands_are_not_affected() {
    without_privileges(async || {
        let place = Place::new();
        let engine = ready(&place).await;
        let own = format!("{LIMITS}; echo hi | cat");
        let own = own.as_str();
        let before = prints(&engine, own).await;
        for limits in [
            "--nofile=77",
            "--fsize=1",
            "--nproc=1",
            "--stack=200000",
            "--nofile=9:",
            "--core=0 --data=4000000",
        ] {
            eventually("supervisors are ready", || engine.health().ready == 2).await;
            let all = ready_processes(&place);
            // From outside, so that no supervisor is lowered before its command has run.
            all.split(' ').for_each(|pid| lower_from_outside(limits, pid));
            for _ in 0..4 {
                assert_eq!(prints(&engine, own).await, before, "{limits}");
            }
            // A session that is made now has none of it either.
            let session = engine.create_session(SessionSpec::new()).await.unwrap();
            let outcome = session.run(CommandSpec::shell(own)).await.unwrap();
            assert_eq!(outcome.stdout(), before, "{limits}");
            session.delete().await.unwrap();
        }
        assert!(engine.health().problems.iter().any(|problem| problem.code == "supervisors_lost"));
    });
}

/// The shells that commands are forked from, and nothing else.
#[test]
fn templates_whose_limits_were_lowered_are_replaced() {
    without_privileges(async || {
        let place = Place::new();
        let engine = ready(&place).await;
        for limits in ["--nofile=77", "--nofile=3", "--rttime=5", "--as=1000"] {
            eventually("supervisors are ready", || engine.health().ready == 2).await;
            let shells: Vec<_> = place.supervisors().iter().flat_map(|seen| descendants(seen.pid)).collect();
            shells.iter().for_each(|pid| lower_from_outside(limits, &pid.to_string()));
            for _ in 0..4 {
                assert_eq!(prints(&engine, "echo hi | cat").await, "hi\n", "{limits}");
            }
        }
        assert_eq!(engine.health().lost_supervisors, 0);
    });
}

/// The variables need a memory file, for which the supervisor has no descriptor.
#[test]
fn variables_that_cannot_be_handed_over_do_not_end_the_shell() {
    without_privileges(async || {
        let place = Place::new();
        let engine = ready(&place).await;
        let session = engine.create_session(SessionSpec::new()).await.unwrap();
        let says = async |text: &str| {
            let outcome = session.run(CommandSpec::shell(text)).await.unwrap();
            (outcome.stdout(), outcome.end.restored_from)
        };
        let running = session.start(CommandSpec::shell("kept=1; shell=$$; read -r < <(:)")).await.unwrap();
        let supervisor = supervisor_of(&running).pid.to_string();
        running.wait().await.unwrap();
        let large = |name: &str| [(name.into(), Some("x".repeat(100_000).into()))];
        lower_from_outside("--nofile=10:", &supervisor);
        session.set_env(&large("first")).await.unwrap();
        let text = "echo $kept ${#first}; [ $shell = $$ ] && echo same";
        assert_eq!(says(text).await, ("1 100000\nsame\n".into(), None));
        // A hard limit cannot be restored: another supervisor gets the saved state.
        session.fork(None).await.unwrap();
        lower_from_outside("--nofile=10", &supervisor);
        session.set_env(&large("second")).await.unwrap();
        let (said, _) = says("echo $kept ${#first} ${#second}").await;
        assert_eq!(said, "1 100000 100000\n");
    });
}

#[test]
fn output_that_cannot_be_recorded_is_not_lost_silently() {
    without_privileges(async || {
        let place = Place::new();
        let engine = ready(&place).await;
        let session = engine.create_session(SessionSpec::new()).await.unwrap();
        let text = "prlimit --pid $PPID --fsize=1; echo 12345; echo 678 >&2; exit 3";
        for outcome in [
            engine.run(CommandSpec::shell(text)).await.unwrap(),
            session.run(CommandSpec::shell(text)).await.unwrap(),
        ] {
            assert_eq!((outcome.end.reason, outcome.exit_code()), (EndReason::Exited, 3));
            let (stdout, stderr) = (&outcome.output.stdout, &outcome.output.stderr);
            assert_eq!((stdout.bytes.len(), stdout.omitted), (0, 6), "{stdout:?}");
            assert_eq!((stderr.bytes.len(), stderr.omitted), (0, 4), "{stderr:?}");
        }
        let health = engine.health();
        assert!(health.lost_supervisors >= 2, "{health:?}");
        drop((session, engine));
        eventually("the engine is closed", || place.zygotes().is_empty()).await;
        // The end is on disk.
        let engine = place.open().await;
        for execution in engine.executions() {
            let status = execution.status();
            let end = status.end().unwrap();
            assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(3)));
            assert_eq!(execution.output(100).unwrap().stdout.omitted, 6);
        }
    });
}

/// A supervisor without memory may crash, and cannot get any again. Its command then has an end that says so, nothing
/// of it stays, and later commands and the session are not affected.
#[test]
fn supervisor_out_of_memory_leaves_an_end() {
    without_privileges(async || {
        let place = Place::new();
        let engine = ready(&place).await;
        for limit in ["--data=0", "--as=0", "--stack=0"] {
            let lost_before = engine.health().lost_supervisors;
            let text = format!(
                "prlimit --pid $PPID {limit}; head -c 3000000 /dev/zero; \
                 for i in {{1..50}}; do echo $i >&2; done; exit 3"
            );
            let session = engine.create_session(SessionSpec::new()).await.unwrap();
            let started = [
                engine.start(CommandSpec::shell(text.as_str())).await,
                session.start(CommandSpec::shell(text.as_str())).await,
            ];
            for started in started {
                let ended = match &started {
                    Ok(execution) => Some((execution, execution.wait().await.unwrap())),
                    // The supervisor died before it reported the start.
                    Err(StartError::Lost) => None,
                    Err(e) => panic!("{limit}: {e}"),
                };
                match ended {
                    Some((execution, end)) if end.reason != EndReason::Lost => {
                        assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(3)), "{limit}");
                        let output = execution.output(5_000_000).unwrap();
                        assert_eq!(output.stdout.bytes.len(), 3_000_000, "{limit}");
                    }
                    _ => {
                        assert!(engine.health().lost_supervisors > lost_before, "{limit}");
                        eventually("nothing of it is left", || with_argument("3000000").is_empty()).await;
                    }
                }
            }
            assert_eq!(prints(&engine, "echo hi | cat").await, "hi\n", "{limit}");
            let outcome = session.run(CommandSpec::shell("echo on")).await.unwrap();
            assert_eq!(outcome.stdout(), "on\n", "{limit}");
            session.delete().await.unwrap();
        }
        drop(engine);
        // The ends are on disk.
        let engine = place.open().await;
        assert!(engine.executions().iter().all(|execution| execution.status().end().is_some()));
    });
}

#[test]
fn unrecorded_end_is_reported_to_the_next_engine() {
    without_privileges(async || {
        let place = Place::new();
        let engine = ready(&place).await;
        let gate = place.file("gate");
        assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
        let text =
            format!("prlimit --pid $PPID --fsize=1; read line < {}; echo 12345; exit 3", gate.display());
        let execution = engine.start(CommandSpec::shell(text).id(id("told"))).await.unwrap();
        let (shell, supervisor) = (process_of(&execution), supervisor_of(&execution));
        let is_lowered = || limit_of(supervisor, "Max file size") == "1";
        eventually("its limit is lowered", is_lowered).await;
        drop((execution, engine));
        eventually("the engine is closed", || place.zygotes().is_empty()).await;
        std::fs::write(&gate, "go\n").unwrap();
        eventually("the command is over", || !shell.is_alive()).await;
        let engine = place.open().await;
        let execution = engine.execution(&id("told")).unwrap();
        let end = execution.wait().await.unwrap();
        assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(3)));
        assert_eq!(execution.output(100).unwrap().stdout.omitted, 6);
        eventually("its supervisor is gone", || !supervisor.is_alive()).await;
    });
}

#[test]
fn end_that_the_engine_could_not_record_is_recorded_later() {
    without_privileges(async || {
        let place = Place::new();
        let engine = ready(&place).await;
        let gate = place.file("gate");
        assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
        let text =
            format!("prlimit --pid $PPID --fsize=1; read line < {}; echo 12345; exit 3", gate.display());
        let execution = engine.start(CommandSpec::shell(text).id(id("recorded-later"))).await.unwrap();
        let supervisor = supervisor_of(&execution);
        eventually("its limit is lowered", || limit_of(supervisor, "Max file size") == "1").await;
        let journal = journal_of(&place, "recorded-later");
        let aside = place.file("aside");
        std::fs::rename(&journal, &aside).unwrap();
        std::fs::write(&gate, "go\n").unwrap();
        assert_eq!(execution.wait().await.unwrap().exit_code, Some(3));
        std::fs::rename(&aside, &journal).unwrap();
        eventually("its supervisor is gone", || !supervisor.is_alive()).await;
        drop((execution, engine));
        eventually("the engine is closed", || place.zygotes().is_empty()).await;
        let engine = place.open().await;
        let execution = engine.execution(&id("recorded-later")).unwrap();
        let end = execution.wait().await.unwrap();
        assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(3)));
    });
}

/// The file that the journal of an execution is in.
fn journal_of(place: &Place, id: &str) -> std::path::PathBuf {
    let files = std::fs::read_dir(place.state().join("journals")).unwrap();
    let holds = |path: &std::path::PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(id.len()).any(|part| part == id.as_bytes())
    };
    files.map(|file| file.unwrap().path()).find(holds).unwrap()
}

/// A soft limit of a process, as the kernel shows it.
fn limit_of(process: Seen, name: &str) -> String {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.pid)).unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
    line.split_ascii_whitespace().next().unwrap_or_default().to_owned()
}

#[test]
fn a_session_gets_another_supervisor_and_keeps_its_state() {
    without_privileges(async || {
        let place = Place::new();
        let engine = ready(&place).await;
        for limits in ["--nofile=4 --fsize=1", "--fsize=1", "--nproc=1"] {
            let session = engine.create_session(SessionSpec::new()).await.unwrap();
            session.run(CommandSpec::shell("v=early")).await.unwrap();
            // The state has been saved once before.
            eventually("it is saved", || place.count("snapshots") > 0).await;
            let before = engine.health().lost_supervisors;
            session.run(lower(limits, "$PPID")).await.unwrap();
            let next = session.run(CommandSpec::shell("echo $v; v=late")).await.unwrap();
            assert_eq!((next.stdout().as_str(), next.exit_code()), ("early\n", 0), "{limits} {:?}", next.end);
            assert_eq!(next.end.restored_from, Some(StateSource::Snapshot), "{limits}");
            assert!(engine.health().lost_supervisors > before, "{limits}");
            let last = session.run(CommandSpec::shell("echo $v; ulimit -f")).await.unwrap();
            assert_eq!(last.stdout(), "late\nunlimited\n");
            session.delete().await.unwrap();
        }
    });
}

#[test]
fn supervisor_without_descriptors_keeps_its_deadline() {
    without_privileges(async || {
        let place = Place::new();
        let engine = ready(&place).await;
        let session = engine.create_session(SessionSpec::new()).await.unwrap();
        for in_session in [false, true] {
            let seconds = format!("300.{}{}", std::process::id(), u32::from(in_session));
            let text = format!("prlimit --pid $PPID --nofile=4; setsid sleep {seconds} & sleep {seconds}");
            let mut spec = CommandSpec::shell(text).timeout(Duration::from_millis(500));
            spec.timeout_grace = Duration::ZERO;
            let execution = match in_session {
                true => session.start(spec).await.unwrap(),
                false => engine.start(spec).await.unwrap(),
            };
            let end = execution.wait().await.unwrap();
            assert_eq!(end.reason, EndReason::Lost);
            assert_eq!(with_argument(&seconds), []);
        }
        assert_eq!(session.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
        assert_eq!(prints(&engine, "echo on").await, "on\n");
    });
}

#[test]
fn a_zygote_whose_limits_were_lowered_is_replaced() {
    without_privileges(async || {
        let place = Place::new();
        let engine = place.open_with(|config| config.ready_shells = 0).await;
        let before = prints(&engine, LIMITS).await;
        let zygotes = place.zygotes();
        let lowered =
            engine.run(lower("--nofile=40 --stack=200000", &zygotes[0].pid.to_string())).await.unwrap();
        assert_eq!(lowered.stdout(), "lowered\n");
        for _ in 0..3 {
            assert_eq!(prints(&engine, LIMITS).await, before);
        }
    });
}
