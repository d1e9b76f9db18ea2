//! [`Target`]: a folder that is replaced by the content of an archive, at once.

use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, RenameFlags};
use rustix::io::Errno;

use super::attributes::{Owner, of_stat, with_write_permission};
use super::codec::ArchiveFormat;
use super::entry::Attributes;
use super::error::ArchiveError;
use super::read::Reader;
use super::swap::{self, MAX_TRIES, NEW};
use super::threaded::DecoderThread;
use super::tree::Tree;
use crate::error::{AtPath, FileError, FileErrorKind};
use crate::open::open_directory;
use crate::remove::{check_kept, discard_tree};
use crate::staging::Records;
use crate::write::temporary_name;

/// The mount points of this process.
const MOUNTS: &str = "/proc/self/mountinfo";

/// A folder that is to be replaced, and the temporary directory beside it or in it.
#[derive(Debug, Clone)]
pub struct Target {
    path: PathBuf,
    temporary: PathBuf,
    /// Whether the folder stays, and its entries are replaced.
    is_fixed: bool,
    /// Whether owners and privileges of archives are taken over.
    is_trusted: bool,
}

/// A folder that was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// Number of entries.
    pub entries: u64,
    /// Bytes of content, without holes.
    pub content_bytes: u64,
    /// False if the entries were replaced one by one.
    pub is_atomic: bool,
    /// A directory with the old content, which could not be removed.
    pub leftover: Option<PathBuf>,
}

