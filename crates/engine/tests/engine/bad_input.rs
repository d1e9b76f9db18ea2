//! What is refused, with an error that says what to do, and that nothing is left of it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use sandcrab_engine::{
    CommandSpec, EndReason, Engine, Limits, MAX_ENV_BYTES, SessionError, SessionSpec, StartError, Stdin,
};

use crate::support::{Host, Place, Scene, eventually, eventually_blocking, not_run};

/// The processes of an idle engine: its ready shells, and no others.
async fn nothing_is_left(place: &Place, engine: &Engine) {
    assert_eq!(engine.health().running, 0);
    let idle = || place.supervisors().len() == 4 && place.count("supervisors") == 4;
    eventually("only what is ready is there", idle).await;
    assert!(engine.executions().is_empty());
    assert!(place.count("journals") <= 4, "{} slots", place.count("journals"));
}

/// Runs something many times that must fail, and checks that nothing is left.
async fn refused(spec: CommandSpec, expected: impl Fn(&StartError) -> bool) {
    let place = Place::new();
    let engine = place.open().await;
    for _ in 0..8 {
        match engine.start(spec.clone()).await {
            Err(e) => assert!(expected(&e), "{e:?}"),
            Ok(execution) => panic!("it runs: {:?}", execution.info()),
        }
    }
    nothing_is_left(&place, &engine).await;
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
}

/// The same in a session, where the refusal may come with the command's turn.
async fn refused_in_session(spec: CommandSpec, expected: impl Fn(&StartError) -> bool) {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    session.run(CommandSpec::shell("x=5")).await.unwrap().execution.wait_closed().await;
    for _ in 0..8 {
        match session.run(spec.clone()).await {
            Err(e) => assert!(expected(&e), "{e:?}"),
            Ok(outcome) => panic!("it ran: {outcome:?}"),
        }
    }
    assert_eq!((engine.health().running, engine.executions().len()), (0, 1));
    assert_eq!(session.run(CommandSpec::shell("echo $x")).await.unwrap().stdout(), "5\n");
}

fn is_bad_cwd(e: &StartError, path: &Path) -> bool {
    matches!(e, StartError::BadCwd { path: named, .. } if named == path) && e.to_string().contains("exists")
}

#[tokio::test]
async fn missing_directory_is_refused() {
    let path = Path::new("/nonexistent/folder");
    refused(CommandSpec::shell("pwd").cwd(path), |e| is_bad_cwd(e, path)).await;
    refused(CommandSpec::argv(["pwd"]).cwd(path), |e| is_bad_cwd(e, path)).await;
    refused_in_session(CommandSpec::shell("pwd").cwd(path), |e| is_bad_cwd(e, path)).await;
}

#[tokio::test]
async fn file_as_directory_is_refused() {
    let path = Path::new("/etc/passwd");
    refused(CommandSpec::shell("pwd").cwd(path), |e| is_bad_cwd(e, path)).await;
    refused(CommandSpec::argv(["pwd"]).cwd(path), |e| is_bad_cwd(e, path)).await;
}

#[tokio::test]
async fn relative_directory_is_refused() {
    let is_invalid =
        |e: &StartError| matches!(e, StartError::InvalidCommand(why) if why.contains("absolute"));
    refused(CommandSpec::shell("pwd").cwd("tmp"), is_invalid).await;
    refused_in_session(CommandSpec::shell("pwd").cwd("tmp"), is_invalid).await;
}

#[tokio::test]
async fn session_in_a_missing_directory_is_refused() {
    let place = Place::new();
    let engine = place.open().await;
    for _ in 0..8 {
        let made = engine.create_session(SessionSpec::new().cwd("/nonexistent")).await;
        assert!(
            matches!(made, Err(SessionError::Start(StartError::BadCwd { path, .. })) if path == Path::new("/nonexistent"))
        );
    }
    assert!(engine.sessions().is_empty());
    nothing_is_left(&place, &engine).await;
}

#[tokio::test]
async fn missing_program_is_refused() {
    for program in ["no-such-program", "/nonexistent/program", "/etc/passwd/program"] {
        let named = |e: &StartError| matches!(e, StartError::ProgramNotFound(name) if name == program);
        refused(CommandSpec::argv([program]), named).await;
    }
}

