//! [`TestServer`]: a `sandcrab serve` that can be killed and restarted, and the program to use it with.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use super::{Finished, Program, Serve, TestDir, eventually, is_alive, sandcrab};

/// A server on its own state directory. Dropping it ends the server and everything it runs.
#[derive(Debug)]
pub(crate) struct TestServer {
    /// `None` after [`TestServer::kill`].
    serve: Option<Serve>,
    address: SocketAddr,
    token: String,
    dir: TestDir,
}

impl TestServer {
    pub(crate) fn new() -> Self {
        Self::with_options(&[])
    }

    /// Starts a server with these options of `serve`.
    pub(crate) fn with_options(options: &[&str]) -> Self {
        let dir = TestDir::new();
        let (serve, address) = serve(&dir, "127.0.0.1:0", options);
        let token = std::fs::read_to_string(dir.state().join("token")).unwrap().trim().to_owned();
        Self { serve: Some(serve), address, token, dir }
    }

    /// Starts the server again, on the same port.
    pub(crate) fn start(&mut self) {
        self.serve = Some(serve(&self.dir, &self.address.to_string(), &[]).0);
    }

    /// Kills the server and its parent with SIGKILL. Executions continue.
    pub(crate) fn kill(&mut self) {
        let mut serve = self.serve.take().unwrap();
        let server = serve.server();
        serve.child.kill().unwrap();
        // The server may have ended with its parent.
        let _ = kill_process(Pid::from_raw(server.cast_signed()).unwrap(), Signal::KILL);
        serve.child.wait().unwrap();
        eventually("the server has ended", || (!is_alive(server)).then_some(()));
    }

    /// Stops the server with SIGTERM, and starts it again.
    pub(crate) fn restart(&mut self) {
        self.serve.take().unwrap().stop();
        self.start();
    }

    /// Stops the server with SIGTERM.
    pub(crate) fn stop(mut self) {
        self.serve.take().unwrap().stop();
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        self.serve.as_ref().unwrap().log()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// A file beside the state directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.file(name)
    }

    /// The server's workspace, in which the program runs too.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The program with only the server's address and token in its environment.
    pub(crate) fn sandcrab(&self, args: &[&str]) -> Command {
        let mut command = sandcrab(self.dir());
        command.env("SANDCRAB_URL", format!("http://{}", self.address)).env("SANDCRAB_TOKEN", &self.token);
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
}

fn serve(dir: &TestDir, listen: &str, options: &[&str]) -> (Serve, SocketAddr) {
    let serve = dir.serve(&[&["--listen", listen, "--ready-shells", "1"], options].concat());
    let address = serve.address.strip_prefix("http://").unwrap().parse().unwrap();
    (serve, address)
}
