//! Writes to an existing file, where it cannot be replaced.

use std::fs::{File, Metadata};
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::temporary::{TargetDirectory, TemporaryFile};
use crate::staging::Records;
use crate::stat::etag;

/// Opens a file for writing. Its content stays.
pub(super) fn open(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

/// Removes the content after this length. Files of the kernel, such as those in /proc, have no length.
fn truncate(file: &File, length: u64) -> io::Result<()> {
    match rustix::fs::ftruncate(file, length) {
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

/// Creates a file for content that is complete before the old content is touched.
pub(super) fn stage(records: &Records) -> Result<TemporaryFile, Errno> {
    let path = std::env::temp_dir();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(&path, flags, Mode::empty())?;
    TemporaryFile::create(&TargetDirectory { directory: directory.as_fd(), path: &path, records }, true)
}

/// Replaces the content with that of another file, and thereby the entity tag. The old content stays if the disk has no
/// space for the new one. `before` is the file as it was.
pub(super) fn copy(from: &File, to: &File, before: &Metadata) -> io::Result<()> {
    let (mut from, mut to) = (from, to);
    let length = from.metadata()?.len();
    from.seek(SeekFrom::Start(0))?;
    // Not every file system supports it.
    let reserved = match length {
        0 => Ok(()),
        length => rustix::fs::fallocate(to, FallocateFlags::KEEP_SIZE, 0, length),
    };
    if let Err(e @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = reserved {
        return Err(e.into());
    }
    io::copy(&mut from, &mut to)?;
    truncate(to, length)?;
    if etag(&to.metadata()?) == etag(before) {
        // The clock of the file system is coarse, and the file was changed within one tick.
        let next = before.modified()?.checked_add(Duration::from_nanos(1));
        // Files of the kernel have no time of their own.
        drop(next.map(|next| to.set_modified(next)));
    }
    sync(to)
}
