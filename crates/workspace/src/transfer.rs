//! Renames, moves and copies files and trees.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::copy::{Attributes, copy_tree};
use crate::error::{AtPath, FileError, FileErrorKind};
use crate::open::open_directory;
use crate::remove::{check_kept, discard_tree, remove_tree};
use crate::staging::{Record, Records};
use crate::write::temporary_name;

/// Moves a file or directory. A symbolic link is moved itself. Across file systems it is copied, and the source is
/// deleted when the copy is complete. An existing file, or an empty directory, is replaced only with `overwrite`.
/// Directories that are, or contain, one of `kept` are neither moved nor replaced.
pub fn rename(
    from: &Path,
    to: &Path,
    overwrite: bool,
    kept: &[PathBuf],
    records: &Records,
) -> Result<(), FileError> {
    let metadata = std::fs::symlink_metadata(from).at(from)?;
    if metadata.is_dir() {
        check_kept(from, kept)?;
        check_replaced(to, kept)?;
    }
    match rename_entry(from, to, overwrite) {
        Err(Errno::XDEV) => {}
        renamed => return renamed.map_err(|e| of_either(from, to, e)),
    }
    place_copy(from, &metadata, to, overwrite, Attributes::WithOwner, records)?;
    if metadata.is_dir() {
        return remove_tree(CWD, from.as_os_str(), from);
    }
    std::fs::remove_file(from).at(from)
}

/// Copies a file, or a directory with its content. Symbolic links in a tree stay links; one that is given as the path is
/// followed. Modes, times and extended attributes are kept. The copy appears when it is complete. Directories that are,
/// or contain, one of `kept` are not replaced.
pub fn copy(
    from: &Path,
    to: &Path,
    overwrite: bool,
    kept: &[PathBuf],
    records: &Records,
) -> Result<(), FileError> {
    let metadata = std::fs::metadata(from).at(from)?;
    let source = std::fs::canonicalize(from).at(from)?;
    if !overwrite && std::fs::symlink_metadata(to).is_ok() {
        return Err(FileError::new(FileErrorKind::Exists, to));
    }
    if metadata.is_dir() {
        check_replaced(to, kept)?;
    }
    place_copy(&source, &metadata, to, overwrite, Attributes::WithoutOwner, records)
}

/// Refuses to replace a directory that must stay: an empty one would be another directory afterwards, and sessions would
/// work in a deleted one.
fn check_replaced(to: &Path, kept: &[PathBuf]) -> Result<(), FileError> {
    match std::fs::symlink_metadata(to) {
        Ok(found) if found.is_dir() => check_kept(to, kept),
        _ => Ok(()),
    }
}

/// Copies to a temporary name beside the destination, and renames it.
fn place_copy(
    from: &Path,
    metadata: &Metadata,
    to: &Path,
    overwrite: bool,
    attributes: Attributes,
    records: &Records,
) -> Result<(), FileError> {
    let parent = match to.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => return Err(FileError::new(FileErrorKind::Exists, to)),
    };
    if metadata.is_dir() {
        refuse_inside(from, metadata, parent)?;
    }
    if overwrite && std::fs::symlink_metadata(to).is_ok_and(|found| found.is_dir() != metadata.is_dir()) {
        let kind = if metadata.is_dir() { FileErrorKind::NotDirectory } else { FileErrorKind::IsDirectory };
        return Err(FileError::new(kind, to));
    }
    let name = parent.join(temporary_name().at(to)?);
    let temporary = UnfinishedCopy { record: records.add(&name)?, path: Some(name) };
    let Some(name) = &temporary.path else { return Ok(()) };
    copy_tree(from, name, attributes, to)?;
    if attributes == Attributes::WithOwner {
        // The source is deleted then.
        sync_file_system(name, parent).at(to)?;
    }
    rename_entry(name, to, overwrite).at(to)?;
    temporary.finish();
    if attributes == Attributes::WithOwner {
        // The rename too, but the copy is complete if this fails.
        drop(open_directory(parent).and_then(|parent| parent.sync_all()));
    }
    Ok(())
}

/// Waits until the copy is on the disk: a tree has many files, and each would need a wait of its own.
fn sync_file_system(copy: &Path, parent: &Path) -> std::io::Result<()> {
    // The user may be able to write to the parent directory, but not to read it. Then the copy itself is opened, if that
    // has no effect: a FIFO waits for its writer, and a link leads elsewhere.
    let opened = open_directory(parent).or_else(|error| {
        let copied = std::fs::symlink_metadata(copy)?;
        if !copied.is_dir() && !copied.is_file() {
            return Err(error);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::open(copy, flags, Mode::empty())?.into())
    });
    match opened {
        Ok(file) => Ok(rustix::fs::syncfs(file)?),
        // Neither can be read. Another file system that does not respond must not block this.
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        Err(e) => Err(e),
    }
}

