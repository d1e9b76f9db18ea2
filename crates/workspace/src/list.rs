//! Lists directories.

use std::collections::BinaryHeap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{AtPath, FileError, FileErrorKind};
use crate::remove::MAX_DEPTH;
use crate::stat::FileType;

/// Default number of entries in one list.
pub const DEFAULT_LISTED: usize = 10_000;
/// Maximum number of entries in one list.
pub const MAX_LISTED: usize = 100_000;

/// What to list.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// Also the content of subdirectories.
    pub recursive: bool,
    /// Also names that begin with a dot.
    pub include_hidden: bool,
    /// Maximum number of entries, at most [`MAX_LISTED`].
    pub limit: usize,
    /// Maximum size of a list, as its receiver measures it. A list has at least one entry.
    pub max_bytes: usize,
    /// Only entries after this one, relative to the directory.
    pub after: Option<PathBuf>,
}

/// An entry of a list.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// The path relative to the listed directory.
    pub path: &'a Path,
    /// The type.
    pub file_type: FileType,
    /// The size in bytes.
    pub size: u64,
    /// The permission bits.
    pub mode: u32,
    /// The time of the last modification.
    pub modified_at: SystemTime,
}

/// The result of a list.
#[derive(Debug, Clone, Default)]
pub struct ListResult {
    /// Number of entries.
    pub count: usize,
    /// The last entry, if there are more.
    pub next: Option<PathBuf>,
    /// Number of entries that could not be read, and of directories whose content could not.
    pub unreadable: u64,
}

/// A directory on the way: its names that are still to be listed, in order.
struct Level {
    directory: OwnedFd,
    names: std::vec::IntoIter<OsString>,
    /// Whether there are more names, which do not fit into the list.
    is_cut: bool,
}

/// Lists a directory: sorted by the bytes of the names within each directory, a directory before its content. `found` gets
/// each entry, and returns the size of the list so far.
///
/// Symbolic links are listed, and not followed, except for the path itself. Entries that vanish meanwhile are left out. Of
/// each directory, only the names that fit into the list are held in memory.
pub fn list(
    path: &Path,
    options: &ListOptions,
    found: &mut dyn FnMut(&Entry<'_>) -> usize,
) -> Result<ListResult, FileError> {
    let limit = options.limit.min(MAX_LISTED);
    let after: Vec<&OsStr> = options.after.as_deref().map(|after| after.iter().collect()).unwrap_or_default();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let root = rustix::fs::openat(CWD, path, flags, Mode::empty()).at(path)?;
    let mut listed = ListResult::default();
    let mut bytes = 0;
    let mut last = PathBuf::new();
    let mut levels = vec![read(root, after.first().copied(), options, limit).at(path)?];
    let mut relative = PathBuf::new();
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.names.next() else {
            if level.is_cut {
                listed.next = Some(last);
                return Ok(listed);
            }
            levels.pop();
            relative.pop();
            continue;
        };
        let depth = levels.len();
        let Some(level) = levels.last() else { break };
        let stat = match rustix::fs::statat(&level.directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::SRCH) => {
                // The next list begins after it, also if this one has no entries.
                last = relative.join(name);
                continue;
            }
            Err(e) if is_of_entry(e) || (is_refused(e) && depth > 1) => {
                listed.unreadable += 1;
                last = relative.join(name);
                continue;
            }
            Err(e) => return Err(FileError::of(&path.join(&relative).join(name), e)),
        };
        // The entries on the way to `after` itself have been listed before.
        let is_on_the_way = after.len() >= depth
            && relative.iter().chain([name.as_os_str()]).eq(after.iter().copied().take(depth));
        relative.push(&name);
        if !is_on_the_way {
            if listed.count >= limit || (listed.count > 0 && bytes >= options.max_bytes) {
                listed.next = Some(last);
                return Ok(listed);
            }
            bytes = found(&entry(&relative, &stat));
            listed.count += 1;
            last.clone_from(&relative);
        }
        let is_directory =
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory;
        if !options.recursive || !is_directory {
            relative.pop();
            continue;
        }
        if depth >= MAX_DEPTH {
            return Err(FileError::new(FileErrorKind::TooDeep, path.join(&relative)));
        }
        let next = is_on_the_way.then(|| after.get(depth).copied()).flatten();
        let room = limit - listed.count;
        let opened = open(level.directory.as_fd(), &name);
        match opened.and_then(|directory| read(directory, next, options, room)) {
            Ok(next) => {
                trim(&mut levels, room.saturating_sub(next.names.len()));
                levels.push(next);
                continue;
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::SRCH) => {}
            Err(e) if is_refused(e) || is_of_entry(e) => listed.unreadable += 1,
            Err(e) => return Err(FileError::of(&path.join(&relative), e)),
        }
        relative.pop();
    }
    Ok(listed)
}

