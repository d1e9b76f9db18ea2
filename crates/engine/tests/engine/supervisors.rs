//! Supervisors, ready ones and the zygote are killed: what they held is lost or restored, nothing of
//! it goes on running, and the engine does.

use std::time::Duration;

use sandcrab_engine::{
    CgroupUse, CommandSpec, EndReason, Engine, SessionId, SessionSpec, StartError, Status, Stdin,
};

use crate::support::{
    Place, Seen, cpu_ticks, descendants, eventually, eventually_blocking, id, is_zombie, supervisor_of,
    with_argument,
};

/// A number of seconds for `sleep` that nothing else on this machine sleeps.
fn odd_seconds(place: &Place) -> String {
    let name = place.state();
    let sum: u64 = name.to_string_lossy().bytes().fold(7, |sum, b| (sum * 31 + u64::from(b)) % 1_000_000_007);
    format!("{}.{sum}", 300)
}

/// How many `sleep` sleep for so long.
fn sleeping(seconds: &str) -> usize {
    with_argument(seconds).iter().filter(|seen| seen.name() == "sleep").count()
}

async fn a_killed_supervisor_loses_its_run_and_nothing_else(cgroups: CgroupUse) {
    let place = Place::new();
    let engine = place.open_with(|config| config.cgroups = cgroups).await;
    let other = engine.start(CommandSpec::shell("sleep 60; echo other")).await.unwrap();
    let seconds = odd_seconds(&place);
    // An ordinary child, one in a session of its own, one whose parent is gone.
    let text =
        format!("sleep {seconds} & setsid sleep {seconds} & (setsid sleep {seconds} & ) ; echo before; wait");
    let execution = engine.start(CommandSpec::shell(text)).await.unwrap();
    let started = || sleeping(&seconds) == 3 && execution.output(100).unwrap().stdout.bytes == b"before\n";
    eventually("everything runs", started).await;
    supervisor_of(&execution).kill();
    let end = execution.wait().await.unwrap();
    assert_eq!((end.reason, end.exit_code), (EndReason::Lost, None));
    // All is gone when the end is there.
    assert_eq!(with_argument(&seconds), []);
    execution.wait_closed().await;
    assert_eq!(execution.output(100).unwrap().stdout.bytes, b"before\n");
    assert!(matches!(other.status(), Status::Running { .. }));
    assert_eq!(engine.health().running, 1);
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    other.kill(9, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn a_killed_supervisor_loses_its_run_without_cgroups() {
    a_killed_supervisor_loses_its_run_and_nothing_else(CgroupUse::Off).await;
}

#[tokio::test]
async fn a_killed_supervisor_loses_its_run_with_cgroups_v1() {
    a_killed_supervisor_loses_its_run_and_nothing_else(CgroupUse::V1).await;
}

#[tokio::test]
async fn a_killed_supervisor_loses_its_run_with_cgroups_v2() {
    a_killed_supervisor_loses_its_run_and_nothing_else(CgroupUse::V2).await;
}

/// Ways to lose the tag, and everything else that a process inherits and can change. `SLEEP` is what stays.
const SHED: [&str; 7] = [
    "(ulimit -SR 1000000; exec setsid SLEEP) &",
    "(ulimit -R 1000000; exec setsid env -i SLEEP) &",
    "(ulimit -R unlimited; setsid SLEEP & ) &",
    "(setsid bash -c 'ulimit -R 5; (SLEEP &); exit' & )",
    "setsid SLEEP & prlimit --pid $! --rttime=7:",
    "setsid env -i nohup bash -c 'ulimit -R 5; trap \"\" HUP TERM INT; SLEEP & disown; exit' 2>/dev/null & disown",
    // Where namespaces may be made; elsewhere it is one that is left in the usual way.
    "(unshare --pid --fork bash -c 'ulimit -R 5; SLEEP & wait' 2>/dev/null || SLEEP) &",
];

/// Starts what loses its tag; all of them run when this returns.
async fn shed(
    place: &Place,
    execution: impl AsyncFnOnce(CommandSpec) -> sandcrab_engine::Execution,
) -> String {
    let seconds = odd_seconds(place);
    let text = SHED.join("\n").replace("SLEEP", &format!("sleep {seconds}"));
    execution(CommandSpec::shell(format!("{text}\necho up; sleep {seconds}"))).await;
    let all = || sleeping(&seconds) == SHED.len() + 1;
    eventually("all run", all).await;
    seconds
}

#[tokio::test]
async fn what_has_lost_its_tag_goes_with_its_supervisor() {
    let place = Place::new();
    let engine = place.open_with(|config| config.cgroups = CgroupUse::Off).await;
    let other = engine.start(CommandSpec::shell("sleep 60")).await.unwrap();
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    for in_session in [false, true] {
        let mut execution = None;
        let seconds = shed(&place, async |spec| {
            let own = if in_session { session.start(spec).await } else { engine.start(spec).await };
            execution.insert(own.unwrap()).clone()
        })
        .await;
        let execution = execution.unwrap();
        supervisor_of(&execution).kill();
        assert_eq!(execution.wait().await.unwrap().reason, EndReason::Lost);
        // All is gone when the end is there.
        assert_eq!(with_argument(&seconds), [], "in a session: {in_session}");
    }
    assert!(matches!(other.status(), Status::Running { .. }), "another supervisor's");
    assert_eq!(session.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    session.delete().await.unwrap();
    other.kill(9, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn what_has_lost_its_tag_goes_with_its_supervisor_of_an_earlier_engine() {
    let place = Place::new();
    let engine = place.open_with(|config| config.cgroups = CgroupUse::Off).await;
    let seconds = shed(&place, async |spec| engine.start(spec.id(id("earlier"))).await.unwrap()).await;
    let other = engine.start(CommandSpec::shell("sleep 60").id(id("other"))).await.unwrap();
    drop((other, engine));
    eventually("the engine is closed", || place.zygotes().is_empty()).await;
    let engine = place.open_with(|config| config.cgroups = CgroupUse::Off).await;
    let execution = engine.execution(&id("earlier")).unwrap();
    supervisor_of(&execution).kill();
    assert_eq!(execution.wait().await.unwrap().reason, EndReason::Lost);
    assert_eq!(with_argument(&seconds), []);
    let other = engine.execution(&id("other")).unwrap();
    assert!(matches!(other.status(), Status::Running { .. }));
    // The same while there is no engine at all.
    let seconds = shed(&place, async |spec| engine.start(spec.id(id("alone"))).await.unwrap()).await;
    let supervisor = supervisor_of(&engine.execution(&id("alone")).unwrap());
    other.kill(9, Duration::ZERO).await.unwrap();
    drop((execution, other, engine));
    eventually("the engine is closed", || place.zygotes().is_empty()).await;
    supervisor.kill();
    eventually("all are gone", || with_argument(&seconds).is_empty()).await;
    eventually("and so is everything of ours", || place.own_processes().is_empty()).await;
}

/// The files in which a session's state is saved, with their times.
fn saved(place: &Place) -> Vec<std::time::SystemTime> {
    let entries = std::fs::read_dir(place.state().join("snapshots")).unwrap();
    entries.filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok()).collect()
}

async fn a_session_comes_back(cgroups: CgroupUse) {
    let place = Place::new();
    let engine = place.open_with(|config| config.cgroups = cgroups).await;
    let session = engine.create_session(SessionSpec::new().env("GIVEN", "g")).await.unwrap();
    let before = session.run(CommandSpec::shell("x=5; f() { echo f$1; }; cd /usr")).await.unwrap();
    assert_eq!(before.end.restored, None);
    eventually("its state is saved", || !saved(&place).is_empty()).await;
    let seconds = odd_seconds(&place);
    let left = session.start(CommandSpec::shell(format!("setsid sleep {seconds}"))).await.unwrap();
    let queued = session.start(CommandSpec::shell("echo never")).await.unwrap();
    eventually("it runs", || sleeping(&seconds) == 1).await;
    supervisor_of(&left).kill();
    for lost in [left, queued] {
        assert_eq!(lost.wait().await.unwrap().reason, EndReason::Lost);
    }
    assert_eq!(with_argument(&seconds), []);
    let text = "echo $x $PWD $GIVEN; f 1";
    let after = session.run(CommandSpec::shell(text)).await.unwrap();
    assert_eq!(after.stdout(), "5 /usr g\nf1\n");
    assert!(after.end.restored.is_some(), "{:?}", after.end);
    let later = session.run(CommandSpec::shell(text)).await.unwrap();
    assert_eq!((later.stdout().as_str(), later.end.restored), ("5 /usr g\nf1\n", None));
    assert_eq!(engine.health().running, 0);
}

#[tokio::test]
async fn a_session_comes_back_without_cgroups() {
    a_session_comes_back(CgroupUse::Off).await;
}

#[tokio::test]
async fn a_session_comes_back_with_cgroups_v1() {
    a_session_comes_back(CgroupUse::V1).await;
}

#[tokio::test]
async fn a_session_comes_back_with_cgroups_v2() {
    a_session_comes_back(CgroupUse::V2).await;
}

/// The supervisor of an idle session.
async fn supervisor_of_session(session: &sandcrab_engine::Session) -> Seen {
    let execution =
        session.start(CommandSpec::shell("read line").stdin(sandcrab_engine::Stdin::Open)).await.unwrap();
    execution.wait_started().await.unwrap();
    let supervisor = supervisor_of(&execution);
    execution.close_stdin().await.unwrap();
    execution.wait().await.unwrap();
    supervisor
}

#[tokio::test]
async fn a_session_whose_supervisor_is_killed_twice_keeps_its_state() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    session.run(CommandSpec::shell("x=5")).await.unwrap();
    let first = supervisor_of_session(&session).await;
    eventually("its state is saved", || !saved(&place).is_empty()).await;
    first.kill();
    eventually_blocking("it is dead", || !first.is_alive());
    // Brings the session back; the supervisor is killed again before it has run any command to its end.
    let second = session.start(CommandSpec::shell("sleep 60")).await.unwrap();
    second.wait_started().await.unwrap();
    supervisor_of(&second).kill();
    assert_eq!(second.wait().await.unwrap().reason, EndReason::Lost);
    let third = session.run(CommandSpec::shell("echo $x")).await.unwrap();
    assert_eq!(third.stdout(), "5\n");
    assert!(third.end.restored.is_some());
}

#[tokio::test]
async fn an_idle_session_whose_supervisor_is_killed_answers_at_once() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    for round in 0..5 {
        let supervisor = supervisor_of_session(&session).await;
        session.run(CommandSpec::shell(format!("x={round}"))).await.unwrap();
        supervisor.kill();
        eventually_blocking("it is dead", || !supervisor.is_alive());
        // The engine's tasks have had no chance to notice.
        let outcome = session.run(CommandSpec::shell("echo \"[$x]\"")).await.unwrap();
        assert!(outcome.end.restored.is_some(), "round {round}");
        assert_eq!(outcome.end.reason, EndReason::Exited);
    }
}

#[tokio::test]
async fn a_session_can_be_deleted_after_its_supervisor_was_killed() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    let supervisor = supervisor_of_session(&session).await;
    supervisor.kill();
    session.delete().await.unwrap();
    assert!(engine.sessions().is_empty());
    eventually("its socket is gone", || place.count("supervisors") <= 4).await;
}

async fn ready(place: &Place, engine: &Engine) -> Vec<Seen> {
    engine.run(CommandSpec::shell("true")).await.unwrap();
    eventually("four are ready", || place.supervisors().len() == 4 && place.count("supervisors") == 4).await;
    place.supervisors()
}

#[tokio::test]
async fn killed_ready_supervisors_are_not_used() {
    let place = Place::new();
    let engine = place.open().await;
    let ready = ready(&place, &engine).await;
    for seen in &ready {
        seen.kill();
    }
    eventually_blocking("they are dead", || !ready.iter().any(|seen| seen.is_alive()));
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    assert_eq!(session.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    session.delete().await.unwrap();
    eventually("their sockets are gone", || place.count("supervisors") == 4).await;
}

#[tokio::test]
async fn a_killed_zygote_is_started_again() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    let running = engine.start(CommandSpec::shell("read x; echo $x").stdin(sandcrab_engine::Stdin::Open));
    let running = running.await.unwrap();
    engine.set_env(&[("LATER".into(), Some("l".into()))]).await.unwrap();
    let zygotes = place.zygotes();
    assert_eq!(zygotes.len(), 1);
    zygotes[0].kill();
    eventually_blocking("it is dead", || !zygotes[0].is_alive());
    // What is there goes on, and more new work than there are ready supervisors gets one each.
    assert_eq!(session.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    for round in 0..10 {
        let outcome = engine.run(CommandSpec::shell(format!("echo {round} $LATER"))).await.unwrap();
        assert_eq!(outcome.stdout(), format!("{round} l\n"));
    }
    running.write_stdin("still\n").await.unwrap();
    running.wait().await.unwrap();
    assert_eq!(running.output(100).unwrap().stdout.bytes, b"still\n");
    assert_eq!(place.zygotes().len(), 1);
}

#[tokio::test]
async fn a_killed_zygote_is_started_again_for_new_settings() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    place.zygotes()[0].kill();
    engine.set_env(&[("NEW".into(), Some("n".into()))]).await.unwrap();
    assert_eq!(engine.run(CommandSpec::shell("echo $NEW")).await.unwrap().stdout(), "n\n");
}

#[tokio::test]
async fn a_supervisor_killed_while_it_starts_a_command_is_an_error_and_leaves_nothing() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    for _ in 0..10 {
        let task = {
            let engine = engine.clone();
            tokio::spawn(async move { engine.run(CommandSpec::argv(["true"])).await })
        };
        eventually("it is there or over", || task.is_finished() || !place.supervisors().is_empty()).await;
        place.supervisors().into_iter().for_each(Seen::kill);
        match task.await.unwrap() {
            Ok(outcome) => assert!(matches!(outcome.end.reason, EndReason::Exited | EndReason::Lost)),
            Err(StartError::Lost) => {}
            Err(e) => panic!("{e:?}"),
        }
    }
    eventually("nothing runs", || engine.health().running == 0).await;
    eventually("no socket is left", || place.count("supervisors") == 0).await;
}

