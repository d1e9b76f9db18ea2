//! [`Staging`]: a directory that gets its name when it is complete.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::error::{AtPath, FileError, FileErrorKind};

/// Number of random bytes in a temporary name.
const RANDOM_BYTES: usize = 8;

/// A directory that is made under a temporary name, and renamed when it is complete.
#[derive(Debug, Clone)]
pub struct Staging {
    target: PathBuf,
    temporary: PathBuf,
}

impl Staging {
    /// Chooses a temporary name for a directory. The target must not exist, or be an empty directory. Creates nothing.
    pub fn new(target: &Path) -> Result<Self, FileError> {
        match fs::symlink_metadata(target) {
            Ok(found) if !found.is_dir() => return Err(FileError::new(FileErrorKind::Exists, target)),
            Ok(_) if fs::read_dir(target).at(target)?.next().is_some() => {
                return Err(FileError::new(FileErrorKind::NotEmpty, target));
            }
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(FileError::of(target, e)),
        }
        // On the file system of the target, and without directories that would have to be removed.
        let existing = target.ancestors().skip(1).find(|ancestor| ancestor.is_dir());
        let Some(existing) = existing else {
            return Err(FileError::new(FileErrorKind::NotDirectory, target));
        };
        let mut random = [0; RANDOM_BYTES];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).at(target)?;
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { target: target.to_owned(), temporary: existing.join(format!(".sandcrab-{name}.tmp")) })
    }

    /// The temporary path, in a directory that exists.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Gives the directory its name. If that fails, the temporary directory stays.
    pub fn finish(&self) -> Result<(), FileError> {
        let Self { target, temporary } = self;
        let Some(parent) = target.parent() else { return Err(FileError::new(FileErrorKind::Exists, target)) };
        fs::create_dir_all(parent).at(parent)?;
        match renameat_with(CWD, temporary, CWD, target, RenameFlags::NOREPLACE) {
            // An empty directory is replaced; another one is an error.
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::INVAL) => {
                fs::rename(temporary, target).at(target)
            }
            renamed => renamed.at(target),
        }
    }
}

/// Removes a directory with its content, if it exists. Symbolic links are not followed.
pub fn discard(directory: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(directory) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.at(directory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_appears_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let staging = Staging::new(&at("a/b/c")).unwrap();
        fs::create_dir(staging.temporary()).unwrap();
        fs::write(staging.temporary().join("file"), "x").unwrap();
        assert!(!at("a").exists());
        staging.finish().unwrap();
        assert_eq!(fs::read(at("a/b/c/file")).unwrap(), b"x");
        assert!(!staging.temporary().exists());
        assert_eq!(Staging::new(&at("a/b/c")).unwrap_err().kind, FileErrorKind::NotEmpty);
        assert_eq!(Staging::new(&at("a/b/c/file")).unwrap_err().kind, FileErrorKind::Exists);
        assert_eq!(Staging::new(&at("a/b/c/file/x")).unwrap_err().kind, FileErrorKind::NotDirectory);
    }

    #[test]
    fn only_an_empty_directory_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::create_dir(&target).unwrap();
        let staging = Staging::new(&target).unwrap();
        fs::create_dir(staging.temporary()).unwrap();
        fs::write(target.join("meanwhile"), "").unwrap();
        assert_eq!(staging.finish().unwrap_err().kind, FileErrorKind::NotEmpty);
        assert!(target.join("meanwhile").exists());
        fs::remove_file(target.join("meanwhile")).unwrap();
        staging.finish().unwrap();
        discard(&target).unwrap();
        discard(&target).unwrap();
        assert!(!target.exists());
    }
}
