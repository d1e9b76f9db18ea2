//! Sessions: what they keep, and in what order they run commands.

use std::time::{Duration, Instant};

use sandcrab_engine::{CommandSpec, EndReason, Event, Follower, Session, SessionSpec, Status, Stdin};

use crate::support::{Place, Scene, TEST_TIMEOUT};

/// What a command writes in a session.
async fn said(session: &Session, text: &str) -> String {
    session.run(CommandSpec::shell(text)).await.unwrap().stdout()
}

/// The next output.
async fn next_output(follower: &mut Follower) -> Vec<u8> {
    loop {
        if let Event::Output { bytes, .. } = follower.next().await.unwrap().unwrap().event {
            return bytes;
        }
    }
}

#[tokio::test]
async fn state_is_kept_between_commands() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    let text = "x=5; export y=6; f() { echo \"f $1\"; }; alias hi='echo hi'; shopt -s extglob; cd /usr";
    session.run(CommandSpec::shell(text)).await.unwrap();
    let text = "echo $x $PWD; f 1; alias hi; shopt -q extglob && echo on; sh -c 'echo $y'";
    assert_eq!(said(&session, text).await, "5 /usr\nf 1\nalias hi='echo hi'\non\n6\n");
}

#[tokio::test]
async fn output_is_live_during_a_command_that_changes_the_state() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    let text = "echo first; read x; echo \"got $x\"";
    let execution = session.start(CommandSpec::shell(text).stdin(Stdin::Open)).await.unwrap();
    let mut follower = execution.follow(0).unwrap();
    assert_eq!(next_output(&mut follower).await, b"first\n");
    assert!(matches!(execution.status(), Status::Running { .. }));
    execution.write_stdin("word\n").await.unwrap();
    assert_eq!(next_output(&mut follower).await, b"got word\n");
    execution.wait().await.unwrap();
    assert_eq!(said(&session, "echo $x").await, "word\n");
}

#[tokio::test]
async fn variables_of_a_command_end_with_it() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    session.run(CommandSpec::shell("export kept=old gone=there")).await.unwrap();
    let text = "echo \"$kept ${gone-none} ${new-none}\"";
    let spec = CommandSpec::shell(text).env("kept", "changed").unset_env("gone").env("new", "here");
    assert_eq!(session.run(spec).await.unwrap().stdout(), "changed none here\n");
    assert_eq!(said(&session, text).await, "old there none\n");
}

#[tokio::test]
async fn working_directory_of_a_command_ends_with_it() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    session.run(CommandSpec::shell("cd /usr")).await.unwrap();
    assert_eq!(session.run(CommandSpec::shell("pwd").cwd("/tmp")).await.unwrap().stdout(), "/tmp\n");
    assert_eq!(said(&session, "pwd").await, "/usr\n");
}

#[tokio::test]
async fn fork_copies_the_state_and_is_independent() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    session.run(CommandSpec::shell("x=1; f() { echo f; }; cd /usr")).await.unwrap();
    let fork = session.fork(Some("fork".parse().unwrap())).await.unwrap();
    assert_eq!(said(&fork, "echo $x $PWD; f; x=2; cd /").await, "1 /usr\nf\n");
    assert_eq!(said(&session, "echo $x $PWD; x=3").await, "1 /usr\n");
    assert_eq!(said(&fork, "echo $x $PWD").await, "2 /\n");
    session.delete().await.unwrap();
    assert_eq!(said(&fork, "echo $x").await, "2\n");
}

#[tokio::test]
async fn reset_of_a_fork_restores_its_first_state() {
    let scene = Scene::open().await;
    let folder = scene.place.file("folder");
    std::fs::create_dir(&folder).unwrap();
    let spec = SessionSpec::new().cwd(&folder).env("given", "g").env("dropped", "d");
    let session = scene.engine.create_session(spec).await.unwrap();
    session.run(CommandSpec::shell("unset dropped; x=1; cd /usr")).await.unwrap();
    let text = "echo ${given-none} ${dropped-none} ${x-none} $PWD";
    let fork = session.fork(None).await.unwrap();
    assert_eq!(said(&fork, text).await, "g none 1 /usr\n");
    fork.reset(false).await.unwrap();
    assert_eq!(said(&fork, text).await, format!("g d none {}\n", folder.display()));
    std::fs::remove_dir(&folder).unwrap();
    assert_eq!(said(&session.fork(None).await.unwrap(), text).await, "g none 1 /usr\n");
}