#[tokio::test]
async fn file_that_is_not_a_program() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8], mode: u32| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let files = [
        file("not-executable", b"#!/bin/sh\n", 0o644),
        file("no-shebang", b"\x01\x02\x03\x04", 0o755),
        file("bad-elf", b"\x7fELF\x02\x01\x01 and no more", 0o755),
        dir.path().to_owned(),
    ];
    for path in files {
        let named = |e: &StartError| matches!(e, StartError::ProgramNotExecutable { program, .. } if OsStr::new(program) == path);
        refused(CommandSpec::argv([&path]), named).await;
    }
}

#[tokio::test]
async fn nul_bytes_empty_words_and_invalid_names_are_refused() {
    let invalid = |e: &StartError| matches!(e, StartError::InvalidCommand(_));
    let nul = OsStr::from_bytes(b"a\0b");
    let specs = [
        CommandSpec::shell("echo a\0b"),
        CommandSpec::argv([OsStr::new("echo"), nul]),
        CommandSpec::argv([nul]),
        CommandSpec::shell("true").env("NAME", nul),
        CommandSpec::shell("true").env(nul, "value"),
        CommandSpec::shell("true").env("", "value"),
        CommandSpec::shell("true").env("A=B", "value"),
        CommandSpec::shell("true").unset_env("A=B"),
        CommandSpec::shell("true").cwd(Path::new(nul)),
        CommandSpec::argv(Vec::<OsString>::new()),
        CommandSpec::argv([""]),
        CommandSpec::shell("true").digest(vec![0; 257]),
        CommandSpec::shell("true").journal_bytes(1),
        CommandSpec::shell("true").journal_bytes(0),
        CommandSpec::shell("x".repeat(sandcrab_engine::MAX_COMMAND_BYTES + 1)),
        CommandSpec::shell("true").env("BIG", "x".repeat(sandcrab_engine::MAX_ENV_BYTES)),
        CommandSpec::shell("true").stdin(Stdin::Bytes(vec![0; sandcrab_engine::MAX_STDIN_BYTES + 1])),
        CommandSpec::shell("true").stdin(Stdin::OpenWith(vec![0; sandcrab_engine::MAX_STDIN_BYTES + 1])),
    ];
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    for spec in specs {
        for started in [engine.start(spec.clone()).await, session.start(spec).await] {
            match started {
                Err(e) => assert!(invalid(&e), "{e:?}"),
                Ok(execution) => panic!("it runs: {:?}", execution.info()),
            }
        }
    }
    session.delete().await.unwrap();
    nothing_is_left(&place, &engine).await;
}

#[tokio::test]
async fn invalid_variables_of_a_session_are_refused() {
    let place = Place::new();
    let engine = place.open().await;
    for name in ["", "A=B", "A B", "1A", "A-B", "a\0"] {
        let made = engine.create_session(SessionSpec::new().env(name, "x")).await;
        assert!(matches!(made, Err(SessionError::Start(StartError::InvalidCommand(_)))), "{name:?}");
    }
    nothing_is_left(&place, &engine).await;
}

#[tokio::test]
async fn invalid_changes_to_the_environment_of_a_session_are_refused() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    session.run(CommandSpec::shell("x=5")).await.unwrap();
    for name in ["", "A=B", "A B", "1A", "$(touch /tmp/pwned)", "a;b", "a\0"] {
        let set = session.set_env(&[(name.into(), Some("x".into()))]).await;
        assert!(matches!(set, Err(StartError::InvalidCommand(_))), "{name:?}: {set:?}");
    }
    assert_eq!(session.run(CommandSpec::shell("echo $x")).await.unwrap().stdout(), "5\n");
}

#[tokio::test]
async fn arguments_beyond_the_kernels_limit_are_refused() {
    let too_long = |e: &StartError| matches!(e, StartError::ArgumentsTooLong);
    // One word of more than 128 KiB; and many that are too long together.
    refused(CommandSpec::argv(["true".to_owned(), "x".repeat(200_000)]), too_long).await;
    let many = std::iter::once("true".to_owned()).chain((0..40).map(|_| "x".repeat(100_000)));
    refused(CommandSpec::argv(many), too_long).await;
    refused(CommandSpec::argv(["true"]).env("BIG", "x".repeat(200_000)), too_long).await;
}