/// Whether the user may not see something.
fn is_refused(errno: Errno) -> bool {
    matches!(errno, Errno::ACCESS | Errno::PERM)
}

/// Whether an error says nothing about other entries: a broken disk, or a mounted file system that does not respond. If the
/// process has no descriptors or memory, no entry can be read.
fn is_of_entry(errno: Errno) -> bool {
    !is_refused(errno) && !matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}

/// Drops names that do not fit into the list any more, because others precede them.
fn trim(levels: &mut [Level], mut room: usize) {
    for level in levels.iter_mut().rev() {
        // One more, which tells that the list is cut.
        let kept = room + 1;
        if level.names.len() > kept {
            let names: Vec<_> = level.names.by_ref().take(kept).collect();
            (level.names, level.is_cut) = (names.into_iter(), true);
        }
        room = room.saturating_sub(level.names.len());
    }
}

fn open(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Reads the names of a directory from `from` on, as far as there is room for them.
fn read(
    directory: OwnedFd,
    from: Option<&OsStr>,
    options: &ListOptions,
    room: usize,
) -> Result<Level, Errno> {
    // Beyond the room: one on the way to the first entry, and one that tells that the list is cut.
    let mut names = SmallestNames::new(room.saturating_add(2), options.max_bytes);
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let is_hidden = name.starts_with(b".");
        let is_own = matches!(name, b"." | b"..");
        let is_before = from.is_some_and(|from| name < from.as_bytes());
        if !is_own && !is_before && (options.include_hidden || !is_hidden) {
            names.add(name);
        }
    }
    let SmallestNames { names, is_cut, .. } = names;
    Ok(Level { directory, names: names.into_sorted_vec().into_iter(), is_cut })
}

/// The smallest of many names.
struct SmallestNames {
    names: BinaryHeap<OsString>,
    bytes: usize,
    is_cut: bool,
    max_names: usize,
    max_bytes: usize,
}

impl SmallestNames {
    fn new(max_names: usize, max_bytes: usize) -> Self {
        Self { names: BinaryHeap::new(), bytes: 0, is_cut: false, max_names, max_bytes }
    }

    fn add(&mut self, name: &[u8]) {
        // At least two: one may be on the way to the first entry.
        let is_full = self.names.len() >= self.max_names || self.bytes > self.max_bytes;
        if is_full
            && self.names.len() >= 2
            && self.names.peek().is_some_and(|largest| largest.as_bytes() <= name)
        {
            self.is_cut = true;
            return;
        }
        self.bytes += name.len();
        self.names.push(OsString::from_vec(name.to_owned()));
        while self.names.len() > 2
            && let Some(largest) = self.names.peek()
            && (self.names.len() > self.max_names || self.bytes - largest.len() > self.max_bytes)
        {
            self.bytes -= largest.len();
            self.names.pop();
            self.is_cut = true;
        }
    }
}

