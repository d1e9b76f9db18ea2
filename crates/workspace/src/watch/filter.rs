//! [`Filter`]: which paths a watch reports.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::options::{WatchError, WatchOptions};
use crate::search::SearchError;
use crate::walk::{MAX_GLOBS, check_glob};

/// Which paths a watch reports. Paths are relative to the watched directory.
#[derive(Debug)]
pub(super) struct Filter {
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl Filter {
    pub(super) fn new(root: &Path, options: &WatchOptions) -> Result<Self, WatchError> {
        let invalid = |e: SearchError| WatchError::InvalidGlob(e.to_string());
        let include = match &options.include[..] {
            [] => None,
            globs => Some(set(root, globs).map_err(invalid)?),
        };
        Ok(Self { include, exclude: set(root, &options.exclude).map_err(invalid)? })
    }

    /// Whether a path, or a directory that contains it, is excluded.
    pub(super) fn excludes(&self, path: &Path) -> bool {
        self.exclude.is_match(path)
    }

    /// Whether changes of a path are reported.
    pub(super) fn reports(&self, path: &Path) -> bool {
        !self.excludes(path) && self.include.as_ref().is_none_or(|include| include.is_match(path))
    }
}

fn set(root: &Path, globs: &[String]) -> Result<GlobSet, SearchError> {
    if globs.len() > MAX_GLOBS {
        let why = format!("{} globs given; at most {MAX_GLOBS} are allowed", globs.len());
        return Err(SearchError::InvalidGlob(why));
    }
    let invalid = |e: globset::Error| SearchError::InvalidGlob(e.to_string());
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        check_glob(glob)?;
        let inner = glob.trim_start_matches("./").trim_end_matches('/');
        let below_root = root.to_str().and_then(|root| inner.strip_prefix(root)?.strip_prefix('/'));
        let anchored = match (below_root, inner.strip_prefix('/')) {
            (Some(below), _) | (None, Some(below)) => below.to_owned(),
            (None, None) => format!("**/{inner}"),
        };
        if anchored.is_empty() || anchored == "**/" {
            return Err(SearchError::InvalidGlob(format!("{glob:?} names no file")));
        }
        for pattern in [format!("{anchored}/**"), anchored] {
            let glob = GlobBuilder::new(&pattern).literal_separator(true).backslash_escape(true).build();
            set.add(glob.map_err(invalid)?);
        }
    }
    set.build().map_err(invalid)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filter(include: &[&str], exclude: &[&str]) -> Result<Filter, WatchError> {
        let own = |globs: &[&str]| globs.iter().map(|&glob| glob.to_owned()).collect();
        let options =
            WatchOptions { include: own(include), exclude: own(exclude), ..WatchOptions::default() };
        Filter::new(Path::new("/root"), &options)
    }

    #[test]
    fn globs_match_at_any_depth_unless_they_begin_with_a_slash() {
        for (glob, path, matches) in [
            ("node_modules", "node_modules", true),
            ("node_modules", "a/node_modules/b/c.js", true),
            ("node_modules/", "a/node_modules/b/c.js", true),
            ("node_modules", "a/node_modules2", false),
            ("*.ts", "a/b.ts", true),
            ("*.ts", "a/b.tsx", false),
            ("src/*.ts", "x/src/a.ts", true),
            ("src/*.ts", "src/a/b.ts", false),
            ("src/**/*.ts", "src/a/b/c.ts", true),
            ("/src", "src/a", true),
            ("/src", "a/src", false),
            ("/root/src", "src/a", true),
            ("{a,b}.[ch]", "x/b.h", true),
            ("a?", "ab", true),
        ] {
            assert_eq!(filter(&[], &[glob]).unwrap().excludes(Path::new(path)), matches, "{glob} {path}");
            assert_eq!(filter(&[glob], &[]).unwrap().reports(Path::new(path)), matches, "{glob} {path}");
        }
        for glob in ["", "/", "[", "a\0", "./"] {
            assert!(matches!(filter(&[glob], &[]), Err(WatchError::InvalidGlob(_))), "{glob:?}");
        }
    }

    proptest! {
        /// A plain name excludes exactly the paths of which it is a component.
        #[test]
        fn names_are_components(path in "[ab]{1,2}(/[ab]{1,2}){0,4}", name in "[ab]{1,2}") {
            let is_component = path.split('/').any(|component| component == name);
            prop_assert_eq!(filter(&[], &[&name]).unwrap().excludes(Path::new(&path)), is_component);
        }
    }
}
