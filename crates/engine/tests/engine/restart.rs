//! After a reboot or a container's restart, and one engine after the other in one process.

use std::time::Duration;

use sandcrab_engine::{CommandSpec, EndReason, Engine, OpenError, SessionId, SessionSpec, Stdin};

use crate::support::{Host, Place, Seen, eventually, id, not_run, pretend_reboot, process_of};

#[tokio::test]
async fn a_state_directory_has_one_engine_at_a_time() {
    let place = Place::new();
    let engine = place.open().await;
    let second = Engine::open(place.config()).await;
    assert!(matches!(second, Err(OpenError::InUse { path }) if path == place.state()));
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
}

#[tokio::test]
async fn engine_in_another_process_holds_the_lock() {
    let place = Place::new();
    let host = Host::opened(&place);
    assert!(matches!(Engine::open(place.config()).await, Err(OpenError::InUse { .. })));
    host.kill();
    place.open().await;
}

#[tokio::test]
async fn executions_of_a_dropped_engine_are_adopted() {
    let place = Place::new();
    let engine = place.open().await;
    let cat = engine.start(CommandSpec::argv(["cat"]).id(id("cat")).stdin(Stdin::Open)).await.unwrap();
    cat.write_stdin("one ").await.unwrap();
    let session = engine.create_session(SessionSpec::new().id("s".parse().unwrap())).await.unwrap();
    session.run(CommandSpec::shell("x=5; cd /usr")).await.unwrap();
    drop((cat, session, engine));
    let engine = place.open().await;
    let cat = engine.execution(&id("cat")).unwrap();
    assert_eq!(engine.health().running, 1);
    cat.write_stdin("two").await.unwrap();
    cat.close_stdin().await.unwrap();
    assert_eq!(cat.wait().await.unwrap().exit_code, Some(0));
    assert_eq!(cat.output(100).unwrap().stdout.bytes, b"one two");
    let session = engine.session(&"s".parse::<SessionId>().unwrap()).unwrap();
    let outcome = session.run(CommandSpec::shell("echo $x $PWD")).await.unwrap();
    assert_eq!((outcome.stdout().as_str(), outcome.end.restored), ("5 /usr\n", None));
    assert_eq!(engine.health().running, 0);
}

#[tokio::test]
async fn after_a_reboot_unfinished_executions_are_lost_and_no_process_is_signalled() {
    let place = Place::new();
    let engine = place.open().await;
    let finished = engine.run(CommandSpec::shell("echo kept").id(id("finished"))).await.unwrap();
    finished.execution.wait_closed().await;
    let running = engine.start(CommandSpec::shell("echo begun; sleep 300").id(id("running"))).await.unwrap();
    eventually("it has written", || running.output(100).unwrap().cursor == 6).await;
    let process = process_of(&running);
    drop((running, finished, engine));
    pretend_reboot(&place);
    let engine = place.open().await;
    let running = engine.execution(&id("running")).unwrap();
    let end = running.wait().await.unwrap();
    assert_eq!((end.reason, end.exit_code), (EndReason::Lost, None));
    assert_eq!(running.output(100).unwrap().stdout.bytes, b"begun\n");
    assert_eq!(engine.execution(&id("finished")).unwrap().output(100).unwrap().stdout.bytes, b"kept\n");
    assert_eq!(engine.health().running, 0);
    // It has the number of a process of the boot before; the current process with that id must not be signalled.
    assert!(process.is_alive());
    assert!(running.kill(9, Duration::ZERO).await.unwrap().killed.is_empty());
    assert!(process.is_alive());
}

