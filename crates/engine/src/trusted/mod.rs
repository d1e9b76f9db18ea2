//! Files and directories that no other user can change.
//!
//! The engine executes what its state directory contains, as its own user. So a directory or file that another user
//! owns, can write to, or can replace is refused. Every check uses an open descriptor (`O_NOFOLLOW`, then `fstat`),
//! so the checked file is the one that is used.

mod error;
#[cfg(test)]
mod tests;
mod walk;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fchmod, fstat, ftruncate, mkdirat, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

pub use error::TrustError;
use walk::{LastComponent, WalkResult, is_owner_trusted, mode_of, walk};

/// Permission bits of other users that are refused: write.
const OTHERS_WRITE: u32 = 0o022;
/// Permission bits of other users that are refused for a secret.
const OTHERS: u32 = 0o077;
/// The end of the name of a file that is to replace another.
const DRAFT: &str = ".new";
/// The permissions of a new file.
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A directory of this user that no other user can change.
#[derive(Debug)]
pub struct TrustedDir {
    dir: OwnedFd,
    path: PathBuf,
}

impl TrustedDir {
    /// Opens a directory that this user owns, through directories that no other user can change.
    pub fn open(path: &Path) -> Result<Self, TrustError> {
        let this = Self::reopen(walk(path, LastComponent::Enter)?)?;
        check(&this.stat()?, &this.path, FileType::Directory, OTHERS_WRITE)?;
        Ok(this)
    }

    /// The same for a directory that other users cannot read. It is created if it is missing. An empty directory of
    /// this user is made private, because container runtimes mount such directories.
    pub fn open_private(path: &Path) -> Result<Self, TrustError> {
        let this = Self::reopen(walk(path, LastComponent::Make)?)?;
        let stat = this.stat()?;
        check(&stat, &this.path, FileType::Directory, 0)?;
        if mode_of(&stat) & OTHERS != 0 && this.is_empty()? {
            fchmod(&this.dir, Mode::RWXU).map_err(TrustError::io("change the mode of", &this.path))?;
        }
        check(&this.stat()?, &this.path, FileType::Directory, OTHERS)?;
        Ok(this)
    }

