//! Search in files, and names of files.

use std::fmt::Write;

use sandcrab_client::api::file::FileType;
use sandcrab_client::api::search::{FindRequest, SearchMatch, SearchRequest};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::exec::pick;
use crate::catalog::{Call, Effect, Entry, ToolResult, entry};
use crate::cut;
use crate::failure::ToolError;
use crate::limits::{DEFAULT_ENTRIES, DEFAULT_MATCHES, DEFAULT_OUTPUT_BYTES, MAX_ENTRIES};

/// Maximum number of matches or paths that can be skipped.
const MAX_OFFSET: u32 = 50_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SearchArguments {
    /// The text or regular expression that a line contains.
    pattern: String,
    /// A directory, which is searched with everything below it, or a file. Default: the workspace.
    path: Option<String>,
    /// True if `pattern` is a regular expression. Default: false.
    regex: Option<bool>,
    /// False if upper and lower case are the same. Default: true.
    case_sensitive: Option<bool>,
    /// Globs that select files, such as `*.rs`; one that begins with `!` excludes.
    glob: Option<Vec<String>>,
    /// Also search hidden files. Default: false.
    hidden: Option<bool>,
    /// Number of lines before and after each match, 0 to 50. Default: 0.
    context_lines: Option<u32>,
    /// Maximum number of matches, 1 to 1000. Default: 50.
    limit: Option<u32>,
    /// Number of matches to skip: the `nextOffset` of an earlier result. Default: 0.
    offset: Option<u32>,
    /// Resolve relative paths against the working directory of this session.
    session_id: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum EntryType {
    File,
    Directory,
    Symlink,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FindArguments {
    /// Globs that select paths, such as `*.rs` or `src/**`; one that begins with `!` excludes.
    glob: Option<Vec<String>>,
    /// The directory. Default: the workspace.
    path: Option<String>,
    /// Only entries of this type.
    entry_type: Option<EntryType>,
    /// Also find hidden files. Default: false.
    hidden: Option<bool>,
    /// Maximum number of paths, 1 to 1000. Default: 200.
    limit: Option<u32>,
    /// Number of paths to skip: the `nextOffset` of an earlier result. Default: 0.
    offset: Option<u32>,
    /// Resolve relative paths against the working directory of this session.
    session_id: Option<String>,
}

pub(crate) fn entries() -> Vec<Entry> {
    vec![
        entry(
            "search",
            "Search in files",
            Effect::Reads,
            "Find lines in files. Files that .gitignore excludes and binary files are left out.",
            search,
        ),
        entry(
            "find",
            "Find files",
            Effect::Reads,
            "Find files and directories by name. What .gitignore excludes is left out.",
            find,
        ),
    ]
}

async fn search(call: Call, arguments: SearchArguments) -> Result<ToolResult, ToolError> {
    let (limit, offset) = page(arguments.limit, DEFAULT_MATCHES, arguments.offset)?;
    let request = SearchRequest {
        pattern: arguments.pattern,
        path: Some(directory(arguments.path)),
        session_id: arguments.session_id,
        regex: arguments.regex,
        case_sensitive: arguments.case_sensitive,
        glob: arguments.glob,
        hidden: arguments.hidden,
        context_lines: arguments.context_lines,
        max_matches: Some(offset + limit),
        ..SearchRequest::default()
    };
    let found = call.client.search(&request).await?;
    let skipped = usize::try_from(offset).unwrap_or(usize::MAX).min(found.matches.len());
    let mut lines = String::new();
    let mut matches = Vec::new();
    for found in &found.matches[skipped..] {
        let shown = shown(found);
        if !matches.is_empty() && lines.len() + shown.len() > DEFAULT_OUTPUT_BYTES {
            break;
        }
        lines.push_str(&shown);
        matches.push(pick(found, &["path", "line", "column", "text", "before", "after"]));
    }
    let end = skipped + matches.len();
    let mut fields = json!({ "matches": matches, "filesSearched": found.files_searched });
    if found.truncated || end < found.matches.len() {
        fields["nextOffset"] = end.into();
        let _ = write!(lines, "[… more matches; continue with offset {end} …]");
    }
    if lines.is_empty() {
        lines = format!("no matches in {} files", found.files_searched);
    }
    Ok(ToolResult::new(cut::middle(&lines, 2 * DEFAULT_OUTPUT_BYTES), fields))
}

fn shown(found: &SearchMatch) -> String {
    let SearchMatch { path, line, text, before, after, .. } = found;
    let before = before.iter().flatten().map(|text| format!("{path}-{text}\n"));
    let after = after.iter().flatten().map(|text| format!("{path}-{text}\n"));
    before.chain([format!("{path}:{line}:{text}\n")]).chain(after).collect()
}

async fn find(call: Call, arguments: FindArguments) -> Result<ToolResult, ToolError> {
    let (limit, offset) = page(arguments.limit, DEFAULT_ENTRIES, arguments.offset)?;
    let request = FindRequest {
        path: Some(directory(arguments.path)),
        session_id: arguments.session_id,
        glob: arguments.glob,
        file_type: arguments.entry_type.map(|kind| match kind {
            EntryType::File => FileType::File,
            EntryType::Directory => FileType::Directory,
            EntryType::Symlink => FileType::Symlink,
        }),
        hidden: arguments.hidden,
        limit: Some(offset + limit),
        ..FindRequest::default()
    };
    let found = call.client.find(&request).await?;
    let skipped = usize::try_from(offset).unwrap_or(usize::MAX).min(found.paths.len());
    let mut text = String::new();
    let mut paths = Vec::new();
    for path in &found.paths[skipped..] {
        if !paths.is_empty() && text.len() + path.len() > DEFAULT_OUTPUT_BYTES {
            break;
        }
        text.push_str(path);
        text.push('\n');
        paths.push(path);
    }
    let end = skipped + paths.len();
    let mut fields = json!({ "paths": paths });
    if found.truncated || end < found.paths.len() {
        fields["nextOffset"] = end.into();
        let _ = write!(text, "[… more paths; continue with offset {end} …]");
    }
    if text.is_empty() {
        text = "nothing found".to_owned();
    }
    Ok(ToolResult::new(text, fields))
}

/// The directory, by default that of relative paths.
fn directory(path: Option<String>) -> String {
    path.unwrap_or_else(|| ".".to_owned())
}

fn page(limit: Option<u32>, default: u32, offset: Option<u32>) -> Result<(u32, u32), ToolError> {
    let offset = offset.unwrap_or(0);
    if offset > MAX_OFFSET {
        return Err(ToolError::argument(format!(
            "`offset` is more than {MAX_OFFSET}: give a more exact pattern"
        )));
    }
    Ok((limit.unwrap_or(default).clamp(1, MAX_ENTRIES), offset))
}
