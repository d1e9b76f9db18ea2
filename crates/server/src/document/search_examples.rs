//! Examples of the operations that search and watch files.

use serde_json::{Value, json};

/// Returns the examples of an operation: its request and its response.
pub(super) fn examples(id: &str) -> Option<(Value, Value)> {
    let time = "2026-01-31T12:00:00.000Z";
    Some(match id {
        "search" => (
            json!({ "path": "src", "pattern": "TODO", "glob": ["*.rs"], "contextLines": 1 }),
            json!({
                "success": true, "matches": [{
                    "path": "/work/src/main.rs", "line": 12, "column": 8, "text": "    // TODO: handle errors",
                    "before": ["fn main() {"], "after": ["}"]
                }],
                "filesSearched": 3, "truncated": false, "timestamp": time
            }),
        ),
        "find" => (
            json!({ "path": ".", "glob": ["*.rs", "!generated"], "type": "file" }),
            json!({
                "success": true, "paths": ["/work/src/lib.rs", "/work/src/main.rs"], "truncated": false,
                "timestamp": time
            }),
        ),
        "replace" => (
            json!({ "path": "src", "pattern": "colour", "replacement": "color", "word": true, "dryRun": true }),
            json!({
                "success": true, "files": [{
                    "path": "/work/src/main.rs", "replacements": 1,
                    "diff": "--- a/work/src/main.rs\n+++ b/work/src/main.rs\n@@ -1 +1 @@\n-colour\n+color\n"
                }],
                "replacements": 1, "dryRun": true, "timestamp": time
            }),
        ),
        "watch" => (
            json!({ "path": "src", "include": ["*.rs"] }),
            json!([
                { "type": "watching", "path": "src", "watchId": "watch-1-1769860800000", "timestamp": time },
                { "type": "event", "eventType": "modify", "path": "/work/src/main.rs", "isDirectory": false,
                    "timestamp": time },
                { "type": "resync", "reason": "overflow", "timestamp": time },
                { "type": "stopped", "reason": "timeout", "timestamp": time }
            ]),
        ),
        "checkWatch" => (
            json!({ "path": "src", "since": "watch-2-1769860800000:0" }),
            json!({
                "success": true, "status": "changed", "version": "watch-2-1769860800000:3", "timestamp": time
            }),
        ),
        _ => return None,
    })
}
