//! Walks of a directory for [`search`](crate::search), [`find`](crate::find) and [`replace`](crate::replace).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ignore::overrides::{Override, OverrideBuilder};
use ignore::{Match, WalkBuilder};
use rustix::fs::{Mode, OFlags};

use crate::error::{AtPath, FileError, FileErrorKind};
use crate::ignore_rules::{IgnoreFiles, IgnoreRules};
use crate::search::SearchError;
use crate::sorted_walk::SortedWalk;

/// Maximum number of globs of one walk.
pub const MAX_GLOBS: usize = 100;

/// Maximum length of one glob.
pub const MAX_GLOB_BYTES: usize = 1024;

/// Which entries of a directory a walk visits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkOptions {
    /// Globs as of `rg --glob`: a file must match one of them; one that begins with `!` excludes. Empty: all files.
    pub globs: Vec<String>,
    /// Whether names that begin with a dot are visited.
    pub visits_hidden: bool,
    /// Whether `.gitignore`, `.ignore` and `.git/info/exclude` files are respected.
    pub respects_ignore_files: bool,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self { globs: Vec::new(), visits_hidden: false, respects_ignore_files: true }
    }
}

impl WalkOptions {
    /// A walk of `root` in several threads. Symbolic links are not followed, except `root` itself.
    pub(crate) fn walk(&self, root: &Path) -> Result<WalkBuilder, SearchError> {
        let filter = self.filter(root)?;
        let mut builder = WalkBuilder::new(root);
        // The filter does the same, and reads ignore files with a limit.
        builder.standard_filters(false).follow_links(false).filter_entry(move |entry| {
            let is_directory = entry.file_type().is_some_and(|found| found.is_dir());
            filter.visits(entry.path(), entry.file_name(), is_directory)
        });
        Ok(builder)
    }

    /// A walk of `root` in the order of names.
    pub(crate) fn sorted(&self, root: &Path) -> Result<SortedWalk, SearchError> {
        Ok(SortedWalk::new(root.to_owned(), self.filter(root)?))
    }

    fn filter(&self, root: &Path) -> Result<Filter, SearchError> {
        Ok(Filter {
            overrides: self.overrides(root)?,
            rules: self.respects_ignore_files.then(|| IgnoreRules::new(root, IgnoreFiles::All)),
            visits_hidden: self.visits_hidden,
        })
    }

    /// The globs, relative to `root`.
    pub(crate) fn overrides(&self, root: &Path) -> Result<Override, SearchError> {
        if self.globs.len() > MAX_GLOBS {
            let why = format!("{} globs given; at most {MAX_GLOBS} are allowed", self.globs.len());
            return Err(SearchError::InvalidGlob(why));
        }
        let mut builder = OverrideBuilder::new(root);
        for glob in &self.globs {
            check_glob(glob)?;
            builder.add(glob).map_err(|e| SearchError::InvalidGlob(e.to_string()))?;
        }
        builder.build().map_err(|e| SearchError::InvalidGlob(e.to_string()))
    }
}

/// Decides which entries a walk visits.
#[derive(Debug)]
pub(crate) struct Filter {
    overrides: Override,
    rules: Option<IgnoreRules>,
    visits_hidden: bool,
}

impl Filter {
    /// Globs win over ignore rules, which win over the dot of a hidden name.
    pub(crate) fn visits(&self, path: &Path, name: &OsStr, is_directory: bool) -> bool {
        let rules = || self.rules.as_ref().map_or(Match::None, |rules| rules.matched(path, is_directory));
        let globs = self.overrides.matched(path, is_directory).map(drop);
        match if globs.is_none() { rules() } else { globs } {
            Match::Ignore(()) => false,
            Match::Whitelist(()) => true,
            Match::None => self.visits_hidden || !name.as_encoded_bytes().starts_with(b"."),
        }
    }
}

/// Refuses empty and long globs.
pub(crate) fn check_glob(glob: &str) -> Result<(), SearchError> {
    let why = match glob.len() {
        0 => "a glob is empty".into(),
        long if long > MAX_GLOB_BYTES => {
            format!("a glob has {long} bytes; at most {MAX_GLOB_BYTES} are allowed")
        }
        _ if glob.contains('\0') => "a glob contains a NUL byte".into(),
        _ => return Ok(()),
    };
    Err(SearchError::InvalidGlob(why))
}

/// Follows a symbolic link that is given as the root of a walk, and checks that the root exists and is readable.
pub(crate) fn root_of(path: &Path) -> Result<PathBuf, FileError> {
    let metadata = std::fs::metadata(path).at(path)?;
    let is_link = std::fs::symlink_metadata(path).at(path)?.is_symlink();
    if metadata.is_dir() {
        // A walk counts directories that it cannot read, but a walk of nothing is an error.
        drop(std::fs::read_dir(path).at(path)?);
        // With the slash the kernel follows the link, and names keep the path that the client knows.
        return Ok(if is_link { path.join("") } else { path.to_owned() });
    }
    if !metadata.is_file() {
        return Err(FileError::new(FileErrorKind::NotRegular, path));
    }
    if is_link { std::fs::canonicalize(path).at(path) } else { Ok(path.to_owned()) }
}

/// Opens a regular file of a walk: never a link or FIFO that has replaced it since.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::from(rustix::io::Errno::NXIO));
    }
    Ok(file)
}

/// Ends an operation early, from any thread. A handle.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends the operation soon.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the operation must end.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Cancels the operation when it is dropped, for a task that may itself be dropped.
    pub fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

/// See [`Cancel::on_drop`].
#[derive(Debug)]
pub struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