fn entry<'a>(path: &'a Path, stat: &rustix::fs::Stat) -> Entry<'a> {
    let file_type = match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::RegularFile => FileType::File,
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        _ => FileType::Other,
    };
    let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or_default();
    let since = u64::try_from(stat.st_mtime).map(|seconds| Duration::new(seconds, nanos)).unwrap_or_default();
    Entry {
        path,
        file_type,
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        mode: stat.st_mode & 0o7777,
        modified_at: SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn names(path: &Path, options: &ListOptions) -> (Vec<String>, Option<PathBuf>) {
        let (mut names, mut bytes) = (Vec::new(), 0);
        let listed = list(path, options, &mut |entry| {
            names.push(entry.path.to_string_lossy().into_owned());
            bytes += entry.path.as_os_str().len();
            bytes
        });
        let listed = listed.unwrap();
        assert_eq!(listed.count, names.len());
        (names, listed.next)
    }

    fn options() -> ListOptions {
        ListOptions { limit: MAX_LISTED, max_bytes: 1 << 20, ..ListOptions::default() }
    }

    #[test]
    fn order_and_hidden_names() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("b/.h/x")).unwrap();
        fs::write(directory.path().join("b/z"), "zz").unwrap();
        fs::write(directory.path().join("a"), "").unwrap();
        fs::write(directory.path().join(".c"), "").unwrap();
        std::os::unix::fs::symlink("b", directory.path().join("l")).unwrap();
        let of = |options: &ListOptions| names(directory.path(), options).0;
        assert_eq!(of(&options()), ["a", "b", "l"]);
        assert_eq!(of(&ListOptions { include_hidden: true, ..options() }), [".c", "a", "b", "l"]);
        assert_eq!(of(&ListOptions { recursive: true, ..options() }), ["a", "b", "b/z", "l"]);
        let all = ListOptions { recursive: true, include_hidden: true, ..options() };
        assert_eq!(of(&all), [".c", "a", "b", "b/.h", "b/.h/x", "b/z", "l"]);
        // A link that is given as the path is followed.
        assert_eq!(names(&directory.path().join("l"), &options()).0, ["z"]);
        let kind = |path: &Path| list(path, &options(), &mut |_| 0).unwrap_err().kind;
        assert_eq!(kind(&directory.path().join("a")), FileErrorKind::NotDirectory);
        assert_eq!(kind(&directory.path().join("none")), FileErrorKind::NotFound);
    }

    /// A file system whose program has ended.
    #[test]
    fn root_entry_that_cannot_be_read_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "broken", "c"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let shell = |script: &str| {
            Command::new("bash").args(["-euc", script]).current_dir(folder.path()).status().unwrap().success()
        };
        let fuse = "fd=3,rootmode=40000,user_id=0,group_id=0";
        if !shell(&format!("exec 3<>/dev/fuse; mount -i -t fuse -o {fuse} none broken")) {
            return crate::not_run::not_run("needs FUSE");
        }
        let listed = [false, true].map(|recursive| {
            let mut names = Vec::new();
            let all = ListOptions { recursive, ..options() };
            let listed = list(folder.path(), &all, &mut |entry| {
                names.push(entry.path.to_string_lossy().into_owned());
                0
            });
            (names, listed.map(|listed| listed.unreadable))
        });
        assert!(shell("umount -l broken"));
        for (names, unreadable) in listed {
            assert_eq!((names, unreadable.unwrap()), (vec!["a".into(), "c".into()], 1));
        }
    }

    #[test]
    fn names_in_memory_are_bounded() {
        let mut smallest = SmallestNames::new(10, usize::MAX);
        let mut largest = 0;
        for number in (0..1000).rev().chain(1000..2000) {
            smallest.add(format!("{number:04}").as_bytes());
            largest = largest.max(smallest.names.len());
        }
        assert!(smallest.is_cut && largest <= 11);
        let sorted = smallest.names.into_sorted_vec();
        assert_eq!((sorted.len(), sorted[0].to_str(), sorted[9].to_str()), (10, Some("0000"), Some("0009")));
        let mut smallest = SmallestNames::new(usize::MAX, 100);
        (0..1000).for_each(|number| smallest.add(format!("{number:04}").as_bytes()));
        assert!(smallest.is_cut && smallest.bytes <= 104);
    }

    proptest! {
        /// The pages of a list are the list, whatever the names and the size of a page.
        #[test]
        fn pages(
            tree in prop::collection::btree_set("[a-c.]{1,2}(/[a-c.]{1,2}){0,2}", 0..20),
            limit in 1_usize..5,
            max_bytes in 1_usize..30,
        ) {
            let directory = tempfile::tempdir().unwrap();
            for path in &tree {
                drop(fs::create_dir_all(directory.path().join(path)));
            }
            let all = ListOptions { recursive: true, include_hidden: true, ..options() };
            let (whole, next) = names(directory.path(), &all);
            prop_assert_eq!(next, None);
            let mut paged = Vec::new();
            let mut after = None;
            loop {
                let options = ListOptions { limit, max_bytes, after, ..all.clone() };
                let (page, next) = names(directory.path(), &options);
                prop_assert!(page.len() <= limit && (next.is_none() || !page.is_empty()));
                paged.extend(page);
                after = next;
                if after.is_none() {
                    break;
                }
            }
            prop_assert_eq!(paged, whole);
        }
    }
}