#[tokio::test]
async fn a_command_that_stops_its_supervisor_keeps_its_deadline() {
    let place = Place::new();
    let engine = place.open().await;
    let spec = CommandSpec::shell("kill -STOP $PPID; echo on; sleep 60").timeout(Duration::from_secs(1));
    let outcome = engine.run(spec.clone()).await.unwrap();
    assert_eq!((outcome.end.reason, outcome.stdout().as_str()), (EndReason::Timeout, "on\n"));
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    let outcome = session.run(spec).await.unwrap();
    assert_eq!((outcome.end.reason, outcome.stdout().as_str()), (EndReason::Timeout, "on\n"));
    session.delete().await.unwrap();
}

/// Sends SIGSTOP to a process that the test has found itself.
fn stop(process: Seen) {
    let pid = rustix::process::Pid::from_raw(process.pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
}

/// As a command of another supervisor does with `kill -STOP -1`.
#[tokio::test]
async fn ready_shells_that_were_stopped_take_commands() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 1).await;
    engine.run(CommandSpec::shell(":")).await.unwrap();
    for _ in 0..10 {
        let shells = || place.supervisors().into_iter().flat_map(|supervisor| descendants(supervisor.pid));
        eventually("a shell is ready", || shells().any(|pid| !is_zombie(pid))).await;
        for pid in shells().filter_map(|pid| rustix::process::Pid::from_raw(pid.cast_signed())) {
            // It may be one that is about to end.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::STOP);
        }
        let run = engine.run(CommandSpec::shell("echo on"));
        let outcome = tokio::time::timeout(Duration::from_secs(20), run).await.expect("it hangs").unwrap();
        assert_eq!(outcome.stdout(), "on\n");
    }
}

