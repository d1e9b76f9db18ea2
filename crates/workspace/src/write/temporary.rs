//! [`TemporaryFile`]: a file without a name until it is complete, where the file system supports this.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::error::FileErrorKind;
use crate::staging::{Record, Records};

/// A file of others has the temporary name, and cannot get its own one back.
const NOT_PUT_BACK: Errno = Errno::NOTRECOVERABLE;

/// A new file in a directory.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    pub(super) file: File,
    /// Its name, if it has one. The name is removed on drop.
    named: Option<TemporaryName>,
}

/// A temporary name.
#[derive(Debug)]
struct TemporaryName {
    directory: OwnedFd,
    name: OsString,
    record: Record,
}

impl TemporaryName {
    /// Chooses and records a name. Everything that can fail has been done before the name exists.
    fn choose(place: &TargetDirectory<'_>) -> Result<Self, Errno> {
        let name = temporary_name()?;
        let directory = place.directory.try_clone_to_owned().map_err(|_| Errno::MFILE)?;
        let record = place.records.add(&place.path.join(&name)).map_err(|error| match error.kind {
            FileErrorKind::NoSpace => Errno::NOSPC,
            FileErrorKind::NameTooLong => Errno::NAMETOOLONG,
            _ => Errno::MFILE,
        })?;
        Ok(Self { directory, name, record })
    }

    /// Exchanges the temporary file for another one, which must be the expected one.
    fn exchange(&self, other: &OsStr, expected: &Metadata) -> Result<(), Errno> {
        let Self { directory, name, .. } = self;
        // In this order, watchers learn last that the other name has a new file.
        let exchange = || rustix::fs::renameat_with(directory, other, directory, name, RenameFlags::EXCHANGE);
        exchange().map_err(|e| if e == Errno::NOENT { Errno::STALE } else { e })?;
        let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        // Not the time of change, which the exchange has set.
        let is_expected = found.is_ok_and(|found| {
            (found.st_dev, found.st_ino) == (expected.dev(), expected.ino())
                && found.st_size == expected.size().cast_signed()
                && (found.st_mtime, i64::try_from(found.st_mtime_nsec))
                    == (expected.mtime(), Ok(expected.mtime_nsec()))
        });
        if is_expected {
            return Ok(());
        }
        let put_back = match exchange() {
            // Others have removed the new file in the meantime.
            Err(Errno::NOENT) => {
                rustix::fs::renameat_with(directory, name, directory, other, RenameFlags::NOREPLACE)
            }
            exchanged => exchanged,
        };
        Err(if put_back.is_ok() { Errno::STALE } else { NOT_PUT_BACK })
    }
}

/// What a temporary file may replace.
#[derive(Debug, Clone, Copy)]
pub(super) enum Replaced<'a> {
    /// Any file.
    Any {
        /// Whether there was none.
        is_new: bool,
    },
    /// Nothing. A file that others have created is the error [`Errno::EXIST`].
    Nothing,
    /// This file. If others have replaced or changed it, it stays, and that is the error [`Errno::STALE`].
    Exactly(&'a Metadata),
}

/// The directory of a temporary file.
#[derive(Debug, Clone, Copy)]
pub(super) struct TargetDirectory<'a> {
    pub(super) directory: BorrowedFd<'a>,
    pub(super) path: &'a Path,
    pub(super) records: &'a Records,
}

/// A name that no other file has.
pub(crate) fn temporary_name() -> Result<OsString, Errno> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!(".sandcrab-{:016x}.tmp", u64::from_ne_bytes(random)).into())
}

/// Whether a file has such a name.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b".sandcrab-") && name.ends_with(b".tmp")
}

