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
        "readFile" => (
            path,
            json!({
                "success": true, "path": "notes/todo.txt", "content": "buy a boat\n", "encoding": "utf-8",
                "isBinary": false, "mimeType": "text/plain", "size": 11, "timestamp": time
            }),
        ),
        "streamFile" => (
            path,
            json!([
                { "type": "metadata", "mimeType": "text/plain", "size": 11, "isBinary": false, "encoding": "utf-8",
                    "timestamp": time },
                { "type": "chunk", "data": "buy a boat\n", "timestamp": time },
                { "type": "complete", "bytesRead": 11, "timestamp": time }
            ]),
        ),
        "getFile" => (Value::Null, json!("buy a boat\n")),
        "putFile" => (json!("buy a boat\n"), written(time)),
        "getFolder" => (Value::Null, json!("the bytes of the archive")),
        "putFolder" => (
            json!("the bytes of the archive"),
            json!({
                "success": true, "path": "notes", "entries": 3, "bytesWritten": 11, "atomic": true, "timestamp": time
            }),
        ),
        "listFiles" => (
            json!({ "path": "notes", "options": { "recursive": true } }),
            json!({
                "success": true, "path": "notes", "count": 1, "timestamp": time, "files": [{
                    "name": "todo.txt", "absolutePath": "/work/notes/todo.txt", "relativePath": "todo.txt",
                    "type": "file", "size": 11, "modifiedAt": time, "mode": "rw-r--r--",
                    "permissions": { "readable": true, "writable": true, "executable": false }
                }]
            }),
        ),
        "writeFile" => (json!({ "path": "notes/todo.txt", "content": "buy a boat\n" }), written(time)),
        "deleteFile" => (json!({ "path": "notes", "recursive": true }), done("notes", time)),
        "changeMode" => (json!({ "path": "run.sh", "mode": "0755" }), done("run.sh", time)),
        "createDirectory" => (
            json!({ "path": "notes/old", "recursive": true }),
            json!({ "success": true, "path": "notes/old", "recursive": true, "timestamp": time }),
        ),
        "renameFile" => (json!({ "oldPath": "a.txt", "newPath": "b.txt" }), moved(time)),
        "moveFile" | "copyFile" => {
            (json!({ "sourcePath": "a.txt", "destinationPath": "b.txt" }), moved(time))
        }
        _ => return None,
    })
}

fn written(time: &str) -> Value {
    json!({
        "success": true, "path": "notes/todo.txt", "bytesWritten": 11, "atomic": true,
        "etag": "\"1f-2a-b-18a3f-18a3f\"", "timestamp": time
    })
}

fn done(path: &str, time: &str) -> Value {
    json!({ "success": true, "path": path, "timestamp": time })
}

fn moved(time: &str) -> Value {
    json!({ "success": true, "path": "a.txt", "newPath": "b.txt", "timestamp": time })
}
