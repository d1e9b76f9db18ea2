//! [`TrustError`]: why a file or folder is not used.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file or folder is not used. Every message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// Another user owns it, and could change it or has put it there.
    #[error(
        "{} belongs to user {owner}, not to user {user}, as whom this runs; choose another place, or, if you trust its \
         content, run `chown -R {user} {}`", path.display(), path.display()
    )]
    Owner {
        /// The file or folder.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
        /// The user id of this process.
        user: u32,
    },
    /// Other users may write to it.
    #[error(
        "other users can write to {} (mode {mode:04o}); choose another place, or, if you trust its content, run \
         `chmod {fix:o} {}`", path.display(), path.display()
    )]
    Writable {
        /// The file or folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// Those it should have.
        fix: u32,
    },
    /// Other users may read it.
    #[error("other users can read {} (mode {mode:04o}); run `chmod {fix:o} {}`", path.display(), path.display())]
    Readable {
        /// The file or folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// Those it should have.
        fix: u32,
    },
    /// It is of another kind than it must be.
    #[error("{} is not a {expected}; remove it or choose another place", path.display())]
    Kind {
        /// The file or folder.
        path: PathBuf,
        /// What it must be: a regular file or a directory.
        expected: &'static str,
    },
    /// It is a symbolic link where none may be, or one of too many.
    #[error("{} is a symbolic link that is not followed; give the path it leads to", .0.display())]
    Link(PathBuf),
    /// The operating system refused it.
    #[error("failed to {doing} {}: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl TrustError {
    /// Makes an error of the operating system's, as `map_err` takes it.
    pub(super) fn io<E: Into<io::Error>>(doing: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source: source.into() }
    }

    /// Whether there is no such file or folder.
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
