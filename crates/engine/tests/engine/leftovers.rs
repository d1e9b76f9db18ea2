//! What a command leaves running when it returns.

use std::time::{Duration, Instant};

use sandcrab_engine::{
    CgroupUse, CommandSpec, ControlError, EndReason, Entry, Event, Execution, LeftoverPolicy, Retention,
    ShellDriver, StartError, Status,
};

use crate::support::{
    BOTH, Kind, Place, Running, Scene, Seen, TEST_TIMEOUT, eventually, eventually_async, id, running_in,
};

#[tokio::test]
async fn a_command_returns_before_its_background_child() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let begun = Instant::now();
        let running = scene.start(kind, CommandSpec::shell("sleep 300 & echo hi")).await;
        let end = running.execution.wait().await.unwrap();
        assert!(begun.elapsed() < TEST_TIMEOUT, "{kind:?}");
        assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(0)));
        assert_eq!(running.execution.output(100).unwrap().stdout.bytes, b"hi\n");
        let [leftover] = end.leftovers.as_slice() else { panic!("{kind:?} {end:?}") };
        let leftover = Seen::of(leftover.pid).unwrap();
        end_leftovers(running, &[leftover]).await;
    }
}

/// Ends what a command has left: with its session, or by hand.
async fn end_leftovers(running: Running, leftovers: &[Seen]) {
    match running.session {
        Some(session) => drop(session.delete().await.unwrap()),
        None => leftovers.iter().for_each(|seen| seen.kill()),
    }
    eventually("the leftovers are gone", || !leftovers.iter().any(|seen| seen.is_alive())).await;
    running.execution.wait_closed().await;
}

#[tokio::test]
async fn leftovers_belong_to_the_command_that_started_them() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    // Fast and slow ones, so that the state is being saved while some of them run.
    for pause in (0..12).map(|n| n * 2) {
        let left = session.run(CommandSpec::shell("setsid sleep 60 & :")).await.unwrap();
        assert_eq!(left.end.leftovers.len(), 1, "{:?}", left.end);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let none = session.run(CommandSpec::shell("echo")).await.unwrap();
        assert_eq!(none.end.leftovers, []);
    }
    let receipt = session.delete().await.unwrap();
    assert!(receipt.killed.len() >= 13 && receipt.survivors.is_empty(), "{receipt:?}");
}

#[tokio::test]
async fn daemons_are_leftovers_too() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let folder = scene.folder(&format!("{kind:?}"));
        let text = "( env -i setsid sleep 60 & ); nohup setsid sleep 60 >/dev/null 2>&1 & disown; echo up";
        let running = scene.start(kind, CommandSpec::shell(text).cwd(&folder)).await;
        let end = running.execution.wait().await.unwrap();
        assert_eq!(end.leftovers.len(), 2, "{kind:?} {end:?}");
        eventually("both are up", || running_in(&folder, "sleep").len() == 2).await;
        let there = running_in(&folder, "sleep");
        assert!(there.iter().all(|seen| end.leftovers.iter().any(|left| left.pid == seen.pid)));
        end_leftovers(running, &there).await;
    }
}

#[tokio::test]
async fn late_output_of_a_leftover_reaches_the_journal() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let folder = scene.folder(&format!("{kind:?}"));
        let text = "(until [ -e go ]; do sleep 0.01; done; echo late) & echo early";
        let running = scene.start(kind, CommandSpec::shell(text).cwd(&folder)).await;
        let mut follower = running.execution.follow(0).unwrap();
        let mut before = Vec::new();
        while let Some(entry) = follower.next().await.unwrap() {
            before.push(entry.event);
        }
        assert!(matches!(before.last(), Some(Event::Ended(end)) if !end.leftovers.is_empty()), "{before:?}");
        std::fs::write(folder.join("go"), "").unwrap();
        let mut late = Vec::new();
        while let Some(entry) = follower.next_late().await.unwrap() {
            if let Event::Output { bytes, .. } = entry.event {
                late.extend(bytes);
            }
        }
        assert_eq!(late, b"late\n", "{kind:?}");
        assert_eq!(running.execution.output(100).unwrap().stdout.bytes, b"early\nlate\n");
        running.close().await;
    }
}

