//! [`IgnoreRules`]: the rules of `.ignore`, `.gitignore` and `.git/info/exclude` files for a walk.
//!
//! The walker of the `ignore` crate opens such files by name and reads them to their end. A FIFO would block it forever,
//! and a link to `/dev/zero` would fill the memory. So its options for ignore files are off, and the files are read here:
//! regular files only, within limits. The rules themselves, and which of them win, are those of the crate.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::open::open;

/// Maximum size of all ignore files that apply to a directory, those of its parents included. A file that exceeds the
/// rest is not respected.
pub const MAX_IGNORE_BYTES: usize = 1 << 20;

/// Maximum number of lines of all ignore files that apply to a directory. A file that exceeds the rest is not respected.
pub const MAX_IGNORE_LINES: usize = 20_000;

/// Maximum length of a rule. A longer one is left out: no path is as long.
const MAX_RULE_BYTES: usize = 4096;

/// Maximum size of the files with which git names the directory of a repository.
const MAX_GIT_FILE_BYTES: usize = 8192;

/// The ignore rules for the entries of a walk. Several threads may use it.
#[derive(Debug)]
pub(crate) struct IgnoreRules {
    /// As the walk names it.
    root: PathBuf,
    files: IgnoreFiles,
    /// The root. Its path has no links, so that its parents are found.
    top: Arc<Directory>,
    /// The directory whose entries a thread sees. A walk stays in a directory, and its next one is mostly near, so that no
    /// other directories are kept.
    current: Mutex<HashMap<ThreadId, Arc<Directory>>>,
}

/// Which files are respected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IgnoreFiles {
    /// `.gitignore` and `.git/info/exclude`, in a repository.
    Git,
    /// `.ignore` too, which wins.
    All,
}

/// The rules of one directory.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    parent: Option<Arc<Self>>,
    ignore: Gitignore,
    gitignore: Gitignore,
    exclude: Gitignore,
    /// Whether a repository begins here. Rules of git from above do not apply in it.
    is_repository: bool,
    is_in_repository: bool,
    budget: Budget,
}

/// What the ignore files of further directories may use.
#[derive(Debug, Clone, Copy)]
struct Budget {
    bytes: usize,
    lines: usize,
}

impl IgnoreRules {
    /// Reads the rules of a directory and its parents.
    pub(crate) fn new(root: &Path, files: IgnoreFiles) -> Self {
        let path = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        let mut ancestors: Vec<_> = path.ancestors().collect();
        ancestors.reverse();
        let mut parent = None;
        for ancestor in ancestors {
            parent = Some(Arc::new(Directory::read(ancestor.to_owned(), parent, files)));
        }
        let top = parent.unwrap_or_else(|| Arc::new(Directory::read(path.clone(), None, files)));
        Self { root: root.to_owned(), files, top, current: Mutex::default() }
    }

    /// Whether the rules ignore an entry below the root, or allow it although it is hidden.
    pub(crate) fn matched(&self, path: &Path, is_directory: bool) -> Match<()> {
        let Ok(relative) = path.strip_prefix(&self.root) else { return Match::None };
        let Some(parent) = relative.parent() else { return Match::None };
        let directory = self.directory(&self.top.path.join(parent));
        directory.matched(&self.top.path.join(relative), is_directory)
    }

    /// The rules of a directory below the root, or of the root.
    fn directory(&self, path: &Path) -> Arc<Directory> {
        let thread = std::thread::current().id();
        let current = || self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let last = current().get(&thread).map_or_else(|| Arc::clone(&self.top), Arc::clone);
        if last.path == path {
            return last;
        }
        let nearest = last.ancestors().find(|above| path.starts_with(&above.path));
        let mut found = nearest.map_or_else(|| Arc::clone(&self.top), Arc::clone);
        let below = path.strip_prefix(&found.path).unwrap_or(Path::new("")).to_owned();
        for name in below.components() {
            found = Arc::new(Directory::read(found.path.join(name), Some(found), self.files));
        }
        current().insert(thread, Arc::clone(&found));
        found
    }
}

