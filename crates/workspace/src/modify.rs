//! Creates directories and changes permission bits.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::{AtPath, FileError, FileErrorKind};

/// Creates a directory. With `recursive`, missing parents are created too, and an existing directory is accepted.
pub fn mkdir(path: &Path, recursive: bool) -> Result<(), FileError> {
    if !recursive {
        return std::fs::create_dir(path).at(path);
    }
    std::fs::create_dir_all(path).map_err(|e| match e.kind() {
        // An entry that is not a directory.
        std::io::ErrorKind::AlreadyExists => FileError::new(FileErrorKind::Exists, path),
        _ => FileError::of(path, e),
    })
}

/// Sets the permission bits. A symbolic link is followed.
pub fn chmod(path: &Path, mode: u32) -> Result<(), FileError> {
    std::fs::set_permissions(path, Permissions::from_mode(mode & 0o7777)).at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        mkdir(&at("a"), false).unwrap();
        assert_eq!(mkdir(&at("a"), false).unwrap_err().kind, FileErrorKind::Exists);
        mkdir(&at("a"), true).unwrap();
        assert_eq!(mkdir(&at("b/c"), false).unwrap_err().kind, FileErrorKind::NotFound);
        mkdir(&at("b/c"), true).unwrap();
        std::fs::write(at("file"), "").unwrap();
        assert_eq!(mkdir(&at("file"), true).unwrap_err().kind, FileErrorKind::Exists);
        assert_eq!(mkdir(&at("file/x"), true).unwrap_err().kind, FileErrorKind::NotDirectory);
    }

    #[test]
    fn permission_bits() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "").unwrap();
        chmod(&path, 0o4711).unwrap();
        assert_eq!(crate::stat(&path).unwrap().mode, 0o4711);
        assert_eq!(chmod(&path.join("x"), 0).unwrap_err().kind, FileErrorKind::NotDirectory);
    }
}