#[tokio::test]
async fn shell_works_with_an_environment_too_large_for_programs() {
    let place = Place::new();
    let engine = place.open().await;
    let spec = CommandSpec::shell("echo ${#BIG}; /bin/true; echo $?").env("BIG", "x".repeat(200_000));
    let outcome = engine.run(spec).await.unwrap();
    // As in any shell: what needs no new program works, and the rest says why it does not.
    assert_eq!(outcome.stdout(), "200000\n126\n");
    assert!(outcome.stderr().contains("Argument list too long"), "{}", outcome.stderr());
    assert_eq!(engine.run(CommandSpec::shell("/bin/echo on")).await.unwrap().stdout(), "on\n");
}

#[tokio::test]
async fn invalid_limits() {
    let unlimited = Limits::default;
    let place = Place::new();
    let engine = place.open().await;
    let bad = [
        Limits { memory_bytes: Some(0), ..unlimited() },
        Limits { memory_bytes: Some(u64::MAX), ..unlimited() },
        Limits { cpu_seconds: Some(0), ..unlimited() },
        Limits { cpu_seconds: Some(u64::MAX), ..unlimited() },
        Limits { processes: Some(0), ..unlimited() },
        Limits { processes: Some(u64::MAX), ..unlimited() },
        Limits { open_files: Some(0), ..unlimited() },
        Limits { open_files: Some(u64::MAX), ..unlimited() },
        Limits { file_size_bytes: Some(u64::MAX), ..unlimited() },
    ];
    for limits in bad {
        for spec in [CommandSpec::shell("true"), CommandSpec::argv(["true"])] {
            let started = engine.start(spec.limits(limits.clone())).await;
            assert!(matches!(started, Err(StartError::Limit(_))), "{limits:?}: {started:?}");
        }
    }
    nothing_is_left(&place, &engine).await;
}

#[tokio::test]
async fn extreme_values_of_numbers() {
    let place = Place::new();
    let engine = place.open().await;
    let longest = Duration::MAX;
    let spec = CommandSpec::shell("echo on").timeout(longest).idle_timeout(longest).journal_bytes(u64::MAX);
    assert_eq!(engine.run(spec).await.unwrap().stdout(), "on\n");
    let limits = Limits { output_bytes: Some(u64::MAX), ..Limits::default() };
    assert_eq!(engine.run(CommandSpec::shell("echo on").limits(limits)).await.unwrap().stdout(), "on\n");
    let limits = Limits { output_bytes: Some(0), ..Limits::default() };
    let outcome = engine.run(CommandSpec::shell("echo on; sleep 60").limits(limits)).await.unwrap();
    assert_eq!((outcome.end.reason, outcome.stdout().as_str()), (EndReason::OutputLimit, ""));
    let outcome = engine.run(CommandSpec::shell("sleep 60").timeout(Duration::ZERO)).await.unwrap();
    assert_eq!(outcome.end.reason, EndReason::Timeout);
    let running = engine.start(CommandSpec::argv(["sleep", "60"])).await.unwrap();
    running.kill(15, longest).await.unwrap();
    assert_eq!(running.wait().await.unwrap().reason, EndReason::Killed);
}

