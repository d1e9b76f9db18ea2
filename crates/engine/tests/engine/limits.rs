//! Limits on what a command may use, reached for real.

use sandcrab_engine::{CgroupUse, CommandSpec, EndReason, LeftoverPolicy, Limits, Session, StartError};

use crate::support::{BOTH, Kind, Scene};

const PYTHON: &str = "/usr/bin/python3";
/// Needs 200 MB in one process.
const GREEDY: &str = "head -c 200M /dev/zero | tail | wc -c; (exit ${PIPESTATUS[1]})";
/// Says how many processes it could start, of forty.
const FORKS: &str = "
import os, time
n = 0
try:
    while n < 40:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        n += 1
except OSError as e:
    print(e.errno)
print(n)";

fn memory(bytes: u64) -> Limits {
    Limits { memory_bytes: Some(bytes), ..Limits::default() }
}

#[tokio::test]
async fn out_of_memory_is_the_reason() {
    let scene = Scene::open().await;
    if scene.lacks_cgroup("memory limit") {
        return;
    }
    for kind in BOTH {
        let text = "head -c 200M /dev/zero | tail";
        let running = scene.start(kind, CommandSpec::shell(text).limits(memory(60 << 20))).await;
        let end = running.execution.wait().await.unwrap();
        assert_eq!((end.reason, end.exit_code), (EndReason::Oom, Some(137)), "{kind:?} {end:?}");
        running.close().await;
    }
}

#[tokio::test]
async fn program_without_a_shell_runs_out_of_memory() {
    let scene = Scene::open().await;
    if scene.lacks_cgroup("memory limit") {
        return;
    }
    let spec = CommandSpec::argv([PYTHON, "-c", "x = bytearray(200 << 20)"]).limits(memory(60 << 20));
    let end = scene.engine.run(spec).await.unwrap().end;
    assert_eq!((end.reason, end.signal, end.exit_code), (EndReason::Oom, Some(9), Some(137)));
}

#[tokio::test]
async fn tree_within_its_memory_limit_is_not_killed() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let spec = CommandSpec::shell(GREEDY).limits(memory(600 << 20));
        if kind == Kind::Session && !scene.has_cgroup("memory limit") {
            let session = scene.session().await;
            let refused = session.run(spec).await;
            assert!(matches!(refused, Err(StartError::Limit(_))), "{refused:?}");
            session.delete().await.unwrap();
            continue;
        }
        let running = scene.start(kind, spec).await;
        assert_eq!(running.execution.wait().await.unwrap().exit_code, Some(0), "{kind:?}");
        running.close().await;
    }
}

#[tokio::test]
async fn without_cgroups_memory_is_address_space() {
    let scene = Scene::open_with(|config| config.cgroups = CgroupUse::Off).await;
    let spec = CommandSpec::argv([PYTHON, "-c", "x = bytearray(300 << 20)"]).limits(memory(200 << 20));
    let outcome = scene.engine.run(spec).await.unwrap();
    assert_eq!((outcome.end.reason, outcome.exit_code()), (EndReason::Exited, 1), "{}", outcome.stderr());
    assert!(outcome.stderr().contains("MemoryError"));
}

/// Makes a session with state, and gives back what says that it is still the same.
async fn with_state(scene: &Scene) -> (Session, String) {
    let session = scene.session().await;
    let shell = session.run(CommandSpec::shell("kept=yes; echo $$")).await.unwrap().stdout();
    (session, format!("yes {shell}"))
}

#[tokio::test]
async fn memory_limit_ends_with_its_command() {
    let scene = Scene::open().await;
    if scene.lacks_cgroup("memory limit") {
        return;
    }
    let (session, state) = with_state(&scene).await;
    for _ in 0..3 {
        let limited = session.run(CommandSpec::shell(GREEDY).limits(memory(60 << 20))).await.unwrap();
        assert_eq!(limited.end.reason, EndReason::Oom, "{:?}", limited.end);
        let free = session.run(CommandSpec::shell(GREEDY)).await.unwrap();
        assert_eq!((free.stdout().as_str(), free.exit_code()), ("209715200\n", 0), "{:?}", free.end);
    }
    assert_eq!(session.run(CommandSpec::shell("echo $kept $$")).await.unwrap().stdout(), state);
    session.delete().await.unwrap();
}

#[tokio::test]
async fn queued_commands_with_limits() {
    let scene = Scene::open().await;
    if scene.lacks_cgroup("memory limit") {
        return;
    }
    let session = scene.session().await;
    let mut queued = Vec::new();
    for text in ["sleep 60 & echo 1", "echo 2", "sleep 60 & echo 3"] {
        queued.push(session.start(CommandSpec::shell(text).limits(memory(100 << 20))).await.unwrap());
    }
    for execution in queued {
        let end = execution.wait().await.unwrap();
        assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(0)));
    }
    session.delete().await.unwrap();
}

