//! [`find`]: names of files below a directory.

use std::path::{Path, PathBuf};

use crate::error::{FileError, FileErrorKind};
use crate::search::SearchError;
use crate::sorted_walk::WalkEntry;
use crate::stat::FileType;
use crate::walk::{Cancel, WalkOptions, root_of};

/// Maximum number of paths of one find.
pub const MAX_FOUND_PATHS: usize = 100_000;

/// Which entries to find.
#[derive(Debug, Clone, Default)]
pub struct FindOptions {
    /// Which entries to visit.
    pub walk: WalkOptions,
    /// Only entries of this type.
    pub file_type: Option<FileType>,
    /// Maximum number of paths. At most [`MAX_FOUND_PATHS`].
    pub limit: usize,
    /// Maximum number of bytes of all paths.
    pub max_bytes: usize,
}

/// The entries that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FindResult {
    /// Their paths: sorted by name within each directory, a directory before its content.
    pub paths: Vec<PathBuf>,
    /// Whether there are more.
    pub is_truncated: bool,
    /// Number of directories that could not be read.
    pub unreadable: u64,
}

/// Finds entries below a directory. The directory itself is not among them.
pub fn find(path: &Path, options: &FindOptions, cancel: &Cancel) -> Result<FindResult, SearchError> {
    let root = root_of(path)?;
    if !root.is_dir() {
        return Err(FileError::new(FileErrorKind::NotDirectory, path).into());
    }
    let overrides = options.walk.overrides(&root)?;
    let mut found = FindResult::default();
    let mut bytes = 0;
    // In one thread: the order is defined, and with a limit the walk ends early.
    for entry in options.walk.sorted(&root)? {
        if cancel.is_cancelled() {
            break;
        }
        let WalkEntry { path, file_type, is_root } = match entry {
            Ok(entry) => entry,
            Err(failure) => {
                found.unreadable += u64::from(failure.error.kind() != std::io::ErrorKind::NotFound);
                continue;
            }
        };
        if is_root || options.file_type.is_some_and(|wanted| wanted != file_type) {
            continue;
        }
        // The walk visits directories that no glob names, because of what they may contain.
        if overrides.num_whitelists() > 0
            && !overrides.matched(&path, file_type == FileType::Directory).is_whitelist()
        {
            continue;
        }
        bytes += path.as_os_str().len();
        if found.paths.len() == options.limit.min(MAX_FOUND_PATHS) || bytes > options.max_bytes {
            found.is_truncated = true;
            break;
        }
        found.paths.push(path);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    fn find_names(root: &Path, options: &FindOptions) -> Vec<String> {
        let found = find(root, options, &Cancel::default()).unwrap();
        let name = |path: &PathBuf| path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        found.paths.iter().map(name).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// `?` is one byte, as in ripgrep, `*` any number of them, and an escaped character is itself.
        #[test]
        fn globs_match_as_in_a_shell(
            names in prop::collection::hash_set("[ab*?\\[!]{1,4}", 1..12),
            glob in prop::collection::vec(prop_oneof![Just("?"), Just("*"), Just("a"), Just("b"), Just("\\*"), Just("\\?"), Just("\\["), Just("\\!")], 1..4),
        ) {
            let root = tempfile::tempdir().unwrap();
            for name in &names {
                fs::write(root.path().join(name), "").unwrap();
            }
            let walk = WalkOptions { globs: vec![glob.concat()], ..WalkOptions::default() };
            let options = FindOptions { walk, limit: 100, max_bytes: 10_000, ..FindOptions::default() };
            let mut expected: Vec<_> = names.into_iter().filter(|name| matches(&glob, name)).collect();
            expected.sort();
            prop_assert_eq!(find_names(root.path(), &options), expected);
        }
    }

    fn matches(glob: &[&str], name: &str) -> bool {
        let Some((first, others)) = glob.split_first() else { return name.is_empty() };
        let mut rest = name.chars();
        match *first {
            "*" => name
                .char_indices()
                .map(|(at, _)| at)
                .chain([name.len()])
                .any(|at| matches(others, &name[at..])),
            "?" => rest.next().is_some() && matches(others, rest.as_str()),
            one => rest.next() == one.chars().last() && matches(others, rest.as_str()),
        }
    }

    #[test]
    fn entries_by_glob_and_type() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("a/b.rs")).unwrap();
        fs::write(at("a/z.rs"), "").unwrap();
        fs::write(at("a.txt"), "").unwrap();
        fs::write(at(".h"), "").unwrap();
        fs::write(at(".ignore"), "*.log\n").unwrap();
        fs::write(at("x.log"), "").unwrap();
        symlink("a", at("link")).unwrap();
        let all = FindOptions { limit: 100, max_bytes: 10_000, ..FindOptions::default() };
        assert_eq!(find_names(root.path(), &all), ["a", "a/b.rs", "a/z.rs", "a.txt", "link"]);
        let of_type =
            |file_type| find_names(root.path(), &FindOptions { file_type: Some(file_type), ..all.clone() });
        assert_eq!(of_type(FileType::Directory), ["a", "a/b.rs"]);
        assert_eq!(of_type(FileType::Symlink), ["link"]);
        let walk = |globs: &[&str], visits_hidden, respects_ignore_files| {
            let globs = globs.iter().map(|&glob| glob.to_owned()).collect();
            let walk = WalkOptions { globs, visits_hidden, respects_ignore_files };
            find_names(root.path(), &FindOptions { walk, ..all.clone() })
        };
        assert_eq!(walk(&["*.rs"], false, true), ["a/b.rs", "a/z.rs"]);
        assert_eq!(walk(&["!a"], false, true), ["a.txt", "link"]);
        assert_eq!(
            walk(&[], true, false),
            [".h", ".ignore", "a", "a/b.rs", "a/z.rs", "a.txt", "link", "x.log"]
        );
    }

    #[test]
    fn limits_and_errors() {
        let root = tempfile::tempdir().unwrap();
        for name in ["c", "a", "b"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        let two = FindOptions { limit: 2, max_bytes: 10_000, ..FindOptions::default() };
        assert_eq!(find_names(root.path(), &two), ["a", "b"]);
        assert!(find(root.path(), &two, &Cancel::default()).unwrap().is_truncated);
        let three = FindOptions { limit: 3, ..two.clone() };
        assert!(!find(root.path(), &three, &Cancel::default()).unwrap().is_truncated);
        let few = FindOptions { max_bytes: 1, ..three };
        assert!(find(root.path(), &few, &Cancel::default()).unwrap().is_truncated);
        let failed = find(&root.path().join("a"), &two, &Cancel::default());
        let Err(SearchError::File(error)) = failed else { panic!("{failed:?}") };
        assert_eq!(error.kind, FileErrorKind::NotDirectory);
        for glob in ["", "[", "{a"] {
            let walk = WalkOptions { globs: vec![glob.into()], ..WalkOptions::default() };
            let failed = find(root.path(), &FindOptions { walk, ..two.clone() }, &Cancel::default());
            assert!(matches!(failed, Err(SearchError::InvalidGlob(_))), "{glob:?}");
        }
    }
}