#[tokio::test]
async fn limit_of_executions() {
    let place = Place::new();
    let engine = place.open_with(|config| config.max_executions = 2).await;
    let first = engine.start(CommandSpec::shell("sleep 60")).await.unwrap();
    let second = engine.start(CommandSpec::shell("sleep 60")).await.unwrap();
    for _ in 0..8 {
        let third = engine.start(CommandSpec::shell("true")).await;
        assert!(matches!(third, Err(StartError::TooManyExecutions(2))), "{third:?}");
    }
    for execution in [first, second] {
        execution.kill(9, Duration::ZERO).await.unwrap();
        execution.wait().await.unwrap();
    }
    assert_eq!(engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
    eventually("only what is ready is there", || place.supervisors().len() == 4).await;
}

#[tokio::test]
async fn limit_of_sessions() {
    let place = Place::new();
    let engine = place.open_with(|config| config.max_sessions = 2).await;
    let first = engine.create_session(SessionSpec::new()).await.unwrap();
    engine.create_session(SessionSpec::new()).await.unwrap();
    for _ in 0..8 {
        assert!(matches!(engine.create_session(SessionSpec::new()).await, Err(SessionError::TooMany(2))));
    }
    first.delete().await.unwrap();
    engine.create_session(SessionSpec::new()).await.unwrap();
}

#[tokio::test]
async fn full_queue_refuses_commands() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    let first = session.start(CommandSpec::shell("sleep 60")).await.unwrap();
    first.wait_started().await.unwrap();
    let mut queued = Vec::new();
    let refused = loop {
        match session.start(CommandSpec::shell("x=$((x+1))")).await {
            Ok(execution) => queued.push(execution),
            Err(e) => break e,
        }
        assert!(queued.len() <= 1000);
    };
    assert!(matches!(refused, StartError::QueueFull), "{refused:?}");
    assert_eq!(queued.len(), 1000);
    first.kill(9, Duration::ZERO).await.unwrap();
    for execution in &queued {
        assert_eq!(execution.wait().await.unwrap().reason, EndReason::Exited);
    }
    assert_eq!(session.run(CommandSpec::shell("echo $x")).await.unwrap().stdout(), "1000\n");
    assert_eq!(engine.health().running, 0);
}

/// Whatever waits in a session's queue counts.
#[tokio::test]
async fn full_queue_refuses_changes_to_the_environment() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    let first = session.start(CommandSpec::shell("sleep 60")).await.unwrap();
    first.wait_started().await.unwrap();
    let mut changes = tokio::task::JoinSet::new();
    for number in 0..1005 {
        let session = session.clone();
        let change = [("X".into(), Some(number.to_string().into()))];
        changes.spawn(async move { session.set_env(&change).await });
    }
    // They are refused at once; those that wait are answered in their turn.
    for _ in 0..5 {
        let refused = changes.join_next().await.unwrap().unwrap();
        assert!(matches!(refused, Err(StartError::QueueFull)), "{refused:?}");
    }
    assert_eq!(session.info().await.unwrap().queued, 1000);
    first.kill(9, Duration::ZERO).await.unwrap();
    while let Some(changed) = changes.join_next().await {
        changed.unwrap().unwrap();
    }
    session.delete().await.unwrap();
}

#[tokio::test]
async fn lack_of_descriptors_is_reported_and_recovered_from() {
    let place = Place::new();
    let mut host = Host::start_by(&place, &["prlimit", "--nofile=200:200"]);
    assert_eq!(host.answer().as_deref(), Some("open"));
    assert_eq!(host.ask(&["run", "echo before"]), "before ");
    let answer = host.ask(&["hold"]);
    assert!(answer.contains("OutOf") && answer.contains("file descriptors"), "{answer}");
    assert_eq!(host.ask(&["run", "echo after"]), "after ");
    assert_eq!(host.ask(&["session", "s"]), "made");
    host.kill();
    let engine = place.open().await;
    assert_eq!(engine.health().running, 0);
}

/// A cgroup that allows few processes; removed when it goes.
struct FewProcesses(std::path::PathBuf);

impl FewProcesses {
    fn make() -> Option<Self> {
        let own = format!("sandcrab-test-{}", std::process::id());
        for root in ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"] {
            let path = Path::new(root).join(&own);
            if std::fs::create_dir(&path).is_ok() {
                let made = Self(path);
                if made.0.join("pids.max").exists() {
                    return Some(made);
                }
            }
        }
        not_run("no writable cgroup with the pids controller");
        None
    }

    fn allow(&self, most: &str) {
        std::fs::write(self.0.join("pids.max"), most).unwrap();
    }
}

impl Drop for FewProcesses {
    fn drop(&mut self) {
        eventually_blocking("its cgroup is empty", || std::fs::remove_dir(&self.0).is_ok());
    }
}

