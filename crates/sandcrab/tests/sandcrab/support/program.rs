//! [`Program`]: a running `sandcrab`.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::{POLL_INTERVAL, PROGRAM, TEST_TIMEOUT, eventually};

/// A running program.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Gathered,
    stderr: Gathered,
}

/// The result of a program.
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// As text. Long output is truncated.
impl std::fmt::Debug for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finished")
            .field("code", &self.code)
            .field("stdout", &beginning(&self.stdout))
            .field("stderr", &beginning(self.stderr.as_bytes()))
            .finish()
    }
}

impl Finished {
    /// Returns standard output as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// Returns standard output as one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Fails the test unless the exit code is this.
    #[track_caller]
    pub(crate) fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

/// Collects bytes as they arrive.
#[derive(Default)]
pub(super) struct Gathered {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Gathered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", beginning(&self.so_far()))
    }
}

/// The beginning of an output, as text.
fn beginning(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(2_000)]).into_owned()
}

impl Gathered {
    pub(super) fn from(mut source: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 64 << 10];
            while let Ok(length @ 1..) = source.read(&mut buffer) {
                to.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        Self { bytes, reader: Some(reader) }
    }

    pub(super) fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    pub(super) fn finish(&mut self) -> Vec<u8> {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        std::mem::take(&mut self.bytes.lock().unwrap())
    }
}

/// The program, in a clean environment.
pub(crate) fn sandcrab(home: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear().stdin(Stdio::null());
    for name in ["PATH", "TMPDIR", "LLVM_PROFILE_FILE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.env("HOME", home).env("SANDCRAB_STATE_DIR", home.join("none"));
    command
}

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = Gathered::from(child.stdout.take().unwrap());
        let stderr = Gathered::from(child.stderr.take().unwrap());
        Self { stdin: child.stdin.take(), child, stdout, stderr }
    }

    /// Starts it with this standard input, which is then closed.
    pub(crate) fn fed(command: &mut Command, input: &[u8]) -> Self {
        let mut program = Self::start(command.stdin(Stdio::piped()));
        let mut stdin = program.stdin.take().unwrap();
        let input = input.to_vec();
        std::thread::spawn(move || {
            // The program may not read all of it.
            drop(stdin.write_all(&input));
        });
        program
    }

    /// Waits until it has written this to standard error.
    #[track_caller]
    pub(crate) fn wait_for_error(&self, text: &str) {
        let has_come = || String::from_utf8_lossy(&self.stderr.so_far()).contains(text);
        eventually(text, || has_come().then_some(()));
    }

    /// Returns the standard output so far.
    pub(crate) fn so_far(&self) -> Vec<u8> {
        self.stdout.so_far()
    }

    /// Waits until it has written this to standard output.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        let has_come = || self.so_far().windows(text.len()).any(|part| part == text.as_bytes());
        eventually(text, || has_come().then_some(()));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns its standard input, to keep it open.
    pub(crate) fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().unwrap()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Finished {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end: {self:?}");
            std::thread::sleep(POLL_INTERVAL);
        };
        let stderr = String::from_utf8_lossy(&self.stderr.finish()).into_owned();
        Finished { code: status.code(), stdout: self.stdout.finish(), stderr }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program has ended, unless the test has failed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
