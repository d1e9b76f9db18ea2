//! [`SortedWalk`]: a walk in the order of names, in bounded memory.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::stat::FileType;
use crate::walk::Filter;

/// Number of names that are in memory. A directory with more is read several times.
const MAX_NAMES: usize = 1 << 16;

/// A walk of a directory, or of a file: sorted by name within each directory, a directory before its content. Symbolic links
/// below the root are not followed.
pub(crate) struct SortedWalk {
    filter: Filter,
    /// The root, until it is visited.
    root: Option<PathBuf>,
    /// The last entry, if it is a directory whose content follows.
    entered: Option<PathBuf>,
    levels: Vec<Level>,
    max_names: usize,
}

/// An entry that is visited.
pub(crate) struct WalkEntry {
    pub(crate) path: PathBuf,
    pub(crate) file_type: FileType,
    /// Whether it is the root.
    pub(crate) is_root: bool,
}

/// A directory that cannot be read.
pub(crate) struct WalkFailure {
    pub(crate) path: PathBuf,
    pub(crate) error: io::Error,
}

/// A directory on the way.
struct Level {
    path: PathBuf,
    /// The next names, in order.
    names: std::vec::IntoIter<TypedName>,
    /// The last name that was visited.
    last: Option<OsString>,
    /// Whether there are more names.
    is_cut: bool,
}

/// A name of a directory, ordered by its bytes.
struct TypedName {
    name: OsString,
    file_type: FileType,
}

impl Ord for TypedName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

impl PartialOrd for TypedName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for TypedName {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for TypedName {}

impl SortedWalk {
    pub(crate) fn new(root: PathBuf, filter: Filter) -> Self {
        Self { filter, root: Some(root), entered: None, levels: Vec::new(), max_names: MAX_NAMES }
    }

    /// Keeps at most this many names.
    #[cfg(test)]
    pub(crate) fn with_max_names(self, max_names: usize) -> Self {
        Self { max_names, ..self }
    }

    fn visit_root(&mut self, path: PathBuf) -> Result<WalkEntry, WalkFailure> {
        let file_type = match std::fs::metadata(&path) {
            Ok(found) => FileType::from(found.file_type()),
            Err(error) => return Err(WalkFailure { path, error }),
        };
        if file_type == FileType::Directory {
            self.entered = Some(path.clone());
        }
        Ok(WalkEntry { path, file_type, is_root: true })
    }

    /// Reads the smallest names of a directory after this one.
    fn read(&self, path: &Path, after: Option<&OsStr>) -> Result<(Vec<TypedName>, bool), Errno> {
        let flags =
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
            // Others have replaced it.
            Errno::NOTDIR | Errno::LOOP => Errno::NOENT,
            other => other,
        })?;
        let (mut smallest, mut is_cut) = (BinaryHeap::new(), false);
        // Not `Dir::read_from`, which needs the right to search the directory.
        for entry in Dir::new(rustix::io::fcntl_dupfd_cloexec(&directory, 0)?)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if matches!(name.as_bytes(), b"." | b"..") || after.is_some_and(|after| name <= after) {
                continue;
            }
            let is_full = smallest.len() >= self.max_names;
            if is_full && smallest.peek().is_some_and(|largest: &TypedName| *largest.name <= *name) {
                is_cut = true;
                continue;
            }
            let file_type = match entry.file_type() {
                rustix::fs::FileType::Unknown => {
                    match rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(found) => rustix::fs::FileType::from_raw_mode(found.st_mode),
                        Err(Errno::NOENT) => continue,
                        Err(e) => return Err(e),
                    }
                }
                known => known,
            };
            let file_type = match file_type {
                rustix::fs::FileType::RegularFile => FileType::File,
                rustix::fs::FileType::Directory => FileType::Directory,
                rustix::fs::FileType::Symlink => FileType::Symlink,
                _ => FileType::Other,
            };
            if !self.filter.visits(&path.join(name), name, file_type == FileType::Directory) {
                continue;
            }
            if is_full {
                smallest.pop();
                is_cut = true;
            }
            smallest.push(TypedName { name: OsString::from_vec(name.as_bytes().to_vec()), file_type });
        }
        Ok((smallest.into_sorted_vec(), is_cut))
    }

    /// Goes on in a directory. Names of those above it that are too many are dropped, and read again later.
    fn enter(&mut self, path: PathBuf) -> Result<(), WalkFailure> {
        let (names, is_cut) = match self.read(&path, None) {
            Ok(read) => read,
            Err(errno) => return Err(WalkFailure { path, error: errno.into() }),
        };
        let mut count = names.len();
        for level in self.levels.iter_mut().rev() {
            count += level.names.len();
            if count > 2 * self.max_names {
                level.is_cut |= level.names.len() > 0;
                level.names = Vec::new().into_iter();
            }
        }
        self.levels.push(Level { path, names: names.into_iter(), last: None, is_cut });
        Ok(())
    }

    /// Reads the next names of the innermost directory, or leaves it.
    fn go_on(&mut self) -> Result<(), WalkFailure> {
        let Some(mut level) = self.levels.pop() else { return Ok(()) };
        if !level.is_cut {
            return Ok(());
        }
        match self.read(&level.path, level.last.as_deref()) {
            Ok((names, is_cut)) => {
                (level.names, level.is_cut) = (names.into_iter(), is_cut);
                self.levels.push(level);
                Ok(())
            }
            Err(errno) => Err(WalkFailure { path: level.path, error: errno.into() }),
        }
    }
}