#[tokio::test]
async fn a_stopped_zygote_goes_on() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    stop(place.zygotes()[0]);
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
}

#[tokio::test]
async fn supervisors_that_are_stopped_while_no_engine_is_there_are_adopted() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    session.run(CommandSpec::shell("v=kept")).await.unwrap();
    let id = session.id().clone();
    let supervisor = supervisor_of_session(&session).await;
    drop((session, engine));
    eventually("the engine is closed", || place.zygotes().is_empty()).await;
    stop(supervisor);
    let engine = place.open().await;
    let session = engine.session(&id).unwrap();
    assert_eq!(session.run(CommandSpec::shell("echo $v")).await.unwrap().stdout(), "kept\n");
    // Its parent is not our zygote, so it is a request without an answer that wakes it.
    stop(supervisor);
    let outcome = session.run(CommandSpec::shell("echo $v")).await.unwrap();
    assert_eq!((outcome.stdout().as_str(), outcome.end.restored), ("kept\n", None));
    stop(supervisor);
    session.delete().await.unwrap();
}

#[tokio::test]
async fn a_stranger_in_the_folder_of_supervisors_does_not_keep_an_engine_from_opening() {
    let place = Place::new();
    drop(place.open().await);
    let socket = place.state().join("supervisors/0000deadbeef");
    let _silent = std::os::unix::net::UnixListener::bind(socket).unwrap();
    let engine = place.open().await;
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
}