#[tokio::test]
async fn a_process_has_the_sessions_state_and_does_not_change_it() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    session.run(CommandSpec::shell("x=1; cd /usr")).await.unwrap();
    let spec = CommandSpec::shell("echo $x $PWD; x=2; cd /; read line; echo $x").stdin(Stdin::Open);
    let process = session.start_process(spec).await.unwrap();
    let mut follower = process.follow(0).unwrap();
    assert_eq!(next_output(&mut follower).await, b"1 /usr\n");
    // The session goes on while the process runs.
    assert_eq!(said(&session, "echo $x $PWD; x=3").await, "1 /usr\n");
    let info = process.info();
    assert!(info.background && info.session.as_ref() == Some(session.id()), "{info:?}");
    process.write_stdin("\n").await.unwrap();
    process.wait().await.unwrap();
    assert_eq!(process.output(100).unwrap().stdout.bytes, b"1 /usr\n2\n");
    assert_eq!(said(&session, "echo $x $PWD").await, "3 /usr\n");
}

#[tokio::test]
async fn a_program_started_from_a_session_has_its_state() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    session.run(CommandSpec::shell("export x=\"it's\"; cd /usr")).await.unwrap();
    let argv = ["sh", "-c", r#"echo "$x $PWD $1""#, "sh", "two  words"];
    let process = session.start_process(CommandSpec::argv(argv)).await.unwrap();
    assert_eq!(process.wait().await.unwrap().exit_code, Some(0));
    assert_eq!(process.output(100).unwrap().stdout.bytes, b"it's /usr two  words\n");
    assert!(process.info().argv, "it is listed as it was given");
}

#[tokio::test]
async fn reset_ends_the_command_and_restores_the_state_on_request() {
    let scene = Scene::open().await;
    for (restore, expected) in [(true, "5 /usr\n"), (false, "none /\n")] {
        let session = scene.engine.create_session(SessionSpec::new().cwd("/")).await.unwrap();
        let shell = said(&session, "x=5; cd /usr; echo $$").await;
        let running = session.start(CommandSpec::shell("sleep 60")).await.unwrap();
        running.wait_started().await.unwrap();
        session.reset(restore).await.unwrap();
        let end = tokio::time::timeout(TEST_TIMEOUT, running.wait()).await.expect("it goes on").unwrap();
        assert_ne!(end.reason, EndReason::Exited);
        assert_eq!(said(&session, "echo ${x-none} $PWD").await, expected, "restore: {restore}");
        assert_ne!(said(&session, "echo $$").await, shell);
    }
}

#[tokio::test]
async fn variables_can_be_set_and_unset_by_request() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    session.run(CommandSpec::shell("export gone=there")).await.unwrap();
    let value = "it's $HOME\n*";
    session.set_env(&[("name".into(), Some(value.into())), ("gone".into(), None)]).await.unwrap();
    let text = "printf '%s|' \"${gone-none}\"; sh -c 'printf %s \"$name\"'";
    assert_eq!(said(&session, text).await, format!("none|{value}"));
}

#[tokio::test]
async fn commands_of_a_session_run_one_at_a_time_in_order() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    let log = scene.place.file("log");
    let mut queued = Vec::new();
    for number in 0..5 {
        let text = format!("echo begin {number} >> {0}; sleep 0.02; echo end {number} >> {0}", log.display());
        queued.push(session.start(CommandSpec::shell(text)).await.unwrap());
    }
    for execution in queued {
        assert_eq!(execution.wait().await.unwrap().exit_code, Some(0));
    }
    let expected: String = (0..5).map(|number| format!("begin {number}\nend {number}\n")).collect();
    assert_eq!(std::fs::read_to_string(log).unwrap(), expected);
}

