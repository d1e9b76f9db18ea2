//! Search and replace in files, and names of files.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::event::ErrorEvent;
use crate::file::FileType;
use crate::{ErrorCode, Timestamp};

/// What to search for, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SearchRequest {
    /// A directory, which is searched with everything below it, or a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The path in base64, instead of `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The text or regular expression that a line contains. At most 16 KiB.
    pub pattern: String,
    /// True if `pattern` is a regular expression, in the syntax of the Rust crate `regex`. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<bool>,
    /// False if upper and lower case are the same. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case_sensitive: Option<bool>,
    /// True if only whole words match. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<bool>,
    /// Globs that select files, as of `rg --glob`; one that begins with `!` excludes. At most 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<Vec<String>>,
    /// Also search files and directories whose name begins with a dot. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// Leave out what `.gitignore` and `.ignore` files exclude. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_files: Option<bool>,
    /// Number of lines before and after each match, 0 to 50. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 50)]
    pub context_lines: Option<u32>,
    /// The search ends after this many matching lines, 1 to 100,000. Default: 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100_000)]
    pub max_matches: Option<u32>,
}

/// A matching line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchMatch {
    /// Absolute path of the file. Bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The path in base64, if it is not UTF-8. Use it as `pathBase64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Number of the line, from 1.
    pub line: u64,
    /// Column of the first match in the line, in bytes, from 1.
    pub column: u64,
    /// The line without its end. A line of more than 4 KiB is cut to the part around the match.
    pub text: String,
    /// Column at which `text` begins, if the beginning of the line was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_column: Option<u64>,
    /// True if a part of the line was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The lines before it, if `contextLines` was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Vec<String>>,
    /// The lines after it, if `contextLines` was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
}

/// The matches of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchResponse {
    /// Always true.
    pub success: bool,
    /// The matching lines, sorted by path and line.
    pub matches: Vec<SearchMatch>,
    /// Number of files that were searched. Binary files count.
    pub files_searched: u64,
    /// Number of files and directories that could not be read, and of files with a line of more than 2 MiB.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreadable: u64,
    /// True if there are more matches: `maxMatches`, or 8 MiB of results, were reached.
    pub truncated: bool,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A matching line. Matches of different files may alternate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchMatchEvent {
    /// Absolute path of the file. Bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The path in base64, if it is not UTF-8. Use it as `pathBase64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Number of the line, from 1.
    pub line: u64,
    /// Column of the first match in the line, in bytes, from 1.
    pub column: u64,
    /// The line without its end. A line of more than 4 KiB is cut to the part around the match.
    pub text: String,
    /// Column at which `text` begins, if the beginning of the line was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_column: Option<u64>,
    /// True if a part of the line was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The lines before it, if `contextLines` was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Vec<String>>,
    /// The lines after it, if `contextLines` was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// The search has ended. Last event of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchCompleteEvent {
    /// Number of matching lines.
    pub matches: u64,
    /// Number of files that were searched. Binary files count.
    pub files_searched: u64,
    /// Number of files and directories that could not be read, and of files with a line of more than 2 MiB.
    pub unreadable: u64,
    /// True if there are more matches: `maxMatches` was reached.
    pub truncated: bool,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// An event of a search: `match` for each matching line, then `complete` or `error`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SearchEvent {
    /// A matching line. Lines of one file are in order; matches of different files may alternate.
    Match(SearchMatchEvent),
    /// The search has ended. Last event of the stream.
    Complete(SearchCompleteEvent),
    /// The search failed. Last event of the stream.
    Error(ErrorEvent),
}

/// Which files to find.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct FindRequest {
    /// The directory below which to find files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The path in base64, instead of `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Globs that select files, as of `rg --glob`; one that begins with `!` excludes. At most 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<Vec<String>>,
    /// Only entries of this type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub file_type: Option<FileType>,
    /// Also find entries whose name begins with a dot. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// Leave out what `.gitignore` and `.ignore` files exclude. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_files: Option<bool>,
    /// Maximum number of paths, 1 to 100,000. Default: 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100_000)]
    pub limit: Option<u32>,
}

/// A path that is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExactPath {
    /// Its index in `paths`.
    pub index: usize,
    /// The path in base64. Use it as `pathBase64`.
    pub path_base64: String,
}

/// The files that were found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindResponse {
    /// Always true.
    pub success: bool,
    /// The absolute paths: sorted by name within each directory, a directory before its content.
    pub paths: Vec<String>,
    /// The exact bytes of those `paths` that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_paths: Option<Vec<ExactPath>>,
    /// Number of directories that could not be read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreadable: u64,
    /// True if there are more: `limit`, or 8 MiB of paths, were reached.
    pub truncated: bool,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// What to replace, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplaceRequest {
    /// A directory, in which all files are changed, or a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The path in base64, instead of `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The text or regular expression to replace. It is applied to whole files, so it may contain line ends.
    pub pattern: String,
    /// The text in its place, at most 256 KiB. With `regex`, `$1` and `${name}` are groups, and `$$` is a dollar sign.
    pub replacement: String,
    /// True if `pattern` is a regular expression, in the syntax of the Rust crate `regex`. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<bool>,
    /// False if upper and lower case are the same. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case_sensitive: Option<bool>,
    /// True if only whole words match. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<bool>,
    /// Globs that select files, as of `rg --glob`; one that begins with `!` excludes. At most 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<Vec<String>>,
    /// Also change files whose name begins with a dot. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// Leave out what `.gitignore` and `.ignore` files exclude. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_files: Option<bool>,
    /// Only report what would change. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
}

/// A file that was changed, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedFile {
    /// Absolute path. Bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The path in base64, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Number of replacements.
    pub replacements: u64,
    /// Unified diff, at most 256 KiB.
    pub diff: String,
    /// True if a part of the diff was left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub diff_truncated: bool,
}

/// A file that was not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkippedFile {
    /// Absolute path. Bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The path in base64, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Error code.
    pub code: ErrorCode,
    /// Error message, with what to do.
    pub message: String,
}

/// The result of a replacement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplaceResponse {
    /// True if no file was skipped.
    pub success: bool,
    /// The changed files: sorted by name within each directory.
    pub files: Vec<ReplacedFile>,
    /// Number of replacements in all files.
    pub replacements: u64,
    /// Files that could not be read or written, or have more than 4 MiB before or after. Binary files are not listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedFile>,
    /// True if 10,000 files were changed, and there may be more. Repeat the request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// True if nothing was changed, as requested.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Time of the response.
    pub timestamp: Timestamp,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
