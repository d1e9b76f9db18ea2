//! [`search`]: lines that match a pattern, in all files of a directory.

mod lines;

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use ignore::{DirEntry, WalkState};

use crate::error::FileError;
use crate::pattern::Pattern;
use crate::walk::{Cancel, WalkOptions, open_regular, root_of};
use lines::Lines;

pub use lines::{FileMatches, MAX_SHOWN_LINE_BYTES, Match};

/// Maximum number of context lines before and after a match.
pub const MAX_CONTEXT_LINES: usize = 50;

/// Maximum number of matches of one search.
pub const MAX_MATCHES: u64 = 100_000;

/// Maximum length of a line. A file with a longer line is skipped from there on.
pub const MAX_SEARCHED_LINE_BYTES: usize = 2 << 20;

/// Maximum number of threads of one search.
const MAX_THREADS: usize = 4;

/// Why a search, a find or a replacement failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The pattern cannot be used.
    #[error("{0}")]
    InvalidPattern(String),
    /// A glob cannot be used.
    #[error("{0}")]
    InvalidGlob(String),
    /// The path cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What to search for, and where.
#[derive(Debug, Clone)]
pub struct SearchOptions {
    /// What to search for.
    pub pattern: Pattern,
    /// Which files to search.
    pub walk: WalkOptions,
    /// Number of lines before and after a match. At most [`MAX_CONTEXT_LINES`].
    pub context_lines: usize,
    /// The search ends after this many matching lines. At most [`MAX_MATCHES`].
    pub max_matches: u64,
    /// The search ends after this many bytes of results.
    pub max_bytes: usize,
}

/// The totals of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SearchSummary {
    /// Number of matching lines that were delivered.
    pub matches: u64,
    /// Number of files that were searched.
    pub files_searched: u64,
    /// Number of files and directories that could not be read, and of files with a line that is too long.
    pub unreadable: u64,
    /// Whether the search ended because of a limit.
    pub is_truncated: bool,
}

/// Gets the matches of a search. Several threads call it.
pub trait SearchReceiver: Sync {
    /// Gets matches of one file, in the order of lines. Files are in no order; a long list of matches is delivered in
    /// several calls. `Break` ends the search.
    fn deliver(&self, matches: FileMatches) -> ControlFlow<()>;

    /// Called before each file. It may block while the search must not work.
    fn before_file(&self) {}
}

impl<F: Fn(FileMatches) -> ControlFlow<()> + Sync> SearchReceiver for F {
    fn deliver(&self, matches: FileMatches) -> ControlFlow<()> {
        self(matches)
    }
}

/// Searches a file, or all files below a directory. The threads have the permissions of the calling thread.
pub fn search(
    path: &Path,
    options: &SearchOptions,
    cancel: &Cancel,
    receiver: &dyn SearchReceiver,
) -> Result<SearchSummary, SearchError> {
    let root = root_of(path)?;
    let matcher = options.pattern.line_matcher()?;
    let mut walk = options.walk.walk(&root)?;
    let run = Run { options, cancel, receiver, totals: Totals::default() };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    check_threads(threads).map_err(|e| FileError::of(path, e))?;
    // The kernel gives a new thread the credentials of the thread that creates it.
    walk.threads(threads).build_parallel().run(|| {
        let matcher = matcher.clone();
        let mut searcher = searcher(options.context_lines.min(MAX_CONTEXT_LINES));
        let run = &run;
        Box::new(move |entry| run.visit(entry, &matcher, &mut searcher))
    });
    Ok(run.totals.summary())
}

/// Checks that threads can be created. The walk would wait forever for those that could not.
fn check_threads(count: usize) -> std::io::Result<()> {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
    let threads: Vec<_> = (0..count)
        .map(|_| {
            let gate = Arc::clone(&gate);
            // All of them exist at the same time.
            std::thread::Builder::new().spawn(move || drop(gate.lock()))
        })
        .collect();
    drop(closed);
    for thread in threads {
        drop(thread?.join());
    }
    Ok(())
}

/// Checks what a search can refuse before it begins.
pub fn check_search(path: &Path, options: &SearchOptions) -> Result<(), SearchError> {
    let root = root_of(path)?;
    options.pattern.line_matcher()?;
    options.walk.overrides(&root)?;
    Ok(())
}