/// Greets an engine as a supervisor without work does, once, and says nothing more. As long as the connection is open,
/// it is not proved to be dead.
fn greet_once(listener: &std::os::unix::net::UnixListener) -> std::os::unix::net::UnixStream {
    use std::io::{Read, Write};
    let (mut engine, _) = listener.accept().unwrap();
    // The greeting that proves who connects has the number 0, and no answer.
    let mut number = Vec::new();
    while number.is_empty() {
        let mut length = [0; 4];
        engine.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_le_bytes(length) as usize];
        engine.read_exact(&mut frame).unwrap();
        // An array of two, whose first is a number of eight bytes.
        if frame[..2] == [0x82, 0x1b] {
            number = frame[1..10].to_vec();
        }
    }
    // `Welcome`: version 4, process 1, the role without work, no executions.
    let welcome = [&[0x82][..], &number, &[0x82, 0, 0x84, 4, 1, 0x82, 0, 0x80, 0x80]].concat();
    let length = u32::try_from(welcome.len()).unwrap().to_le_bytes();
    engine.write_all(&[&length[..], &welcome].concat()).unwrap();
    engine
}

#[tokio::test]
async fn a_supervisor_that_goes_silent_after_its_greeting_does_not_keep_an_engine_from_opening() {
    let place = Place::new();
    drop(place.open().await);
    let listener =
        std::os::unix::net::UnixListener::bind(place.state().join("supervisors/0000deadbeef")).unwrap();
    let greeted = std::thread::spawn(move || greet_once(&listener));
    let engine = tokio::time::timeout(Duration::from_secs(60), place.open()).await.unwrap();
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    drop(greeted.join().unwrap());
}