#[tokio::test]
async fn leftovers_are_killed_on_request() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let folder = scene.folder(&format!("{kind:?}"));
        let text = "setsid sleep 60 & sleep 60 & echo hi";
        let spec = CommandSpec::shell(text).cwd(&folder).leftovers(LeftoverPolicy::Kill);
        let running = scene.start(kind, spec).await;
        let end = running.execution.wait().await.unwrap();
        assert_eq!(
            (end.reason, end.exit_code, end.leftovers.len()),
            (EndReason::Exited, Some(0), 2),
            "{kind:?}"
        );
        assert!(running_in(&folder, "sleep").is_empty());
        assert!(end.leftovers.iter().all(|left| Seen::of(left.pid).is_none()));
        running.execution.wait_closed().await;
        running.answers().await;
    }
}

/// The executions that have been made of leftovers.
async fn adopted(scene: &Scene, count: usize) -> Vec<Execution> {
    let mut found = Vec::new();
    eventually("the leftovers are executions", || {
        let running = |execution: &Execution| {
            execution.info().background && matches!(execution.status(), Status::Running { .. })
        };
        found = scene.engine.executions().into_iter().filter(running).collect();
        found.len() == count
    })
    .await;
    found
}

#[tokio::test]
async fn adopted_leftover_can_be_killed() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let text = "setsid sleep 60 & sleep 61 & echo hi";
        let running = scene.start(kind, CommandSpec::shell(text).leftovers(LeftoverPolicy::Adopt)).await;
        let end = running.execution.wait().await.unwrap();
        assert_eq!(end.leftovers.len(), 2, "{kind:?} {end:?}");
        let both = adopted(&scene, 2).await;
        let [first, second] = both.as_slice() else { panic!("{both:?}") };
        let other = Seen::of(second.info().pid.unwrap()).unwrap();
        let receipt = first.kill(libc::SIGTERM, Duration::from_secs(5)).await.unwrap();
        let killed: Vec<_> = receipt.killed.iter().map(|killed| killed.pid).collect();
        assert_eq!((killed, receipt.survivors.len()), (vec![first.info().pid.unwrap()], 0), "{kind:?}");
        assert_eq!(first.wait().await.unwrap().reason, EndReason::Killed);
        assert!(other.is_alive(), "{kind:?}: the other one was killed too");
        second.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
        assert!(!other.is_alive());
        running.close().await;
    }
}

#[tokio::test]
async fn adopted_leftover_ends_with_its_process() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let folder = scene.folder(&format!("{kind:?}"));
        let text = "bash -c 'until [ -e go ]; do sleep 0.01; done; exit 3' & echo hi";
        let spec = CommandSpec::shell(text).cwd(&folder).leftovers(LeftoverPolicy::Adopt);
        let running = scene.start(kind, spec).await;
        running.execution.wait().await.unwrap();
        let found = adopted(&scene, 1).await;
        std::fs::write(folder.join("go"), "").unwrap();
        let end = found[0].wait().await.unwrap();
        assert_eq!(end.reason, EndReason::Exited, "{kind:?}");
        // A child of the session's shell is reaped by the shell, which alone learns how it ended.
        assert_eq!(end.exit_code, (kind == Kind::Run).then_some(3), "{kind:?}");
        found[0].wait_closed().await;
        running.close().await;
    }
}

#[tokio::test]
async fn an_adopted_leftover_ends_with_its_session() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    let spec = CommandSpec::shell("sleep 60 & :").leftovers(LeftoverPolicy::Adopt);
    session.run(spec).await.unwrap();
    let found = adopted(&scene, 1).await;
    let process = Seen::of(found[0].info().pid.unwrap()).unwrap();
    session.delete().await.unwrap();
    assert!(!process.is_alive());
    assert_eq!(found[0].wait().await.unwrap().reason, EndReason::SessionEnded);
}