fn searcher(context_lines: usize) -> Searcher {
    SearcherBuilder::new()
        // A file that shrinks while it is mapped would end the process.
        .memory_map(MmapChoice::never())
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_SEARCHED_LINE_BYTES))
        .line_number(true)
        .before_context(context_lines)
        .after_context(context_lines)
        .build()
}

/// The counters of a search, shared by its threads.
#[derive(Debug, Default)]
struct Totals {
    matches: AtomicU64,
    files_searched: AtomicU64,
    unreadable: AtomicU64,
    bytes: AtomicUsize,
    is_truncated: AtomicBool,
}

impl Totals {
    fn summary(&self) -> SearchSummary {
        SearchSummary {
            matches: self.matches.load(Ordering::Relaxed),
            files_searched: self.files_searched.load(Ordering::Relaxed),
            unreadable: self.unreadable.load(Ordering::Relaxed),
            is_truncated: self.is_truncated.load(Ordering::Relaxed),
        }
    }
}

/// A running search.
struct Run<'a> {
    options: &'a SearchOptions,
    cancel: &'a Cancel,
    receiver: &'a dyn SearchReceiver,
    totals: Totals,
}

impl Run<'_> {
    fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || self.totals.is_truncated.load(Ordering::Relaxed)
    }

    fn visit(
        &self,
        entry: Result<DirEntry, ignore::Error>,
        matcher: &RegexMatcher,
        searcher: &mut Searcher,
    ) -> WalkState {
        self.receiver.before_file();
        if self.is_over() {
            return WalkState::Quit;
        }
        match entry {
            Ok(entry) if entry.file_type().is_some_and(|found| found.is_file()) => {
                self.search_file(entry.into_path(), matcher, searcher);
            }
            Ok(_) => {}
            Err(error) => self.count_unreadable(error.io_error()),
        }
        if self.is_over() { WalkState::Quit } else { WalkState::Continue }
    }

    fn search_file(&self, path: PathBuf, matcher: &RegexMatcher, searcher: &mut Searcher) {
        let file = match open_regular(&path) {
            Ok(file) => file,
            Err(error) => return self.count_unreadable(Some(&error)),
        };
        self.totals.files_searched.fetch_add(1, Ordering::Relaxed);
        let mut lines = Lines::new(path, self, matcher);
        let file = Cancellable { file, cancel: self.cancel };
        let outcome = searcher.search_reader(matcher, file, &mut lines);
        lines.deliver_rest();
        if let Err(error) = outcome
            && !self.is_over()
        {
            self.count_unreadable(Some(&error));
        }
    }

    /// Counts an entry, unless it has vanished since it was listed.
    fn count_unreadable(&self, error: Option<&io::Error>) {
        if error.is_none_or(|error| error.kind() != io::ErrorKind::NotFound) {
            self.totals.unreadable.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reserves room for one more match. `false` if the limit of matches is reached.
    fn reserve_match(&self) -> bool {
        let most = self.options.max_matches.min(MAX_MATCHES);
        let reserved = self
            .totals
            .matches
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < most).then_some(count + 1));
        if reserved.is_err() {
            self.totals.is_truncated.store(true, Ordering::Relaxed);
        }
        reserved.is_ok()
    }

    /// Reserves bytes of results for a match. The search ends when the limit is reached. `false` if it was reached before:
    /// then the match is left out.
    fn reserve_bytes(&self, bytes: usize) -> bool {
        let before = self.totals.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.options.max_bytes {
            self.totals.is_truncated.store(true, Ordering::Relaxed);
        }
        let is_reserved = before <= self.options.max_bytes;
        if !is_reserved {
            self.totals.matches.fetch_sub(1, Ordering::Relaxed);
        }
        is_reserved
    }

    fn deliver(&self, matches: FileMatches) {
        if self.receiver.deliver(matches).is_break() {
            self.cancel.cancel();
        }
    }
}

/// A file whose end comes early when the search is cancelled.
struct Cancellable<'a> {
    file: File,
    cancel: &'a Cancel,
}

impl Read for Cancellable<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Ok(0);
        }
        self.file.read(to)
    }
}

#[cfg(test)]
mod tests;
