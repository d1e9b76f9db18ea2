//! Deletes files and trees.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{AtPath, FileError, FileErrorKind};

/// Maximum depth of a tree. Each level has an open directory.
pub const MAX_DEPTH: usize = 512;

/// Deletes a file, or a directory with its content if `recursive`. A symbolic link is deleted itself. Directories that
/// are, or contain, one of `kept` are refused.
pub fn remove(path: &Path, recursive: bool, kept: &[PathBuf]) -> Result<(), FileError> {
    // Without a final `/` and `/.`, with which the kernel follows a symbolic link.
    let path = path.components().as_path();
    let metadata = std::fs::symlink_metadata(path).at(path)?;
    if !metadata.is_dir() {
        return std::fs::remove_file(path).at(path);
    }
    check_kept(path, kept)?;
    if !recursive {
        return Err(FileError::new(FileErrorKind::IsDirectory, path));
    }
    // The kernel cannot remove `.` and `..`.
    let path = std::fs::canonicalize(path).at(path)?;
    remove_tree(CWD, path.as_os_str(), &path)
}

/// Refuses a directory that is, or contains, one of `kept`. The root is always refused.
pub(crate) fn check_kept(path: &Path, kept: &[PathBuf]) -> Result<(), FileError> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let same = |other: &Path| {
        std::fs::metadata(other).is_ok_and(|other| (other.dev(), other.ino()) == (found.dev(), found.ino()))
    };
    let is_kept =
        kept.iter().any(|kept| std::fs::canonicalize(kept).is_ok_and(|kept| kept.ancestors().any(same)));
    if is_kept || same(Path::new("/")) {
        return Err(FileError::new(FileErrorKind::Protected, path));
    }
    Ok(())
}

/// What happens with directories whose mode forbids to delete their content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// They are an error.
    Error,
    /// Their mode is changed.
    MadeWritable,
}

/// Allows the owner to delete the content of a directory. Symbolic links are not followed.
fn make_writable(parent: BorrowedFd<'_>, name: &CString) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    if rustix::fs::fstat(&directory)?.st_mode & 0o700 == 0o700 {
        return Ok(());
    }
    match rustix::fs::chmod(format!("/proc/self/fd/{}", directory.as_raw_fd()), Mode::RWXU) {
        // If it matters, deleting fails.
        Err(_) | Ok(()) => Ok(()),
    }
}

/// How often programs may create entries in a temporary directory while it is deleted.
const MAX_DISCARDS: u32 = 1_000;

/// Deletes a temporary file, or a temporary directory with its content, if it exists. Directories in it may be
/// write-protected. They may be directories that were replaced, in which programs still work and create files.
pub(crate) fn discard_tree(path: &Path) -> Result<(), FileError> {
    let mut tries = 0;
    loop {
        match discard_once(path) {
            Err(e) if e.kind == FileErrorKind::NotEmpty && tries < MAX_DISCARDS => tries += 1,
            // Others have deleted it meanwhile.
            Err(e) if e.kind == FileErrorKind::NotFound => return Ok(()),
            done => return done,
        }
    }
}

fn discard_once(path: &Path) -> Result<(), FileError> {
    let metadata = match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.at(path)?,
    };
    if !metadata.is_dir() {
        return std::fs::remove_file(path).at(path);
    }
    remove_levels(CWD, path.as_os_str(), path, Refused::MadeWritable)
}

/// A directory whose content is being deleted.
struct Level {
    entries: Dir,
    directory: OwnedFd,
    name: CString,
}

impl Level {
    fn open(parent: BorrowedFd<'_>, name: CString, refused: Refused) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if refused == Refused::MadeWritable {
            make_writable(parent, &name)?;
        }
        let directory = rustix::fs::openat(parent, &name, flags, Mode::empty())?;
        Ok(Self { entries: Dir::read_from(&directory)?, directory, name })
    }
}

/// Deletes a directory and its content. It holds one directory per level, and follows no symbolic link, whatever others
/// do at the same time. Other file systems that are mounted below are not entered.
pub(crate) fn remove_tree(parent: BorrowedFd<'_>, name: &OsStr, shown: &Path) -> Result<(), FileError> {
    remove_levels(parent, name, shown, Refused::Error)
}