#[tokio::test]
async fn a_child_that_floods_standard_output_does_not_delay_the_end() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let folder = scene.folder(&format!("{kind:?}"));
        let spec = CommandSpec::shell("timeout 200 yes & echo first").journal_bytes(1 << 20).cwd(&folder);
        let begun = Instant::now();
        let running = scene.start(kind, spec).await;
        let end = running.execution.wait().await.unwrap();
        assert!(begun.elapsed() < TEST_TIMEOUT, "{kind:?} {:?}", begun.elapsed());
        assert!(!end.leftovers.is_empty());
        eventually("it floods", || !running_in(&folder, "yes").is_empty()).await;
        let flood = running_in(&folder, "yes");
        // With its child gone, `timeout` ends too.
        end_leftovers(running, &flood).await;
    }
}

/// Also if it ends right after the command, while the command's shell is still there.
#[tokio::test]
async fn an_adopted_leftover_of_a_run_has_its_exit_code() {
    let scene = Scene::open().await;
    for loops in (100..4000).step_by(100) {
        let text = format!("(for ((i = 0; i < {loops}; i++)); do :; done; exit 7) & exit 0");
        let spec = CommandSpec::shell(text).leftovers(LeftoverPolicy::Adopt);
        scene.engine.run(spec).await.unwrap();
    }
    eventually("all are over", || scene.engine.running().is_empty()).await;
    for execution in scene.engine.executions().into_iter().filter(|execution| execution.info().background) {
        // One that ends before it is adopted never becomes an execution.
        let Ok(end) = execution.wait().await else { continue };
        assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(7)));
    }
}

/// The record of an end is bounded, whatever those that are left call themselves.
#[tokio::test]
async fn names_that_are_not_utf8_do_not_delay_the_end() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let text = "n=$(head -c 100000 /dev/zero | tr '\\0' '\\377')
            for i in {1..40}; do (exec -a \"$n\" sleep 31) & done
            bash -c 'sleep 31; :' $(for i in {1..20}; do echo \"$n\"; done) &
            sleep 0.3";
        let mut spec = CommandSpec::shell(text);
        spec.leftovers = LeftoverPolicy::Kill;
        let running = scene.start(kind, spec).await;
        let wait = tokio::time::timeout(Duration::from_secs(30), running.execution.wait());
        let end = wait.await.unwrap().unwrap();
        assert!(end.leftover_count >= 41, "{}", end.leftover_count);
        assert_eq!(end.leftovers.len(), sandcrab_engine::MAX_LEFTOVERS);
        assert!(end.leftovers.iter().all(|leftover| leftover.command.len() <= 256));
        running.answers().await;
    }
}

/// Leaves something that has closed its pipes, and something that has also lost its tag.
const LEAVES: &str = "setsid sleep 60 </dev/null >/dev/null 2>&1 & \
    (ulimit -SR 1000000; exec setsid sleep 61 </dev/null >/dev/null 2>&1) & echo up";

async fn names(execution: &Execution) -> Vec<String> {
    let (mut found, count) = execution.leftovers().await;
    assert_eq!(found.len(), count);
    found.sort_by_key(|left| left.command.clone());
    found.into_iter().map(|left| left.command).collect()
}

