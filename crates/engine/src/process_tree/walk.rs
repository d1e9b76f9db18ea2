//! Finding processes: what is below one, what carries a supervisor's tag, what a process is called.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpid};
use rustix::thread::gettid;

use super::tag::{Nonce, Tag};
use crate::procfs::{self, Stat, children_path, ids_in, pid_from};

/// The most bytes of a command line that [`command_line`] gives.
pub(crate) const MAX_COMMAND_LINE: usize = 256;
/// How long a walk looks again for orphans that arrived during the walk. What has ended piles up
/// meanwhile, so it gets slower.
const ORPHAN_TIME: Duration = Duration::from_millis(2);

/// Whether the kernel lists the children of a process (CONFIG_PROC_CHILDREN).
fn children_are_listed() -> bool {
    static LISTED: OnceLock<bool> = OnceLock::new();
    *LISTED.get_or_init(|| File::open(children_path(getpid(), getpid())).is_ok())
}

/// Where a walk looks up the children of a process.
enum Source {
    /// The kernel's lists.
    Lists,
    /// One look at all processes, by parent.
    Snapshot(HashMap<Pid, Vec<Pid>>),
}

impl Source {
    fn new() -> Self {
        if children_are_listed() { Self::Lists } else { Self::snapshot() }
    }

    fn snapshot() -> Self {
        let mut children = HashMap::<Pid, Vec<Pid>>::new();
        for pid in ids_in("/proc") {
            if let Some(parent) = Stat::of(pid).and_then(|stat| stat.parent) {
                children.entry(parent).or_default().push(pid);
            }
        }
        Self::Snapshot(children)
    }

    fn children(&self, pid: Pid, threads: u32) -> Vec<Pid> {
        match self {
            Self::Snapshot(children) => children.get(&pid).cloned().unwrap_or_default(),
            Self::Lists if threads == 1 => listed_children(pid, pid),
            Self::Lists => {
                let threads = ids_in(&format!("/proc/{pid}/task"));
                threads.into_iter().flat_map(|thread| listed_children(pid, thread)).collect()
            }
        }
    }
}

fn listed_children(pid: Pid, thread: Pid) -> Vec<Pid> {
    let text = procfs::read_all(&children_path(pid, thread)).unwrap_or_default();
    text.split(|byte| *byte == b' ').filter_map(pid_from).collect()
}

/// The children of a process that has one thread.
pub(crate) fn children_of(pid: Pid) -> Vec<Pid> {
    Source::new().children(pid, 1)
}

/// The children of this process, which has one thread.
pub(crate) fn children() -> Vec<Pid> {
    children_of(getpid())
}

/// Visits everything below `root`, parents first. The visitor gives back what it found out about
/// the process (`None`: it is gone), which says whether and how to go further down. `root` is this
/// process or one that cannot end meanwhile.
///
/// Returns whether nobody was missed but what visited processes forked since. It is false if orphans
/// keep arriving: those that fork and exit faster than they can be looked at.
pub(super) fn walk(root: Pid, visit: &mut dyn FnMut(Pid) -> Option<Stat>) -> bool {
    let mut seen = HashSet::new();
    // One link for each thread, beside its own two: cheaper than reading what else there is to know.
    let links = rustix::fs::stat(format!("/proc/{root}/task")).map_or(3, |task| task.st_nlink);
    let root_threads = u32::try_from(links).map_or(1, |links| links.saturating_sub(2));
    // Orphans come to the root, at the end of its list, while the walk is elsewhere.
    let begun = Instant::now();
    while begun.elapsed() < ORPHAN_TIME || seen.is_empty() {
        let source = Source::new();
        let mut pending = source.children(root, root_threads);
        pending.retain(|pid| !seen.contains(pid));
        if pending.is_empty() {
            return true;
        }
        pending.reverse();
        while let Some(pid) = pending.pop() {
            if !seen.insert(pid) {
                continue;
            }
            if let Some(stat) = visit(pid)
                && !stat.ended
            {
                pending.extend(source.children(pid, stat.threads));
            }
        }
    }
    false
}

/// The living processes below one, in no particular order.
pub(crate) fn descendants(root: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    walk(root, &mut |pid| {
        let stat = Stat::of(pid)?;
        if !stat.ended {
            found.push(pid);
        }
        Some(stat)
    });
    found
}

/// The living processes on this machine that carry a tag of this supervisor, this process excepted.
pub(crate) fn all_with_nonce(nonce: Nonce) -> Vec<Pid> {
    let mut pids = ids_in("/proc");
    pids.retain(|pid| {
        *pid != getpid()
            && Tag::of(*pid).is_some_and(|tag| tag.nonce() == nonce)
            && Stat::of(*pid).is_some_and(|stat| !stat.ended)
    });
    pids
}

/// The command line of a process, arguments joined by spaces, 256 bytes at most; its name in
/// brackets if it has none.
pub(crate) fn command_line(pid: Pid) -> String {
    let mut buffer = [0; MAX_COMMAND_LINE];
    let line = procfs::read(&format!("/proc/{pid}/cmdline"), &mut buffer).unwrap_or_default();
    if line.iter().any(|byte| *byte != 0) {
        let end = line.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        return tidy(&line[..end]);
    }
    let name = procfs::read(&format!("/proc/{pid}/comm"), &mut buffer).unwrap_or_default();
    format!("[{}]", tidy(name.strip_suffix(b"\n").unwrap_or(name)))
}

/// Text for people: no NUL, no character that was cut in two at the end, and [`MAX_COMMAND_LINE`] bytes at most: a byte
/// that is not UTF-8 becomes a character of three.
fn tidy(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = if bytes.len() == MAX_COMMAND_LINE { text.trim_end_matches('\u{fffd}') } else { &text };
    let mut text = text.replace('\0', " ");
    text.truncate(text.floor_char_boundary(MAX_COMMAND_LINE));
    text
}

/// The list of this thread's children, kept open: asking it costs less than a microsecond.
#[derive(Debug)]
pub(crate) struct ChildrenFile {
    file: Option<File>,
}

impl ChildrenFile {
    /// Opens the list of the calling thread, which is the only one of a supervisor. A forked child
    /// has to open its own.
    pub(crate) fn open() -> io::Result<Self> {
        if !children_are_listed() {
            return Ok(Self { file: None });
        }
        Ok(Self { file: Some(File::open(children_path(getpid(), gettid()))?) })
    }

    /// Whether there is any child, ended but unreaped ones included, besides these.
    pub(crate) fn any_besides(&self, besides: [Option<Pid>; 2]) -> io::Result<bool> {
        let Some(file) = &self.file else {
            let children = Source::snapshot().children(getpid(), 1);
            return Ok(children.into_iter().any(|pid| !besides.contains(&Some(pid))));
        };
        // Room for three ids; one that is cut in the middle is still another one.
        let mut buffer = [0; 32];
        let count = file.read_at(&mut buffer, 0)?;
        let mut ids = buffer[..count].split(|byte| *byte == b' ').filter(|id| !id.is_empty());
        Ok(ids.any(|id| pid_from(id).is_none_or(|pid| !besides.contains(&Some(pid)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_bounded_whatever_they_hold() {
        for name in [
            &[0xff_u8; MAX_COMMAND_LINE][..],
            &[0xff; 200],
            "ä".repeat(128).as_bytes(),
            &[1; MAX_COMMAND_LINE],
        ] {
            assert!(tidy(name).len() <= MAX_COMMAND_LINE, "{name:?}");
        }
        assert_eq!(tidy(b"a\0b\xff"), "a b\u{fffd}");
    }
}