/// Refuses to copy a directory into itself.
fn refuse_inside(from: &Path, metadata: &Metadata, parent: &Path) -> Result<(), FileError> {
    let parent = std::fs::canonicalize(parent).at(parent)?;
    let is_inside = parent.ancestors().any(|above| {
        std::fs::metadata(above)
            .is_ok_and(|above| (above.dev(), above.ino()) == (metadata.dev(), metadata.ino()))
    });
    if is_inside {
        return Err(FileError::new(FileErrorKind::InvalidOperation, from));
    }
    Ok(())
}

fn rename_entry(from: &Path, to: &Path, overwrite: bool) -> Result<(), Errno> {
    let flags = if overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    match rustix::fs::renameat_with(CWD, from, CWD, to, flags) {
        // The file system does not support the flag, or the rename is invalid.
        Err(Errno::INVAL) if !overwrite => match rustix::fs::statat(CWD, to, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(_) => rustix::fs::renameat(CWD, from, CWD, to),
        },
        renamed => renamed,
    }
}

/// An error of a rename is one of its source only if the destination cannot be the reason.
fn of_either(from: &Path, to: &Path, e: Errno) -> FileError {
    let is_source = e == Errno::NOENT && std::fs::symlink_metadata(from).is_err();
    FileError::of(if is_source || e == Errno::INVAL { from } else { to }, e)
}

/// A copy that is deleted unless it is finished.
struct UnfinishedCopy {
    path: Option<PathBuf>,
    record: Record,
}

impl UnfinishedCopy {
    fn finish(mut self) {
        self.path = None;
    }
}

impl Drop for UnfinishedCopy {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && discard_tree(path).is_err()
        {
            // The next process tries again.
            self.record.keep();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A tree with every kind of entry.
    fn tree(at: &Path) {
        fs::create_dir_all(at.join("dir/empty")).unwrap();
        fs::write(at.join("dir/file"), "content").unwrap();
        fs::set_permissions(at.join("dir/file"), fs::Permissions::from_mode(0o4751)).unwrap();
        fs::set_permissions(at.join("dir/empty"), fs::Permissions::from_mode(0o500)).unwrap();
        symlink("nowhere", at.join("dir/link")).unwrap();
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(CWD, at.join("dir/fifo"), kind, mode, 0).unwrap();
    }

    fn assert_tree(at: &Path) {
        assert_eq!(names(&at.join("dir")), ["empty", "fifo", "file", "link"]);
        assert_eq!(fs::read_to_string(at.join("dir/file")).unwrap(), "content");
        assert_eq!(fs::metadata(at.join("dir/file")).unwrap().mode() & 0o7777, 0o4751);
        assert_eq!(fs::metadata(at.join("dir/empty")).unwrap().mode() & 0o7777, 0o500);
        assert_eq!(fs::read_link(at.join("dir/link")).unwrap(), Path::new("nowhere"));
    }