/// The sockets of the supervisors.
fn sockets(place: &Place) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(place.state().join("supervisors")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test]
async fn a_supervisor_that_a_stranger_has_connected_to_keeps_its_work() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    session.run(CommandSpec::shell("v=kept")).await.unwrap();
    let execution = session.start(CommandSpec::shell("sleep 60")).await.unwrap();
    execution.wait_started().await.unwrap();
    let supervisor = supervisor_of(&execution);
    let socket = sockets(&place)[0].clone();
    let mut held = Vec::new();
    for _ in 0..10 {
        let mut stranger = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        // A request to end everything, as a frame of the protocol.
        std::io::Write::write_all(&mut stranger, &[4, 0, 0, 0, 0x82, 1, 0x81, 9]).unwrap();
        held.push(stranger);
    }
    let before = cpu_ticks(supervisor.pid);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(cpu_ticks(supervisor.pid) - before < 10, "it spins");
    let receipt = execution.kill(9, Duration::ZERO).await.unwrap();
    assert_eq!((receipt.killed.is_empty(), receipt.survivors.len()), (false, 0));
    assert_eq!(execution.wait().await.unwrap().reason, EndReason::Killed);
    let outcome = session.run(CommandSpec::shell("echo $v")).await.unwrap();
    assert_eq!((outcome.stdout().as_str(), outcome.end.restored), ("kept\n", None));
    assert!(supervisor.is_alive());
    session.delete().await.unwrap();
    eventually("all are gone", || place.supervisors().is_empty()).await;
}