impl Directory {
    /// Reads the rules. A file that cannot be read, or is not a regular one, has none, as for ripgrep.
    fn read(path: PathBuf, parent: Option<Arc<Self>>, files: IgnoreFiles) -> Self {
        let whole = Budget { bytes: MAX_IGNORE_BYTES, lines: MAX_IGNORE_LINES };
        let mut budget = parent.as_ref().map_or(whole, |parent| parent.budget);
        let mut rules = |file: &Path| budget.rules(&path, file).unwrap_or_else(Gitignore::empty);
        let ignore = match files {
            IgnoreFiles::All => rules(&path.join(".ignore")),
            IgnoreFiles::Git => Gitignore::empty(),
        };
        let gitignore = rules(&path.join(".gitignore"));
        let git = path.join(".git");
        let exclude = match git.metadata().map(|found| found.is_file()) {
            Ok(true) => common_directory(&path, &git).map(|common| rules(&common.join("info/exclude"))),
            Ok(false) => Some(rules(&git.join("info/exclude"))),
            Err(_) => None,
        };
        let is_repository = git.exists() || path.join(".jj").exists();
        Self {
            ignore,
            gitignore,
            exclude: exclude.unwrap_or_else(Gitignore::empty),
            is_repository,
            is_in_repository: is_repository || parent.as_ref().is_some_and(|parent| parent.is_in_repository),
            budget,
            path,
            parent,
        }
    }

    /// This directory and those above it.
    fn ancestors(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        std::iter::successors(Some(self), |directory| directory.parent.as_ref())
    }

    fn matched(self: &Arc<Self>, path: &Path, is_directory: bool) -> Match<()> {
        let (mut ignore, mut git, mut exclude) = (Match::None, Match::None, Match::None);
        let mut uses_git = self.is_in_repository;
        for directory in self.ancestors() {
            let matched = |rules: &Gitignore| rules.matched(path, is_directory).map(drop);
            // The rules of the nearest directory win.
            ignore = ignore.or(matched(&directory.ignore));
            if uses_git {
                git = git.or(matched(&directory.gitignore));
                exclude = exclude.or(matched(&directory.exclude));
            }
            uses_git &= !directory.is_repository;
        }
        ignore.or(git).or(exclude)
    }
}

impl Budget {
    /// Reads the rules of a file, for the entries of a directory. `None` if there are none, or too many.
    fn rules(&mut self, directory: &Path, file: &Path) -> Option<Gitignore> {
        let bytes = read_small(file, self.bytes)?;
        let lines = bytes.split(|byte| *byte == b'\n').count();
        let rest = Self { bytes: self.bytes - bytes.len(), lines: self.lines.checked_sub(lines)? };
        let mut builder = GitignoreBuilder::new(directory);
        let start = if bytes.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
        for line in bytes[start..].split(|byte| *byte == b'\n') {
            // As for ripgrep, the rules end at a line that is not text.
            let Ok(line) = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)) else { break };
            if line.len() <= MAX_RULE_BYTES {
                // Other rules count if one is invalid.
                drop(builder.add_line(None, line));
            }
        }
        let rules = builder.build().ok()?;
        *self = rest;
        Some(rules)
    }
}

/// The content of a regular file of at most `most` bytes.
fn read_small(path: &Path, most: usize) -> Option<Vec<u8>> {
    let (file, metadata) = open(path).ok()?;
    if metadata.len() > most as u64 {
        return None;
    }
    let mut bytes = Vec::new();
    // It may grow, and a file in /proc has the size 0.
    file.take(most as u64 + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() <= most).then_some(bytes)
}

/// The directory of the repository to which a linked work tree belongs. `git` is the file that names it.
fn common_directory(directory: &Path, git: &Path) -> Option<PathBuf> {
    let first_line = |path: &Path| {
        let text = String::from_utf8(read_small(path, MAX_GIT_FILE_BYTES)?).ok()?;
        text.lines().next().map(ToOwned::to_owned)
    };
    let work_tree = directory.join(first_line(git)?.strip_prefix("gitdir: ")?);
    Some(work_tree.join(first_line(&work_tree.join("commondir"))?))
}

#[cfg(test)]
mod tests;
