//! [`Serve`]: a running `sandcrab serve`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use rustix::process::Signal;

use super::{TEST_TIMEOUT, TestDir, children, eventually, send};

/// Waits for a child's end.
#[track_caller]
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
    eventually("it ends", || child.try_wait().unwrap())
}

/// Returns whether a child of `sandcrab serve` is its server.
pub(crate) fn is_server(pid: &u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.starts_with(b"sandcrab-server\0")
}

/// A listening `sandcrab serve`. It is killed on drop.
#[derive(Debug)]
pub(crate) struct Serve {
    pub(crate) child: Child,
    pub(crate) address: String,
    /// Locked, so that requests can be sent from other threads.
    lines: Mutex<Receiver<String>>,
    log: PathBuf,
}

impl Serve {
    /// Starts it, and waits until it prints its address.
    #[track_caller]
    pub(crate) fn start(place: &TestDir, command: &mut Command) -> Self {
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

    /// Returns the next line of its standard output.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        let line = self.lines.lock().unwrap().recv_timeout(TEST_TIMEOUT);
        line.unwrap_or_else(|_| panic!("it says nothing: {}", self.log()))
    }

    /// Returns its log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.child.id(), signal);
    }

    /// Returns the process id of the server itself.
    #[track_caller]
    pub(crate) fn server(&self) -> u32 {
        eventually("there is a server", || children(self.child.id()).into_iter().find(is_server))
    }

    /// Stops it, and checks its exit code.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = ended(&mut self.child);
        assert_eq!(status.code(), Some(0), "{}", self.log());
    }

    /// Sends a request with the token, and returns the whole response.
    pub(crate) fn ask(&self, place: &TestDir, what: &str, body: &str) -> Option<String> {
        let token = std::fs::read_to_string(place.state().join("token")).unwrap();
        ask(&self.address, what, token.trim(), body)
    }

    /// Returns whether it answers.
    pub(crate) fn answers(&self) -> bool {
        ping(&self.address).is_some_and(|answer| answer.starts_with("HTTP/1.1 "))
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // The server ends with its parent.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Sends a ping. Returns `None` if the connection fails.
pub(crate) fn ping(address: &str) -> Option<String> {
    ask(address, "GET /api/ping", "", "")
}

/// Sends a request and returns the whole response, or `None` if the connection fails.
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
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    exchange(Box::new(stream))
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}
