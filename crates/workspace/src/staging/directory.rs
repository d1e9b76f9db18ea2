//! [`Staging`]: a directory that gets its name when it is complete.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{Record, Records};
use crate::archive::{NEW, fill};
use crate::error::{AtPath, FileError, FileErrorKind};
use crate::remove::discard_tree;
use crate::write::{is_temporary, temporary_name};

/// A directory that is made under a temporary name, and gets its own name when it is complete.
///
/// Call [`Staging::finish`] or [`Staging::discard`]. Otherwise the record stays, and the next process removes the
/// temporary directory.
#[derive(Debug)]
pub struct Staging {
    target: PathBuf,
    /// The directory with the temporary name. What is made is in it, so that there is room for notes about its progress.
    temporary: PathBuf,
    content: PathBuf,
    record: Option<Record>,
}

impl Staging {
    /// Chooses a temporary name for a directory, and records it. The target must not exist, or be an empty directory.
    pub fn new(target: &Path, records: &Records) -> Result<Self, FileError> {
        let exists = match fs::symlink_metadata(target) {
            Ok(found) if !found.is_dir() => return Err(FileError::new(FileErrorKind::Exists, target)),
            Ok(_) if !is_empty(target).at(target)? => {
                return Err(FileError::new(FileErrorKind::NotEmpty, target));
            }
            Ok(_) => true,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => false,
            Err(e) => return Err(FileError::of(target, e)),
        };
        // In the target: it may be a mount point, or its parent directory may be one that the user may not change. Else on
        // the file system of the target, and without directories that would have to be removed.
        let existing = target.ancestors().skip(usize::from(!exists)).find(|ancestor| ancestor.is_dir());
        let Some(existing) = existing else {
            return Err(FileError::new(FileErrorKind::NotDirectory, target));
        };
        let temporary = existing.join(temporary_name().at(target)?);
        let record = Some(records.add(&temporary)?);
        fs::DirBuilder::new().mode(0o700).create(&temporary).at(target)?;
        Ok(Self { target: target.to_owned(), content: temporary.join(NEW), temporary, record })
    }

    /// The path of the directory until it has its name, in a directory that exists. Create it.
    pub fn content(&self) -> &Path {
        &self.content
    }

    /// Gives the directory its name. An existing empty directory stays, so that processes in it and watches of it see the
    /// content. If the process is killed meanwhile, the next one completes it. If this fails, the temporary directory stays.
    pub fn finish(&mut self) -> Result<(), FileError> {
        let Self { target, temporary, content, .. } = &*self;
        if temporary.parent() == Some(target) {
            fill(temporary, target)?;
        } else {
            let parent = target.parent().ok_or_else(|| FileError::new(FileErrorKind::Exists, target))?;
            fs::create_dir_all(parent).at(parent)?;
            match renameat_with(CWD, content, CWD, target, RenameFlags::NOREPLACE) {
                // The file system may not support the flag.
                Err(Errno::EXIST | Errno::INVAL) if target.is_dir() => fill(temporary, target)?,
                Err(Errno::INVAL) => fs::rename(content, target).at(target)?,
                renamed => renamed.at(target)?,
            }
        }
        // The record stays if it cannot be removed.
        drop(self.discard());
        Ok(())
    }

    /// Removes the temporary directory, if it exists.
    pub fn discard(&mut self) -> Result<(), FileError> {
        discard_tree(&self.temporary)?;
        self.record = None;
        Ok(())
    }
}

/// Whether a directory contains at most temporary files of this program.
fn is_empty(directory: &Path) -> std::io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        if !is_temporary(&entry?.file_name()) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Some(record) = &mut self.record {
            record.keep();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn directory_appears_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut staging = Staging::new(&at("a/b/c"), &Records::none()).unwrap();
        fs::create_dir(staging.content()).unwrap();
        fs::write(staging.content().join("file"), "x").unwrap();
        assert!(!at("a").exists());
        staging.finish().unwrap();
        assert_eq!(fs::read(at("a/b/c/file")).unwrap(), b"x");
        assert!(!staging.temporary.exists());
        assert_eq!(Staging::new(&at("a/b/c"), &Records::none()).unwrap_err().kind, FileErrorKind::NotEmpty);
        assert_eq!(
            Staging::new(&at("a/b/c/file"), &Records::none()).unwrap_err().kind,
            FileErrorKind::Exists
        );
        assert_eq!(
            Staging::new(&at("a/b/c/file/x"), &Records::none()).unwrap_err().kind,
            FileErrorKind::NotDirectory
        );
    }

    #[test]
    fn only_an_empty_directory_is_filled() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::create_dir(&target).unwrap();
        let mut staging = Staging::new(&target, &Records::none()).unwrap();
        fs::create_dir(staging.content()).unwrap();
        fs::write(target.join("meanwhile"), "").unwrap();
        assert_eq!(staging.finish().unwrap_err().kind, FileErrorKind::NotEmpty);
        assert!(target.join("meanwhile").exists());
        fs::remove_file(target.join("meanwhile")).unwrap();
        fs::create_dir(staging.content().join(".git")).unwrap();
        fs::write(staging.content().join("file"), "x").unwrap();
        let before = fs::metadata(&target).unwrap().ino();
        staging.finish().unwrap();
        assert!(target.join("file").exists() && target.join(".git").exists() && !staging.temporary.exists());
        // A process in the directory is still in it.
        assert_eq!(fs::metadata(&target).unwrap().ino(), before);
    }

    /// The parent directory may be on another file system, or one that the user may not change.
    #[test]
    fn existing_directory_is_filled_from_inside() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::create_dir(&target).unwrap();
        let mut both = [(); 2].map(|()| Staging::new(&target, &Records::none()).unwrap());
        for staging in &both {
            assert!(staging.content().starts_with(&target));
            fs::create_dir(staging.content()).unwrap();
            fs::write(staging.content().join("file"), "x").unwrap();
        }
        both[0].finish().unwrap();
        assert_eq!(both[1].finish().unwrap_err().kind, FileErrorKind::NotEmpty);
        both[1].discard().unwrap();
        let names: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["file"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn record_stays_until_the_directory_is_finished_or_discarded() {
        let folder = tempfile::tempdir().unwrap();
        let records = || Records::open(&folder.path().join("staged")).unwrap();
        let (first, _) = records();
        let staging = Staging::new(&folder.path().join("a"), &first).unwrap();
        fs::create_dir(staging.content()).unwrap();
        drop(staging);
        let (second, leftovers) = records();
        assert_eq!(leftovers.len(), 1);
        leftovers.into_iter().for_each(|leftover| leftover.recover().unwrap().remove().unwrap());
        let mut staging = Staging::new(&folder.path().join("a"), &second).unwrap();
        fs::create_dir(staging.content()).unwrap();
        staging.discard().unwrap();
        staging.discard().unwrap();
        assert!(records().1.is_empty());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