#[tokio::test]
async fn leftovers_are_listed_kept_and_ended_by_id() {
    for kind in BOTH {
        let place = Place::new();
        let engine = place.open().await;
        let session = match kind {
            Kind::Run => None,
            Kind::Session => Some(engine.create_session(Default::default()).await.unwrap()),
        };
        let start = async |spec: CommandSpec| match &session {
            Some(session) => session.start(spec).await.unwrap(),
            None => engine.start(spec).await.unwrap(),
        };
        let start_leaving = async |spec: CommandSpec| {
            let execution = start(spec).await;
            execution.wait_closed().await;
            assert!(execution.info().has_leftovers, "{kind:?}");
            eventually_async("both are up", async || names(&execution).await == ["sleep 60", "sleep 61"])
                .await;
            execution
        };
        let other = start_leaving(CommandSpec::shell(LEAVES)).await;
        // A process without its tag belongs to the command by its start time, which has a grain of 10 ms.
        tokio::time::sleep(Duration::from_millis(30)).await;
        let execution = start_leaving(CommandSpec::shell(LEAVES).id(id("leaves"))).await;
        assert!(engine.forget(&id("leaves")).is_err());
        let again = engine.start(CommandSpec::shell("true").id(id("leaves"))).await;
        assert!(matches!(again, Err(StartError::HasLeftovers(_))), "{again:?}");
        // The next engine knows as much.
        let other_id = other.id().clone();
        drop((other, execution, session, engine));
        let engine = place.open().await;
        let (execution, other) =
            (engine.execution(&id("leaves")).unwrap(), engine.execution(&other_id).unwrap());
        assert!(execution.info().has_leftovers && engine.forget(&id("leaves")).is_err());
        assert_eq!(execution.status().end().unwrap().exit_code, Some(0));
        let receipt = execution.kill(libc::SIGTERM, Duration::from_secs(5)).await.unwrap();
        let mut killed: Vec<_> = receipt.killed.iter().map(|killed| killed.command.as_str()).collect();
        killed.sort_unstable();
        assert_eq!((killed, receipt.survivors.len()), (vec!["sleep 60", "sleep 61"], 0), "{kind:?}");
        assert!(receipt.killed.iter().all(|killed| Seen::of(killed.pid).is_none()));
        assert!(!execution.info().has_leftovers);
        assert_eq!(names(&execution).await, [""; 0]);
        assert_eq!(execution.kill(9, Duration::ZERO).await.unwrap().killed, []);
        engine.forget(&id("leaves")).unwrap();
        // Nothing else was touched.
        assert_eq!(names(&other).await, ["sleep 60", "sleep 61"], "{kind:?}");
        other.signal(libc::SIGINT).await.unwrap();
        assert!(other.info().has_leftovers, "background processes ignore it");
        other.signal(libc::SIGTERM).await.unwrap();
        eventually("the engine hears of it", || !other.info().has_leftovers).await;
        assert!(matches!(other.signal(libc::SIGTERM).await, Err(ControlError::Ended)));
    }
}

/// Its leftovers also hold its output open, so its record is not closed; but to wait for its end would not help.
#[tokio::test]
async fn the_id_of_an_ended_command_is_refused_because_of_its_leftovers() {
    let scene = Scene::open().await;
    let ended = scene.engine.run(CommandSpec::shell("sleep 60 &").id(id("leaves"))).await.unwrap();
    let again = scene.engine.start(CommandSpec::shell("true").id(id("leaves"))).await;
    assert!(matches!(again, Err(StartError::HasLeftovers(_))), "{again:?}");
    ended.execution.kill(9, Duration::ZERO).await.unwrap();
    ended.execution.wait_closed().await;
    scene.engine.run(CommandSpec::shell("true").id(id("leaves"))).await.unwrap();
}

#[tokio::test]
async fn retention_keeps_executions_with_leftovers() {
    let place = Place::new();
    let keep_one = |retention: &mut Retention| (retention.max_count, retention.grace) = (1, Duration::ZERO);
    let engine = place.open_with(|config| keep_one(&mut config.retention)).await;
    let execution = engine.start(CommandSpec::shell(LEAVES).id(id("leaves"))).await.unwrap();
    execution.wait_closed().await;
    for _ in 0..40 {
        engine.run(CommandSpec::shell("true")).await.unwrap();
    }
    eventually("the others are gone", || engine.executions().len() <= 2).await;
    assert!(engine.execution(&id("leaves")).is_some());
    assert_eq!(execution.kill(9, Duration::ZERO).await.unwrap().killed.len(), 2);
}

/// On a busy machine the child of a shell may not have executed its program when it is listed.
#[tokio::test]
async fn serial_a_leftover_is_named_after_its_program() {
    let scene = Scene::open().await;
    for kind in BOTH {
        for _ in 0..10 {
            let running = scene.start(kind, CommandSpec::shell("sleep 60 &")).await;
            let end = running.execution.wait().await.unwrap();
            assert_eq!(end.leftovers[0].command, "sleep 60", "{kind:?}");
            let receipt = running.execution.kill(9, Duration::ZERO).await.unwrap();
            assert_eq!(receipt.killed.len(), 1, "{kind:?} {receipt:?}");
            running.answers().await;
        }
    }
}

