//! Writes to an existing file, where it cannot be replaced.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Opens a file for writing. Its content stays.
pub(super) fn open(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

/// Removes the content. Files of the kernel, such as those in /proc, have no length.
pub(super) fn truncate(file: &File) -> io::Result<()> {
    match rustix::fs::ftruncate(file, 0) {
        Err(Errno::INVAL | Errno::PERM | Errno::ACCESS) => Ok(()),
        truncated => Ok(truncated?),
    }
}

/// Waits until the content is on the disk. Files of the kernel cannot be synced.
pub(super) fn sync(file: &File) -> io::Result<()> {
    match rustix::fs::fsync(file) {
        Err(Errno::INVAL | Errno::ROFS | Errno::NOSYS) => Ok(()),
        synced => Ok(synced?),
    }
}

/// Replaces the content with that of another file.
pub(super) fn copy(from: &File, to: &File) -> io::Result<()> {
    let (mut from, mut to) = (from, to);
    from.seek(SeekFrom::Start(0))?;
    truncate(to)?;
    io::copy(&mut from, &mut to)?;
    sync(to)
}