/// The descriptors of a process that are sockets.
fn sockets_of(process: Seen) -> usize {
    let files = std::fs::read_dir(format!("/proc/{}/fd", process.pid)).unwrap().flatten();
    let links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

#[tokio::test]
async fn strangers_do_not_keep_the_next_engine_from_its_supervisors() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    let session = engine.create_session(SessionSpec::new().id("kept".parse().unwrap())).await.unwrap();
    session.run(CommandSpec::shell("v=kept")).await.unwrap();
    let supervisor = supervisor_of_session(&session).await;
    let with_engine = sockets_of(supervisor);
    drop((session, engine));
    eventually("the engine is gone", || sockets_of(supervisor) < with_engine).await;
    let own = sockets_of(supervisor);
    let socket = sockets(&place)[0].clone();
    let connect = || std::os::unix::net::UnixStream::connect(&socket).unwrap();
    // Silent ones, one that says something else, one that begins and does not go on, one with another key.
    let mut strangers: Vec<_> = (0..100).map(|_| connect()).collect();
    let says: [&[u8]; 3] = [
        &[4, 0, 0, 0, 0x82, 1, 0x81, 9],
        &[200, 0, 0, 0, 0x82],
        &[8, 0, 0, 0, 0x82, 1, 0x82, 0, 0x82, 4, 0x41, 7],
    ];
    for bytes in says {
        let mut stranger = connect();
        std::io::Write::write_all(&mut stranger, bytes).unwrap();
        // It hears nothing, and is cut off.
        let mut heard = Vec::new();
        drop(std::io::Read::read_to_end(&mut stranger, &mut heard));
        assert_eq!(heard, []);
    }
    let before = cpu_ticks(supervisor.pid);
    eventually("it lets go of them", || sockets_of(supervisor) <= own).await;
    assert!(cpu_ticks(supervisor.pid) - before < 20, "it spins");
    strangers.extend((0..100).map(|_| connect()));
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    let session = engine.session(&"kept".parse().unwrap()).unwrap();
    let outcome = session.run(CommandSpec::shell("echo $v")).await.unwrap();
    assert_eq!((outcome.stdout().as_str(), outcome.end.restored), ("kept\n", None));
    assert!(supervisor.is_alive());
    session.delete().await.unwrap();
}