#[tokio::test]
async fn names_that_are_not_utf8_are_shown() {
    let scene = Scene::open().await;
    let text = "exec -a $'\\xff\\xfe\\x01' sleep 60 &";
    let running = scene.start(Kind::Run, CommandSpec::shell(text)).await;
    let end = running.execution.wait().await.unwrap();
    assert_eq!(end.leftovers.len(), 1);
    eventually_async("it is up", async || {
        let (found, _) = running.execution.leftovers().await;
        found[0].command == "\u{fffd}\u{fffd}\u{1} 60"
    })
    .await;
    assert_eq!(running.execution.kill(9, Duration::ZERO).await.unwrap().killed.len(), 1);
}

/// A follower that is there at the end gets the end at once; a later one gets all there is, then the end.
#[tokio::test]
async fn later_followers_get_late_output_before_the_end() {
    let scene = Scene::open().await;
    let gate = scene.place.file("gate");
    let text = format!(
        "echo early; (until [ -e '{0}' ]; do sleep 0.01; done; echo late; until [ -e '{0}2' ]; do sleep 0.01; done) & true",
        gate.display()
    );
    let execution = scene.engine.start(CommandSpec::shell(text)).await.unwrap();
    let mut live = execution.follow(0).unwrap();
    let output_of = |entry: &Entry| match &entry.event {
        Event::Output { bytes, .. } => Some(String::from_utf8_lossy(bytes).into_owned()),
        Event::Ended(_) => Some("end".into()),
        _ => None,
    };
    let mut seen = Vec::new();
    while let Some(entry) = live.next().await.unwrap() {
        seen.extend(output_of(&entry).map(|output| (output, entry.cursor)));
    }
    assert_eq!(seen, [("early\n".to_owned(), 6), ("end".to_owned(), 6)]);
    std::fs::write(&gate, "").unwrap();
    // It goes on with what comes behind the end.
    let late = live.next_late().await.unwrap().unwrap();
    assert_eq!((output_of(&late), late.cursor), (Some("late\n".to_owned()), 11));
    // The same while what it left runs, when all is over, and from behind the end.
    for closed in [false, true] {
        if closed {
            std::fs::write(gate.with_file_name("gate2"), "").unwrap();
            execution.wait_closed().await;
        }
        for (cursor, expected) in
            [(0, vec!["early\n", "late\n", "end"]), (6, vec!["late\n", "end"]), (11, vec!["end"])]
        {
            let mut follower = execution.follow(cursor).unwrap();
            let mut seen = Vec::new();
            while let Some(entry) = follower.next().await.unwrap() {
                seen.extend(output_of(&entry));
            }
            assert_eq!((seen, follower.cursor()), (expected.into_iter().map(str::to_owned).collect(), 11));
        }
    }
}

/// A supervisor without privileges may not signal what a command runs as another user. That survives a kill, and is told of.
#[test]
fn root_survivors_of_a_kill_are_leftovers() {
    rustix::thread::remove_capability_from_bounding_set(rustix::thread::CapabilitySet::KILL).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // A cgroup is killed as a whole.
        let scene = Scene::open_with(|config| config.cgroups = CgroupUse::Off).await;
        for kind in BOTH {
            let folder = scene.folder(&format!("{kind:?}"));
            std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            let text = "setpriv --reuid 65534 --clear-groups sleep 600 >/dev/null 2>&1 & sleep 601";
            let running = scene.start(kind, CommandSpec::shell(text).cwd(&folder)).await;
            let is_other = |seen: &&Seen| owner_of(**seen) == 65534;
            let others = || running_in(&folder, "sleep").iter().filter(is_other).count();
            eventually("both run", || others() == 1 && running_in(&folder, "sleep").len() == 2).await;
            let execution = &running.execution;
            let receipt = execution.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
            assert_eq!(receipt.survivors.len(), 1, "{kind:?} {receipt:?}");
            let end = execution.wait().await.unwrap();
            assert_eq!((end.reason, end.leftovers.len()), (EndReason::Killed, 1), "{kind:?} {end:?}");
            assert_eq!(end.leftovers[0].pid, receipt.survivors[0].pid);
            // It is listed until it is gone.
            assert_eq!(execution.leftovers().await.0, end.leftovers, "{kind:?}");
            running_in(&folder, "sleep").iter().for_each(|seen| seen.kill());
            execution.wait_closed().await;
            running.close().await;
        }
    });
}

