//! Real processes as the kernel shows them, looked at without the engine's help.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a condition may take that is met at once on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// Waits until a condition is met; fails the test if it takes too long.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A process as it was when it was seen: an id is used again, a start time is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) pid: u32,
    start: u64,
}

/// The state and the start time of a process.
fn stat(pid: u32) -> Option<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

impl Seen {
    /// A process that is there now.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let (state, start) = stat(pid)?;
        (!matches!(state, 'Z' | 'X')).then_some(Self { pid, start })
    }

    /// Whether it is still there; one that has ended and was not reaped yet is not.
    pub(crate) fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Kills it.
    pub(crate) fn kill(self) {
        if self.is_alive()
            && let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
        {
            // It is gone, then.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// The name of its program.
    pub(crate) fn name(self) -> String {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        name.trim_end().to_owned()
    }
}

/// Every process there is.
pub(crate) fn all() -> impl Iterator<Item = Seen> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| Seen::of(entry.ok()?.file_name().to_str()?.parse().ok()?))
}

/// The processes whose working directory is this one. A process keeps it whatever becomes of its
/// parent, session, group and environment, so this finds what a command started.
pub(crate) fn working_in(folder: &Path) -> Vec<Seen> {
    let there =
        |seen: &Seen| std::fs::read_link(format!("/proc/{}/cwd", seen.pid)).is_ok_and(|cwd| cwd == folder);
    all().filter(there).collect()
}

/// Those of them that run this program.
pub(crate) fn running_in(folder: &Path, program: &str) -> Vec<Seen> {
    working_in(folder).into_iter().filter(|seen| seen.name() == program).collect()
}

/// A process that no engine knows of; it ends with this value.
#[derive(Debug)]
pub(crate) struct Stranger {
    child: Child,
    pub(crate) seen: Seen,
}

impl Stranger {
    pub(crate) fn new() -> Self {
        let command = || Command::new("sleep").arg("120").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child = command().unwrap();
        let seen = Seen::of(child.id()).unwrap();
        Self { child, seen }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Ends whatever the engines on a state directory have left when the test fails.
#[derive(Debug)]
pub(crate) struct Sweep(pub(crate) PathBuf);

impl Drop for Sweep {
    fn drop(&mut self) {
        // After a test that passed, supervisors have nothing to do: they leave by themselves, and take
        // their cgroups with them.
        if !std::thread::panicking() {
            return;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = self.supervisors();
            if left.is_empty() || Instant::now() > deadline {
                return;
            }
            for supervisor in left {
                for process in below(supervisor) {
                    process.kill();
                }
                supervisor.kill();
            }
        }
    }
}

impl Sweep {
    fn supervisors(&self) -> Vec<Seen> {
        let path = self.0.to_str().unwrap().as_bytes();
        let own = |seen: &Seen| {
            let line = std::fs::read(format!("/proc/{}/cmdline", seen.pid)).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(path) && line.starts_with(b"sandcrab-zygote")
        };
        all().filter(own).collect()
    }
}

fn below(root: Seen) -> Vec<Seen> {
    let path = format!("/proc/{0}/task/{0}/children", root.pid);
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let children = children.split(' ').filter_map(|pid| Seen::of(pid.parse().ok()?));
    children.flat_map(|child| below(child).into_iter().chain([child])).collect()
}
