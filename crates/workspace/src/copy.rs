//! Copies trees.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use crate::error::{AtPath, FileError, FileErrorKind};
use crate::remove::MAX_DEPTH;
use crate::write::copy_xattrs;

/// What a copy keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attributes {
    /// Mode, time of modification, and extended attributes.
    WithoutOwner,
    /// Also the owner, as far as the user may set it.
    WithOwner,
}

/// A directory that is being copied.
struct Level {
    entries: Dir,
    from: OwnedFd,
    to: OwnedFd,
    stat: Stat,
}

/// Copies a file or a tree to a name that does not exist. Errors name `shown`.
pub(crate) fn copy_tree(
    from: &Path,
    to: &Path,
    attributes: Attributes,
    shown: &Path,
) -> Result<(), FileError> {
    let name = |path: &Path| {
        CString::new(path.as_os_str().as_bytes())
            .map_err(|_| FileError::new(FileErrorKind::InvalidPath, shown))
    };
    let (from, to) = (name(from)?, name(to)?);
    let mut levels = Vec::new();
    levels.extend(copy_entry(CWD, &from, CWD, &to, attributes).at(shown)?);
    while let Some(level) = levels.last_mut() {
        let Some(entry) = level.entries.read() else {
            let Some(done) = levels.pop() else { break };
            let (from, to) = (File::from(done.from), File::from(done.to));
            copy_xattrs_of(&from, &to);
            // After the content, which changes the time, and which the mode may forbid.
            keep(&to, &done.stat, attributes).at(shown)?;
            continue;
        };
        let entry = entry.at(shown)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match copy_entry(level.from.as_fd(), name, level.to.as_fd(), name, attributes) {
            Ok(None) => {}
            Ok(Some(_)) if levels.len() >= MAX_DEPTH => {
                return Err(FileError::new(FileErrorKind::TooDeep, shown));
            }
            Ok(Some(next)) => levels.push(next),
            // It has been deleted by others.
            Err(Errno::NOENT) => {}
            Err(e) => return Err(FileError::of(shown, e)),
        }
    }
    Ok(())
}

/// Copies one entry. Returns the level of a directory.
fn copy_entry(
    from: BorrowedFd<'_>,
    name: &std::ffi::CStr,
    to: BorrowedFd<'_>,
    new: &std::ffi::CStr,
    attributes: Attributes,
) -> Result<Option<Level>, Errno> {
    let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let from =
                rustix::fs::openat(from, name, flags | OFlags::DIRECTORY, Mode::empty()).map_err(replaced)?;
            rustix::fs::mkdirat(to, new, Mode::RWXU)?;
            let to = rustix::fs::openat(to, new, flags | OFlags::DIRECTORY, Mode::empty())?;
            Ok(Some(Level { entries: Dir::read_from(&from)?, from, to, stat }))
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(from, name, Vec::new()).map_err(replaced)?;
            rustix::fs::symlinkat(&target, to, new)?;
            keep_unopened(to, new, &stat, attributes)?;
            Ok(None)
        }
        FileType::RegularFile => {
            let source = rustix::fs::openat(from, name, flags, Mode::empty()).map_err(replaced)?;
            let mut source = File::from(source);
            // A FIFO can be opened.
            if FileType::from_raw_mode(rustix::fs::fstat(&source)?.st_mode) != FileType::RegularFile {
                return Err(Errno::NOENT);
            }
            let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut copy = File::from(rustix::fs::openat(to, new, create, Mode::RUSR | Mode::WUSR)?);
            std::io::copy(&mut source, &mut copy)
                .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
            copy_xattrs_of(&source, &copy);
            keep(&copy, &stat, attributes)?;
            Ok(None)
        }
        // FIFOs, sockets and devices. Only root can create devices.
        other => {
            rustix::fs::mknodat(to, new, other, Mode::from_raw_mode(stat.st_mode), stat.st_rdev)?;
            keep_unopened(to, new, &stat, attributes)?;
            Ok(None)
        }
    }
}

/// An entry that others replace by one of another type does not exist any more.
fn replaced(errno: Errno) -> Errno {
    match errno {
        Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::INVAL => Errno::NOENT,
        other => other,
    }
}

fn copy_xattrs_of(from: &File, to: &File) {
    copy_xattrs(Path::new(&own_path(from.as_fd())), to);
}

/// Sets owner, mode and time of an entry that cannot be opened: a symbolic link or a FIFO.
fn keep_unopened(
    directory: BorrowedFd<'_>,
    name: &std::ffi::CStr,
    stat: &Stat,
    attributes: Attributes,
) -> Result<(), Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    if attributes == Attributes::WithOwner {
        let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        match rustix::fs::chownat(directory, name, Some(uid), Some(gid), flags) {
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(e) => return Err(e),
        }
    }
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        // The umask was applied when it was created. Without a descriptor, a link in its place would be followed.
        let opened = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let copy = rustix::fs::openat(directory, name, opened, Mode::empty())?;
        let mode = allowed_mode(&rustix::fs::fstat(&copy)?, stat);
        match rustix::fs::chmod(own_path(copy.as_fd()), mode) {
            // Without /proc.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(e),
        }
    }
    rustix::fs::utimensat(directory, name, &times(stat), flags)
}

/// The path of an open file, which leads to it whatever its name is now.
fn own_path(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The mode of a copy. A program of another user must not run as this one.
fn allowed_mode(copied: &Stat, original: &Stat) -> Mode {
    let mut mode = Mode::from_raw_mode(original.st_mode);
    if (copied.st_uid, copied.st_gid) != (original.st_uid, original.st_gid) {
        mode.remove(Mode::SUID | Mode::SGID);
    }
    mode
}

/// The time of modification. The access time stays.
fn times(stat: &Stat) -> Timestamps {
    let modified = Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ };
    let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    Timestamps { last_access: omitted, last_modification: modified }
}

/// Sets owner, mode and time of a copy.
fn keep(copy: &File, stat: &Stat, attributes: Attributes) -> Result<(), Errno> {
    if attributes == Attributes::WithOwner {
        let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        match rustix::fs::fchown(copy, Some(uid), Some(gid)) {
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(e) => return Err(e),
        }
    }
    rustix::fs::fchmod(copy, allowed_mode(&rustix::fs::fstat(copy)?, stat))?;
    rustix::fs::futimens(copy, &times(stat))
}
