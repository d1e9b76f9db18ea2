//! [`TestDir`]: a temporary directory with a state directory in it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandcrab_engine::{CommandSpec, Engine, EngineConfig, ExecutionId, OpenError, SupervisorProgram};

use super::{POLL_INTERVAL, PROGRAM, Serve, TEST_TIMEOUT, ended};

/// A temporary directory with a state directory in it. Dropping it ends everything that was started on that
/// state directory.
#[derive(Debug)]
pub(crate) struct TestDir {
    dir: tempfile::TempDir,
}

impl TestDir {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A file beside the state directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.file("state")
    }

    /// `sandcrab serve` with this state directory and a clean environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        self.prepare(&mut command);
        command.arg("serve");
        command
    }

    pub(crate) fn prepare(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SANDCRAB_") {
                command.env_remove(name);
            }
        }
        command
            .env("SANDCRAB_STATE_DIR", self.state())
            .env("SANDCRAB_LISTEN", "127.0.0.1:0")
            .env("SANDCRAB_READY_SHELLS", "0")
            .env("SANDCRAB_WORKSPACE", self.dir.path())
            .env("XDG_CONFIG_HOME", self.file("config"))
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
    }

    /// Starts a server with these options.
    pub(crate) fn serve(&self, options: &[&str]) -> Serve {
        let mut command = self.command();
        command.args(options);
        Serve::start(self, &mut command)
    }

    /// Runs a server that must refuse to start. Returns its exit code and its message.
    pub(crate) fn refused(&self, command: &mut Command) -> (Option<i32>, String) {
        let log = self.file("refused.log");
        let (out, err) = (File::create(&log).unwrap(), File::options().append(true).open(&log).unwrap());
        let mut child = KillOnDrop(command.stdout(out).stderr(err).spawn().unwrap());
        let status = ended(&mut child.0);
        (status.code(), std::fs::read_to_string(&log).unwrap())
    }

    /// Opens an engine on the state directory while there is no server.
    pub(crate) fn with_engine<T>(&self, work: impl AsyncFnOnce(&Engine) -> T) -> T {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let mut config = EngineConfig::new(self.state());
            config.supervisor = SupervisorProgram::At(PROGRAM.into());
            config.ready_shells = 0;
            config.cwd = self.dir.path().to_owned();
            let deadline = Instant::now() + TEST_TIMEOUT;
            let engine = loop {
                match Engine::open(config.clone()).await {
                    Ok(engine) => break engine,
                    Err(OpenError::InUse { .. }) if Instant::now() < deadline => {
                        tokio::time::sleep(POLL_INTERVAL).await;
                    }
                    Err(error) => panic!("{error}"),
                }
            };
            work(&engine).await
        })
    }

    /// Starts a command that a server later adopts, and waits until it has written a line.
    pub(crate) fn begin(&self, name: &str, text: &str) {
        self.with_engine(async |engine| {
            let execution = engine.start(CommandSpec::shell(text).id(id(name))).await.unwrap();
            while execution.output(100).unwrap().cursor == 0 {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        });
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        if self.state().join("lock").exists() {
            // On a separate thread, because the test may be inside a runtime.
            let stop = || self.with_engine(async |engine| engine.stop_all(9, Duration::ZERO).await);
            drop(std::thread::scope(|scope| scope.spawn(stop).join()));
        }
    }
}

/// Returns the id of an execution.
pub(crate) fn id(text: &str) -> ExecutionId {
    text.parse().unwrap()
}

/// A child that is killed when dropped.
pub(crate) struct KillOnDrop(pub(crate) Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
