//! What the tests share: servers on state directories that are cleaned up.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandcrab_engine::{CommandSpec, Engine, EngineConfig, ExecutionId, OpenError, SupervisorProgram};

/// How long something may take that happens at once on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(2);
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_sandcrab");

/// Waits until there is something; fails the test if it takes too long.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(AGAIN);
    }
}

/// A folder with a state directory. When it goes, what was started in it goes first.
#[derive(Debug)]
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// A file beside the state directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.file("state")
    }

    /// `sandcrab serve` with this state directory and nothing from outside.
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

    /// Runs a server that is not to start; its code and what it says.
    pub(crate) fn refused(&self, command: &mut Command) -> (Option<i32>, String) {
        let log = self.file("refused.log");
        let (out, err) = (File::create(&log).unwrap(), File::options().append(true).open(&log).unwrap());
        let mut child = Killed(command.stdout(out).stderr(err).spawn().unwrap());
        let status = ended(&mut child.0);
        (status.code(), std::fs::read_to_string(&log).unwrap())
    }

    /// An engine of the test's own on the state directory, for as long as there is no server.
    pub(crate) fn with_engine<T>(&self, work: impl AsyncFnOnce(&Engine) -> T) -> T {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let mut config = EngineConfig::new(self.state());
            config.supervisor = SupervisorProgram::At(PROGRAM.into());
            config.ready_shells = 0;
            config.cwd = self.dir.path().to_owned();
            let deadline = Instant::now() + PATIENCE;
            let engine = loop {
                match Engine::open(config.clone()).await {
                    Ok(engine) => break engine,
                    Err(OpenError::InUse { .. }) if Instant::now() < deadline => {
                        tokio::time::sleep(AGAIN).await;
                    }
                    Err(error) => panic!("{error}"),
                }
            };
            work(&engine).await
        })
    }

    /// Starts a command that a server then takes over, and waits until it has written a line.
    pub(crate) fn begin(&self, name: &str, text: &str) {
        self.with_engine(async |engine| {
            let execution = engine.start(CommandSpec::shell(text).id(id(name))).await.unwrap();
            while execution.output(100).unwrap().cursor == 0 {
                tokio::time::sleep(AGAIN).await;
            }
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.state().join("lock").exists() {
            self.with_engine(async |engine| engine.stop_all(9, Duration::ZERO).await);
        }
    }
}

/// An id of an execution.
pub(crate) fn id(text: &str) -> ExecutionId {
    text.parse().unwrap()
}

/// A child that is killed when it goes.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Waits for a child's end.
#[track_caller]
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
    eventually("it ends", || child.try_wait().unwrap())
}

/// A `sandcrab serve` that listens. It is killed when it goes.
#[derive(Debug)]
pub(crate) struct Serve {
    pub(crate) child: Child,
    pub(crate) address: String,
    /// Behind a lock, so that requests can be sent from other threads.
    lines: Mutex<Receiver<String>>,
    log: PathBuf,
}

impl Serve {
    /// Starts it, and waits until it says where it listens.
    #[track_caller]
    pub(crate) fn start(place: &Place, command: &mut Command) -> Self {
        let log = place.file("serve.log");
        let errors = File::create(&log).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || out.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        let lines = Mutex::new(lines);
        let mut serve = Self { child, address: String::new(), lines, log };
        let line = serve.line();
        serve.address = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
        serve
    }

    /// The next line of its standard output.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        let line = self.lines.lock().unwrap().recv_timeout(PATIENCE);
        line.unwrap_or_else(|_| panic!("it says nothing: {}", self.log()))
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.child.id(), signal);
    }

    /// The process of the server itself.
    #[track_caller]
    pub(crate) fn server(&self) -> u32 {
        let is_server = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.starts_with(b"sandcrab-server\0")
        };
        eventually("there is a server", || children(self.child.id()).into_iter().find(is_server))
    }

    /// Stops it; it has to end well.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = ended(&mut self.child);
        assert_eq!(status.code(), Some(0), "{}", self.log());
    }

    /// Sends a request with the token, and waits for all of its answer.
    pub(crate) fn ask(&self, place: &Place, what: &str, body: &str) -> Option<String> {
        let token = std::fs::read_to_string(place.state().join("token")).unwrap();
        ask(&self.address, what, token.trim(), body)
    }

    /// Whether it answers.
    pub(crate) fn answers(&self) -> bool {
        ping(&self.address).is_some_and(|answer| answer.starts_with("HTTP/1.1 "))
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // Its server follows it.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Asks for a sign of life; `None` if nobody is there.
pub(crate) fn ping(address: &str) -> Option<String> {
    ask(address, "GET /api/ping", "", "")
}

/// Sends a request and waits for all of its answer; `None` if nobody is there, or he goes away.
pub(crate) fn ask(address: &str, what: &str, token: &str, body: &str) -> Option<String> {
    let request = format!(
        "{what} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let exchange = |mut stream: Box<dyn Stream>| {
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    if let Some(path) = address.strip_prefix("unix:") {
        return exchange(Box::new(UnixStream::connect(path).ok()?));
    }
    let stream = TcpStream::connect(address.strip_prefix("http://")?).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    exchange(Box::new(stream))
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

pub(crate) fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// The children of a process, those included that were not reaped.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|(_, above)| above == parent)).collect()
}

/// Whether a process is there and has not ended.
pub(crate) fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// The state of a process, and its parent.
pub(crate) fn stat(pid: u32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// The permissions of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&std::fs::symlink_metadata(path).unwrap().permissions()) & 0o777
}
