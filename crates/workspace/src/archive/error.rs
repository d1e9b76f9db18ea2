//! [`ArchiveError`]: why packing or unpacking failed.

use std::io;
use std::path::PathBuf;

use crate::error::FileError;

/// Why packing or unpacking failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// A file of the folder cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The archive is damaged, incomplete, hostile, or not an archive.
    #[error("the archive is refused: {0}")]
    Invalid(String),
    /// An exclude rule is invalid.
    #[error("{0}")]
    InvalidExclude(String),
    /// A file of the folder exceeds a limit of archives, so the archive could not be unpacked.
    #[error("{}: {why}; exclude it", path.display())]
    Limit {
        /// The path of the file.
        path: PathBuf,
        /// The limit.
        why: String,
    },
    /// The archive cannot be written.
    #[error("the archive cannot be written: {0}")]
    Output(io::Error),
    /// The archive cannot be read.
    #[error("the archive cannot be read: {0}")]
    Input(io::Error),
}

impl ArchiveError {
    /// The archive is refused, because of this entry.
    pub(super) fn entry(path: &[u8], why: impl std::fmt::Display) -> Self {
        Self::Invalid(format!("entry {:?}: {why}", String::from_utf8_lossy(path)))
    }

    /// An error of the stream of an archive. An error without a number is one of the decoder.
    pub(super) fn input(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::UnexpectedEof => Self::Invalid("it is incomplete".into()),
            _ if e.raw_os_error().is_some() => Self::Input(e),
            _ => Self::Invalid(format!("it cannot be decoded: {e}")),
        }
    }
}
