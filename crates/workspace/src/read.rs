//! Reads whole files, within a limit.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::error::{AtPath, FileError, FileErrorKind};
use crate::mime::FileKind;
use crate::open::open;

/// Maximum memory that is reserved for a file of unknown size.
const FIRST_BYTES: u64 = 64 << 10;

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The size of the file. More than the bytes if they are only the beginning.
    pub size: u64,
    /// The type of the content.
    pub kind: FileKind,
    /// Whether the bytes are only the beginning.
    pub is_cut: bool,
}

/// Reads a file with at most `most` bytes. With `only_start`, a longer file is cut off instead of refused.
pub fn read(path: &Path, most: u64, only_start: bool) -> Result<Content, FileError> {
    let (file, metadata) = open(path)?;
    if metadata.len() > most && !only_start {
        return Err(FileError::new(FileErrorKind::TooLarge, path));
    }
    // A file in /proc has the size 0, and any file may grow: the content counts.
    let expected = metadata.len().min(most).max(FIRST_BYTES.min(most));
    let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or_default());
    let read = take(&file, most.saturating_add(1), &mut bytes).at(path)?;
    let is_longer = read > most;
    if is_longer && !only_start {
        return Err(FileError::new(FileErrorKind::TooLarge, path));
    }
    bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    let kind = FileKind::detect(path, &bytes, !is_longer);
    Ok(Content { size: metadata.len().max(bytes.len() as u64), bytes, kind, is_cut: is_longer })
}

fn take(file: &File, most: u64, bytes: &mut Vec<u8>) -> std::io::Result<u64> {
    file.take(most).read_to_end(bytes).map(|count| count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "hello").unwrap();
        assert_eq!(read(&path, 5, false).unwrap().bytes, b"hello");
        assert_eq!(read(&path, 4, false).unwrap_err().kind, FileErrorKind::TooLarge);
        let start = read(&path, 4, true).unwrap();
        assert_eq!((start.bytes.as_slice(), start.size), (&b"hell"[..], 5));
        assert_eq!(read(&path, 0, true).unwrap().bytes, b"");
    }

    #[test]
    fn files_without_a_size() {
        let status = read(Path::new("/proc/self/status"), 1 << 20, false).unwrap();
        assert!(status.bytes.starts_with(b"Name:") && status.size == status.bytes.len() as u64);
        let maps = read(Path::new("/proc/self/maps"), 16, false).unwrap_err();
        assert_eq!(maps.kind, FileErrorKind::TooLarge);
    }
}