    fn reopen(WalkResult { dir, path, .. }: WalkResult) -> Result<Self, TrustError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(dir, ".", flags, Mode::empty()).map_err(TrustError::io("open", &path))?;
        Ok(Self { dir, path })
    }

    fn stat(&self) -> Result<Stat, TrustError> {
        fstat(&self.dir).map_err(TrustError::io("look at", &self.path))
    }

    /// Its path, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of the files in it that are UTF-8, without those of interrupted replacements.
    pub fn file_names(&self) -> Result<Vec<String>, TrustError> {
        let names = self.names()?.into_iter().filter_map(|name| name.into_string().ok());
        Ok(names.filter(|name| !name.ends_with(DRAFT)).collect())
    }

    fn is_empty(&self) -> Result<bool, TrustError> {
        Ok(self.names()?.is_empty())
    }

    fn names(&self) -> Result<Vec<std::ffi::CString>, TrustError> {
        let failed = || TrustError::io("list", &self.path);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.dir).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
        }
        Ok(names)
    }

    /// Opens a directory in it, and creates it if it is missing.
    pub fn folder(&self, name: &str) -> Result<Self, TrustError> {
        let path = self.path.join(name);
        match mkdirat(&self.dir, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(TrustError::io("make", &path)(errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match openat(&self.dir, name, flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(TrustError::Kind { path, expected: "directory" });
            }
            opened => opened.map_err(TrustError::io("open", &path))?,
        };
        let this = Self { dir, path };
        check(&this.stat()?, &this.path, FileType::Directory, OTHERS_WRITE)?;
        Ok(this)
    }

    /// Refuses the directory if an entry belongs to another user, or is a file that others can write to.
    pub(crate) fn check_entries(&self) -> Result<(), TrustError> {
        for name in self.names()? {
            let path = || self.path.join(OsStr::new(&*name.to_string_lossy()));
            let stat = match statat(&self.dir, &*name, AtFlags::SYMLINK_NOFOLLOW) {
                // Its supervisor has removed it.
                Err(Errno::NOENT) => continue,
                stat => stat.map_err(TrustError::io("look at", &path()))?,
            };
            let kind = FileType::from_raw_mode(stat.st_mode);
            let refused_mode = if kind == FileType::RegularFile { OTHERS_WRITE } else { 0 };
            check(&stat, &path(), kind, refused_mode)?;
        }
        Ok(())
    }

    /// Opens a file in it; a new file is private.
    pub(crate) fn open_file(&self, name: &str, flags: OFlags) -> Result<File, TrustError> {
        let path = self.path.join(name);
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.dir, name, flags, PRIVATE_FILE) {
            Err(Errno::LOOP) => return Err(TrustError::Link(path)),
            opened => opened.map_err(TrustError::io("open", &path))?,
        };
        let stat = fstat(&file).map_err(TrustError::io("look at", &path))?;
        check(&stat, &path, FileType::RegularFile, OTHERS_WRITE)?;
        Ok(file.into())
    }

    /// Reads a file in it, at most this many bytes; `None` if it does not exist.
    pub fn read(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, TrustError> {
        let file = match self.open_file(name, OFlags::RDONLY) {
            Err(error) if error.is_not_found() => return Ok(None),
            opened => opened?,
        };
        read_all(file, &self.path.join(name), max_bytes).map(Some)
    }

    /// Replaces a file in it atomically.
    pub fn replace(&self, name: &str, content: &[u8]) -> Result<(), TrustError> {
        let draft = format!("{name}{DRAFT}");
        let path = self.path.join(&draft);
        self.remove(&draft)?;
        let mut file = self.open_file(&draft, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        let written = file.write_all(content).and_then(|()| file.sync_all());
        let renamed = written.map_err(TrustError::io("write", &path)).and_then(|()| {
            renameat(&self.dir, &draft, &self.dir, name).map_err(TrustError::io("rename", &path))
        });
        if renamed.is_err() {
            // The draft may contain secrets and occupy the last bytes of a full disk. The first error is reported,
            // not this one.
            drop(self.remove(&draft));
        }
        renamed?;
        rustix::fs::fsync(&self.dir).map_err(TrustError::io("save", &self.path))
    }

    /// Overwrites an existing file in it. Unlike [`replace`](Self::replace) this is not atomic, and on most file
    /// systems needs no space.
    pub fn overwrite(&self, name: &str, content: &[u8]) -> Result<(), TrustError> {
        let file = self.open_file(name, OFlags::WRONLY)?;
        let written = file.write_all_at(content, 0).and_then(|()| file.set_len(content.len() as u64));
        written.map_err(TrustError::io("write", &self.path.join(name)))
    }

    /// Renames a file in it.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), TrustError> {
        renameat(&self.dir, from, &self.dir, to).map_err(TrustError::io("rename", &self.path.join(from)))
    }

    /// The state of the directory and its file system.
    pub fn state(&self) -> DirState {
        let is_same = |own: Stat| {
            let found = rustix::fs::stat(&self.path);
            found.is_ok_and(|found| (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino))
        };
        let space = rustix::fs::fstatvfs(&self.dir).ok();
        DirState {
            is_there: fstat(&self.dir).is_ok_and(is_same),
            free_bytes: space.as_ref().map_or(0, |space| space.f_bavail.saturating_mul(space.f_frsize)),
            // Some file systems have no fixed number of inodes.
            free_inodes: space.filter(|space| space.f_files > 0).map(|space| space.f_favail),
        }
    }

    /// Removes a file in it, if it exists.
    pub fn remove(&self, name: &str) -> Result<(), TrustError> {
        match unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(TrustError::io("remove", &self.path.join(name))(errno)),
        }
    }
}

/// State of a directory and its file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirState {
    /// Whether its path still leads to it.
    pub is_there: bool,
    /// Free bytes.
    pub free_bytes: u64,
    /// Free inodes, if limited.
    pub free_inodes: Option<u64>,
}

impl AsFd for TrustedDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

impl From<TrustedDir> for OwnedFd {
    fn from(folder: TrustedDir) -> Self {
        folder.dir
    }
}