#[tokio::test]
async fn after_a_reboot_a_session_has_its_saved_state() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new().id("s".parse().unwrap())).await.unwrap();
    session.run(CommandSpec::shell("x=5; cd /usr")).await.unwrap();
    eventually("its state is saved", || place.count("snapshots") > 0).await;
    drop((session, engine));
    pretend_reboot(&place);
    // The shells of the boot before are gone with it.
    place.supervisors().into_iter().for_each(Seen::kill);
    let engine = place.open().await;
    let session = engine.session(&"s".parse::<SessionId>().unwrap()).unwrap();
    let outcome = session.run(CommandSpec::shell("echo $x $PWD")).await.unwrap();
    assert_eq!(outcome.stdout(), "5 /usr\n");
    assert!(outcome.end.restored.is_some());
    session.delete().await.unwrap();
    drop((outcome, session, engine));
    assert!(place.open().await.sessions().is_empty());
}

#[tokio::test]
async fn reused_process_id_is_not_signalled() {
    let place = Place::new();
    let engine = place.open().await;
    let running = engine.start(CommandSpec::shell("sleep 300").id(id("running"))).await.unwrap();
    let process = process_of(&running);
    drop((running, engine));
    place.own_processes().into_iter().for_each(Seen::kill);
    eventually("its command is dead too", || !process.is_alive()).await;
    pretend_reboot(&place);
    let stranger = stranger_with(process.pid);
    let engine = place.open().await;
    let running = engine.execution(&id("running")).unwrap();
    assert_eq!(running.wait().await.unwrap().reason, EndReason::Lost);
    running.kill(9, Duration::ZERO).await.unwrap();
    if let Some(mut stranger) = stranger {
        assert!(stranger.try_wait().unwrap().is_none());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}

/// A process that has this number, if the kernel gives it out again on request.
fn stranger_with(pid: u32) -> Option<std::process::Child> {
    std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
    let mut child = std::process::Command::new("sleep").arg("300").spawn().unwrap();
    if child.id() == pid {
        return Some(child);
    }
    // Another engine was faster.
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[tokio::test]
async fn journals_and_sessions_survive_a_killed_container() {
    let place = Place::new();
    let unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let mut host = Host::start_by(&place, &unshare);
    match host.answer() {
        Some(answer) => assert_eq!(answer, "open"),
        None => {
            not_run("PID namespaces cannot be created");
            return;
        }
    }
    assert_eq!(host.ask(&["start", "running", "echo begun; sleep 300"]), "started");
    assert_eq!(host.ask(&["run", "echo other"]), "other ");
    assert_eq!(host.ask(&["session", "s"]), "made");
    assert_eq!(host.ask(&["run-in", "s", "x=5; cd /usr"]), "");
    eventually("the session's state is saved", || place.count("snapshots") > 0).await;
    // With the first process of the namespace everything in it goes.
    host.kill();
    eventually("everything in it is dead", || place.own_processes().is_empty()).await;
    {
        let engine = place.open().await;
        let running = engine.execution(&id("running")).unwrap();
        assert_eq!(running.wait().await.unwrap().reason, EndReason::Lost);
        assert_eq!(running.output(100).unwrap().stdout.bytes, b"begun\n");
        assert_eq!(engine.health().running, 0);
        let session = engine.session(&"s".parse::<SessionId>().unwrap()).unwrap();
        let outcome = session.run(CommandSpec::shell("echo $x $PWD")).await.unwrap();
        assert_eq!(outcome.stdout(), "5 /usr\n");
        assert!(outcome.end.restored.is_some());
    }
    place.own_processes().into_iter().for_each(Seen::kill);
    let mut host = Host::start_by(&place, &unshare);
    until_open(&mut host, &place, &unshare).await;
    assert_eq!(host.ask(&["run-in", "s", "echo $x $PWD"]), "5 /usr ");
    host.kill();
    eventually("everything in it is dead", || place.own_processes().is_empty()).await;
}

/// The engine before it may still be closing.
async fn until_open(host: &mut Host, place: &Place, through: &[&str]) {
    while host.answer().as_deref() != Some("open") {
        tokio::time::sleep(Duration::from_millis(10)).await;
        *host = Host::start_by(place, through);
    }
}

/// The descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
async fn serial_dropped_engine_closes_its_descriptors_while_commands_run() {
    let place = Place::new();
    let before = descriptors();
    for _ in 0..3 {
        let engine = place.open().await;
        for _ in 0..5 {
            engine.start(CommandSpec::shell("sleep 60")).await.unwrap();
            let session = engine.create_session(SessionSpec::new()).await.unwrap();
            session.start(CommandSpec::shell("sleep 60")).await.unwrap();
        }
    }
    eventually("all is closed", || descriptors() <= before + 2).await;
}

#[tokio::test]
async fn damaged_lock_file_does_not_prevent_opening() {
    let place = Place::new();
    drop(place.open().await);
    std::fs::write(place.state().join("lock"), [0xff; 100_000]).unwrap();
    let engine = place.open().await;
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    drop(engine);
    // A fifo can be locked too, but is not a file of the engine's.
    eventually("it is closed", || place.zygotes().is_empty()).await;
    std::fs::remove_file(place.state().join("lock")).unwrap();
    let fifo = place.state().join("lock");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let opened = tokio::time::timeout(Duration::from_secs(10), Engine::open(place.config())).await;
    assert!(matches!(opened, Ok(Err(OpenError::Untrusted(_)))), "{opened:?}");
}

#[tokio::test]
async fn command_that_did_not_reach_its_session_is_lost() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new().id("s".parse().unwrap())).await.unwrap();
    session.run(CommandSpec::shell("x=5; sleep 300 &")).await.unwrap();
    session.run(CommandSpec::shell(": the one").id(id("lost"))).await.unwrap();
    drop((session, engine));
    eventually("the engine is closed", || place.zygotes().is_empty()).await;
    // As if the engine had been killed when it had made the journal: the end is not in it.
    let journals = std::fs::read_dir(place.state().join("journals")).unwrap();
    let of_it = |bytes: &[u8]| bytes.windows(9).any(|window| window == b": the one");
    let journal =
        journals.map(|entry| entry.unwrap().path()).find(|path| of_it(&std::fs::read(path).unwrap()));
    let journal = journal.unwrap();
    let bytes = std::fs::read(&journal).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    std::fs::write(&journal, &bytes[..last]).unwrap();

    for _ in 0..2 {
        let engine = place.open().await;
        let lost = engine.execution(&id("lost")).unwrap();
        assert_eq!(lost.wait().await.unwrap().reason, EndReason::Lost);
        let session = engine.session(&"s".parse::<SessionId>().unwrap()).unwrap();
        let outcome = session.run(CommandSpec::shell("echo $x; jobs -p | wc -l")).await.unwrap();
        assert_eq!((outcome.stdout().as_str(), outcome.end.restored), ("5\n1\n", None));
        drop((lost, outcome, session, engine));
        eventually("the engine is closed", || place.zygotes().is_empty()).await;
    }
}

/// It is not there for this engine, and goes on for the next.
#[tokio::test]
async fn a_session_whose_record_cannot_be_read_goes_on() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(Default::default()).await.unwrap();
    let id = session.id().clone();
    let said = session.run(CommandSpec::shell("kept=1; echo $$")).await.unwrap().stdout();
    drop((session, engine));
    let journals = place.state().join("journals");
    // The first slot is that of the session.
    std::fs::rename(journals.join("000000"), journals.join("aside")).unwrap();
    std::fs::create_dir(journals.join("000000")).unwrap();
    let engine = place.open().await;
    assert!(engine.session(&id).is_none());
    // A supervisor that holds nothing known would have ended by the time that this one has.
    engine.run(CommandSpec::shell("true")).await.unwrap();
    drop(engine);
    std::fs::remove_dir(journals.join("000000")).unwrap();
    std::fs::rename(journals.join("aside"), journals.join("000000")).unwrap();
    let engine = place.open().await;
    let session = engine.session(&id).unwrap();
    let outcome = session.run(CommandSpec::shell("echo $$ $kept")).await.unwrap();
    assert_eq!((outcome.stdout(), outcome.end.restored), (format!("{} 1\n", said.trim()), None));
}
