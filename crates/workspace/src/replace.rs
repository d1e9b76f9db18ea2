//! [`replace`]: replaces what matches a pattern, in all files of a directory.

mod diff;

use std::io::Read;
use std::path::{Path, PathBuf};

use regex::bytes::{Captures, Regex};

use crate::error::{AtPath, FileError, FileErrorKind};
use crate::pattern::Pattern;
use crate::search::SearchError;
use crate::sorted_walk::{WalkEntry, WalkFailure};
use crate::staging::Records;
use crate::stat::{FileType, etag};
use crate::walk::{Cancel, WalkOptions, open_regular, root_of};
use crate::write::{Condition, Replacement, Tags};

pub use diff::{MAX_DIFF_BYTES, MAX_DIFF_LINES};

/// Maximum size of a file in a replacement, before and after. A larger one is skipped.
pub const MAX_REPLACED_FILE_BYTES: usize = 4 << 20;
/// Maximum size of one replacement with its groups, before a file is refused as too large.
const MAX_EXPANSION_BYTES: usize = 16 * MAX_REPLACED_FILE_BYTES;

/// Maximum number of files that one replacement changes, and of files that it reports as skipped.
pub const MAX_REPLACED_FILES: usize = 10_000;

/// Maximum length of a replacement.
pub const MAX_REPLACEMENT_BYTES: usize = 256 << 10;

/// What to replace, and where.
#[derive(Debug, Clone)]
pub struct ReplaceOptions {
    /// What to replace. It is applied to whole files, so a regular expression may match several lines.
    pub pattern: Pattern,
    /// What to put in its place. `$1` and `${name}` are groups of a regular expression, `$$` is a dollar sign; with a
    /// literal pattern, the text is used as it is.
    pub replacement: String,
    /// Which files to change.
    pub walk: WalkOptions,
    /// Whether only to report what would change.
    pub is_dry_run: bool,
    /// Maximum number of bytes of all diffs. Files beyond it are changed, but their diffs are left out.
    pub max_diff_bytes: usize,
    /// Records the temporary names of files that are written.
    pub records: Records,
}

/// A file that was changed, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacedFile {
    /// The file.
    pub path: PathBuf,
    /// Number of replacements.
    pub replacements: u64,
    /// Unified diff. Invalid UTF-8 is replaced.
    pub diff: String,
    /// Whether the diff is incomplete.
    pub is_diff_truncated: bool,
}

/// A file that contains the pattern, or may contain it, but was not changed.
#[derive(Debug)]
pub struct SkippedFile {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub error: FileError,
}

/// The result of a replacement.
#[derive(Debug, Default)]
pub struct Replaced {
    /// The changed files: sorted by name within each directory.
    pub files: Vec<ReplacedFile>,
    /// Number of replacements in all files.
    pub replacements: u64,
    /// Files that could not be read or written, or are too large.
    pub skipped: Vec<SkippedFile>,
    /// Whether the replacement ended because of a limit. Repeat it to change the other files.
    pub is_truncated: bool,
}

/// Replaces what matches a pattern in a file, or in all files below a directory. Binary files are left out. Each file is
/// replaced atomically, with its mode and owner.
pub fn replace(path: &Path, options: &ReplaceOptions, cancel: &Cancel) -> Result<Replaced, SearchError> {
    let root = root_of(path)?;
    let regex = options.pattern.file_regex()?;
    if options.replacement.len() > MAX_REPLACEMENT_BYTES {
        let given = options.replacement.len();
        let why = format!("the replacement has {given} bytes; at most {MAX_REPLACEMENT_BYTES} are allowed");
        return Err(SearchError::InvalidPattern(why));
    }
    let mut result = Replaced::default();
    let mut diff_bytes = options.max_diff_bytes;
    for entry in options.walk.sorted(&root)? {
        if cancel.is_cancelled() {
            break;
        }
        if result.files.len().max(result.skipped.len()) >= MAX_REPLACED_FILES {
            result.is_truncated = true;
            break;
        }
        let WalkEntry { path, file_type, .. } = match entry {
            Ok(entry) => entry,
            Err(failure) => {
                result.skipped.extend(skipped(failure));
                continue;
            }
        };
        if file_type != FileType::File {
            continue;
        }
        match replace_in(&path, &regex, options, diff_bytes, cancel) {
            Ok(None) => {}
            Ok(Some(file)) => {
                diff_bytes = diff_bytes.saturating_sub(file.diff.len());
                result.replacements += file.replacements;
                result.files.push(file);
            }
            Err(error) if error.kind == FileErrorKind::NotFound => {}
            Err(error) => result.skipped.push(SkippedFile { path, error }),
        }
    }
    Ok(result)
}