impl Target {
    /// Chooses a temporary directory. Creates nothing. The folder need not exist.
    ///
    /// Folders that are, or contain, one of `kept` are refused. One of `fixed`, a mount point, and a folder whose parent
    /// directory the user may not change, keep the directory, and only their entries are replaced.
    pub fn choose(path: &Path, kept: &[PathBuf], fixed: &[PathBuf]) -> Result<Self, FileError> {
        let name = temporary_name().at(path)?;
        let folder = match fs::canonicalize(path) {
            Ok(folder) => folder,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Self::absent(path, &name);
            }
            Err(e) => return Err(FileError::of(path, e)),
        };
        let found = fs::metadata(&folder).at(path)?;
        if !found.is_dir() {
            return Err(FileError::new(FileErrorKind::NotDirectory, path));
        }
        check_kept(&folder, kept)?;
        let is_mount = check_mounts(&folder, path)?;
        let is_one_of = |other: &PathBuf| {
            fs::metadata(other).is_ok_and(|other| (other.dev(), other.ino()) == (found.dev(), found.ino()))
        };
        let parent = folder.parent().unwrap_or(Path::new("/"));
        let is_fixed =
            is_mount || fixed.iter().any(is_one_of) || !may_replace(parent, found.uid(), found.dev());
        let temporary = if is_fixed { folder.join(name) } else { parent.join(name) };
        Ok(Self { path: folder, temporary, is_fixed, is_trusted: true })
    }

    fn absent(path: &Path, name: &std::ffi::OsStr) -> Result<Self, FileError> {
        if path.symlink_metadata().is_ok() {
            // A symbolic link without a target.
            return Err(FileError::new(FileErrorKind::NotFound, path));
        }
        // On the file system of the folder, and without directories that would have to be removed.
        let existing = path.ancestors().skip(1).find(|above| above.symlink_metadata().is_ok());
        let Some(existing) = existing.filter(|above| above.is_dir()) else {
            return Err(FileError::new(FileErrorKind::NotDirectory, path));
        };
        Ok(Self { path: path.to_owned(), temporary: existing.join(name), is_fixed: false, is_trusted: true })
    }

    /// Unpacks archives whose attributes are not trusted, such as those of a sandbox on this machine. Also as root, files
    /// belong to the user of the thread, have no set-user-id and set-group-id bits, and have only extended attributes
    /// with names that start with `user.`.
    #[must_use]
    pub fn untrusted(self) -> Self {
        Self { is_trusted: false, ..self }
    }

    fn owner(&self) -> Owner {
        Owner::of_thread(self.is_trusted)
    }

    /// The folder, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the folder by the content of an archive. After an error it is as before, and the temporary directory
    /// is removed; if an old entry cannot be put back, the error names the directory that contains it. If the process is
    /// killed, the next one cleans up because of the record.
    ///
    /// With `must_have_trailer`, an archive that [`pack`](super::pack()) has not written is refused.
    pub fn unpack(
        &self,
        input: impl Read + Send + 'static,
        format: Option<ArchiveFormat>,
        must_have_trailer: bool,
        records: &Records,
    ) -> Result<Unpacked, ArchiveError> {
        let mut record = records.add(&self.temporary)?;
        let done = self.replace(input, format, must_have_trailer);
        if done.is_err() && swap::holds_old_entries(&self.temporary) {
            // The next process tries again to put them back.
            record.keep();
            return done.map(|(done, _)| done);
        }
        let removed = discard_tree(&self.temporary);
        if removed.is_err() {
            record.keep();
        }
        drop(record);
        let (mut done, attributes) = done?;
        if removed.is_err() {
            done.leftover = Some(self.temporary.clone());
        }
        if !done.is_atomic
            && let (Some(attributes), Ok(directory)) = (attributes, open_directory(&self.path))
        {
            // What can be set: the directory may belong to another user. Last, because the mode may forbid to write.
            let _ = self.owner().apply(&directory, &attributes);
        }
        Ok(done)
    }

    fn replace(
        &self,
        input: impl Read + Send + 'static,
        format: Option<ArchiveFormat>,
        must_have_trailer: bool,
    ) -> Result<(Unpacked, Option<Attributes>), ArchiveError> {
        let input = DecoderThread::start(input, format).map_err(ArchiveError::Input)?;
        let shown = &self.path;
        fs::DirBuilder::new().mode(0o700).create(&self.temporary).at(shown)?;
        let new = self.temporary.join(NEW);
        fs::create_dir(&new).at(shown)?;
        let usual = fs::symlink_metadata(&new).at(shown)?.permissions();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o700)).at(shown)?;
        let mut tree = Tree::new(&new, shown, self.owner())?;
        let mut reader = Reader::new(input);
        loop {
            match reader.next_entry() {
                Ok(Some(entry)) => tree.add(entry, &mut reader)?,
                Ok(None) => break,
                // The result of the other thread tells why there is no more.
                Err(e) => return Err(reader.into_input().finish().err().unwrap_or(e)),
            }
        }
        let (entries, content_bytes) = (reader.entries(), tree.content_bytes());
        let trailer = reader.into_input().finish()?;
        match trailer {
            Some(trailer) if (trailer.entries, trailer.bytes) != (entries, content_bytes) => {
                return Err(ArchiveError::Invalid("its content does not fit its trailer".into()));
            }
            None if must_have_trailer => {
                return Err(ArchiveError::Invalid("it is incomplete: its trailer is missing".into()));
            }
            _ => {}
        }
        let attributes = tree.finish()?;
        let is_atomic = self.commit(&new, attributes.as_ref(), usual)?;
        Ok((Unpacked { entries, content_bytes, is_atomic, leftover: None }, attributes))
    }

    /// Puts the new content into its place. Returns whether that was one operation.
    fn commit(
        &self,
        new: &Path,
        attributes: Option<&Attributes>,
        usual: fs::Permissions,
    ) -> Result<bool, FileError> {
        let Self { path, is_fixed, .. } = self;
        if !is_fixed {
            let old = rustix::fs::statat(CWD, path, AtFlags::empty()).ok();
            let directory =
                set_attributes(self.owner(), new, attributes, old.as_ref().map(of_stat).as_ref(), usual)
                    .at(path)?;
            let mode = directory.metadata().at(path)?.permissions();
            // The kernel changes `..` in it, which requires the permission to write.
            directory.set_permissions(fs::Permissions::from_mode(mode.mode() | 0o700)).at(path)?;
            if self.exchange(new)? {
                // The folder is replaced, whatever its mode.
                drop(directory.set_permissions(mode));
                return Ok(true);
            }
        }
        swap::swap(&self.temporary, path)?;
        sync_directory(path);
        Ok(false)
    }

    /// Exchanges the folder for the new one. Returns false if that is not possible in one operation. Other processes may
    /// create and remove the folder meanwhile, for example another restore.
    fn exchange(&self, new: &Path) -> Result<bool, FileError> {
        let Self { path, .. } = self;
        let parent = path.parent().unwrap_or(Path::new("/"));
        for _ in 0..MAX_TRIES {
            let done = match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(old) if FileType::from_raw_mode(old.st_mode) == FileType::Directory => {
                    match with_write_permission(path, new, || {
                        rustix::fs::renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE)
                    }) {
                        Err(Errno::NOENT) => continue,
                        // The file system cannot do it, or the folder is in a lower layer of an overlay.
                        Err(Errno::INVAL | Errno::XDEV | Errno::OPNOTSUPP | Errno::BUSY) => return Ok(false),
                        done => done,
                    }
                }
                Ok(_) => Err(Errno::NOTDIR),
                Err(Errno::NOENT) => {
                    fs::create_dir_all(parent).at(path)?;
                    match rustix::fs::renameat_with(CWD, new, CWD, path, RenameFlags::NOREPLACE) {
                        Err(Errno::EXIST) => continue,
                        Err(Errno::INVAL) => rustix::fs::renameat(CWD, new, CWD, path),
                        done => done,
                    }
                }
                Err(e) => Err(e),
            };
            done.at(path)?;
            sync_directory(parent);
            return Ok(true);
        }
        Err(FileError::new(FileErrorKind::Busy, path))
    }
}