/// The user that a process runs as.
fn owner_of(process: Seen) -> u32 {
    std::fs::metadata(format!("/proc/{}", process.pid))
        .map_or(u32::MAX, |of| std::os::unix::fs::MetadataExt::uid(&of))
}

/// More executions with leftovers than a supervisor watches processes: each is reported when its own is gone.
#[tokio::test]
async fn leftovers_of_many_commands_use_a_bounded_number_of_descriptors() {
    const COMMANDS: usize = 150;
    let scene = Scene::open().await;
    let session = scene.session().await;
    let mut executions = Vec::new();
    for _ in 0..COMMANDS {
        let outcome = session.run(CommandSpec::shell("setsid sleep 600 >/dev/null 2>&1 &")).await.unwrap();
        assert_eq!(outcome.end.leftovers.len(), 1);
        executions.push(outcome.execution);
    }
    let supervisor =
        Seen::of(Seen::of(executions[0].info().pid.unwrap()).unwrap().parent().unwrap()).unwrap();
    let files = || std::fs::read_dir(format!("/proc/{}/fd", supervisor.pid)).unwrap().count();
    for execution in &executions {
        execution.wait_closed().await;
    }
    assert!(files() < 64 + 60, "{}", files());
    // The last ones are not watched.
    for execution in [&executions[0], &executions[COMMANDS - 1]] {
        execution.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
        assert_eq!(execution.leftovers().await.1, 0);
    }
    let (left, _) = executions[COMMANDS - 2].leftovers().await;
    Seen::of(left[0].pid).unwrap().kill();
    eventually("that is noticed", || !executions[COMMANDS - 2].info().has_leftovers).await;
    assert!(executions[1].info().has_leftovers && executions[COMMANDS - 3].info().has_leftovers);
    session.delete().await.unwrap();
}

/// None of this scans all processes for each of them, and a scan of many is as complete as one of a few: else an
/// ending would wait for its whole grace period.
#[tokio::test]
async fn hundreds_of_leftovers_are_adopted_and_ended_at_once() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    let begun = Instant::now();
    for _ in 0..10 {
        let text = "for i in {1..30}; do sleep 100 & done";
        let outcome = session.run(CommandSpec::shell(text).leftovers(LeftoverPolicy::Adopt)).await.unwrap();
        assert_eq!(outcome.end.leftovers.len(), 30);
    }
    let found = adopted(&scene, 300).await;
    let killed = found[7].kill(libc::SIGTERM, Duration::from_secs(100)).await.unwrap().killed;
    assert_eq!(killed.iter().map(|killed| killed.pid).collect::<Vec<_>>(), [found[7].info().pid.unwrap()]);
    assert_eq!(session.delete().await.unwrap().killed.len(), 300);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// The shell prints its state after each command, with processes of its own.
#[tokio::test]
async fn processes_that_save_the_state_are_no_leftovers() {
    let scene = Scene::open_with(|config| config.shell_driver = ShellDriver::Portable).await;
    let session = scene.session().await;
    let text = "for i in {1..2000}; do declare v$i=1; done; sleep 60 >/dev/null 2>&1 &";
    let outcome = session.run(CommandSpec::shell(text)).await.unwrap();
    let mut fork = std::pin::pin!(session.fork(None));
    loop {
        tokio::select! {
            forked = &mut fork => break drop(forked.unwrap()),
            (found, _) = outcome.execution.leftovers() => {
                assert_eq!(found.len(), 1, "{found:?}");
            }
        }
    }
    let receipt = outcome.execution.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
    assert_eq!(receipt.killed.len(), 1);
}
