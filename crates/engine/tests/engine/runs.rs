//! Commands without a session.

use std::time::Duration;

use sandcrab_engine::{CommandSpec, EndReason, MAX_SHOWN_COMMAND_BYTES, Outcome, ShellDriver, Status, Stdin};

use crate::support::{Place, Scene, id};

/// The outcome of a command, and what has to stay until it has been looked at.
async fn run(spec: CommandSpec) -> (Scene, Outcome) {
    let scene = Scene::open().await;
    let outcome = scene.engine.run(spec).await.unwrap();
    (scene, outcome)
}

#[tokio::test]
async fn streams_are_separate_and_the_exit_code_is_reported() {
    let (_scene, outcome) = run(CommandSpec::shell("echo out; echo err >&2; exit 3")).await;
    assert_eq!((outcome.stdout().as_str(), outcome.stderr().as_str()), ("out\n", "err\n"));
    assert_eq!((outcome.end.reason, outcome.exit_code()), (EndReason::Exited, 3));
}

/// Its end is told before the kernel has ended its shell, so that what it held has to be free by then.
#[tokio::test]
async fn files_of_a_command_are_closed_when_its_end_is_reported() {
    let scene = Scene::open().await;
    for _ in 0..30 {
        let text = format!("exec 9>{}; flock -n 9", scene.place.file("lock").display());
        let outcome = scene.engine.run(CommandSpec::shell(text)).await.unwrap();
        assert_eq!(outcome.exit_code(), 0);
    }
}

#[tokio::test]
async fn arguments_are_passed_unchanged() {
    let (_scene, outcome) = run(CommandSpec::argv(["printf", "%s|", "a  b", "$HOME", "*", ""])).await;
    assert_eq!(outcome.stdout(), "a  b|$HOME|*||");
}

#[tokio::test]
async fn variables_are_set_and_unset() {
    let scene = Scene::open_with(|config| config.env.push(("GIVEN".into(), "g".into()))).await;
    for program in [
        CommandSpec::shell("echo \"${GIVEN-none} ${NEW-none}\""),
        CommandSpec::argv(["sh", "-c", "echo \"${GIVEN-none} ${NEW-none}\""]),
    ] {
        let plain = scene.engine.run(program.clone()).await.unwrap();
        assert_eq!(plain.stdout(), "g none\n");
        let changed = scene.engine.run(program.unset_env("GIVEN").env("NEW", "a b")).await.unwrap();
        assert_eq!(changed.stdout(), "none a b\n");
    }
}

#[tokio::test]
async fn variables_of_the_engine_apply_to_later_commands() {
    let scene = Scene::open().await;
    let engine = &scene.engine;
    let spec = || CommandSpec::shell("echo \"${NAME-none}\"");
    engine.set_env(&[("NAME".into(), Some("value".into()))]).await.unwrap();
    assert_eq!(engine.run(spec()).await.unwrap().stdout(), "value\n");
    let session = engine.create_session(Default::default()).await.unwrap();
    assert_eq!(session.run(spec()).await.unwrap().stdout(), "value\n");
    engine.set_env(&[("NAME".into(), None)]).await.unwrap();
    assert_eq!(engine.run(spec()).await.unwrap().stdout(), "none\n");
    // It began with what was set then.
    assert_eq!(session.run(spec()).await.unwrap().stdout(), "value\n");
}

#[tokio::test]
async fn command_runs_in_its_working_directory() {
    let scene = Scene::open_with(|config| config.cwd = "/usr".into()).await;
    for program in [CommandSpec::shell("pwd"), CommandSpec::argv(["/bin/pwd"])] {
        assert_eq!(scene.engine.run(program.clone()).await.unwrap().stdout(), "/usr\n");
        assert_eq!(scene.engine.run(program.cwd("/usr/lib")).await.unwrap().stdout(), "/usr/lib\n");
    }
}

