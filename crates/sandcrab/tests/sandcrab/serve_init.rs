//! `sandcrab serve` as the first process of a container.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use sandcrab_engine::EndReason;

use crate::support::{PROGRAM, Serve, TestDir, children, ended, eventually, id, kill_and_wait, send};

/// Environment variable that makes this test program start an execution, with the path for it.
const BEGIN: &str = "SANDCRAB_TEST_BEGIN";

/// Not a real test: the other test runs it in a PID namespace before the server starts.
#[test]
#[ignore = "not a test: another test starts it as a program"]
fn begins_an_execution() {
    let state = std::env::var_os(BEGIN).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut config = sandcrab_engine::EngineConfig::new(state);
        config.supervisor = sandcrab_engine::SupervisorProgram::At(PROGRAM.into());
        let engine = sandcrab_engine::Engine::open(config).await.unwrap();
        for (name, text) in [
            ("polite", "trap 'echo bye; exit 3' TERM; echo begun; while :; do sleep 0.01; done"),
            ("stubborn", "trap '' TERM; echo begun; while :; do sleep 0.01; done"),
        ] {
            let spec = sandcrab_engine::CommandSpec::shell(text).id(id(name));
            let execution = engine.start(spec).await.unwrap();
            while execution.output(100).unwrap().cursor == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    });
}

/// A server that is the first process of a PID namespace, and its process id outside of it.
fn serve_as_init(place: &TestDir, words: &str) -> (Serve, u32) {
    let own = std::env::current_exe().unwrap();
    let script = format!(
        "\"$0\" --exact serve_init::begins_an_execution --ignored >&2 && unset {BEGIN} && exec \"$1\" serve {words}"
    );
    let mut command = Command::new("unshare");
    place.prepare(&mut command);
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "bash", "-c"]).arg(script);
    command.arg(own).arg(PROGRAM).env(BEGIN, place.state());
    let serve = Serve::start(place, &mut command);
    let init = children(serve.child.id())[0];
    (serve, init)
}

#[test]
fn root_init_restarts_reaps_and_ends_executions() {
    let place = TestDir::new();
    let (mut serve, init) = serve_as_init(&place, "--stop-grace 500ms");
    let is_server = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sandcrab-server\0"))
    };
    let server = || eventually("there is a server", || children(init).into_iter().find(is_server));
    let before = server();
    kill_and_wait(before);
    assert!(serve.answers());
    assert_ne!(server(), before);
    assert!(serve.log().contains("running=2"), "{}", serve.log());
    send(init, Signal::TERM);
    assert_eq!(ended(&mut serve.child).code(), Some(0), "{}", serve.log());
    // The execution belongs to another PID namespace, so it is not adopted. Its recorded output is kept.
    place.with_engine(async |engine| {
        let polite = engine.execution(&id("polite")).unwrap();
        assert_eq!(polite.wait().await.unwrap().exit_code, Some(3));
        assert_eq!(polite.output(100).unwrap().stdout.bytes, b"begun\nbye\n");
        let end = engine.execution(&id("stubborn")).unwrap().wait().await.unwrap();
        assert_eq!((end.reason, end.signal), (EndReason::Killed, Some(9)));
    });
}