#[tokio::test]
async fn sessions_do_not_wait_for_each_other() {
    let scene = Scene::open().await;
    let (first, second) = (scene.session().await, scene.session().await);
    // Each waits for a word that only the test gives.
    let spec = || CommandSpec::shell("echo up; read x").stdin(Stdin::Open);
    let executions = [first.start(spec()).await.unwrap(), second.start(spec()).await.unwrap()];
    for execution in &executions {
        assert_eq!(next_output(&mut execution.follow(0).unwrap()).await, b"up\n");
    }
    for execution in executions {
        execution.close_stdin().await.unwrap();
        execution.wait().await.unwrap();
    }
}

#[tokio::test]
async fn a_kill_does_not_wait_for_the_queue() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    let running = session.start(CommandSpec::shell("sleep 60")).await.unwrap();
    let mut queued = Vec::new();
    for _ in 0..20 {
        queued.push(session.start(CommandSpec::shell("sleep 60")).await.unwrap());
    }
    let begun = Instant::now();
    for execution in queued.iter().rev().chain([&running]) {
        execution.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
        assert_eq!(execution.wait().await.unwrap().reason, EndReason::Killed);
    }
    assert!(begun.elapsed() < TEST_TIMEOUT, "{:?}", begun.elapsed());
    assert_eq!(said(&session, "echo next").await, "next\n");
}

#[tokio::test]
async fn information_on_a_session_is_current() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    session.run(CommandSpec::shell("cd /usr")).await.unwrap();
    let info = session.info().await.unwrap();
    assert_eq!((info.cwd.as_deref(), info.busy, info.queued), (Some("/usr".as_ref()), false, 0));
    let running = session.start(CommandSpec::shell("sleep 60")).await.unwrap();
    running.wait_started().await.unwrap();
    session.start(CommandSpec::shell("true")).await.unwrap();
    let info = session.info().await.unwrap();
    assert_eq!((info.busy, info.queued, info.restarts), (true, 1, 0));
}

#[tokio::test]
async fn end_of_the_shell_is_reported() {
    let place = Place::new();
    let mut engine = place.open().await;
    let mut session = engine.create_session(SessionSpec::new().id("s".parse().unwrap())).await.unwrap();
    assert!(!session.info().await.unwrap().shell_ended);
    for fatal in ["exit 3", "exec true", "kill -9 $$"] {
        let outcome = session.run(CommandSpec::shell(fatal)).await.unwrap();
        assert!(outcome.end.shell_ended, "{fatal}");
        assert!(session.info().await.unwrap().shell_ended, "{fatal}");
        // The next engine knows it too.
        drop((outcome, session, engine));
        engine = place.open().await;
        session = engine.session(&"s".parse().unwrap()).unwrap();
        assert!(session.info().await.unwrap().shell_ended, "{fatal}");
        session.run(CommandSpec::shell("true")).await.unwrap();
        assert!(!session.info().await.unwrap().shell_ended, "{fatal}");
    }
    session.run(CommandSpec::shell("exit 3")).await.unwrap();
    session.reset(true).await.unwrap();
    assert!(!session.info().await.unwrap().shell_ended);
}

#[tokio::test]
async fn concurrent_resets_are_merged() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    session.run(CommandSpec::shell("x=kept")).await.unwrap();
    for (others, last, expected) in [(true, true, "kept\n"), (true, false, "\n")] {
        let mut resets = tokio::task::JoinSet::new();
        for restore in [others; 7].into_iter().chain([last]) {
            let session = session.clone();
            resets.spawn(async move { session.reset(restore).await });
        }
        for reset in resets.join_all().await {
            reset.unwrap();
        }
        assert_eq!(session.run(CommandSpec::shell("echo $x")).await.unwrap().stdout(), expected);
    }
    session.delete().await.unwrap();
}

#[tokio::test]
async fn reset_without_state_discards_the_saved_state() {
    let scene = Scene::open().await;
    for fatal in ["exit 9", "kill -9 $$", "exec true"] {
        let session = scene.session().await;
        session.run(CommandSpec::shell("y=2")).await.unwrap();
        session.run(CommandSpec::shell(fatal)).await.unwrap();
        session.reset(false).await.unwrap();
        assert_eq!(said(&session, "echo [$y]").await, "[]\n", "{fatal}");
        // Nor does it come back with the next shell.
        session.run(CommandSpec::shell("exit 9")).await.unwrap();
        assert_eq!(said(&session, "echo [$y]").await, "[]\n", "{fatal}");
    }
}