#[tokio::test]
async fn standard_input_is_empty_by_default() {
    let (_scene, outcome) = run(CommandSpec::shell("cat; echo over")).await;
    assert_eq!(outcome.stdout(), "over\n");
}

#[tokio::test]
async fn given_input_is_read_to_its_end() {
    let (_scene, outcome) = run(CommandSpec::argv(["cat"]).stdin(Stdin::Bytes(b"a\0b\n\xff".to_vec()))).await;
    assert_eq!(outcome.output.stdout.bytes, b"a\0b\n\xff");
}

#[tokio::test]
async fn open_input_is_written_in_pieces_and_closed() {
    let scene = Scene::open().await;
    let engine = &scene.engine;
    let cat = engine.start(CommandSpec::argv(["cat"]).stdin(Stdin::Open)).await.unwrap();
    let mut follower = cat.follow(0).unwrap();
    for piece in ["one ", "two "] {
        cat.write_stdin(piece).await.unwrap();
        let before = follower.cursor();
        while follower.cursor() < before + 4 {
            follower.next().await.unwrap().unwrap();
        }
    }
    assert!(matches!(cat.status(), Status::Running { .. }));
    cat.close_stdin().await.unwrap();
    assert_eq!(cat.wait().await.unwrap().exit_code, Some(0));
    assert_eq!(cat.output(100).unwrap().stdout.bytes, b"one two ");
}

#[tokio::test]
async fn open_input_can_begin_with_given_bytes() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    // More than a pipe takes at once.
    let first = "first\n".repeat(50_000);
    for in_session in [false, true] {
        let spec = CommandSpec::shell("cat")
            .id(id(&format!("cat-{in_session}")))
            .digest("same")
            .stdin(Stdin::OpenWith(first.clone().into_bytes()));
        let start = async || match in_session {
            true => session.start(spec.clone()).await.unwrap(),
            false => scene.engine.start(spec.clone()).await.unwrap(),
        };
        let cat = start().await;
        let again = start().await;
        assert_eq!(again.id(), cat.id());
        again.write_stdin("then\n").await.unwrap();
        cat.close_stdin().await.unwrap();
        assert_eq!(cat.wait().await.unwrap().exit_code, Some(0));
        let output = cat.output(1 << 20).unwrap().stdout.bytes;
        assert!(output == format!("{first}then\n").into_bytes(), "{} bytes", output.len());
    }
}

#[tokio::test]
async fn a_long_command_is_shown_in_part() {
    let place = Place::new();
    let engine = place.open().await;
    let id = id("long");
    // Three bytes each, so that the limit falls within a character.
    let text = format!("echo {} | wc -m", "€".repeat(100_000));
    let outcome =
        engine.run(CommandSpec::shell(text.clone()).id(id.clone()).env("LC_ALL", "C.UTF-8")).await.unwrap();
    assert_eq!(outcome.stdout(), "100001\n");
    let shown = outcome.execution.info().command;
    assert!(shown.len() <= MAX_SHOWN_COMMAND_BYTES && shown.len() > MAX_SHOWN_COMMAND_BYTES - 4);
    assert!(text.starts_with(shown.strip_suffix('…').unwrap()));
    drop((outcome, engine));
    let engine = place.open().await;
    assert_eq!(engine.execution(&id).unwrap().info().command, shown);
    let words = ["true", &"x".repeat(MAX_SHOWN_COMMAND_BYTES - 5)];
    let outcome = engine.run(CommandSpec::argv(words)).await.unwrap();
    assert_eq!(outcome.execution.info().command, words.join(" "));
}