    #[test]
    fn renames() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("a"), "a").unwrap();
        fs::write(at("b"), "b").unwrap();
        fs::create_dir_all(at("dir/full")).unwrap();
        let kind = |from: &str, to: &str, overwrite| {
            rename(&at(from), &at(to), overwrite, &[], &Records::none()).unwrap_err().kind
        };
        assert_eq!(kind("a", "b", false), FileErrorKind::Exists);
        rename(&at("a"), &at("b"), true, &[], &Records::none()).unwrap();
        assert_eq!(fs::read_to_string(at("b")).unwrap(), "a");
        assert_eq!(kind("none", "x", true), FileErrorKind::NotFound);
        assert_eq!(kind("b", "none/x", true), FileErrorKind::NotFound);
        assert_eq!(kind("b", "dir", true), FileErrorKind::IsDirectory);
        assert_eq!(kind("dir", "dir/full/x", true), FileErrorKind::InvalidOperation);
        fs::create_dir(at("other")).unwrap();
        assert_eq!(kind("other", "dir", true), FileErrorKind::NotEmpty);
        rename(&at("dir"), &at("other"), true, &[], &Records::none()).unwrap();
        assert_eq!(
            rename(&at("other"), &at("b"), false, &[at("other/full")], &Records::none()).unwrap_err().kind,
            FileErrorKind::Protected
        );
        assert_eq!(names(directory.path()), ["b", "other"]);
    }

    #[test]
    fn extended_attributes_of_directories_are_copied() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("from/below")).unwrap();
        for name in ["from", "from/below"] {
            let flags = rustix::fs::XattrFlags::empty();
            if rustix::fs::setxattr(at(name), "user.x", name.as_bytes(), flags).is_err() {
                return crate::not_run::not_run("needs extended attributes");
            }
        }
        copy(&at("from"), &at("to"), false, &[], &Records::none()).unwrap();
        for (name, original) in [("to", "from"), ("to/below", "from/below")] {
            let mut value = [0; 32];
            let size = rustix::fs::getxattr(at(name), "user.x", &mut value[..]).unwrap();
            assert_eq!(&value[..size], original.as_bytes());
        }
    }

    /// The temporary directory of the machine and the one for shared memory are different file systems on most machines.
    #[test]
    fn tree_is_moved_to_another_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let Ok(other) = tempfile::tempdir_in("/dev/shm") else {
            return crate::not_run::not_run("needs /dev/shm");
        };
        if fs::metadata(folder.path()).unwrap().dev() == fs::metadata(other.path()).unwrap().dev() {
            return crate::not_run::not_run("needs two file systems");
        }
        fs::create_dir_all(folder.path().join("from/below")).unwrap();
        fs::write(folder.path().join("from/below/file"), "x").unwrap();
        let to = other.path().join("to");
        rename(&folder.path().join("from"), &to, false, &[], &Records::none()).unwrap();
        assert_eq!(fs::read(to.join("below/file")).unwrap(), b"x");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1);
    }

    #[test]
    fn copies() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        tree(directory.path());
        copy(&at("dir"), &at("copy"), true, &[], &Records::none()).unwrap();
        fs::create_dir(at("in")).unwrap();
        rename(&at("copy"), &at("in/dir"), true, &[], &Records::none()).unwrap();
        assert_tree(&at("in"));
        assert_tree(directory.path());
        copy(&at("dir/file"), &at("file"), false, &[], &Records::none()).unwrap();
        assert_eq!(
            copy(&at("dir/file"), &at("file"), false, &[], &Records::none()).unwrap_err().kind,
            FileErrorKind::Exists
        );
        symlink("file", at("link")).unwrap();
        copy(&at("link"), &at("followed"), true, &[], &Records::none()).unwrap();
        assert!(fs::symlink_metadata(at("followed")).unwrap().is_file());
        let kind =
            |from: &str, to: &str| copy(&at(from), &at(to), true, &[], &Records::none()).unwrap_err().kind;
        assert_eq!(kind("dir", "dir/empty/x"), FileErrorKind::InvalidOperation);
        assert_eq!(kind("dir", "in"), FileErrorKind::NotEmpty);
        assert_eq!(kind("dir", "file"), FileErrorKind::NotDirectory);
        assert_eq!(kind("file", "dir"), FileErrorKind::IsDirectory);
        assert_eq!(kind("none", "x"), FileErrorKind::NotFound);
        assert_eq!(names(directory.path()), ["dir", "file", "followed", "in", "link"]);
    }

    #[test]
    fn directories_that_must_stay_are_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("workspace")).unwrap();
        fs::create_dir_all(at("from/full")).unwrap();
        let (kept, none) = ([at("workspace")], Records::none());
        // As it is, and under another name.
        for to in ["workspace", "from/../workspace"] {
            let moved = rename(&at("from"), &at(to), true, &kept, &none);
            assert_eq!(moved.unwrap_err().kind, FileErrorKind::Protected);
            let copied = copy(&at("from"), &at(to), true, &kept, &none);
            assert_eq!(copied.unwrap_err().kind, FileErrorKind::Protected);
        }
        assert_eq!(names(&at("workspace")), [""; 0]);
        copy(&at("from"), &at("workspace/copy"), true, &kept, &none).unwrap();
        rename(&at("from"), &at("workspace/moved"), true, &kept, &none).unwrap();
        assert_eq!(names(&at("workspace")), ["copy", "moved"]);
    }

    /// `/dev/shm` is another file system nearly everywhere.
    #[test]
    fn moves_across_file_systems() {
        let directory = tempfile::tempdir().unwrap();
        let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
        if fs::metadata(other.path()).unwrap().dev() == fs::metadata(directory.path()).unwrap().dev() {
            return;
        }
        tree(directory.path());
        rename(&directory.path().join("dir"), &other.path().join("dir"), false, &[], &Records::none())
            .unwrap();
        assert_tree(other.path());
        assert!(names(directory.path()).is_empty());
        fs::write(directory.path().join("file"), "x").unwrap();
        let taken =
            rename(&directory.path().join("file"), &other.path().join("dir"), true, &[], &Records::none());
        assert_eq!(taken.unwrap_err().kind, FileErrorKind::IsDirectory);
        assert_eq!((names(directory.path()), names(other.path())), (vec!["file".into()], vec!["dir".into()]));
    }

    /// A FIFO that is opened waits for its writer, and a link leads to another file.
    #[test]
    fn fifos_and_links_are_moved_with_their_attributes_into_directories_that_cannot_be_read() {
        let (from, Ok(to)) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm")) else {
            return crate::not_run::not_run("needs /dev/shm");
        };
        if fs::metadata(from.path()).unwrap().dev() == fs::metadata(to.path()).unwrap().dev() {
            return crate::not_run::not_run("needs two file systems");
        }
        let user = match rustix::process::geteuid().is_root() {
            true => crate::Identity::of(65534, 65534, &[]),
            false => crate::Identity::own(),
        };
        fs::set_permissions(from.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(to.path(), fs::Permissions::from_mode(0o333)).unwrap();
        let at = |name: &str| from.path().join(name);
        let time = rustix::fs::Timespec { tv_sec: 1_000_000_000, tv_nsec: 7 };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        user.run(|| {
            rustix::fs::mknodat(CWD, at("fifo"), rustix::fs::FileType::Fifo, Mode::empty(), 0).unwrap();
            fs::set_permissions(at("fifo"), fs::Permissions::from_mode(0o666)).unwrap();
            symlink("fifo", at("link")).unwrap();
            fs::write(at("file"), "x").unwrap();
            for name in ["fifo", "link", "file"] {
                rustix::fs::utimensat(CWD, at(name), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
            }
        })
        .unwrap();
        let (done, ended) = std::sync::mpsc::channel();
        let (source, target) = (from.path().to_owned(), to.path().to_owned());
        // A move that waits cannot be ended.
        std::thread::spawn(move || {
            for name in ["fifo", "link", "file"] {
                let moved =
                    user.run(|| rename(&source.join(name), &target.join(name), false, &[], &Records::none()));
                done.send(moved.unwrap()).unwrap();
            }
        });
        for name in ["fifo", "link", "file"] {
            ended.recv_timeout(std::time::Duration::from_secs(30)).unwrap().unwrap();
            let moved = fs::symlink_metadata(to.path().join(name)).unwrap();
            assert_eq!((moved.mtime(), moved.mtime_nsec()), (1_000_000_000, 7), "{name}");
        }
        assert_eq!(fs::symlink_metadata(to.path().join("fifo")).unwrap().mode() & 0o7777, 0o666);
        assert_eq!(fs::read_link(to.path().join("link")).unwrap(), Path::new("fifo"));
        assert!(names(from.path()).is_empty());
        fs::set_permissions(to.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(names(to.path()), ["fifo", "file", "link"]);
    }

    #[test]
    fn failed_copy_of_protected_directories_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // The order of a directory is arbitrary: some of them are copied before the copy fails.
        let protected: Vec<_> = (0..16).map(|number| format!("from/{number}")).collect();
        for name in &protected {
            fs::create_dir_all(at(name).join("below")).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o555)).unwrap();
        }
        fs::write(at("from/unreadable"), "x").unwrap();
        fs::set_permissions(at("from/unreadable"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(at("from"), fs::Permissions::from_mode(0o755)).unwrap();
        let (records, _) = Records::open(&at("staged")).unwrap();
        let user = match rustix::process::geteuid().is_root() {
            true => crate::Identity::of(65534, 65534, &[]),
            false => crate::Identity::own(),
        };
        let copied = user.run(|| copy(&at("from"), &at("to"), true, &[], &records)).unwrap();
        assert_eq!(copied.unwrap_err().kind, FileErrorKind::PermissionDenied);
        let left: Vec<_> =
            names(folder.path()).into_iter().filter(|name| name.starts_with(".sandcrab")).collect();
        assert_eq!(left, Vec::<String>::new());
        assert!(Records::open(&at("staged")).unwrap().1.is_empty());
        for name in &protected {
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}