fn remove_levels(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    shown: &Path,
    refused: Refused,
) -> Result<(), FileError> {
    let name =
        CString::new(name.as_bytes()).map_err(|_| FileError::new(FileErrorKind::InvalidPath, shown))?;
    let first = Level::open(parent, name, refused).at(shown)?;
    let device = rustix::fs::fstat(&first.directory).at(shown)?.st_dev;
    let mut levels = vec![first];
    while let Some(level) = levels.last_mut() {
        let Some(entry) = level.entries.read() else {
            let Some(done) = levels.pop() else { break };
            let parent = levels.last().map_or(parent, |level| level.directory.as_fd());
            match rustix::fs::unlinkat(parent, &done.name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(e) => return Err(FileError::of(shown, e)),
            }
        };
        let entry = entry.at(shown)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entry.file_type() != FileType::Directory {
            match rustix::fs::unlinkat(&level.directory, name, AtFlags::empty()) {
                // It has been deleted by others.
                Ok(()) | Err(Errno::NOENT) => continue,
                // The file system does not tell types, or the entry was replaced.
                Err(Errno::ISDIR) => {}
                Err(e) => return Err(FileError::of(shown, e)),
            }
        }
        let next = match Level::open(level.directory.as_fd(), name.to_owned(), refused) {
            Ok(next) => next,
            Err(Errno::NOENT) => continue,
            Err(e) => return Err(FileError::of(shown, e)),
        };
        if rustix::fs::fstat(&next.directory).at(shown)?.st_dev != device {
            return Err(FileError::new(FileErrorKind::Busy, shown));
        }
        // One more than a copy may have made before it was refused.
        if levels.len() > MAX_DEPTH {
            return Err(FileError::new(FileErrorKind::TooDeep, shown));
        }
        levels.push(next);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn link_with_a_final_slash_is_deleted_itself() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("target")).unwrap();
        std::fs::write(at("target/file"), "x").unwrap();
        for name in ["link/", "link//", "link/."] {
            std::os::unix::fs::symlink(at("target"), at("link")).unwrap();
            super::remove(&at(name), true, &[]).unwrap();
            assert!(at("link").symlink_metadata().is_err() && at("target/file").exists(), "{name}");
        }
    }

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_links_and_trees() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("tree/a/b")).unwrap();
        fs::create_dir(at("outside")).unwrap();
        fs::write(at("outside/kept"), "").unwrap();
        fs::write(at("tree/a/b/odd\n\u{e9}"), "").unwrap();
        symlink(at("outside"), at("tree/link")).unwrap();
        symlink(at("outside"), at("link")).unwrap();
        assert_eq!(remove(&at("tree"), false, &[]).unwrap_err().kind, FileErrorKind::IsDirectory);
        remove(&at("tree"), true, &[]).unwrap();
        remove(&at("link"), true, &[]).unwrap();
        assert!(!at("tree").exists() && fs::symlink_metadata(at("link")).is_err());
        remove(&at("outside/kept"), false, &[]).unwrap();
        assert_eq!(remove(&at("tree"), true, &[]).unwrap_err().kind, FileErrorKind::NotFound);
    }

    #[test]
    fn directories_in_which_programs_create_files_are_discarded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("replaced");
        fs::create_dir_all(path.join("below")).unwrap();
        let opened = rustix::fs::open(path.join("below"), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let program = std::thread::spawn(move || {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            for number in 0.. {
                // It fails when the directory is deleted.
                if rustix::fs::openat(&opened, format!("{number}"), flags, Mode::RWXU).is_err() {
                    return number;
                }
                let _ = begun.send(());
            }
            0
        });
        has_begun.recv().unwrap();
        discard_tree(&path).unwrap();
        assert!(program.join().unwrap() > 0 && names(folder.path()).is_empty());
    }

    fn names(folder: &Path) -> Vec<std::ffi::OsString> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn kept_directories_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = directory.path().join("a/workspace");
        fs::create_dir_all(workspace.join("x")).unwrap();
        symlink(&workspace, directory.path().join("link")).unwrap();
        let kept = [workspace.clone()];
        for refused in [workspace.clone(), workspace.join("x/.."), directory.path().join("a"), "/".into()] {
            // Not recursive, so that nothing is lost if it is not refused.
            assert_eq!(
                remove(&refused, false, &kept).unwrap_err().kind,
                FileErrorKind::Protected,
                "{refused:?}"
            );
        }
        // The link is not the directory.
        remove(&directory.path().join("link"), true, &kept).unwrap();
        remove(&workspace.join("x"), true, &kept).unwrap();
        assert!(workspace.exists());
    }

    #[test]
    fn deep_trees_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let mut below = rustix::fs::open(directory.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..MAX_DEPTH + 10 {
            rustix::fs::mkdirat(&below, "d", Mode::RWXU).unwrap();
            below = rustix::fs::openat(&below, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        assert_eq!(remove(&directory.path().join("d"), true, &[]).unwrap_err().kind, FileErrorKind::TooDeep);
    }
}
