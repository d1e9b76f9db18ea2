//! Lists directories.

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
    /// Only entries after this one, relative to the directory.
    pub after: Option<PathBuf>,
}

/// An entry of a list.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The path relative to the listed directory.
    pub path: PathBuf,
    /// The type.
    pub file_type: FileType,
    /// The size in bytes.
    pub size: u64,
    /// The permission bits.
    pub mode: u32,
    /// The time of the last modification.
    pub modified_at: SystemTime,
}

/// A list, sorted by the bytes of the names within each directory. A directory precedes its content.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Whether there are more.
    pub is_cut: bool,
    /// Number of directories below the listed one that could not be read.
    pub unreadable: u64,
}

/// A directory on the way: its names that are still to be listed, in order.
struct Level {
    directory: OwnedFd,
    names: std::vec::IntoIter<OsString>,
}

/// Lists a directory. Symbolic links are listed, and not followed, except for the path itself. Entries that vanish meanwhile are left out.
pub fn list(path: &Path, options: &ListOptions) -> Result<Listed, FileError> {
    let after: Vec<&OsStr> = options.after.as_deref().map(|after| after.iter().collect()).unwrap_or_default();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let root = rustix::fs::openat(CWD, path, flags, Mode::empty()).at(path)?;
    let mut listed = Listed::default();
    let mut levels = vec![read(root, after.first().copied(), options).at(path)?];
    let mut relative = PathBuf::new();
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.names.next() else {
            levels.pop();
            relative.pop();
            continue;
        };
        let depth = levels.len();
        let Some(level) = levels.last() else { break };
        let stat = match rustix::fs::statat(&level.directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::SRCH) => continue,
            Err(Errno::ACCESS | Errno::PERM) if depth > 1 => {
                listed.unreadable += 1;
                continue;
            }
            Err(e) => return Err(FileError::of(&path.join(&relative).join(name), e)),
        };
        // The entries on the way to `after` itself have been listed before.
        let is_on_the_way = relative.iter().chain([name.as_os_str()]).eq(after.iter().copied().take(depth));
        if !is_on_the_way {
            if listed.entries.len() >= options.limit.min(MAX_LISTED) {
                listed.is_cut = true;
                return Ok(listed);
            }
            listed.entries.push(entry(relative.join(&name), &stat));
        }
        let is_directory =
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory;
        if !options.recursive || !is_directory {
            continue;
        }
        if depth >= MAX_DEPTH {
            return Err(FileError::new(FileErrorKind::TooDeep, path.join(&relative).join(name)));
        }
        let next = is_on_the_way.then(|| after.get(depth).copied()).flatten();
        match open(level.directory.as_fd(), &name).and_then(|directory| read(directory, next, options)) {
            Ok(next) => {
                relative.push(name);
                levels.push(next);
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::SRCH) => {}
            Err(Errno::ACCESS | Errno::PERM) => listed.unreadable += 1,
            Err(e) => return Err(FileError::of(&path.join(&relative).join(name), e)),
        }
    }
    Ok(listed)
}

fn open(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Reads the names of a directory from `from` on.
fn read(directory: OwnedFd, from: Option<&OsStr>, options: &ListOptions) -> Result<Level, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let is_hidden = name.starts_with(b".");
        let is_own = matches!(name, b"." | b"..");
        let is_before = from.is_some_and(|from| name < from.as_bytes());
        if !is_own && !is_before && (options.include_hidden || !is_hidden) {
            names.push(OsString::from_vec(name.to_owned()));
        }
    }
    names.sort_unstable();
    Ok(Level { directory, names: names.into_iter() })
}

fn entry(path: PathBuf, stat: &rustix::fs::Stat) -> Entry {
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

    use proptest::prelude::*;

    use super::*;

    fn names(listed: &Listed) -> Vec<String> {
        listed.entries.iter().map(|entry| entry.path.to_string_lossy().into_owned()).collect()
    }

    fn options() -> ListOptions {
        ListOptions { limit: MAX_LISTED, ..ListOptions::default() }
    }

    #[test]
    fn order_and_hidden_names() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("b/.h/x")).unwrap();
        fs::write(directory.path().join("b/z"), "zz").unwrap();
        fs::write(directory.path().join("a"), "").unwrap();
        fs::write(directory.path().join(".c"), "").unwrap();
        std::os::unix::fs::symlink("b", directory.path().join("l")).unwrap();
        let of = |options: &ListOptions| names(&list(directory.path(), options).unwrap());
        assert_eq!(of(&options()), ["a", "b", "l"]);
        assert_eq!(of(&ListOptions { include_hidden: true, ..options() }), [".c", "a", "b", "l"]);
        assert_eq!(of(&ListOptions { recursive: true, ..options() }), ["a", "b", "b/z", "l"]);
        let all = ListOptions { recursive: true, include_hidden: true, ..options() };
        assert_eq!(of(&all), [".c", "a", "b", "b/.h", "b/.h/x", "b/z", "l"]);
        // A link that is given as the path is followed.
        assert_eq!(names(&list(&directory.path().join("l"), &options()).unwrap()), ["z"]);
        let kind = |path: &Path| list(path, &options()).unwrap_err().kind;
        assert_eq!(kind(&directory.path().join("a")), FileErrorKind::NotDirectory);
        assert_eq!(kind(&directory.path().join("none")), FileErrorKind::NotFound);
    }

    proptest! {
        /// The pages of a list are the list, whatever the names and the size of a page.
        #[test]
        fn pages(tree in prop::collection::btree_set("[a-c.]{1,2}(/[a-c.]{1,2}){0,2}", 0..20), limit in 1_usize..5) {
            let directory = tempfile::tempdir().unwrap();
            for path in &tree {
                drop(fs::create_dir_all(directory.path().join(path)));
            }
            let all = ListOptions { recursive: true, include_hidden: true, ..options() };
            let whole = names(&list(directory.path(), &all).unwrap());
            let mut paged = Vec::new();
            let mut after = None;
            loop {
                let page = list(directory.path(), &ListOptions { limit, after: after.take(), ..all.clone() }).unwrap();
                paged.extend(names(&page));
                if !page.is_cut {
                    break;
                }
                after = page.entries.last().map(|entry| entry.path.clone());
            }
            prop_assert_eq!(paged, whole);
        }
    }
}
