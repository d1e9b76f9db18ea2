//! Finds processes: descendants, and processes with a supervisor's tag; and their command lines.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpid};
use rustix::thread::gettid;

use super::SUPERVISOR;
use super::tag::{Nonce, Tag};
use crate::procfs::{self, Stat, children_path, ids_in, pid_from};

/// Maximum length of the result of [`command_line`], in bytes.
pub(crate) const MAX_COMMAND_LINE: usize = 256;
/// Maximum time of repeated scans for orphans that appear during a walk. Zombies accumulate meanwhile, so it gets
/// slower.
const ORPHAN_TIME: Duration = Duration::from_millis(2);

/// Number of attempts to follow the ancestors of a process while they end.
const MAX_RETRIES: usize = 16;

/// Whether the kernel lists the children of a process (CONFIG_PROC_CHILDREN).
fn children_are_listed() -> bool {
    static LISTED: OnceLock<bool> = OnceLock::new();
    *LISTED.get_or_init(|| File::open(children_path(getpid(), getpid())).is_ok())
}

/// The source of the children of a process.
enum Source {
    /// The kernel's lists.
    Lists,
    /// One scan of all processes, by parent.
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

/// The children of a process with one thread.
pub(crate) fn children_of(pid: Pid) -> Vec<Pid> {
    Source::new().children(pid, 1)
}

/// The children of this process, which has one thread.
pub(crate) fn children() -> Vec<Pid> {
    children_of(getpid())
}

/// Visits everything below `root`, parents first. The visitor returns the `Stat` of the process (`None` if it has
/// ended), which decides whether and how to descend. `root` is this process or one that cannot end meanwhile.
///
/// Returns whether only processes that visited ones forked since may have been missed. It is false if orphans keep
/// appearing: those that fork and exit faster than they can be visited.
pub(super) fn walk(root: Pid, visit: &mut dyn FnMut(Pid) -> Option<Stat>) -> bool {
    let mut seen = HashSet::new();
    // One link for each thread, besides the directory's own two: cheaper than reading the list.
    let links = rustix::fs::stat(format!("/proc/{root}/task")).map_or(3, |task| task.st_nlink);
    let root_threads = u32::try_from(links).map_or(1, |links| links.saturating_sub(2));
    // Orphans are appended to the root's list while the walk is elsewhere. The first pass takes as long as it takes.
    let mut first_pass_over: Option<Instant> = None;
    loop {
        let source = Source::new();
        let mut pending = source.children(root, root_threads);
        pending.retain(|pid| !seen.contains(pid));
        if pending.is_empty() {
            return true;
        }
        if first_pass_over.is_some_and(|at| at.elapsed() >= ORPHAN_TIME) {
            return false;
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
        first_pass_over.get_or_insert_with(Instant::now);
    }
}

/// The live descendants of a process, in no particular order.
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

/// Whether a process is alive and below another one, which cannot end meanwhile. Looks only at its ancestors.
pub(crate) fn is_below(root: Pid, pid: Pid) -> bool {
    matches!(find_ancestor(pid, |ancestor| (ancestor == root).then_some(())), Ok(Some(())))
}

/// The ancestors of a process change faster than they can be followed.
#[derive(Debug)]
pub(super) struct AncestorsChange;

/// The first result for an ancestor of a process, its parent first.
pub(super) fn find_ancestor<T>(
    pid: Pid,
    mut find: impl FnMut(Pid) -> Option<T>,
) -> Result<Option<T>, AncestorsChange> {
    // An ancestor may end between two steps: its children then have another parent.
    (0..MAX_RETRIES).find_map(|_| follow_ancestors(pid, &mut find)).ok_or(AncestorsChange)
}

/// The same; the outer `None` if an ancestor has changed meanwhile.
fn follow_ancestors<T>(pid: Pid, find: &mut impl FnMut(Pid) -> Option<T>) -> Option<Option<T>> {
    let Some(mut child) = Stat::of(pid).filter(|stat| !stat.ended) else { return Some(None) };
    let mut id = pid;
    loop {
        let Some(parent) = child.parent else { return Some(None) };
        let stat = Stat::of(parent)?;
        let found = find(parent);
        // If it is still the parent, its id was not that of another process meanwhile.
        let again = Stat::of(id)?;
        if (again.parent, again.start) != (child.parent, child.start) {
            return None;
        }
        if found.is_some() {
            return Some(found);
        }
        (id, child) = (parent, stat);
    }
}

/// Whether a process is a supervisor, by its name.
pub(super) fn is_supervisor(pid: Pid) -> bool {
    let mut buffer = [0; 32];
    let name = procfs::read(&format!("/proc/{pid}/comm"), &mut buffer).unwrap_or_default();
    name.strip_suffix(b"\n").unwrap_or(name) == SUPERVISOR.to_bytes()
}

/// The live processes on this machine with a tag of this supervisor, except this process.
pub(crate) fn all_with_nonce(nonce: Nonce) -> Vec<Pid> {
    let mut pids = ids_in("/proc");
    pids.retain(|pid| {
        *pid != getpid()
            && Tag::of(*pid).is_some_and(|tag| tag.nonce() == nonce)
            && Stat::of(*pid).is_some_and(|stat| !stat.ended)
    });
    pids
}

/// The command line of a process, arguments joined by spaces, at most 256 bytes; its name in brackets if it has none.
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

/// Display text: no NUL, no partial character at the end, and at most [`MAX_COMMAND_LINE`] bytes: an invalid byte
/// becomes a character of three bytes.
fn tidy(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = if bytes.len() == MAX_COMMAND_LINE { text.trim_end_matches('\u{fffd}') } else { &text };
    let mut text = text.replace('\0', " ");
    text.truncate(text.floor_char_boundary(MAX_COMMAND_LINE));
    text
}

/// The list of this thread's children, kept open: a read costs less than a microsecond.
#[derive(Debug)]
pub(crate) struct ChildrenFile {
    file: Option<File>,
}

impl ChildrenFile {
    /// Opens the list of the calling thread, the only one of a supervisor. A forked child must open its own.
    pub(crate) fn open() -> io::Result<Self> {
        if !children_are_listed() {
            return Ok(Self { file: None });
        }
        Ok(Self { file: Some(File::open(children_path(getpid(), gettid()))?) })
    }

    /// Whether there is any other child, zombies included.
    pub(crate) fn any_besides(&self, besides: [Option<Pid>; 2]) -> io::Result<bool> {
        let Some(file) = &self.file else {
            let children = Source::snapshot().children(getpid(), 1);
            return Ok(children.into_iter().any(|pid| !besides.contains(&Some(pid))));
        };
        // Room for three ids; a truncated one still counts as another child.
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