impl TemporaryFile {
    /// Creates a file. A private one can only be opened by its owner until it gets its permission bits.
    pub(super) fn create(place: &TargetDirectory<'_>, is_private: bool) -> Result<Self, Errno> {
        let directory = place.directory;
        let mode = Mode::from_bits_truncate(if is_private { 0o600 } else { 0o666 });
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(directory, ".", flags | OFlags::TMPFILE, mode) {
            Ok(file) => return Ok(Self { file: file.into(), named: None }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {}
            Err(e) => return Err(e),
        }
        let named = TemporaryName::choose(place)?;
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(directory, &named.name, flags, mode)?.into();
        Ok(Self { file, named: Some(named) })
    }

    /// Gives it a name in its directory. It replaces the file of this name, if that is as expected.
    pub(super) fn rename_to(
        &mut self,
        place: &TargetDirectory<'_>,
        name: &OsStr,
        replaced: Replaced<'_>,
    ) -> Result<(), Errno> {
        let directory = place.directory;
        let is_new = matches!(replaced, Replaced::Nothing | Replaced::Any { is_new: true });
        if self.named.is_none() {
            // A new file needs no temporary name.
            if is_new && self.link(directory, name).is_ok() {
                return Ok(());
            }
            let named = TemporaryName::choose(place)?;
            self.link(directory, &named.name)?;
            self.named = Some(named);
        }
        let Some(named) = &self.named else { return Err(Errno::NOENT) };
        let rename = |flags| rustix::fs::renameat_with(directory, &named.name, directory, name, flags);
        let is_unsupported = |e| matches!(e, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP);
        let renamed = match replaced {
            Replaced::Any { .. } => rename(RenameFlags::empty()),
            Replaced::Nothing => rename(RenameFlags::NOREPLACE),
            Replaced::Exactly(expected) => {
                let exchanged = named.exchange(name, expected);
                if exchanged.is_ok() {
                    // The old file has the temporary name, and is removed on drop.
                    return Ok(());
                }
                if exchanged == Err(NOT_PUT_BACK) {
                    // The temporary name is that of a file of others.
                    self.named = None;
                    return Err(Errno::IO);
                }
                exchanged
            }
        };
        match renamed {
            Err(e) if is_unsupported(e) => rename(RenameFlags::empty())?,
            renamed => renamed?,
        }
        self.named = None;
        Ok(())
    }

    /// Gives an unnamed file a name.
    fn link(&self, directory: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        match rustix::fs::linkat(CWD, &own, directory, name, AtFlags::SYMLINK_FOLLOW) {
            // Without /proc. It needs a capability before Linux 6.10.
            Err(Errno::NOENT) => {
                rustix::fs::linkat(self.file.as_fd(), "", directory, name, AtFlags::EMPTY_PATH)
            }
            linked => linked,
        }
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let Some(TemporaryName { directory, name, record }) = &mut self.named else { return };
        match rustix::fs::unlinkat(directory, &*name, AtFlags::empty()) {
            // A program may have deleted it, or its directory.
            Ok(()) | Err(Errno::NOENT) => {}
            // The next process tries again.
            Err(_) => record.keep(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::staging::MAX_RECORDS;

    /// A named file, as on a file system without unnamed ones.
    fn named(place: &TargetDirectory<'_>) -> TemporaryFile {
        let named = TemporaryName::choose(place).unwrap();
        let flags = OFlags::RDWR | OFlags::CREATE;
        let file = rustix::fs::openat(place.directory, &named.name, flags, Mode::RWXU).unwrap();
        TemporaryFile { file: file.into(), named: Some(named) }
    }

    /// Another program has put a file into the place of the one that was checked.
    #[test]
    fn file_that_was_replaced_meanwhile_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let directory = File::open(folder.path()).unwrap();
        let place =
            TargetDirectory { directory: directory.as_fd(), path: folder.path(), records: &Records::none() };
        let checked = |text: &str| {
            std::fs::write(&path, text).unwrap();
            std::fs::symlink_metadata(&path).unwrap()
        };
        let rename = |replaced: Replaced<'_>| {
            let mut new = TemporaryFile::create(&place, true).unwrap();
            std::io::Write::write_all(&mut new.file, b"new").unwrap();
            new.rename_to(&place, OsStr::new("file"), replaced)
        };
        let content = || {
            assert!(std::fs::read_dir(folder.path()).unwrap().count() <= 1);
            std::fs::read_to_string(&path).unwrap_or_default()
        };
        let old = checked("old");
        rename(Replaced::Exactly(&old)).unwrap();
        assert_eq!(content(), "new");

        let old = checked("old");
        std::fs::write(folder.path().join("other"), "of a program").unwrap();
        std::fs::rename(folder.path().join("other"), &path).unwrap();
        assert_eq!(rename(Replaced::Exactly(&old)), Err(Errno::STALE));
        assert_eq!(content(), "of a program");
        let old = checked("old");
        std::fs::write(&path, "changed").unwrap();
        assert_eq!(rename(Replaced::Exactly(&old)), Err(Errno::STALE));
        assert_eq!(rename(Replaced::Nothing), Err(Errno::EXIST));
        assert_eq!(content(), "changed");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(rename(Replaced::Exactly(&old)), Err(Errno::STALE));
        assert_eq!(content(), "");
        rename(Replaced::Nothing).unwrap();
        assert_eq!(content(), "new");
    }

    #[test]
    fn record_ends_if_the_file_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (records, _) = Records::open(&folder.path().join("staged")).unwrap();
        for _ in 0..=MAX_RECORDS {
            let path = folder.path().join("directory");
            std::fs::create_dir(&path).unwrap();
            let directory = File::open(&path).unwrap();
            let place = TargetDirectory { directory: directory.as_fd(), path: &path, records: &records };
            let temporary = named(&place);
            std::fs::remove_dir_all(&path).unwrap();
            drop(temporary);
        }
        assert!(Records::open(&folder.path().join("staged")).unwrap().1.is_empty());
    }
}
