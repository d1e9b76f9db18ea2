//! Examples of the operations on files.

use serde_json::{Value, json};

/// Returns the examples of an operation on files: its request and its response.
pub(super) fn examples(id: &str) -> Option<(Value, Value)> {
    let time = "2026-01-31T12:00:00.000Z";
    let path = json!({ "path": "notes/todo.txt" });
    Some(match id {
        "fileExists" => {
            (path, json!({ "success": true, "path": "notes/todo.txt", "exists": true, "timestamp": time }))
        }
        "statFile" => (
            path,
            json!({
                "success": true, "path": "notes/todo.txt", "type": "file", "size": 12, "mode": "0644",
                "permissions": "rw-r--r--", "uid": 1000, "gid": 1000, "links": 1, "modifiedAt": time,
                "etag": "\"1f-2a-c-18a3f-18a3f\"", "timestamp": time
            }),
        ),
        _ => return None,
    })
}