/// Sets the attributes of the new folder: those in the archive, else those of the old folder.
fn set_attributes(
    owner: Owner,
    new: &Path,
    attributes: Option<&Attributes>,
    old: Option<&Attributes>,
    usual: fs::Permissions,
) -> Result<fs::File, std::io::Error> {
    let directory = open_directory(new)?;
    match attributes.or(old) {
        Some(attributes) => owner.apply(&directory, attributes)?,
        None => directory.set_permissions(usual)?,
    }
    Ok(directory)
}

fn sync_directory(path: &Path) {
    // Some file systems cannot.
    if let Ok(directory) = open_directory(path) {
        drop(directory.sync_all());
    }
}

/// Whether a folder with this owner, on this device, can be renamed in its parent directory.
fn may_replace(parent: &Path, owner: u32, device: u64) -> bool {
    let Ok(found) = fs::metadata(parent) else { return false };
    let user = rustix::process::geteuid().as_raw();
    let is_sticky = found.mode() & 0o1000 != 0;
    let may_rename = user == 0 || !is_sticky || [owner, found.uid()].contains(&user);
    let may_write =
        match rustix::fs::accessat(CWD, parent, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
            Ok(()) => true,
            // Before Linux 5.8. Then the attempt tells.
            Err(Errno::NOSYS | Errno::INVAL) => true,
            Err(_) => false,
        };
    found.dev() == device && may_rename && may_write
}

/// Returns whether a folder is a mount point. Refuses it if other file systems are mounted below it.
fn check_mounts(folder: &Path, shown: &Path) -> Result<bool, FileError> {
    // Without /proc, the device tells most.
    let mounts = fs::read(MOUNTS).unwrap_or_default();
    let mut is_mount = false;
    for line in mounts.split(|byte| *byte == b'\n') {
        let Some(escaped) = line.split(|byte| *byte == b' ').nth(4) else { continue };
        let point = unescape(escaped);
        let point = Path::new(std::ffi::OsStr::from_bytes(&point));
        if point == folder {
            is_mount = true;
        } else if point.starts_with(folder) {
            return Err(FileError::new(FileErrorKind::Busy, shown));
        }
    }
    Ok(is_mount)
}

/// Spaces, tabs, newlines and backslashes are octal numbers in the list of mounts.
fn unescape(escaped: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    bytes
}