#[tokio::test]
async fn shell_killed_by_the_memory_limit_is_restored() {
    let scene = Scene::open().await;
    if scene.lacks_cgroup("memory limit") {
        return;
    }
    let (session, _) = with_state(&scene).await;
    // A fork starts from its state, which is saved for that.
    session.fork(None).await.unwrap().delete().await.unwrap();
    let text = "x=$(head -c 200M /dev/zero | tr '\\0' a); echo no";
    let limited = session.run(CommandSpec::shell(text).limits(memory(60 << 20))).await.unwrap();
    assert_eq!((limited.end.reason, limited.end.shell_ended), (EndReason::Oom, true), "{:?}", limited.end);
    assert_eq!(limited.stdout(), "");
    let next = session.run(CommandSpec::shell("echo $kept")).await.unwrap();
    assert_eq!(next.stdout(), "yes\n");
    assert!(next.end.restored.is_some());
    let free = session.run(CommandSpec::shell(GREEDY)).await.unwrap();
    assert_eq!(free.exit_code(), 0, "{:?}", free.end);
    session.delete().await.unwrap();
}

#[tokio::test]
async fn number_of_processes_is_limited() {
    let scene = Scene::open().await;
    if scene.lacks_cgroup("process limit") {
        return;
    }
    let limits = Limits { processes: Some(10), ..Limits::default() };
    let spec = || CommandSpec::argv([PYTHON, "-c", FORKS]).leftovers(LeftoverPolicy::Kill);
    let run = scene.engine.run(spec().limits(limits.clone())).await.unwrap();
    assert_eq!(run.stdout(), format!("{}\n9\n", libc::EAGAIN));
    let session = scene.session().await;
    let limited = session.run(spec().limits(limits)).await.unwrap();
    // The shell counts too.
    assert_eq!(limited.stdout(), format!("{}\n8\n", libc::EAGAIN));
    let free = session.run(spec()).await.unwrap();
    assert_eq!(free.stdout(), "40\n");
    session.delete().await.unwrap();
}

#[tokio::test]
async fn open_files_are_limited() {
    let scene = Scene::open().await;
    let limits = Limits { open_files: Some(20), ..Limits::default() };
    let spec = CommandSpec::shell("ulimit -n; : 30</dev/null || echo refused").limits(limits.clone());
    let shell = scene.engine.run(spec).await.unwrap();
    assert_eq!((shell.stdout().as_str(), shell.exit_code()), ("20\nrefused\n", 0), "{}", shell.stderr());
    let text = "import os\nfor i in range(30): os.dup(1)";
    let argv = scene.engine.run(CommandSpec::argv([PYTHON, "-c", text]).limits(limits)).await.unwrap();
    assert!(argv.stderr().contains("Too many open files"), "{}", argv.stderr());
}

#[tokio::test]
async fn file_sizes_are_limited() {
    let scene = Scene::open().await;
    let folder = scene.folder("work");
    let limits = Limits { file_size_bytes: Some(1_000_000), ..Limits::default() };
    let argv = ["dd", "if=/dev/zero", "of=file", "bs=1000", "count=2000", "status=none"];
    let spec = CommandSpec::argv(argv).cwd(&folder).limits(limits.clone());
    let end = scene.engine.run(spec).await.unwrap().end;
    assert_eq!((end.reason, end.signal), (EndReason::Signaled, Some(libc::SIGXFSZ)));
    assert_eq!(std::fs::metadata(folder.join("file")).unwrap().len(), 1_000_000);
    // What a command writes to its journal is not a file of its own.
    let spec = CommandSpec::shell("head -c 3000000 /dev/zero").limits(limits);
    let outcome = scene.engine.run(spec).await.unwrap();
    assert_eq!((outcome.exit_code(), outcome.output.stdout.bytes.len()), (0, 3_000_000));
}

#[tokio::test]
async fn processor_time_is_limited() {
    let scene = Scene::open().await;
    let limits = Limits { cpu_seconds: Some(1), ..Limits::default() };
    let shell = scene.engine.start(CommandSpec::shell("while :; do :; done").limits(limits.clone()));
    let argv = CommandSpec::argv(["bash", "-c", "while :; do :; done"]).limits(limits);
    let argv = scene.engine.start(argv);
    for execution in [shell.await.unwrap(), argv.await.unwrap()] {
        let end = execution.wait().await.unwrap();
        assert_eq!((end.reason, end.signal), (EndReason::Signaled, Some(libc::SIGXCPU)), "{end:?}");
        assert_eq!(end.exit_code, Some(128 + libc::SIGXCPU));
        let used = end.usage.user + end.usage.system;
        assert!((0.4..2.0).contains(&used.as_secs_f64()), "{used:?}");
    }
}