#[tokio::test]
async fn a_background_process_is_listed_until_and_after_its_end() {
    let scene = Scene::open().await;
    let engine = &scene.engine;
    let spec = CommandSpec::argv(["sleep", "60"]).id("server".parse().unwrap()).background();
    let server = engine.start(spec).await.unwrap();
    engine.run(CommandSpec::shell("true")).await.unwrap();
    let listed = || engine.executions().into_iter().map(|e| e.info()).find(|info| info.background).unwrap();
    let info = listed();
    assert_eq!((info.id.to_string(), info.command.as_str()), ("server".into(), "sleep 60"));
    assert!(matches!(info.status, Status::Running { pid } if Some(pid) == info.pid), "{info:?}");
    server.kill(libc::SIGKILL, std::time::Duration::ZERO).await.unwrap();
    server.wait().await.unwrap();
    assert_eq!(listed().status.end().unwrap().reason, EndReason::Killed);
    assert!(listed().ended_at.is_some());
}

#[tokio::test]
async fn engine_reports_its_directory_executions_and_defaults() {
    let scene = Scene::open_with(|config| config.env = vec![("A".into(), "1".into())]).await;
    assert_eq!(scene.engine.state_dir(), scene.place.state());
    scene.engine.run(CommandSpec::shell("true")).await.unwrap();
    let session = scene.session().await;
    let ids = ["first", "second", "third"].map(id);
    let [first, second, third] = ids.clone().map(|id| CommandSpec::shell("sleep 300").id(id));
    let first = scene.engine.start(first).await.unwrap();
    session.start(second).await.unwrap();
    session.start(third).await.unwrap();
    let running: Vec<_> = scene.engine.running().iter().map(|execution| execution.id().clone()).collect();
    assert_eq!(running, ids);
    first.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
    first.wait().await.unwrap();
    assert_eq!(scene.engine.running().len(), 2);

    assert_eq!(scene.engine.env(), [("A".into(), "1".into())]);
    scene.engine.set_env(&[("A".into(), None), ("B".into(), Some("2".into()))]).await.unwrap();
    assert_eq!(scene.engine.env(), [("B".into(), "2".into())]);
}

/// A command's programs inherit no descriptors of the engine, however the command is run.
#[tokio::test]
async fn programs_inherit_no_descriptors_of_the_engine() {
    let text = "ls /proc/self/fd".to_owned();
    let long = format!("{text} #{}", "x".repeat(200 << 10));
    for driver in [ShellDriver::Auto, ShellDriver::Portable] {
        let scene = Scene::open_with(|config| config.shell_driver = driver).await;
        let session = scene.session().await;
        let mut seen = Vec::new();
        for text in [&text, &long] {
            seen.push(scene.engine.run(CommandSpec::shell(text.clone())).await.unwrap());
            // Read by bash only when it starts.
            let spec = CommandSpec::shell(text.clone()).env("BASH_ENV", "/dev/null");
            seen.push(scene.engine.run(spec).await.unwrap());
            seen.push(session.run(CommandSpec::shell(text.clone())).await.unwrap());
            let process = session.start_process(CommandSpec::shell(text.clone()).background()).await.unwrap();
            process.wait().await.unwrap();
            assert_eq!(process.output(100).unwrap().stdout.bytes, b"0\n1\n2\n3\n", "{driver:?}");
        }
        seen.push(scene.engine.run(CommandSpec::argv(["ls", "/proc/self/fd"])).await.unwrap());
        for (number, outcome) in seen.iter().enumerate() {
            // The last is that of the folder itself.
            assert_eq!(outcome.stdout(), "0\n1\n2\n3\n", "{driver:?} {number} {}", outcome.stderr());
        }
        session.delete().await.unwrap();
    }
}