impl Iterator for SortedWalk {
    type Item = Result<WalkEntry, WalkFailure>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(root) = self.root.take() {
            return Some(self.visit_root(root));
        }
        if let Some(entered) = self.entered.take()
            && let Err(failure) = self.enter(entered)
        {
            return Some(Err(failure));
        }
        loop {
            let level = self.levels.last_mut()?;
            let Some(TypedName { name, file_type }) = level.names.next() else {
                match self.go_on() {
                    Ok(()) => continue,
                    Err(failure) => return Some(Err(failure)),
                }
            };
            let path = level.path.join(&name);
            level.last = Some(name);
            if file_type == FileType::Directory {
                self.entered = Some(path.clone());
            }
            return Some(Ok(WalkEntry { path, file_type, is_root: false }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::walk::WalkOptions;

    fn walk(root: &Path, max_names: usize) -> Vec<PathBuf> {
        let walk = WalkOptions::default().sorted(root).unwrap().with_max_names(max_names);
        walk.map(|entry| entry.unwrap_or_else(|e| panic!("{}", e.error)).path).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// However few names are in memory, each entry is visited once, in the order of names.
        #[test]
        fn every_entry_is_visited_once(
            paths in prop::collection::hash_set("[ab]{1,2}(/[abc]{1,2}){0,3}", 0..30),
            max_names in 1..6_usize,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut expected = vec![folder.path().to_owned()];
            for path in &paths {
                let path = folder.path().join(path);
                fs::create_dir_all(&path).unwrap();
                expected.extend(path.ancestors().take_while(|at| *at != folder.path()).map(Path::to_owned));
            }
            // Paths are compared name by name.
            expected.sort();
            expected.dedup();
            prop_assert_eq!(walk(folder.path(), max_names), expected);
        }
    }

    #[test]
    fn number_of_names_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let mut deepest = folder.path().to_owned();
        for _ in 0..10 {
            for name in 0..10 {
                fs::write(deepest.join(format!("z{name}")), "").unwrap();
            }
            deepest.push("a");
            fs::create_dir(&deepest).unwrap();
        }
        let mut walk = WalkOptions::default().sorted(folder.path()).unwrap().with_max_names(4);
        let mut count = 0;
        while let Some(entry) = walk.next() {
            assert!(entry.is_ok());
            count += 1;
            assert!(walk.levels.iter().map(|level| level.names.len()).sum::<usize>() <= 8);
        }
        assert_eq!(count, 1 + 10 * 11);
    }
}