/// A directory that could not be visited. `None` if it has vanished.
fn skipped(failure: WalkFailure) -> Option<SkippedFile> {
    let WalkFailure { path, error } = failure;
    let error = FileError::of(&path, error);
    (error.kind != FileErrorKind::NotFound).then_some(SkippedFile { path, error })
}

/// Replaces in one file. `None` if it contains nothing to replace.
fn replace_in(
    path: &Path,
    regex: &Regex,
    options: &ReplaceOptions,
    diff_bytes: usize,
    cancel: &Cancel,
) -> Result<Option<ReplacedFile>, FileError> {
    let mut file = open_regular(path).at(path)?;
    // Before the content: a change after this moment is noticed.
    let read = etag(&file.metadata().at(path)?);
    let mut old = Vec::new();
    (&mut file).take(MAX_REPLACED_FILE_BYTES as u64 + 1).read_to_end(&mut old).at(path)?;
    if old.len() > MAX_REPLACED_FILE_BYTES {
        return Err(FileError::new(FileErrorKind::TooLarge, path));
    }
    if old.contains(&0) {
        return Ok(None);
    }
    let Some((new, replacements)) = replace_all(&old, regex, options, cancel) else {
        return Err(FileError::new(FileErrorKind::TooLarge, path));
    };
    if replacements == 0 {
        return Ok(None);
    }
    let (diff, is_diff_truncated) = diff::unified(path, &old, &new, diff_bytes.min(MAX_DIFF_BYTES));
    if !options.is_dry_run && old != new {
        write(path, read, &new, &options.records)?;
    }
    Ok(Some(ReplacedFile { path: path.to_owned(), replacements, diff, is_diff_truncated }))
}

/// Replaces the content atomically, unless the file has changed since it was read.
fn write(path: &Path, read: String, content: &[u8], records: &Records) -> Result<(), FileError> {
    let condition = Condition { if_match: Some(Tags::List(vec![read])), ..Condition::default() };
    let mut replacement = Replacement::begin(path, None, condition, records)?;
    replacement.write(content)?;
    replacement.commit().map(drop)
}

/// The new content and the number of replacements. `None` if the content becomes too large.
fn replace_all(
    old: &[u8],
    regex: &Regex,
    options: &ReplaceOptions,
    cancel: &Cancel,
) -> Option<(Vec<u8>, u64)> {
    let (mut new, mut count, mut end) = (Vec::new(), 0, 0);
    let replacement = options.replacement.as_bytes();
    let references = replacement.iter().filter(|byte| **byte == b'$').count();
    // `^` and `$` also match after the last line break, where no line is. `\z` is meant to.
    let has_empty_end = old.ends_with(b"\n") && !options.pattern.text.contains(r"\z");
    let mut put = |new: &mut Vec<u8>, range: std::ops::Range<usize>, groups: Option<&Captures<'_>>| {
        if has_empty_end && range == (old.len()..old.len()) {
            return true;
        }
        if cancel.is_cancelled() {
            return false;
        }
        new.extend_from_slice(&old[end..range.start]);
        // One expansion may be far larger than a file.
        let most = references.saturating_mul(range.len()).saturating_add(replacement.len());
        if groups.is_some() && most > MAX_EXPANSION_BYTES {
            return false;
        }
        match groups {
            Some(groups) => groups.expand(replacement, new),
            None => new.extend_from_slice(replacement),
        }
        end = range.end;
        count += 1;
        new.len() <= MAX_REPLACED_FILE_BYTES
    };
    let fits = if options.pattern.is_regex {
        // Without a group, only the whole match exists.
        regex.captures_iter(old).all(|groups| {
            let range = groups.get(0).map_or(0..0, |whole| whole.range());
            put(&mut new, range, Some(&groups))
        })
    } else {
        regex.find_iter(old).all(|found| put(&mut new, found.range(), None))
    };
    if count > 0 {
        new.extend_from_slice(&old[end..]);
    }
    (fits && new.len() <= MAX_REPLACED_FILE_BYTES).then_some((new, count))
}

#[cfg(test)]
mod tests;
