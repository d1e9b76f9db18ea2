//! Writes files: atomically ([`Replacement`]), or at the end ([`append`]).

mod condition;
mod in_place;
mod path_locks;
mod preserve;
mod temporary;

use std::fs::{File, Metadata};
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{AtPath, FileError, FileErrorKind};
use crate::open::{check_regular, open_directory};
use crate::staging::Records;
use crate::stat::etag;

pub use condition::{Condition, Tags};
pub(crate) use path_locks::PathLocks;
pub(crate) use preserve::copy_xattrs;
use temporary::{TargetDirectory, TemporaryFile};
pub(crate) use temporary::{is_temporary, temporary_name};

/// Maximum number of symbolic links on the way to a file that does not exist, as in the kernel.
const MAX_LINKS: usize = 40;

/// Held by a commit while it checks its condition and renames, so that of two writers with the same condition one fails.
static COMMITS: PathLocks = PathLocks::new();

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteResult {
    /// Whether readers saw either the old or the new content.
    pub is_atomic: bool,
    /// Whether the file did not exist.
    pub is_new: bool,
    /// The entity tag of the file.
    pub etag: String,
}

/// New content of a file. It replaces the old content when it is complete. Dropped before, it leaves nothing behind.
#[derive(Debug)]
pub struct Replacement {
    /// The path for errors.
    shown: PathBuf,
    /// The file without symbolic links.
    target: PathBuf,
    directory: OwnedFd,
    destination: Destination,
    old: Option<Metadata>,
    condition: Condition,
    mode: Option<u32>,
    records: Records,
}

#[derive(Debug)]
enum Destination {
    /// A temporary file beside the target.
    Temporary(TemporaryFile),
    /// The target itself, because no file can be created beside it. It is written when the content is complete.
    Target(TemporaryFile),
}

impl Destination {
    fn in_place(target: &Path, shown: &Path, records: &Records) -> Result<Self, FileError> {
        // A file that cannot be written is an error before the content is taken.
        drop(in_place::open(target).at(shown)?);
        Ok(Self::Target(in_place::stage(records).at(shown)?))
    }
}

impl Replacement {
    /// Prepares to replace the content of a file. Missing parent directories are created. A symbolic link stays, and
    /// the file that it names is replaced. `mode` replaces the permission bits, which an existing file keeps otherwise.
    pub fn begin(
        path: &Path,
        mode: Option<u32>,
        condition: Condition,
        records: &Records,
    ) -> Result<Self, FileError> {
        let target = target(path)?;
        let parent = target.parent().ok_or_else(|| FileError::new(FileErrorKind::IsDirectory, path))?;
        let old = existing(&target)?;
        condition.check(old.as_ref().map(etag).as_deref(), path)?;
        if old.is_some() {
            // A rename needs permission for the directory only, but a file that its user may not write stays.
            match rustix::fs::accessat(CWD, &target, Access::WRITE_OK, AtFlags::EACCESS) {
                Ok(()) | Err(Errno::TXTBSY | Errno::NOSYS | Errno::INVAL) => {}
                Err(e) => return Err(FileError::of(path, e)),
            }
        } else {
            std::fs::create_dir_all(parent).at(path)?;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent, flags, Mode::empty()).at(path)?;
        let is_private = old.is_some() || mode.is_some();
        let place = TargetDirectory { directory: directory.as_fd(), path: parent, records };
        let destination = match TemporaryFile::create(&place, is_private) {
            Ok(temporary) => Destination::Temporary(temporary),
            Err(Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::ROFS | Errno::OPNOTSUPP)
                if old.is_some() =>
            {
                Destination::in_place(&target, path, records)?
            }
            Err(e) => return Err(FileError::of(path, e)),
        };
        let shown = path.to_owned();
        let records = records.clone();
        let mut new = Self { shown, target, directory, destination, old, condition, mode, records };
        if let (Destination::Temporary(temporary), Some(old)) = (&new.destination, &new.old)
            && !preserve::owner(&temporary.file, old).at(path)?
        {
            // The owner of the file would change.
            new.destination = Destination::in_place(&new.target, path, &new.records)?;
        }
        Ok(new)
    }