#[tokio::test]
async fn root_processes_of_root_cannot_be_limited_without_a_cgroup() {
    let scene = Scene::open_with(|config| config.cgroups = CgroupUse::Off).await;
    let limits = Limits { processes: Some(10), ..Limits::default() };
    let refused = scene.engine.run(CommandSpec::shell("true").limits(limits)).await;
    let Err(StartError::Limit(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("cgroup"), "{why}");
}

#[tokio::test]
async fn limits_of_processes_are_refused_for_commands_of_a_session() {
    let scene = Scene::open().await;
    let (session, state) = with_state(&scene).await;
    for limits in [
        Limits { cpu_seconds: Some(1), ..Limits::default() },
        Limits { open_files: Some(20), ..Limits::default() },
        Limits { file_size_bytes: Some(1), ..Limits::default() },
    ] {
        let refused = session.run(CommandSpec::shell("true").limits(limits)).await;
        assert!(matches!(refused, Err(StartError::Limit(_))), "{refused:?}");
    }
    assert_eq!(session.run(CommandSpec::shell("echo $kept $$")).await.unwrap().stdout(), state);
    session.delete().await.unwrap();
}

#[tokio::test]
async fn low_limits_of_open_files_are_refused_or_sufficient() {
    let scene = Scene::open().await;
    for count in (1..=8).chain([15, 16, 17]) {
        let limits = || Limits { open_files: Some(count), ..Limits::default() };
        for spec in [CommandSpec::shell("ulimit -n; echo hi"), CommandSpec::argv(["echo", "hi"])] {
            let is_text = matches!(spec.program, sandcrab_engine::Program::Shell(_));
            let run = tokio::time::timeout(
                std::time::Duration::from_secs(20),
                scene.engine.run(spec.limits(limits())),
            );
            match run.await.unwrap() {
                Ok(outcome) => {
                    assert!(count >= 4, "{count}");
                    let expected = if is_text { format!("{count}\nhi\n") } else { "hi\n".to_owned() };
                    assert_eq!(outcome.stdout(), expected, "{count} {}", outcome.stderr());
                }
                Err(StartError::Limit(why)) => {
                    assert!(count < 4 && why.contains("the minimum is 4"), "{count} {why}");
                }
                Err(e) => panic!("{count} {e}"),
            }
        }
    }
}

/// A command may change the limits of its own supervisor. The next ones find them as they were.
#[tokio::test]
async fn supervisor_with_lowered_limits_continues() {
    let scene = Scene::open().await;
    let lower = |limits: [&str; 3]| {
        let [a, b, c] = limits;
        let text = format!("for l in {a} {b} {c}; do prlimit --pid $PPID --$l || exit 9; done; echo lowered");
        CommandSpec::shell(text)
    };
    let session = scene.session().await;
    for _ in 0..3 {
        let soft = || lower(["nofile=5:", "fsize=0:", "nproc=0:"]);
        let echo = || CommandSpec::shell("echo hi | cat");
        for (lowered, next) in [
            (session.run(soft()).await.unwrap(), session.run(echo()).await.unwrap()),
            (scene.engine.run(soft()).await.unwrap(), scene.engine.run(echo()).await.unwrap()),
        ] {
            assert_eq!(lowered.stdout(), "lowered\n", "{} {:?}", lowered.stderr(), lowered.end);
            assert_eq!((next.stdout().as_str(), next.exit_code()), ("hi\n", 0), "{}", next.stderr());
        }
    }
    for _ in 0..3 {
        let hard = || lower(["nofile=5", "nproc=0", "nofile=5"]);
        let lowered = session.run(hard()).await.unwrap();
        assert_eq!(lowered.stdout(), "lowered\n", "{}", lowered.stderr());
        let lowered = scene.engine.run(hard()).await.unwrap();
        assert_eq!(lowered.stdout(), "lowered\n", "{}", lowered.stderr());
        let next = scene.engine.run(CommandSpec::shell("echo hi | cat")).await.unwrap();
        assert_eq!((next.stdout().as_str(), next.exit_code()), ("hi\n", 0), "{}", next.stderr());
    }
    session.delete().await.unwrap();
}

/// The engine has many descriptors for itself, and commands have as many as its program was started with.
#[tokio::test]
async fn commands_inherit_the_engines_limit_of_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(777), maximum: hard }).unwrap();
    let scene = Scene::open().await;
    let raised = getrlimit(Resource::Nofile);
    let most = hard.unwrap_or(u64::MAX).min(sandcrab_engine::MAX_OPEN_FILES);
    assert_eq!((raised.current, raised.maximum), (Some(most.max(777)), hard));
    let text = "ulimit -n; bash -c 'ulimit -n'";
    let session = scene.engine.create_session(Default::default()).await.unwrap();
    for (how, outcome) in [
        ("shell", scene.engine.run(CommandSpec::shell(text)).await),
        ("argv", scene.engine.run(CommandSpec::argv(["bash", "-c", text])).await),
        ("process", scene.engine.run(CommandSpec::shell(text).background()).await),
        ("session", session.run(CommandSpec::shell(text)).await),
    ] {
        assert_eq!(outcome.unwrap().stdout(), "777\n777\n", "{how}");
    }
    let process = session.start_process(CommandSpec::shell(text).background()).await.unwrap();
    process.wait_closed().await;
    assert_eq!(process.output(100).unwrap().stdout.bytes, b"777\n777\n");
}