/// An engine in a cgroup that allows few processes, with a session `s` in which `x` is 5.
fn few_processes() -> Option<(FewProcesses, Place, Host)> {
    let few = FewProcesses::make()?;
    let place = Place::new();
    let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", few.0.display());
    let mut host = Host::start_by(&place, &["sh", "-c", &join, "sh"]);
    assert_eq!(host.answer().as_deref(), Some("open"));
    assert_eq!(host.ask(&["session", "s"]), "made");
    assert_eq!(host.ask(&["run-in", "s", "x=5"]), "");
    assert_eq!(host.ask(&["run", "echo before"]), "before ");
    eventually_blocking("all are ready", || host.ask(&["ready"]) == "2");
    Some((few, place, host))
}

const OUT_OF_PROCESSES: &str = "error the machine is out of processes: failed to";

#[tokio::test]
async fn lack_of_processes_is_reported_and_recovered_from() {
    let Some((few, place, mut host)) = few_processes() else { return };
    // From here on nothing can be forked; what is ready can still be used.
    few.allow("1");
    let refused = |answer: &String| answer.starts_with(OUT_OF_PROCESSES);
    let answers: Vec<_> = (0..6).map(|_| host.ask(&["run", "echo x"])).collect();
    assert_eq!(answers[..2], ["x ", "x "], "{answers:?}");
    // Two of each supervisor: a shell that waits for a command, and the one it was forked from. One more supervisor than
    // needed may have been on its way.
    let ran = answers.iter().filter(|answer| *answer == "x ").count();
    assert!(ran <= 6 && ran + answers.iter().filter(|answer| refused(answer)).count() == 6, "{answers:?}");
    let answer = host.ask(&["session", "other"]);
    assert!(refused(&answer) || answer == "made", "{answers:?} {answer}");
    assert_eq!(host.ask(&["run-in", "s", "echo $x"]), "5 ");
    few.allow("max");
    assert_eq!(host.ask(&["run", "/bin/echo after; :"]), "after ");
    assert_eq!(host.ask(&["run-in", "s", "echo $x"]), "5 ");
    host.kill();
    drop(place);
}

/// A supervisor that was used once and cannot start another shell is not used.
#[tokio::test]
async fn session_on_a_supervisor_without_a_shell_is_refused() {
    let Some((few, place, mut host)) = few_processes() else { return };
    few.allow("1");
    // Both that were ready are used, and wait for a shell of their own. One more may have been on its way.
    for _ in 0..2 {
        assert_eq!(host.ask(&["run", "echo x"]), "x ");
    }
    let answers = ["one", "two", "three"].map(|id| host.ask(&["session", id]));
    let made = answers.iter().filter(|answer| *answer == "made").count();
    let refused = answers.iter().filter(|answer| answer.starts_with(OUT_OF_PROCESSES)).count();
    assert!(made <= 3 && made + refused == 3, "{answers:?}");
    few.allow("max");
    assert_eq!(host.ask(&["session", "after"]), "made");
    host.kill();
    drop(place);
}

/// Many changes add up: what they make is bounded as one command's environment is.
#[tokio::test]
async fn an_environment_that_grows_too_large_is_refused() {
    let scene = Scene::open().await;
    let change =
        |name: &str, value: Option<usize>| [(name.into(), value.map(|bytes| "x".repeat(bytes).into()))];
    let large = Some(MAX_ENV_BYTES / 3);
    for name in ["A", "B", "A"] {
        scene.engine.set_env(&change(name, large)).await.unwrap();
    }
    let refused = scene.engine.set_env(&change("C", large)).await;
    assert!(
        matches!(&refused, Err(StartError::InvalidCommand(why)) if why.contains("remove variables")),
        "{refused:?}"
    );
    assert!(!scene.engine.env().iter().any(|(name, _)| name == "C"));
    scene.engine.set_env(&change("A", None)).await.unwrap();
    scene.engine.set_env(&change("C", large)).await.unwrap();
    for name in ["B", "C"] {
        scene.engine.set_env(&change(name, None)).await.unwrap();
    }
    assert_eq!(scene.engine.run(CommandSpec::shell("echo on")).await.unwrap().stdout(), "on\n");
}
