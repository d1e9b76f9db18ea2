//! The shared harness: test directories, real servers, and the program, run with a deadline.

mod mcp;
mod program;
mod pty;
mod serve;
mod test_dir;
mod test_server;

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) use mcp::Mcp;
pub(crate) use program::{Finished, Program, sandcrab};
pub(crate) use pty::Pty;
pub(crate) use serve::{Serve, ask, ended, is_server, ping};
pub(crate) use test_dir::{KillOnDrop, TestDir, id};
pub(crate) use test_server::TestServer;

/// Timeout of operations that take milliseconds on an idle machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_sandcrab");

/// Polls until `look` returns a value; fails the test after [`TEST_TIMEOUT`].
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {TEST_TIMEOUT:?}: {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

pub(crate) fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Kills a process and waits until all its threads have ended.
#[track_caller]
pub(crate) fn kill_and_wait(pid: u32) {
    send(pid, Signal::KILL);
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    eventually("it is dead", || (!is_alive(pid) && threads() <= 1).then_some(()));
}

/// Returns the children of a process, including zombies.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|(_, above)| above == parent)).collect()
}

/// Returns whether a process runs. A zombie does not. The process id may be a line of output.
#[track_caller]
pub(crate) fn is_alive(pid: impl ToString + Copy) -> bool {
    let pid = pid.to_string().trim().parse().unwrap();
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// Returns the state of a process, and its parent.
pub(crate) fn stat(pid: u32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Returns the permissions of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&std::fs::symlink_metadata(path).unwrap().permissions()) & 0o777
}
