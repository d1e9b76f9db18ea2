//! [`ServerProcess`]: a server that a test may kill.

mod disk;
#[path = "../../../../engine/tests/engine/support/not_run.rs"]
mod not_run;
mod upstream;

use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, SocketAddrUnix, getpeername, shutdown};
use rustix::process::{
    ForeignRawFd, Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open,
};
use sandcrab_conformance::http::{Connection, TEST_TIMEOUT, Target};

pub(crate) use disk::{Disk, HungDisk};
pub(crate) use not_run::not_run;
pub(crate) use upstream::{LARGE_BYTES, Upstream};

const TOKEN: &str = "conformance-token-0123456789abcdef";
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A server on a free port, with a new state directory. It is cleaned up on drop.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    pub(crate) target: Target,
    child: Child,
    settings: Vec<String>,
    state: PathBuf,
    dir: tempfile::TempDir,
}

impl ServerProcess {
    /// Starts a server with these settings (`name=number`).
    pub(crate) async fn start(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        Self::start_in(dir, state, settings).await
    }

    /// Starts a server with this state directory below a temporary one.
    pub(crate) async fn start_in(dir: tempfile::TempDir, state: PathBuf, settings: &[&str]) -> Self {
        Self::start_by(dir, state, settings, &[]).await
    }

    /// Starts a server in a new network namespace with only a loopback device. Needs root.
    pub(crate) async fn start_alone(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let through = ["unshare", "--net", "bash", "-c", r#"ip link set lo up && exec "$@""#, "bash"];
        Self::start_by(dir, state, settings, &through).await
    }

    /// Starts a server with these groups. Needs root.
    pub(crate) async fn start_in_groups(groups: &str, settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        Self::start_by(dir, state, settings, &["setpriv", "--groups", groups]).await
    }

    /// Starts a server through another program.
    async fn start_by(dir: tempfile::TempDir, state: PathBuf, settings: &[&str], through: &[&str]) -> Self {
        let settings: Vec<_> = settings.iter().map(|&setting| setting.to_owned()).collect();
        let mut child = command(through, &state, "127.0.0.1:0", &settings).spawn().unwrap();
        let url = first_line(&mut child);
        let target = Target::new(&url, Some(TOKEN.to_owned())).unwrap();
        Self { target, child, settings, state, dir }
    }

    /// A directory beside the state directory.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// Returns the resident set size in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// Returns the peak resident set size in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        // It may have ended.
        let _ = kill_process(pid, signal);
    }

    /// Kills the server and waits for its end. Its port is then free, and its executions continue.
    pub(crate) fn crash(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
    }

    /// Starts the server again, on the same port and state directory.
    pub(crate) async fn restart(&mut self) {
        let mut child = command(&[], &self.state, self.target.authority(), &self.settings).spawn().unwrap();
        first_line(&mut child);
        self.child = child;
        drop(Connection::open(&self.target).await.unwrap());
    }

    /// Waits for its end and returns its exit code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "the server has not ended within {TEST_TIMEOUT:?}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Ends the server and everything it runs.
    pub(crate) async fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.ended().await, Some(0), "the server did not end well");
    }

    /// Ends the connections of the server to its supervisors, as if they had failed. Returns their number.
    pub(crate) fn break_links(&self) -> usize {
        let server = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        let server = pidfd_open(server, PidfdFlags::empty()).unwrap();
        let folder = self.state.join("supervisors");
        let mut broken = 0;
        for entry in std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().flatten() {
            let name = entry.file_name();
            let Some(number) = name.to_str().and_then(|name| name.parse::<ForeignRawFd>().ok()) else {
                continue;
            };
            // It may have been closed meanwhile.
            let Ok(copy) = pidfd_getfd(&server, number, PidfdGetfdFlags::empty()) else { continue };
            let peer = getpeername(&copy).ok().flatten().and_then(|peer| SocketAddrUnix::try_from(peer).ok());
            let Some(path) = peer.as_ref().and_then(SocketAddrUnix::path_bytes) else { continue };
            let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path));
            if path.file_name().is_some_and(|name| folder.join(name).exists()) {
                broken += usize::from(shutdown(&copy, Shutdown::Both).is_ok());
            }
        }
        broken
    }

    /// Returns the process id of the server.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the zygote and supervisors of this state directory.
    pub(crate) fn own_processes(&self) -> Vec<u32> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_own = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            words.next() == Some(b"sandcrab-zygote")
                && words.next() == Some(self.state.as_os_str().as_bytes())
        };
        pids.filter(is_own).collect()
    }
}

impl Drop for ServerProcess {
    /// On SIGTERM the server ends everything it runs. Supervisors that no server can find end their processes
    /// and exit, but this takes a while.
    fn drop(&mut self) {
        // After a wait, the process id is invalid.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::TERM);
        }
        let deadline = Instant::now() + TEST_TIMEOUT / 3;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.state));
        let deadline = Instant::now() + TEST_TIMEOUT;
        while !self.own_processes().is_empty() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn command(through: &[&str], state: &std::path::Path, listen: &str, settings: &[String]) -> Command {
    let words = [through, &[env!("CARGO_BIN_EXE_serves")]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command.arg(state).arg(listen).args(settings).env("SANDCRAB_TOKEN", TOKEN);
    // An interactive shell reads the files of its user.
    command.env("HOME", state.parent().unwrap_or(state));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Returns the first line that a program prints.
fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Returns whether the long form of a test was requested.
pub(crate) fn is_soak() -> bool {
    std::env::var_os("SANDCRAB_SOAK").is_some()
}

/// Returns the number of lines of a file; 0 if it does not exist.
pub(crate) fn lines_of(path: &std::path::Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

/// Waits for a future, with [`TEST_TIMEOUT`].
pub(crate) async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TEST_TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("not within {TEST_TIMEOUT:?}"),
    }
}

/// Waits until a value is at most `bound`, for a minute at most. Returns the last value.
pub(crate) async fn settled(bound: u64, value: impl Fn() -> u64) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let now = value();
        if now <= bound || Instant::now() > deadline {
            return now;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
