//! Real processes as the kernel shows them, looked at without the engine's help.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A process as it was when it was seen: an id is used again, a start time is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) pid: u32,
    start: u64,
}

/// What `/proc/<pid>/stat` says.
struct Stat {
    state: char,
    parent: u32,
    cpu_ticks: u64,
    start: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Counted from behind the name, which may hold anything.
        let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            cpu_ticks: number(11)? + number(12)?,
            start: number(19)?,
        })
    }
}

impl Seen {
    /// A process that is there now; one that has ended and was not reaped yet is not.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let Stat { state, start, .. } = Stat::of(pid)?;
        (!matches!(state, 'Z' | 'X')).then_some(Self { pid, start })
    }

    /// Whether it is still there.
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

    /// The words of its command line, a NUL after each.
    pub(crate) fn command_line(self) -> Vec<u8> {
        std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default()
    }

    /// The number of its parent.
    pub(crate) fn parent(self) -> Option<u32> {
        Stat::of(self.pid).map(|stat| stat.parent)
    }

    /// The number that names its supervisor, which everything below a supervisor inherits.
    pub(crate) fn tag(self) -> Option<u64> {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", self.pid)).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
        let limit: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        (limit >> 62 == 1).then_some((limit >> 20) & ((1 << 42) - 1))
    }
}

/// Every process that is younger than this one: whatever a test starts, and nothing that costs time to
/// look at on a busy machine.
pub(crate) fn younger() -> impl Iterator<Item = Seen> {
    let own = Stat::of(std::process::id()).map_or(0, |stat| stat.start);
    let entries = std::fs::read_dir("/proc").unwrap();
    let all = entries.filter_map(|entry| Seen::of(entry.ok()?.file_name().to_str()?.parse().ok()?));
    all.filter(move |seen| seen.start >= own)
}

fn works_in(seen: Seen, folder: &Path) -> bool {
    std::fs::read_link(format!("/proc/{}/cwd", seen.pid)).is_ok_and(|cwd| cwd == folder)
}

/// The processes whose working directory is this one. A process keeps it whatever becomes of its
/// parent, session, group and environment, so this finds what a command started.
pub(crate) fn working_in(folder: &Path) -> Vec<Seen> {
    younger().filter(|seen| works_in(*seen, folder)).collect()
}

/// Those of them that run this program.
pub(crate) fn running_in(folder: &Path, program: &str) -> Vec<Seen> {
    // Both are looked at together: some live for a few milliseconds only.
    younger().filter(|seen| works_in(*seen, folder) && seen.name() == program).collect()
}

/// The processes that have this text in a word of their command line.
pub(crate) fn with_argument(text: &str) -> Vec<Seen> {
    let holds = |seen: &Seen| seen.command_line().windows(text.len()).any(|window| window == text.as_bytes());
    younger().filter(holds).collect()
}

/// Every process below this one, those included that were not reaped yet.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut children = HashMap::<u32, Vec<u32>>::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        if let Ok(pid) = entry.file_name().to_string_lossy().parse()
            && let Some(stat) = Stat::of(pid)
        {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = children.remove(&pid).unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    found
}

/// Whether a process has ended and was not reaped.
pub(crate) fn is_zombie(pid: u32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.state == 'Z')
}

/// The processor time a process has used, in ticks of 10 ms; 0 if it is gone.
pub(crate) fn cpu_ticks(pid: u32) -> u64 {
    Stat::of(pid).map_or(0, |stat| stat.cpu_ticks)
}

/// What a process has in memory, in bytes; 0 if it is gone.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let sizes = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = sizes.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// A process that no engine knows of; it ends with this value.
#[derive(Debug)]
pub(crate) struct Stranger {
    child: Child,
    pub(crate) seen: Seen,
}

impl Stranger {
    pub(crate) fn new() -> Self {
        let mut command = Command::new("sleep");
        let child = command.arg("1000").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
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
