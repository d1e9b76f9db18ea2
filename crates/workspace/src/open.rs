//! Opens regular files without blocking.

use std::fs::{File, Metadata};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::error::{AtPath, FileError, FileErrorKind};

/// Opens a regular file for reading. A FIFO, socket or device is refused, and not opened for longer than the check.
pub fn open(path: &Path) -> Result<(File, Metadata), FileError> {
    // Without O_NONBLOCK, opening a FIFO waits for its writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // A socket cannot be opened at all, and the error is that of a device without a driver.
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).at(path)?);
    let metadata = file.metadata().at(path)?;
    check_regular(path, &metadata)?;
    Ok((file, metadata))
}

/// Opens a directory. What a program has put in its place, such as a FIFO, is refused and does not block.
pub(crate) fn open_directory(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Refuses everything except a regular file.
pub(crate) fn check_regular(path: &Path, metadata: &Metadata) -> Result<(), FileError> {
    if metadata.is_dir() {
        return Err(FileError::new(FileErrorKind::IsDirectory, path));
    }
    if !metadata.is_file() {
        return Err(FileError::new(FileErrorKind::NotRegular, path));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType};

    use super::*;

    #[test]
    fn only_a_directory_is_opened_as_one() {
        let folder = tempfile::tempdir().unwrap();
        open_directory(folder.path()).unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(open_directory(&fifo).unwrap_err().kind(), std::io::ErrorKind::NotADirectory);
    }

    #[test]
    fn only_regular_files_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "x").unwrap();
        rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        assert!(open(&at("file")).is_ok());
        let kind = |path: &Path| open(path).unwrap_err().kind;
        assert_eq!(kind(&at("fifo")), FileErrorKind::NotRegular);
        assert_eq!(kind(&at("socket")), FileErrorKind::NotRegular);
        assert_eq!(kind(Path::new("/dev/null")), FileErrorKind::NotRegular);
        assert_eq!(kind(directory.path()), FileErrorKind::IsDirectory);
        assert_eq!(kind(&at("none")), FileErrorKind::NotFound);
        assert_eq!(kind(&at("loop")), FileErrorKind::TooManyLinks);
        assert_eq!(kind(&at("file/x")), FileErrorKind::NotDirectory);
    }
}