/// Refuses a file of another kind or owner, or with one of these permission bits.
fn check(stat: &Stat, path: &Path, kind: FileType, refused_mode: u32) -> Result<(), TrustError> {
    let (user, mode) = (geteuid().as_raw(), mode_of(stat));
    let path = || path.to_owned();
    if FileType::from_raw_mode(stat.st_mode) != kind {
        let expected = if kind == FileType::Directory { "directory" } else { "regular file" };
        return Err(TrustError::Kind { path: path(), expected });
    }
    if stat.st_uid != user {
        return Err(TrustError::Owner { path: path(), owner: stat.st_uid, user });
    }
    check_mode(mode, refused_mode, path)
}

fn check_mode(mode: u32, refused: u32, path: impl Fn() -> PathBuf) -> Result<(), TrustError> {
    let fix = mode & !refused & 0o777;
    match mode & refused {
        0 => Ok(()),
        bits if bits & OTHERS_WRITE != 0 => Err(TrustError::Writable { path: path(), mode, fix }),
        _ => Err(TrustError::Readable { path: path(), mode, fix }),
    }
}

fn read_all(file: File, path: &Path, max_bytes: u64) -> Result<Vec<u8>, TrustError> {
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes).map_err(TrustError::io("read", path))?;
    Ok(bytes)
}

/// Opens a file in a trusted directory. It never follows a link and never waits for a fifo. It refuses with `EPERM` a
/// regular file of another user, or one that other users can write to. A file is truncated only after the check.
pub(crate) fn open_own(dir: BorrowedFd<'_>, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let safe = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = openat(dir, name, flags.difference(OFlags::TRUNC) | safe, PRIVATE_FILE)?;
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        if stat.st_uid != geteuid().as_raw() || mode_of(&stat) & OTHERS_WRITE != 0 {
            return Err(Errno::PERM);
        }
        if flags.contains(OFlags::TRUNC) && stat.st_size > 0 {
            ftruncate(&file, 0)?;
        }
    }
    Ok(file)
}

/// Whether other users may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrecy {
    /// They may.
    Public,
    /// They must not.
    Secret,
}

/// Reads at most this many bytes of a file that only this user and root can change or replace.
pub fn read_trusted(path: &Path, secrecy: Secrecy, max_bytes: u64) -> Result<Vec<u8>, TrustError> {
    let WalkResult { dir, path: folder, name, is_magic } = walk(path, LastComponent::Stop)?;
    let path = folder.join(&name);
    // A link of the proc file system leads to a descriptor that this process was given.
    let flags = if is_magic { OFlags::empty() } else { OFlags::NOFOLLOW | OFlags::NONBLOCK };
    let file = openat(dir, &name, flags | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let file = file.map_err(TrustError::io("open", &path))?;
    let stat = fstat(&file).map_err(TrustError::io("look at", &path))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind != FileType::RegularFile && !(is_magic && kind == FileType::Fifo) {
        return Err(TrustError::Kind { path, expected: "regular file" });
    }
    if !is_owner_trusted(stat.st_uid) {
        return Err(TrustError::Owner { path, owner: stat.st_uid, user: geteuid().as_raw() });
    }
    let refused = if secrecy == Secrecy::Secret { OTHERS } else { OTHERS_WRITE };
    check_mode(mode_of(&stat), refused, || path.clone())?;
    read_all(file.into(), &path, max_bytes)
}

/// Creates a private file atomically. An existing file is kept, and `false` is returned.
pub fn create_private(path: &Path, content: &[u8]) -> Result<bool, TrustError> {
    let WalkResult { dir, path: folder, name, .. } = walk(path, LastComponent::Stop)?;
    let path = folder.join(&name);
    let draft = format!("{}.new-{}", name.to_string_lossy(), std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A draft of a killed process with the same process id.
    let _ = unlinkat(&dir, &draft, AtFlags::empty());
    let file = openat(&dir, &draft, flags, PRIVATE_FILE).map_err(TrustError::io("make", &path))?;
    let mut file = File::from(file);
    let made = file
        .write_all(content)
        .and_then(|()| file.sync_all())
        .and_then(|()| Ok(rustix::fs::linkat(&dir, &draft, &dir, &name, AtFlags::empty())?));
    let _ = unlinkat(&dir, &draft, AtFlags::empty());
    match made {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(TrustError::io("make", &path)(error)),
    }
}
