//! `file_edit`: replaces exact text in a file.

use bytes::Bytes;
use futures_util::stream;
use sandcrab_client::PutOptions;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::catalog::{Call, ToolResult};
use crate::failure::ToolError;
use crate::limits::MAX_EDITED_BYTES;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EditArguments {
    /// The file. A relative path is relative to the workspace, or to the working directory of the session.
    path: String,
    /// The text to replace, exactly as in the file, with blanks and line ends.
    old_text: String,
    /// The text in its place.
    new_text: String,
    /// Replace every occurrence. Default: false, and `oldText` must occur once.
    replace_all: Option<bool>,
    /// Resolve relative paths against the working directory of this session.
    session_id: Option<String>,
}

pub(crate) async fn edit(call: Call, arguments: EditArguments) -> Result<ToolResult, ToolError> {
    let EditArguments { path, old_text, new_text, replace_all, session_id } = arguments;
    let mut file = call.client.get_file(&path, session_id.as_deref()).await?;
    let etag = file.etag();
    let mut bytes = Vec::new();
    while let Some(chunk) = file.chunk().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_EDITED_BYTES {
            let message = format!("the file has more than {MAX_EDITED_BYTES} bytes");
            return Err(ToolError::new(
                "FILE_TOO_LARGE",
                message,
                "change it with a program, such as sed, through exec",
            ));
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        ToolError::new("BINARY_FILE", "the file is not UTF-8 text", "change it with a program through exec")
    })?;
    let edited = replaced(&text, &old_text, &new_text, replace_all == Some(true))?;
    let count = edited.count;
    // Another change in between is refused, and the model reads the file again.
    let options = PutOptions { session_id, mode: None, if_match: etag };
    let content = stream::iter([Ok::<_, std::convert::Infallible>(Bytes::from(edited.text))]);
    let written = call.client.put_file(&path, &options, content).await?;
    let text = format!("replaced {count} in {path}, first in line {}", edited.line);
    Ok(ToolResult::new(
        text,
        json!({ "path": path, "replacements": count, "line": edited.line, "bytes": written.bytes_written }),
    ))
}

#[derive(Debug, PartialEq, Eq)]
struct EditResult {
    text: String,
    count: usize,
    /// Line of the first replacement, from 1.
    line: usize,
}

fn replaced(text: &str, old: &str, new: &str, all: bool) -> Result<EditResult, ToolError> {
    if old.is_empty() {
        return Err(ToolError::argument("`oldText` is empty: use file_write to create a file"));
    }
    let Some(first) = text.find(old) else {
        let hint = "read the file with file_read, and give the text exactly as it is there";
        return Err(ToolError::new("TEXT_NOT_FOUND", "`oldText` does not occur in the file", hint));
    };
    let count = text.matches(old).count();
    if count > 1 && !all {
        let message = format!("`oldText` occurs {count} times in the file");
        return Err(ToolError::new(
            "TEXT_NOT_UNIQUE",
            message,
            "give more lines around it, or replaceAll as true",
        ));
    }
    let line = text[..first].matches('\n').count() + 1;
    Ok(EditResult { text: text.replace(old, new), count, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_occurrence_unless_all() {
        let text = "a\nb\na\n";
        assert_eq!(
            replaced(text, "b", "c", false).unwrap(),
            EditResult { text: "a\nc\na\n".into(), count: 1, line: 2 }
        );
        assert_eq!(replaced(text, "a", "c", true).unwrap().count, 2);
        let code = |old| replaced(text, old, "c", false).unwrap_err().code;
        assert_eq!(code("a"), "TEXT_NOT_UNIQUE");
        assert_eq!(code("x"), "TEXT_NOT_FOUND");
        assert_eq!(code(""), "VALIDATION_FAILED");
    }
}
