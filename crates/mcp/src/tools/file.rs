//! Files.

use std::fmt::Write;

use sandcrab_client::api::file::{
    DeleteRequest, FileEntry, FileType, ListOptions, ListRequest, PathRequest, WriteRequest,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::edit;
use super::exec::pick;
use super::lines::{self, Position};
use crate::catalog::{Call, Effect, Entry, ToolResult, entry};
use crate::failure::ToolError;
use crate::limits::{DEFAULT_ENTRIES, MAX_ENTRIES, output_bytes};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReadArguments {
    /// The file. A relative path is relative to the workspace, or to the working directory of the session.
    path: String,
    /// First line, from 1. Default: 1.
    start_line: Option<u64>,
    /// Last line. Default: the last one of the file.
    end_line: Option<u64>,
    /// Cursor of an earlier result, to continue there instead of at `startLine`.
    cursor: Option<String>,
    /// Maximum size of the text in the result, 64 to 262144 bytes. Default: 32768.
    max_output_bytes: Option<u64>,
    /// Resolve relative paths against the working directory of this session.
    session_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WriteArguments {
    /// The file. Missing directories are created.
    path: String,
    /// The whole new content.
    content: String,
    /// Write to the end of the file instead of replacing it. Default: false.
    append: Option<bool>,
    /// Permission bits in octal, such as `0755`. Default: those of the existing file.
    mode: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    session_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListArguments {
    /// The directory. Default: the workspace, or the working directory of the session.
    path: Option<String>,
    /// Also list the content of subdirectories. Default: false.
    recursive: Option<bool>,
    /// Also list names that begin with a dot. Default: false.
    hidden: Option<bool>,
    /// Maximum number of entries, 1 to 1000. Default: 200.
    limit: Option<u32>,
    /// Cursor of an earlier result, to continue there.
    cursor: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    session_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StatArguments {
    /// The file or directory.
    path: String,
    /// Resolve relative paths against the working directory of this session.
    session_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeleteArguments {
    /// The file or directory.
    path: String,
    /// Delete a directory with its content. Default: false, and a directory is refused.
    recursive: Option<bool>,
    /// Resolve relative paths against the working directory of this session.
    session_id: Option<String>,
}

pub(crate) fn entries() -> Vec<Entry> {
    vec![
        entry(
            "file_read",
            "Read a file",
            Effect::Reads,
            "Read a text file, or a range of its lines. A long file is cut, and the result has a cursor to continue.",
            read,
        ),
        entry(
            "file_write",
            "Write a file",
            Effect::Changes,
            "Create a file, replace its content, or append to it. Readers see the old or the new content, never a part.",
            write,
        ),
        entry(
            "file_edit",
            "Edit a file",
            Effect::Changes,
            "Replace text in a file. The old text must match exactly and occur once, unless `replaceAll` is true.",
            edit::edit,
        ),
        entry("file_list", "List a directory", Effect::Reads, "List the entries of a directory.", list),
        entry(
            "file_stat",
            "Show metadata of a file",
            Effect::Reads,
            "Return type, size, permissions and modification time of a file or directory.",
            stat,
        ),
        entry(
            "file_delete",
            "Delete a file",
            Effect::Changes,
            "Delete a file, or a directory with its content.",
            delete,
        ),
    ]
}

async fn read(call: Call, arguments: ReadArguments) -> Result<ToolResult, ToolError> {
    let ReadArguments { path, start_line, end_line, cursor, max_output_bytes, session_id } = arguments;
    let from = match &cursor {
        None => Position::START,
        Some(text) => Position::parse(text).ok_or_else(|| {
            ToolError::argument(format!("invalid cursor {text:?}: give the `cursor` of an earlier result"))
        })?,
    };
    let (first, last) = (start_line.unwrap_or(1).max(from.line), end_line.unwrap_or(u64::MAX));
    if last < first {
        return Err(ToolError::argument(format!("`endLine` {last} is before line {first}")));
    }
    let file = call.client.get_file_from(&path, session_id.as_deref(), from.byte).await?;
    let lines = lines::read(file, from, first, last, output_bytes(max_output_bytes)).await?;
    let mut fields = json!({ "path": path, "startLine": first, "content": lines.text });
    let mut text = lines.text;
    if lines.is_cut {
        fields["cursor"] = lines.end.to_string().into();
        let _ =
            write!(text, "\n[… cut in line {}; continue with cursor \"{}\" …]", lines.end.line, lines.end);
    }
    Ok(ToolResult::new(text, fields))
}

async fn write(call: Call, arguments: WriteArguments) -> Result<ToolResult, ToolError> {
    let WriteArguments { path, content, append, mode, session_id } = arguments;
    let request = WriteRequest {
        path: Some(path.clone()),
        content: Some(content),
        append,
        mode,
        session_id,
        ..WriteRequest::default()
    };
    let bytes = call.client.write_file(&request).await?.bytes_written;
    Ok(ToolResult::new(format!("wrote {bytes} bytes to {path}"), json!({ "path": path, "bytes": bytes })))
}

async fn list(call: Call, arguments: ListArguments) -> Result<ToolResult, ToolError> {
    let ListArguments { path, recursive, hidden, limit, cursor, session_id } = arguments;
    let options = ListOptions {
        recursive,
        include_hidden: hidden,
        limit: Some(limit.unwrap_or(DEFAULT_ENTRIES).clamp(1, MAX_ENTRIES)),
        after: cursor,
        ..ListOptions::default()
    };
    let request = ListRequest { path, session_id, options: Some(options), ..ListRequest::default() };
    let found = call.client.list_files(&request).await?;
    let mut lines: Vec<String> = found.files.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("the directory is empty".to_owned());
    }
    if let Some(next) = &found.next {
        lines.push(format!("[… more entries; continue with cursor \"{next}\" …]"));
    }
    let entries = found.files.iter().map(|file| {
        let mut entry = pick(file, &["size", "type", "modifiedAt"]);
        entry["path"] = file.relative_path.clone().into();
        entry
    });
    let mut fields = json!({ "path": found.path, "entries": entries.collect::<Vec<_>>() });
    if let Some(next) = found.next {
        fields["cursor"] = next.into();
    }
    Ok(ToolResult::new(lines.join("\n"), fields))
}

fn line(file: &FileEntry) -> String {
    match file.file_type {
        FileType::Directory => format!("{}/", file.relative_path),
        FileType::Symlink => format!("{}@", file.relative_path),
        _ => format!("{}  {} bytes", file.relative_path, file.size),
    }
}

async fn stat(call: Call, arguments: StatArguments) -> Result<ToolResult, ToolError> {
    let StatArguments { path, session_id } = arguments;
    let request = PathRequest { path: Some(path), session_id, ..PathRequest::default() };
    let stat = call.client.stat_file(&request).await?;
    let names = ["path", "type", "size", "mode", "permissions", "uid", "gid", "modifiedAt", "target"];
    let fields = pick(stat, &names);
    Ok(ToolResult::new(format!("{fields:#}"), fields))
}

async fn delete(call: Call, arguments: DeleteArguments) -> Result<ToolResult, ToolError> {
    let DeleteArguments { path, recursive, session_id } = arguments;
    let request =
        DeleteRequest { path: Some(path.clone()), recursive, session_id, ..DeleteRequest::default() };
    call.client.delete_file(&request).await?;
    Ok(ToolResult::new(format!("deleted {path}"), json!({ "path": path })))
}