#[tokio::test]
async fn a_supervisor_that_takes_no_connection_yet_is_not_dead() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    let session = engine.create_session(SessionSpec::new().id("kept".parse().unwrap())).await.unwrap();
    session.run(CommandSpec::shell("v=kept")).await.unwrap();
    let supervisor = supervisor_of_session(&session).await;
    drop((session, engine));
    eventually("the engine is closed", || place.zygotes().is_empty()).await;
    stop(supervisor);
    // As many as it lets wait; the next is refused.
    let address = rustix::net::SocketAddrUnix::new(sockets(&place)[0].as_path()).unwrap();
    let mut waiting = Vec::new();
    loop {
        let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
        let (family, kind) = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM);
        let socket = rustix::net::socket_with(family, kind, flags, None).unwrap();
        match rustix::net::connect(&socket, &address) {
            Ok(()) => waiting.push(socket),
            Err(e) => break assert_eq!(e, rustix::io::Errno::AGAIN),
        }
    }
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    drop(waiting);
    let session = engine.session(&"kept".parse().unwrap()).unwrap();
    let outcome = session.run(CommandSpec::shell("echo $v")).await.unwrap();
    assert_eq!((outcome.stdout().as_str(), outcome.end.restored), ("kept\n", None));
    assert!(supervisor.is_alive());
    session.delete().await.unwrap();
}

/// A process that looks like a supervisor, listens on its socket and answers nothing.
fn silent_supervisor(place: &Place, socket: &std::path::Path) -> std::process::Child {
    use std::os::unix::process::CommandExt;
    std::fs::remove_file(socket).unwrap();
    let folder = std::fs::File::open(place.state().join("supervisors")).unwrap();
    let path = format!(
        "/proc/self/fd/{}/{}",
        std::os::fd::AsRawFd::as_raw_fd(&folder),
        socket.file_name().unwrap().to_str().unwrap()
    );
    let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
    // Named as the kernel names a supervisor. It blocks when the pipe that is its output is full.
    let program = place.file("sandcrab-super");
    std::fs::copy("/usr/bin/yes", &program).unwrap();
    let state = place.state().canonicalize().unwrap();
    let mut command = std::process::Command::new(program);
    command.arg0("sandcrab-zygote").arg(state).stdin(std::os::fd::OwnedFd::from(listener));
    command.stdout(std::process::Stdio::piped()).spawn().unwrap()
}

#[tokio::test]
async fn a_silent_supervisor_is_killed_before_its_work_is_lost() {
    let place = Place::new();
    let engine = place.open_with(|config| config.ready_shells = 0).await;
    let execution = engine.start(CommandSpec::shell("sleep 60").id(id("silent"))).await.unwrap();
    let supervisor = supervisor_of(&execution);
    drop((execution, engine));
    eventually("the engine is closed", || place.zygotes().is_empty()).await;
    supervisor.kill();
    eventually("it is dead", || !supervisor.is_alive()).await;
    let mut child = silent_supervisor(&place, &sockets(&place)[0]);
    let silent = Seen::of(child.id()).unwrap();
    let engine = place.open().await;
    let execution = engine.execution(&id("silent")).unwrap();
    assert!(execution.status().end().is_none() && silent.is_alive());
    let end = execution.wait().await.unwrap();
    let is_alive = silent.is_alive();
    child.wait().unwrap();
    assert_eq!((end.reason, is_alive), (EndReason::Lost, false));
}

#[tokio::test]
async fn a_session_that_is_deleted_while_it_is_revived_does_not_come_back() {
    let place = Place::new();
    let engine = place.open().await;
    for round in 0..10 {
        let session = engine.create_session(SessionSpec::new()).await.unwrap();
        supervisor_of_session(&session).await.kill();
        let mut starts = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let session = session.clone();
            starts.spawn(async move { drop(session.start(CommandSpec::shell("true")).await) });
        }
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        session.delete().await.unwrap();
        starts.join_all().await;
        assert!(matches!(session.start(CommandSpec::shell("true")).await, Err(StartError::SessionGone(_))));
    }
    drop(engine);
    eventually("the supervisors are gone", || place.supervisors().is_empty()).await;
    let engine = place.open().await;
    assert!(engine.sessions().is_empty());
}

/// Commands that are sent to a session's supervisor while it is stopped; then the engine goes.
async fn send_and_go(place: &Place, commands: &[CommandSpec]) -> SessionId {
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    let id = session.id().clone();
    stop(supervisor_of_session(&session).await);
    let mut starts = tokio::task::JoinSet::new();
    for (number, spec) in commands.iter().cloned().enumerate() {
        let session = session.clone();
        starts.spawn(async move { session.start(spec).await });
        eventually("it has a record", || engine.executions().len() > number + 1).await;
    }
    starts.shutdown().await;
    drop((session, engine));
    eventually("the engine is closed", || place.zygotes().is_empty()).await;
    id
}

