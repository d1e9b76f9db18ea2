//! [`Scene`]: a server in a process of its own that can be killed, and the program to use it with.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sandcrab_engine::SupervisorProgram;
use sandcrab_server::{Listen, Server, ServerConfig};

use super::program::{self, Finished, Program};

/// Says in the environment of a process that it is to host a server, and where its state is.
const HOST: &str = "SANDCRAB_TEST_HOST";
/// Where it listens.
const HOST_LISTEN: &str = "SANDCRAB_TEST_HOST_LISTEN";
const TOKEN: &str = "the-token-of-the-tests";

/// A state directory with a server on it. When it goes, everything that the server runs goes first.
#[derive(Debug)]
pub(crate) struct Scene {
    dir: tempfile::TempDir,
    address: SocketAddr,
    host: Option<Child>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut scene = Self { dir, address: ([127, 0, 0, 1], 0).into(), host: None };
        scene.start();
        scene
    }

    /// Starts the server, on the port it had if it had one.
    pub(crate) fn start(&mut self) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stage::host::host_process", "--nocapture"])
            .env(HOST, self.dir.path().join("state"))
            .env(HOST_LISTEN, self.address.to_string())
            // As long as it is open, the server is wanted.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        // What the test harness prints itself has no mark, and may precede ours on a line.
        let address = lines.filter_map(|line| Some(line.split_once("@@")?.1.to_owned())).next();
        self.address = address.unwrap().parse().unwrap();
        self.host = Some(child);
    }

    /// Kills the server with SIGKILL; what it runs goes on.
    pub(crate) fn kill(&mut self) {
        let mut host = self.host.take().unwrap();
        host.kill().unwrap();
        host.wait().unwrap();
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn token(&self) -> &'static str {
        TOKEN
    }

    /// A file beside the state directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The program, told where the server is.
    pub(crate) fn sandcrab(&self, args: &[&str]) -> Command {
        let mut command = program::sandcrab(self.dir.path());
        command.env("SANDCRAB_URL", format!("http://{}", self.address)).env("SANDCRAB_TOKEN", TOKEN);
        command.args(args);
        command
    }

    /// Runs the program to its end.
    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> Finished {
        Program::start(&mut self.sandcrab(args)).finish()
    }

    /// Starts the program.
    pub(crate) fn spawn(&self, args: &[&str]) -> Program {
        Program::start(&mut self.sandcrab(args))
    }

    /// A client of the server.
    pub(crate) fn client(&self) -> sandcrab_client::Client {
        sandcrab_client::Client::connect(&format!("http://{}", self.address), Some(TOKEN)).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Whatever a killed server left is ended by the next one.
        if self.host.is_none() {
            self.start();
        }
        if let Some(mut host) = self.host.take() {
            drop(host.stdin.take());
            drop(host.wait());
        }
    }
}

/// Not a test: the process of a server. It ends, with everything it runs, when its standard input does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_process() {
    let Some(state) = std::env::var_os(HOST) else {
        return;
    };
    let mut config = ServerConfig::new(PathBuf::from(state), TOKEN);
    config.listen = Listen::Tcp(std::env::var(HOST_LISTEN).unwrap().parse().unwrap());
    config.engine.supervisor = SupervisorProgram::At(env!("CARGO_BIN_EXE_sandcrab").into());
    config.engine.ready_shells = 1;
    let server = Server::start(config).await.unwrap();
    let Listen::Tcp(address) = server.address() else { unreachable!("it was told otherwise") };
    say(&address.to_string());
    let engine = server.engine().clone();
    let mut served = tokio::task::JoinSet::new();
    served.spawn(server.run(std::future::pending()));
    let unwanted = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    unwanted.await.unwrap().unwrap();
    engine.stop_all(9, Duration::ZERO).await;
}

#[expect(clippy::print_stdout, reason = "the host says where it is on its standard output")]
fn say(answer: &str) {
    println!("@@{answer}");
}
