//! Walks of a directory for [`search`](crate::search), [`find`](crate::find) and [`replace`](crate::replace).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use rustix::fs::{Mode, OFlags};

use crate::error::{AtPath, FileError, FileErrorKind};
use crate::search::SearchError;

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
    /// A walk of `root`. Symbolic links are not followed, except `root` itself.
    pub(crate) fn walk(&self, root: &Path) -> Result<WalkBuilder, SearchError> {
        let mut builder = WalkBuilder::new(root);
        builder
            .hidden(!self.visits_hidden)
            .parents(self.respects_ignore_files)
            .ignore(self.respects_ignore_files)
            .git_ignore(self.respects_ignore_files)
            .git_exclude(self.respects_ignore_files)
            // It belongs to the user of the server.
            .git_global(false)
            // The working directory of the server has no meaning for the walk.
            .current_dir(root)
            .follow_links(false);
        if !self.globs.is_empty() {
            builder.overrides(self.overrides(root)?);
        }
        Ok(builder)
    }

    /// The globs, relative to `root`.
    pub(crate) fn overrides(&self, root: &Path) -> Result<ignore::overrides::Override, SearchError> {
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
