//! One cgroup directory: its processes, its limits, its removal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpid};

use super::mounts::Version;
use crate::procfs::pid_from;

/// Maximum time to wait for processes to be frozen. Others are stuck in the kernel, and do not fork either.
const FREEZE_LIMIT: Duration = Duration::from_millis(5);
/// Maximum depth of cgroups that a command may have nested in ours.
const MAX_DEPTH: usize = 32;

/// A cgroup in one hierarchy.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(super) version: Version,
    pub(in crate::process_tree) path: PathBuf,
    /// `cgroup.procs`, open for writing: joining is one call.
    procs: File,
    /// Whether its processes were killed at least once.
    killed: AtomicBool,
}

impl Directory {
    pub(super) fn create(version: Version, path: PathBuf) -> io::Result<Self> {
        fs::create_dir(&path)?;
        match OpenOptions::new().write(true).open(path.join("cgroup.procs")) {
            Ok(procs) => Ok(Self { version, path, procs, killed: AtomicBool::new(false) }),
            Err(error) => {
                let _left = fs::remove_dir(&path);
                Err(error)
            }
        }
    }

    /// The file through which a process joins it.
    pub(super) fn procs(&self) -> BorrowedFd<'_> {
        self.procs.as_fd()
    }

    /// Moves a process here.
    pub(super) fn add(&self, pid: i32) -> io::Result<()> {
        (&self.procs).write_all(pid.to_string().as_bytes())
    }

    pub(super) fn write(&self, file: &str, value: &str) -> io::Result<()> {
        // Not `fs::write`, which would create a missing file.
        OpenOptions::new().write(true).open(self.path.join(file))?.write_all(value.as_bytes())
    }

    /// The processes in it and in its descendants.
    pub(super) fn members(&self) -> Vec<Pid> {
        let mut members = Vec::new();
        for_each_below(&self.path, 0, &mut |directory| {
            let text = fs::read(directory.join("cgroup.procs")).unwrap_or_default();
            members.extend(text.split(|byte| *byte == b'\n').filter_map(pid_from));
        });
        members
    }

    /// Whether this process has been moved into it.
    pub(crate) fn holds_me(&self) -> bool {
        self.members().contains(&getpid())
    }

    /// Whether it can be killed with one call.
    pub(crate) fn has_kill_file(&self) -> bool {
        self.version == Version::V2
    }

    /// Kills everything in it, with one call. v2 only.
    pub(crate) fn kill_all(&self) -> io::Result<()> {
        self.killed.store(true, Ordering::Release);
        self.write("cgroup.kill", "1")
    }

    /// Whether a process can be forked into it. The kernel compares the kill count of the cgroup with that of the
    /// forking process's own: if they differ, it kills the fork as one that a kill has just missed.
    pub(super) fn takes_forks(&self) -> bool {
        self.version == Version::V2 && !self.killed.load(Ordering::Acquire)
    }

    /// Freezes everything in it, so that nothing forks. Waits a little for completion.
    pub(crate) fn freeze(&self) -> io::Result<()> {
        let (file, value) = match self.version {
            Version::V1 => ("freezer.state", "FROZEN"),
            Version::V2 => ("cgroup.freeze", "1"),
        };
        self.write(file, value)?;
        let deadline = Instant::now() + FREEZE_LIMIT;
        let state = self.path.join(if self.version == Version::V1 { file } else { "cgroup.events" });
        while Instant::now() < deadline {
            let text = fs::read_to_string(&state)?;
            if text.trim() == "FROZEN" || text.lines().any(|line| line == "frozen 1") {
                break;
            }
            thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }

    /// Thaws everything in it, also what the command itself froze below.
    pub(crate) fn thaw(&self) {
        for_each_below(&self.path, 0, &mut |directory| {
            let (file, value) = match self.version {
                Version::V1 => ("freezer.state", "THAWED"),
                Version::V2 => ("cgroup.freeze", "0"),
            };
            if let Ok(mut file) = OpenOptions::new().write(true).open(directory.join(file)) {
                // It has been removed.
                let _gone = file.write_all(value.as_bytes());
            }
        });
    }

    pub(super) fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        let bytes = bytes.to_string();
        match self.version {
            Version::V2 => {
                self.write("memory.max", &bytes)?;
                // Swapped memory counts too. Swap accounting may not be available.
                optional(self.write("memory.swap.max", "0"))
            }
            Version::V1 => {
                // The limit with swap is never below the one without, in whichever direction they change.
                if self.write("memory.limit_in_bytes", &bytes).is_err() {
                    optional(self.write("memory.memsw.limit_in_bytes", &bytes))?;
                    self.write("memory.limit_in_bytes", &bytes)?;
                }
                optional(self.write("memory.memsw.limit_in_bytes", &bytes))
            }
        }
    }

    pub(super) fn limit_processes(&self, count: u64) -> io::Result<()> {
        self.write("pids.max", &count.to_string())
    }
}

/// Ignores that a file is missing.
fn optional(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Counts the processes in a cgroup that the kernel killed because memory was exhausted. Kept open: a read costs a
/// few microseconds.
#[derive(Debug)]
pub(crate) struct OomCounter(File);

impl OomCounter {
    pub(super) fn open(directory: &Path, version: Version) -> Option<Self> {
        let file = if version == Version::V1 { "memory.oom_control" } else { "memory.events" };
        let counter = Self(File::open(directory.join(file)).ok()?);
        counter.read().map(|_| counter)
    }

    /// The count so far.
    pub(crate) fn read(&self) -> Option<u64> {
        let mut text = [0; 512];
        let n = self.0.read_at(&mut text, 0).ok()?;
        let text = str::from_utf8(&text[..n]).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
    }
}

/// Calls `act` for a directory and all below it, the deepest first: commands can create cgroups in theirs.
fn for_each_below(directory: &Path, depth: usize, act: &mut dyn FnMut(&Path)) {
    if depth < MAX_DEPTH
        && let Ok(entries) = fs::read_dir(directory)
    {
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                for_each_below(&entry.path(), depth + 1, act);
            }
        }
    }
    act(directory);
}

/// Removes a cgroup with its descendants. Fails if one of them contains a process.
pub(super) fn remove_tree(directory: &Path) -> io::Result<()> {
    // Nearly always it has no descendants.
    match fs::remove_dir(directory) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => {}
    }
    let mut result = Ok(());
    for_each_below(directory, 0, &mut |directory| {
        result = fs::remove_dir(directory);
    });
    result
}