#[tokio::test]
async fn commands_that_were_sent_before_the_engine_went_are_all_run() {
    let place = Place::new();
    let add = |number: usize| format!("echo {number} >> {}", place.file("ran").display());
    let commands: Vec<_> = (0..10).map(|number| CommandSpec::shell(add(number))).collect();
    send_and_go(&place, &commands).await;
    let engine = place.open().await;
    eventually("all are over", || engine.running().is_empty()).await;
    let expected: String = (0..10).map(|number| format!("{number}\n")).collect();
    assert_eq!(std::fs::read_to_string(place.file("ran")).unwrap(), expected);
}

/// Requests are numbered by each engine for itself. The first request of both engines is unread when the supervisor goes
/// on: the command of one, the greeting of the other.
#[tokio::test]
async fn the_answer_to_an_earlier_engine_is_not_taken_for_one_to_the_next() {
    let place = Place::new();
    let engine = place.open().await;
    let supervisors = ready(&place, &engine).await;
    eventually("all have said so", || engine.health().ready == 4).await;
    // The zygote would make its children go on.
    stop(place.zygotes()[0]);
    supervisors.iter().copied().for_each(stop);
    let mut start = tokio::task::JoinSet::new();
    let (own, text) = (engine.clone(), format!("echo ran >> {}; sleep 60", place.file("ran").display()));
    start.spawn(async move { own.start(CommandSpec::shell(text).id(id("unread"))).await });
    eventually("it has a record", || engine.execution(&id("unread")).is_some()).await;
    start.shutdown().await;
    drop(engine);
    let engine = place.open().await;
    let execution = engine.execution(&id("unread")).unwrap();
    eventually("it runs", || matches!(execution.status(), Status::Running { .. })).await;
    eventually("it ran once", || place.lines("ran") == 1).await;
    assert_eq!(execution.kill(9, Duration::ZERO).await.unwrap().survivors, []);
    assert_eq!(execution.wait().await.unwrap().reason, EndReason::Killed);
}

#[tokio::test]
async fn a_command_that_no_supervisor_ever_had_runs_when_it_is_asked_for_again() {
    let place = Place::new();
    // More than a socket takes, so that what comes after it stays with the engine.
    let large = CommandSpec::shell("cat > /dev/null").stdin(Stdin::Bytes(vec![0; 4 << 20]));
    let text = format!("echo ran >> {}", place.file("ran").display());
    let keyed = CommandSpec::shell(text).id(id("keyed")).digest("same");
    let session = send_and_go(&place, &[large, keyed.clone()]).await;
    let engine = place.open().await;
    let session = engine.session(&session).unwrap();
    for _ in 0..2 {
        let end = session.start(keyed.clone()).await.unwrap().wait().await.unwrap();
        assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(0)));
    }
    assert_eq!(std::fs::read_to_string(place.file("ran")).unwrap(), "ran\n");
}

#[tokio::test]
async fn a_shell_that_is_stopped_after_its_command_does_not_stay() {
    let place = Place::new();
    let engine = place.open().await;
    for loops in (0..2000).step_by(100) {
        let text = format!("(for ((i = 0; i < {loops}; i++)); do :; done; kill -STOP $$) & exit 3");
        let mut spec = CommandSpec::shell(text).timeout(Duration::from_millis(300));
        spec.timeout_grace = Duration::ZERO;
        let outcome = engine.run(spec).await.unwrap();
        // One that was stopped before its command was over has not ended by itself.
        assert!(outcome.exit_code() == 3 || outcome.end.reason == EndReason::Timeout, "{:?}", outcome.end);
    }
    drop(engine);
    eventually("all are gone", || place.supervisors().is_empty()).await;
}
