//! [`TrustError`]: why a file or directory is refused.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file or directory is refused. Every message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// Another user owns it, and can change it.
    #[error(
        "{} belongs to user {owner}, but this program runs as user {user}; choose another path, or, if it is for this \
         program alone and you trust its content, make it belong to user {user}", path.display()
    )]
    Owner {
        /// The file or directory.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
        /// The user id of this process.
        user: u32,
    },
    /// Another user owns a directory on the path to it, and can replace it.
    #[error(
        "{} belongs to user {owner}, who can replace what is in it; choose a path through directories of user {user} or \
         root", path.display()
    )]
    ParentOwner {
        /// The directory.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
        /// The user id of this process.
        user: u32,
    },
    /// Other users may write to it.
    #[error(
        "other users can write to {} (mode {mode:04o}); choose another path, or, if you trust its content, run \
         `chmod {fix:o} {}`", path.display(), path.display()
    )]
    Writable {
        /// The file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The expected permission bits.
        fix: u32,
    },
    /// Other users may read it.
    #[error("other users can read {} (mode {mode:04o}); run `chmod {fix:o} {}`", path.display(), path.display())]
    Readable {
        /// The file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The expected permission bits.
        fix: u32,
    },
    /// It is of the wrong kind.
    #[error("{} is not a {expected}; remove it or choose another path", path.display())]
    Kind {
        /// The file or directory.
        path: PathBuf,
        /// The expected kind: a regular file or a directory.
        expected: &'static str,
    },
    /// It is a symbolic link where none is allowed, or there are too many.
    #[error("{} is a symbolic link, which is not followed here; give the path of its target", .0.display())]
    Link(PathBuf),
    /// A system call failed.
    #[error("failed to {doing} {}: {source}", path.display())]
    Io {
        /// The failed operation, as an infinitive.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
}

impl TrustError {
    /// Creates an error of a system call, for `map_err`.
    pub(super) fn io<E: Into<io::Error>>(doing: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source: source.into() }
    }

    /// Whether the file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl From<TrustError> for io::Error {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Io { source, .. } => source,
            refused => Self::new(io::ErrorKind::PermissionDenied, refused),
        }
    }
}
