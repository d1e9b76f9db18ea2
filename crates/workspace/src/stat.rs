//! [`Stat`]: the metadata of a file.

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;

use crate::error::{AtPath, FileError, FileErrorKind};

/// The type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

impl From<std::fs::FileType> for FileType {
    fn from(found: std::fs::FileType) -> Self {
        let is_other =
            found.is_fifo() || found.is_socket() || found.is_block_device() || found.is_char_device();
        match () {
            () if found.is_dir() => Self::Directory,
            () if found.is_symlink() => Self::Symlink,
            () if is_other => Self::Other,
            () => Self::File,
        }
    }
}

/// The metadata of a file.
#[derive(Debug, Clone)]
pub struct Stat {
    /// The type of the entry.
    pub file_type: FileType,
    /// The size in bytes.
    pub size: u64,
    /// The permission bits, set-user-id, set-group-id and sticky bit.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The number of hard links.
    pub links: u64,
    /// The time of the last modification, if the clock can represent it.
    pub modified_at: Option<SystemTime>,
    /// The target of a symbolic link, as it is stored.
    pub target: Option<OsString>,
    /// The entity tag of a regular file. See [`etag`].
    pub etag: Option<String>,
}

impl Stat {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            file_type: metadata.file_type().into(),
            size: metadata.size(),
            mode: metadata.mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
            links: metadata.nlink(),
            modified_at: metadata.modified().ok(),
            target: None,
            etag: metadata.is_file().then(|| etag(metadata)),
        }
    }
}

/// Whether a path is a directory, from what the kernel knows: a mounted file system that does not respond is not asked.
pub fn is_directory_without_waiting(path: &Path) -> bool {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    match rustix::fs::statx(CWD, path, flags, StatxFlags::TYPE) {
        Ok(found) => {
            rustix::fs::FileType::from_raw_mode(found.stx_mode.into()) == rustix::fs::FileType::Directory
        }
        // Before Linux 4.11, or forbidden in a container.
        Err(Errno::NOSYS | Errno::PERM) => path.is_dir(),
        Err(_) => false,
    }
}

/// The entity tag of a file: device, inode, size, modification and change time.
pub fn etag(metadata: &Metadata) -> String {
    let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    format!(
        "\"{:x}-{:x}-{:x}-{:x}-{:x}\"",
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        nanos(metadata.mtime(), metadata.mtime_nsec()),
        nanos(metadata.ctime(), metadata.ctime_nsec()),
    )
}

/// Returns the metadata of the entry itself: a symbolic link is not followed.
pub fn stat(path: &Path) -> Result<Stat, FileError> {
    let mut stat = Stat::of(&std::fs::symlink_metadata(path).at(path)?);
    if stat.file_type == FileType::Symlink {
        stat.target = Some(std::fs::read_link(path).at(path)?.into_os_string());
    }
    Ok(stat)
}

/// Whether the path exists. A symbolic link without a target, or in a cycle, does not, and nothing does below a file. A path
/// that the user may not look up is an error.
pub fn exists(path: &Path) -> Result<bool, FileError> {
    match std::fs::exists(path).at(path) {
        Err(e) if matches!(e.kind, FileErrorKind::NotDirectory | FileErrorKind::TooManyLinks) => Ok(false),
        exists => exists,
    }
}

/// Fails if the path is not a directory.
pub fn check_directory(path: &Path) -> Result<(), FileError> {
    let is_directory = std::fs::metadata(path).at(path)?.is_dir();
    if is_directory { Ok(()) } else { Err(FileError::new(FileErrorKind::NotDirectory, path)) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::FileErrorKind;

    #[test]
    fn entries_of_every_type() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "four").unwrap();
        symlink("nowhere", at("link")).unwrap();
        let found = stat(&at("file")).unwrap();
        assert_eq!((found.file_type, found.size, found.links), (FileType::File, 4, 1));
        let found = stat(&at("link")).unwrap();
        assert_eq!((found.file_type, found.target), (FileType::Symlink, Some("nowhere".into())));
        assert_eq!(stat(directory.path()).unwrap().file_type, FileType::Directory);
        assert_eq!(stat(Path::new("/dev/null")).unwrap().file_type, FileType::Other);
        assert_eq!(stat(&at("none")).unwrap_err().kind, FileErrorKind::NotFound);
        assert_eq!(stat(&at("file/x")).unwrap_err().kind, FileErrorKind::NotDirectory);
        assert!(exists(&at("file")).unwrap() && !exists(&at("link")).unwrap());
        symlink("loop", at("loop")).unwrap();
        for absent in ["file/x", "file/", "loop", "loop/x"] {
            assert!(!exists(&at(absent)).unwrap(), "{absent}");
        }
    }
}
