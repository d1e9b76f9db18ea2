//! [`FileError`]: why an operation on a file failed.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Why an operation on a file failed. It names the path.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", path.display(), kind.describe(source.as_ref()))]
pub struct FileError {
    /// The class of the error.
    pub kind: FileErrorKind,
    /// The path of the failed operation.
    pub path: PathBuf,
    #[source]
    source: Option<io::Error>,
}

/// The class of a [`FileError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// The path is empty, or contains a NUL byte.
    InvalidPath,
    /// The operation is not possible with this path, such as moving a directory into itself.
    InvalidOperation,
    /// The directory cannot be deleted, moved or replaced: it is, or contains, the root, the workspace or the state directory.
    Protected,
    /// The tree has too many levels.
    TooDeep,
    /// The path, or a name in it, is too long.
    NameTooLong,
    /// No such file or directory.
    NotFound,
    /// The destination exists.
    Exists,
    /// The path is a directory.
    IsDirectory,
    /// The path of a file ends with a slash.
    EndsWithSlash,
    /// The path, or a parent of it, is not a directory.
    NotDirectory,
    /// The directory is not empty.
    NotEmpty,
    /// The path is a FIFO, socket or device.
    NotRegular,
    /// The path is too deep in symbolic links.
    TooManyLinks,
    /// The user of the commands has no permission.
    PermissionDenied,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The disk or the quota is full.
    NoSpace,
    /// The file exceeds a limit.
    TooLarge,
    /// The file is in use.
    Busy,
    /// The file is not in the state that the request requires.
    Changed,
    /// The machine is out of descriptors, memory or threads.
    OutOfResources,
    /// The file system does not support the operation.
    NotSupported,
    /// Any other failure.
    Other,
}

impl FileErrorKind {
    fn describe(self, source: Option<&io::Error>) -> String {
        let fixed = match self {
            Self::InvalidPath => "not a valid path; expected at least one character, and no NUL byte",
            Self::InvalidOperation => "the operation is not possible with this path",
            Self::Protected => {
                "the directory is protected: it is, or contains, the root, the workspace or the state directory"
            }
            Self::TooDeep => "the tree has more than 512 levels; use a command instead",
            Self::NameTooLong => "the path is too long; at most 4,095 bytes, and 255 bytes for each name",
            Self::NotFound => "no such file or directory",
            Self::Exists => "the file exists",
            Self::IsDirectory => "it is a directory",
            Self::EndsWithSlash => "the path of a file cannot end with a slash; add the name of the file",
            Self::NotDirectory => "it, or a parent of it, is not a directory",
            Self::NotEmpty => "the directory is not empty",
            Self::NotRegular => "it is not a regular file but a FIFO, socket or device",
            Self::TooManyLinks => "too many symbolic links; they may form a cycle",
            Self::PermissionDenied => "permission denied",
            Self::ReadOnly => "the file system is read-only",
            Self::NoSpace => "no space is left on the disk, or a quota is exceeded",
            Self::TooLarge => "the file is too large",
            Self::Busy => "the file is in use",
            Self::Changed => "the file has changed",
            Self::OutOfResources => "the machine is out of file descriptors, memory or threads",
            Self::NotSupported => "the file system does not support this operation",
            Self::Other => return source.map_or_else(|| "failed".into(), describe_errno),
        };
        fixed.into()
    }
}

/// The description of an error without its number.
fn describe_errno(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

impl FileError {
    /// An error without a system error.
    pub fn new(kind: FileErrorKind, path: impl Into<PathBuf>) -> Self {
        Self { kind, path: path.into(), source: None }
    }

    /// Classifies the error of a system call on `path`.
    pub fn of(path: &Path, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let kind = Errno::from_io_error(&source).map_or(FileErrorKind::Other, classify);
        Self { kind, path: path.to_owned(), source: Some(source) }
    }
}

fn classify(errno: Errno) -> FileErrorKind {
    match errno {
        Errno::INVAL => FileErrorKind::InvalidOperation,
        Errno::NOENT => FileErrorKind::NotFound,
        Errno::EXIST => FileErrorKind::Exists,
        Errno::ISDIR => FileErrorKind::IsDirectory,
        Errno::NOTDIR => FileErrorKind::NotDirectory,
        Errno::NOTEMPTY => FileErrorKind::NotEmpty,
        // A FIFO without a reader, and a socket or device without a driver.
        Errno::NXIO | Errno::NODEV => FileErrorKind::NotRegular,
        Errno::LOOP | Errno::MLINK => FileErrorKind::TooManyLinks,
        Errno::ACCESS | Errno::PERM => FileErrorKind::PermissionDenied,
        Errno::ROFS => FileErrorKind::ReadOnly,
        Errno::NOSPC | Errno::DQUOT => FileErrorKind::NoSpace,
        Errno::FBIG => FileErrorKind::TooLarge,
        Errno::BUSY | Errno::TXTBSY => FileErrorKind::Busy,
        Errno::NAMETOOLONG => FileErrorKind::NameTooLong,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => FileErrorKind::OutOfResources,
        Errno::OPNOTSUPP | Errno::NOSYS => FileErrorKind::NotSupported,
        _ => FileErrorKind::Other,
    }
}

/// Adds the path to an error of a system call.
pub(crate) trait AtPath<T> {
    /// See [`FileError::of`].
    fn at(self, path: &Path) -> Result<T, FileError>;
}

impl<T, E: Into<io::Error>> AtPath<T> for Result<T, E> {
    fn at(self, path: &Path) -> Result<T, FileError> {
        self.map_err(|e| FileError::of(path, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_path_and_no_number() {
        let error = std::fs::File::open("/no/such").at(Path::new("/no/such")).unwrap_err();
        assert_eq!(error.kind, FileErrorKind::NotFound);
        assert_eq!(error.to_string(), "/no/such: no such file or directory");
        let error = FileError::of(Path::new("/x"), Errno::IO);
        assert_eq!(error.kind, FileErrorKind::Other);
        assert!(!error.to_string().contains("os error"), "{error}");
    }
}