    /// Writes the next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let file = match &mut self.destination {
            Destination::Temporary(temporary) => &mut temporary.file,
            Destination::Target(content) => &mut content.file,
        };
        file.write_all(bytes).at(&self.shown)
    }

    /// Replaces the file with the written content, and waits until it is on the disk.
    pub fn commit(self) -> Result<WriteResult, FileError> {
        let Self { shown, target, directory, destination, old, condition, mode, records } = self;
        let is_new = old.is_none();
        let saved = |file: &File, is_atomic| {
            let etag = etag(&file.metadata().at(&shown)?);
            Ok(WriteResult { is_atomic, is_new, etag })
        };
        let write_in_place = |content: &File| {
            let file = in_place::open(&target).at(&shown)?;
            let found = file.metadata().at(&shown)?;
            check_regular(&shown, &found)?;
            condition.check(Some(&etag(&found)), &shown)?;
            in_place::copy(content, &file, &found).at(&shown)?;
            preserve::mode(&file, mode).at(&shown)?;
            // Others may have replaced the file: the content would be in a file without a name.
            let is_same = |now: Metadata| (now.dev(), now.ino()) == (found.dev(), found.ino());
            if !existing(&target)?.is_some_and(is_same) {
                return Err(FileError::new(FileErrorKind::Changed, &shown));
            }
            saved(&file, false)
        };
        let mut temporary = match destination {
            Destination::Temporary(temporary) => temporary,
            Destination::Target(content) => {
                let _lock = COMMITS.lock(&target);
                return write_in_place(&content.file);
            }
        };
        if let Some(old) = &old {
            preserve::copy_xattrs(&target, &temporary.file);
            preserve::mode(&temporary.file, mode.or(Some(old.mode() & 0o7777))).at(&shown)?;
        } else {
            preserve::mode(&temporary.file, mode).at(&shown)?;
        }
        temporary.file.sync_all().at(&shown)?;
        let name = target.file_name().ok_or_else(|| FileError::new(FileErrorKind::IsDirectory, &shown))?;
        let lock = COMMITS.lock(&target);
        let now = existing(&target)?;
        condition.check(now.as_ref().map(etag).as_deref(), &shown)?;
        let path = target.parent().unwrap_or(Path::new("/"));
        let place = TargetDirectory { directory: directory.as_fd(), path, records: &records };
        match temporary.rename_to(&place, name, condition.replaced(now.as_ref())) {
            Ok(()) => {}
            // A mount point, or a file of another user in a directory with the sticky bit.
            Err(Errno::BUSY | Errno::PERM | Errno::ACCESS) if now.is_some() => {
                return write_in_place(&temporary.file);
            }
            // Another program was faster.
            Err(Errno::STALE | Errno::EXIST) => return Err(FileError::new(FileErrorKind::Changed, shown)),
            Err(e) => return Err(FileError::of(&shown, e)),
        }
        drop(lock);
        sync_directory(target.parent());
        saved(&temporary.file, true)
    }
}

/// Makes a rename durable. Directories that cannot be opened or synced are left to the kernel.
fn sync_directory(directory: Option<&Path>) {
    let opened = directory.map(open_directory);
    if let Some(Ok(directory)) = opened {
        drop(directory.sync_all());
    }
}

/// The metadata of an existing regular file.
fn existing(target: &Path) -> Result<Option<Metadata>, FileError> {
    match std::fs::symlink_metadata(target) {
        Ok(metadata) => check_regular(target, &metadata).map(|()| Some(metadata)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(FileError::of(target, e)),
    }
}

/// The path of the file that a path names, without symbolic links. The file need not exist.
fn target(path: &Path) -> Result<PathBuf, FileError> {
    if path.as_os_str().as_bytes().ends_with(b"/") {
        let kind = if path.is_dir() { FileErrorKind::IsDirectory } else { FileErrorKind::EndsWithSlash };
        return Err(FileError::new(kind, path));
    }
    let mut followed = path.to_owned();
    for _ in 0..MAX_LINKS {
        match std::fs::canonicalize(&followed) {
            Ok(found) => return Ok(found),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(FileError::of(path, e)),
        }
        // A symbolic link without a target: the target is created.
        match std::fs::read_link(&followed) {
            Ok(link) => followed = followed.parent().unwrap_or(Path::new("/")).join(link),
            Err(_) if followed.file_name().is_none() => {
                return Err(FileError::new(FileErrorKind::IsDirectory, path));
            }
            Err(_) => return Ok(followed),
        }
    }
    Err(FileError::new(FileErrorKind::TooManyLinks, path))
}

/// Appends to a file, which is created if it does not exist. Readers may see a part of the bytes.
pub fn append(path: &Path, bytes: &[u8], mode: Option<u32>) -> Result<WriteResult, FileError> {
    let target = target(path)?;
    let is_new = existing(&target)?.is_none();
    if let (true, Some(parent)) = (is_new, target.parent()) {
        std::fs::create_dir_all(parent).at(path)?;
    }
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(&target, flags, Mode::from_bits_truncate(0o666)).at(path)?);
    check_regular(path, &file.metadata().at(path)?)?;
    file.write_all(bytes).at(path)?;
    preserve::mode(&file, mode).at(path)?;
    in_place::sync(&file).at(path)?;
    let etag = etag(&file.metadata().at(path)?);
    Ok(WriteResult { is_atomic: false, is_new, etag })
}

#[cfg(test)]
mod tests;