/// The shells of commands are forked from one that has run nothing: nothing of it or of an earlier command shows.
#[tokio::test]
async fn forked_shell_behaves_as_a_new_one() {
    let scene = Scene::open().await;
    let text = "echo $$ $BASHPID $PPID $SHLVL $SECONDS $RANDOM ${#BASH_EXECUTION_STRING} $! $_; echo ${x-unset} $(jobs -p); x=1; ps -o ppid= -p $$";
    let (mut pids, mut randoms) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let outcome = scene.engine.run(CommandSpec::shell(text)).await.unwrap();
        let stdout = outcome.stdout();
        let words: Vec<&str> = stdout.split_whitespace().collect();
        let (shell, rest) = words.split_first().unwrap();
        assert_eq!(rest[0], *shell, "{stdout}");
        // Its parent is the supervisor, as bash and as the kernel say.
        assert_eq!(rest[1], *words.last().unwrap(), "{stdout}");
        assert!(rest[3].parse::<u32>().unwrap() <= 1, "{stdout}");
        assert!(stdout.contains("\nunset\n"), "{stdout}");
        assert_eq!(outcome.end.leftover_count, 0, "{:?}", outcome.end);
        pids.push((*shell).to_owned());
        randoms.push(rest[4].to_owned());
    }
    for list in [&mut pids, &mut randoms] {
        list.sort();
        list.dedup();
        assert!(list.len() > 15, "{list:?}");
    }
}

/// What is counted, listed and signalled of a command is the command's own.
#[tokio::test]
async fn template_shell_is_not_a_process_of_the_command() {
    let scene = Scene::open().await;
    for round in 0..5 {
        let execution = scene.engine.start(CommandSpec::shell("echo $$; exec sleep 60")).await.unwrap();
        crate::support::eventually("it runs", || !execution.output(100).unwrap().stdout.bytes.is_empty())
            .await;
        let bytes = execution.output(100).unwrap().stdout.bytes;
        let pid: u32 = String::from_utf8(bytes).unwrap().trim().parse().unwrap();
        assert_eq!(execution.inspect().await.unwrap().pids, [pid]);
        if round % 2 == 0 {
            let receipt = execution.kill(15, Duration::from_secs(5)).await.unwrap();
            assert_eq!(
                receipt.killed.iter().map(|killed| killed.pid).collect::<Vec<_>>(),
                [pid],
                "{receipt:?}"
            );
        } else {
            execution.signal(15).await.unwrap();
        }
        assert_eq!(execution.wait().await.unwrap().exit_code, Some(143));
    }
}

/// Nothing of how the engine itself was started shows in a command.
#[tokio::test]
async fn command_starts_as_in_a_plain_shell() {
    let place = Place::new();
    let engine = place.open_with(|config| config.env.push(("_".into(), "/of/the/server".into()))).await;
    let session = engine.create_session(sandcrab_engine::SessionSpec::new()).await.unwrap();
    let signals = ["grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"];
    let none = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n";
    assert_eq!(engine.run(CommandSpec::argv(signals)).await.unwrap().stdout(), none);
    let text = || CommandSpec::shell(signals.map(|word| format!("'{word}'")).join(" "));
    assert_eq!(engine.run(text()).await.unwrap().stdout(), none);
    assert_eq!(session.run(text()).await.unwrap().stdout(), none);
    session.delete().await.unwrap();
    let session = engine.create_session(sandcrab_engine::SessionSpec::new()).await.unwrap();
    let text = || CommandSpec::shell("echo ${_##*/}; printenv _ | sed s,.*/,,");
    for outcome in [engine.run(text()).await.unwrap(), session.run(text()).await.unwrap()] {
        assert_eq!(outcome.stdout(), "bash\nprintenv\n");
    }
    // Text that a fresh bash runs, and a program without a shell.
    let fresh = CommandSpec::shell("echo ${_##*/}").env("BASH_ENV", "/dev/null");
    assert_eq!(engine.run(fresh).await.unwrap().stdout(), "bash\n");
    let program = engine.run(CommandSpec::argv(["printenv", "_"])).await.unwrap();
    assert!(program.stdout().ends_with("/printenv\n"), "{}", program.stdout());
    let given = CommandSpec::argv(["printenv", "_"]).env("_", "given");
    assert_eq!(engine.run(given).await.unwrap().stdout(), "given\n");
    session.delete().await.unwrap();
}
