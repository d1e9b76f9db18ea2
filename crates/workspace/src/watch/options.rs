//! The options, the events and the errors of a watch.

use std::path::PathBuf;

use rustix::io::Errno;

use crate::error::FileError;

/// Maximum number of directories of one watch.
pub const MAX_WATCHED_DIRECTORIES: usize = 100_000;

/// What a watch excludes if neither `include` nor `exclude` is given.
pub const DEFAULT_EXCLUDES: [&str; 3] = [".git", "node_modules", ".DS_Store"];

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangeKind {
    /// A file or directory was created.
    Create,
    /// The content of a file was changed.
    Modify,
    /// A file or directory was deleted.
    Delete,
    /// A file or directory was moved away.
    MoveFrom,
    /// A file or directory was moved here.
    MoveTo,
    /// Mode, owner, times or another attribute was changed.
    Attrib,
}

impl ChangeKind {
    /// What a watch reports by default.
    pub const DEFAULT: [Self; 5] = [Self::Create, Self::Modify, Self::Delete, Self::MoveFrom, Self::MoveTo];
}

/// What to watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WatchOptions {
    /// Whether directories below the directory are watched.
    pub is_recursive: bool,
    /// Globs of what is reported. Empty: everything that is not excluded.
    ///
    /// A glob without a slash at its beginning matches at any depth, and what a matching directory contains matches as
    /// well.
    pub include: Vec<String>,
    /// Globs of what is neither reported nor watched.
    pub exclude: Vec<String>,
    /// The kinds of changes that are reported.
    pub kinds: Vec<ChangeKind>,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            is_recursive: true,
            include: Vec::new(),
            exclude: DEFAULT_EXCLUDES.map(String::from).to_vec(),
            kinds: ChangeKind::DEFAULT.to_vec(),
        }
    }
}

/// A change of one file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The path, below the watched directory.
    pub path: PathBuf,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// The same number for the two events of one move. 0 for other changes.
    pub cookie: u32,
}

/// Why a reader must read the state again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResyncReason {
    /// The kernel dropped events, because there were too many.
    KernelOverflow,
    /// Events were dropped, because the reader did not take them.
    SlowReader,
    /// Another directory has taken the place of the watched one.
    Replaced,
}

/// An event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// A change.
    Change(Change),
    /// Changes may be missing: read the state again.
    Resync(ResyncReason),
}

/// Why a watch failed.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The directory cannot be watched.
    #[error(transparent)]
    File(#[from] FileError),
    /// A glob cannot be used.
    #[error("{0}")]
    InvalidGlob(String),
    /// The kernel allows no more watches for the user.
    #[error(
        "the user has no inotify watches left; exclude directories, or raise the sysctl fs.inotify.max_user_watches"
    )]
    NoWatchesLeft,
    /// The kernel allows no more inotify instances for the user.
    #[error(
        "the user has no inotify instances left; end other watches, or raise the sysctl fs.inotify.max_user_instances"
    )]
    NoInstancesLeft,
    /// The directory contains too many directories.
    #[error("more than {MAX_WATCHED_DIRECTORIES} directories; exclude some, or watch a part of them")]
    TooManyDirectories,
}

impl WatchError {
    /// Classifies an error of creating an inotify instance.
    pub(super) fn of_instance(root: &std::path::Path, errno: Errno) -> Self {
        match errno {
            Errno::MFILE | Errno::NFILE => Self::NoInstancesLeft,
            errno => Self::File(FileError::of(root, errno)),
        }
    }

    /// Classifies an error of adding a watch.
    pub(super) fn of_watch(path: &std::path::Path, errno: Errno) -> Self {
        match errno {
            Errno::NOSPC => Self::NoWatchesLeft,
            errno => Self::File(FileError::of(path, errno)),
        }
    }
}
