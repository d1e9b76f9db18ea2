//! Maps paths of requests to paths of the machine.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{FileError, FileErrorKind};

/// The path that means the workspace on machines without such a directory.
pub const WORKSPACE: &str = "/workspace";

/// Maximum length of a path, as in the kernel, which counts the final NUL byte.
pub const MAX_PATH_BYTES: usize = 4095;

/// What relative paths and `/workspace` mean.
#[derive(Debug, Clone)]
pub struct Base<'a> {
    /// The directory of relative paths: the working directory of the named session, or the workspace.
    pub cwd: &'a Path,
    /// The workspace.
    pub workspace: &'a Path,
    /// Whether the machine has a directory [`WORKSPACE`].
    pub has_workspace_directory: bool,
}

/// Maps a path of a request to an absolute path. `..` is left to the kernel, which knows symbolic links.
pub fn resolve(given: &[u8], base: &Base<'_>) -> Result<PathBuf, FileError> {
    let path = Path::new(OsStr::from_bytes(given));
    if given.is_empty() || given.contains(&0) {
        return Err(FileError::new(FileErrorKind::InvalidPath, path));
    }
    let resolved = match path.strip_prefix(WORKSPACE) {
        Ok(below) if !base.has_workspace_directory => join(base.workspace, below),
        _ if path.is_absolute() => path.to_owned(),
        _ => join(base.cwd, path),
    };
    if resolved.as_os_str().len() > MAX_PATH_BYTES {
        return Err(FileError::new(FileErrorKind::NameTooLong, path));
    }
    Ok(resolved)
}

/// Joins without a final slash for an empty path.
fn join(directory: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { directory.to_owned() } else { directory.join(below) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn base(has_workspace_directory: bool) -> Base<'static> {
        Base { cwd: Path::new("/cwd"), workspace: Path::new("/srv/w"), has_workspace_directory }
    }

    #[test]
    fn paths() {
        let of = |given: &str, has| resolve(given.as_bytes(), &base(has)).unwrap().into_os_string();
        for (given, expected) in [
            ("a", "/cwd/a"),
            ("./a/../b", "/cwd/./a/../b"),
            (".", "/cwd/."),
            ("/etc/x", "/etc/x"),
            ("/workspace", "/srv/w"),
            ("/workspace/", "/srv/w"),
            ("/workspace/a b\n", "/srv/w/a b\n"),
            ("//workspace/a", "/srv/w/a"),
            ("/workspaces/a", "/workspaces/a"),
            ("workspace/a", "/cwd/workspace/a"),
        ] {
            assert_eq!(of(given, false), expected, "{given:?}");
        }
        assert_eq!(of("/workspace/a", true), "/workspace/a");
    }

    #[test]
    fn invalid_paths_are_refused() {
        let kind = |given: &[u8]| resolve(given, &base(false)).unwrap_err().kind;
        assert_eq!(kind(b""), FileErrorKind::InvalidPath);
        assert_eq!(kind(b"a\0b"), FileErrorKind::InvalidPath);
        assert_eq!(kind(&[b'a'; 5000]), FileErrorKind::NameTooLong);
    }

    proptest! {
        #[test]
        fn every_path_is_absolute_and_keeps_its_names(given in prop::collection::vec(any::<u8>(), 0..60), has: bool) {
            if let Ok(path) = resolve(&given, &base(has)) {
                prop_assert!(path.is_absolute());
                let given = Path::new(OsStr::from_bytes(&given));
                prop_assert_eq!(path.file_name(), given.file_name().map_or(path.file_name(), Some));
            } else {
                prop_assert!(given.is_empty() || given.contains(&0));
            }
        }
    }
}
