//! [`Lines`]: collects the matching lines of one file, with their context.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

use super::Run;

/// Maximum length of a line in a result. A longer one is cut.
pub const MAX_SHOWN_LINE_BYTES: usize = 4096;

/// Bytes before a match that are shown of a line that is cut.
const SHOWN_BEFORE_MATCH_BYTES: usize = 1024;

/// Matches are delivered when they have this many bytes, or when the file ends.
const DELIVERED_BYTES: usize = 64 << 10;

/// A matching line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Number of the line, from 1.
    pub line: u64,
    /// Offset of the first match in the line, in bytes, from 1.
    pub column: u64,
    /// The line without its end, or the part of it that contains the match. Invalid UTF-8 is replaced.
    pub text: String,
    /// The column at which `text` begins. 1 unless the beginning of the line was cut.
    pub text_column: u64,
    /// Whether a part of the line was cut.
    pub is_cut: bool,
    /// The lines before it. Matches that are near share them.
    pub before: Vec<Arc<str>>,
    /// The lines after it.
    pub after: Vec<Arc<str>>,
}

impl Match {
    /// Size of the match in a result, about. It has its lines for itself there.
    fn bytes(&self) -> usize {
        let context = self.before.iter().chain(&self.after).map(|line| line.len() + 24);
        self.text.len() + 96 + context.sum::<usize>()
    }
}

/// Matches in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMatches {
    /// The file.
    pub path: PathBuf,
    /// Its matches, or some of them, in the order of lines.
    pub matches: Vec<Match>,
}

/// Collects the matches of one file.
pub(super) struct Lines<'a> {
    path: PathBuf,
    run: &'a Run<'a>,
    matcher: &'a RegexMatcher,
    /// The last lines, if context was requested: the context before the next match.
    recent: VecDeque<Arc<str>>,
    /// Matches whose context is not complete.
    open: VecDeque<Match>,
    done: Vec<Match>,
    done_bytes: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(path: PathBuf, run: &'a Run<'a>, matcher: &'a RegexMatcher) -> Self {
        Self {
            path,
            run,
            matcher,
            recent: VecDeque::new(),
            open: VecDeque::new(),
            done: Vec::new(),
            done_bytes: 0,
        }
    }

    /// Delivers what is left at the end of the file.
    pub(super) fn deliver_rest(mut self) {
        self.complete_before(u64::MAX);
        self.deliver_done();
    }

    /// Moves matches whose context ends before this line.
    fn complete_before(&mut self, line: u64) {
        let context = self.run.options.context_lines as u64;
        while let Some(first) = self.open.front()
            && first.line.saturating_add(context) < line
            && let Some(complete) = self.open.pop_front()
        {
            let bytes = complete.bytes();
            if !self.run.reserve_bytes(bytes) {
                continue;
            }
            self.done_bytes += bytes;
            self.done.push(complete);
            if self.done_bytes > DELIVERED_BYTES {
                self.deliver_done();
            }
        }
    }

    fn deliver_done(&mut self) {
        if !self.done.is_empty() {
            self.done_bytes = 0;
            let matches = std::mem::take(&mut self.done);
            self.run.deliver(FileMatches { path: self.path.clone(), matches });
        }
    }

    /// Adds a line to the context of the matches around it.
    fn add_context(&mut self, text: &str) {
        let context = self.run.options.context_lines;
        if context == 0 {
            return;
        }
        let line: Arc<str> = text.into();
        for open in &mut self.open {
            open.after.push(Arc::clone(&line));
        }
        if self.recent.len() == context {
            self.recent.pop_front();
        }
        self.recent.push_back(line);
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let line = found.line_number().unwrap_or(0);
        let bytes = without_end(found.bytes());
        self.complete_before(line);
        if self.run.is_over() || !self.run.reserve_match() {
            return Ok(false);
        }
        let range = self.matcher.find(bytes).ok().flatten();
        let (start, end) = range.map_or((0, 0), |range| (range.start(), range.end()));
        let shown = shown(bytes, start, end);
        let text = String::from_utf8_lossy(&bytes[shown.clone()]).into_owned();
        let before = self.recent.iter().cloned().collect();
        self.add_context(&text);
        self.open.push_back(Match {
            line,
            column: start as u64 + 1,
            text,
            text_column: shown.start as u64 + 1,
            is_cut: shown.len() < bytes.len(),
            before,
            after: Vec::new(),
        });
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.complete_before(context.line_number().unwrap_or(0));
        let bytes = without_end(context.bytes());
        let text = String::from_utf8_lossy(&bytes[shown(bytes, 0, 0)]).into_owned();
        self.add_context(&text);
        Ok(!self.run.is_over())
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.recent.clear();
        Ok(true)
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The part of a line that is shown: the beginning if it contains the match, else a part around the match.
fn shown(line: &[u8], match_start: usize, match_end: usize) -> std::ops::Range<usize> {
    if line.len() <= MAX_SHOWN_LINE_BYTES {
        return 0..line.len();
    }
    let start = match match_end {
        near if near <= MAX_SHOWN_LINE_BYTES => 0,
        _ => match_start.saturating_sub(SHOWN_BEFORE_MATCH_BYTES),
    };
    let start = next_character(line, start);
    let end = next_character(line, (start + MAX_SHOWN_LINE_BYTES - 3).min(line.len()));
    start..end
}

/// The offset, or the next one that does not split a character of UTF-8.
fn next_character(line: &[u8], offset: usize) -> usize {
    let continues = |at: &usize| line.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
    (offset..offset + 3).find(|at| !continues(at)).unwrap_or(offset)
}
