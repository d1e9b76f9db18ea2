//! Examples of the operations on backups.

use serde_json::{Value, json};

/// Id of a backup.
pub(super) const ID: &str = "0b7e41a2-6c0f-4c0e-9b1f-3d1c6a5a9f10";

/// Returns the examples of an operation on backups: its request and its response.
pub(super) fn examples(id: &str) -> Option<(Value, Value)> {
    let (time, expires) = ("2026-01-31T12:00:00.000Z", "2026-02-03T12:00:00.000Z");
    let archive = format!("/var/lib/sandcrab/backups/{ID}.tar.zst");
    let sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    Some(match id {
        "createBackup" => (
            json!({ "dir": "project", "name": "before the upgrade", "ttl": 259_200, "excludes": ["node_modules"] }),
            json!({
                "success": true, "id": ID, "dir": "project", "sizeBytes": 48_213, "archivePath": archive,
                "sha256": sha256, "entries": 120, "changedFiles": 0, "skippedFiles": 0, "expiresAt": expires,
                "timestamp": time
            }),
        ),
        "restoreBackup" => (
            json!({ "dir": "project", "id": ID }),
            json!({
                "success": true, "dir": "project", "id": ID, "entries": 120, "bytesWritten": 310_400,
                "atomic": true, "timestamp": time
            }),
        ),
        "uploadBackupParts" => (
            json!({ "id": ID, "parts": [
                { "partNumber": 1, "url": "http://s3.example/bucket/key?partNumber=1&uploadId=u&X-Amz-Signature=s",
                    "offset": 0, "size": 48_213 }
            ] }),
            json!({
                "success": true, "parts": [{ "partNumber": 1, "etag": "\"5d41402abc4b2a76b9719d911017c592\"" }],
                "timestamp": time
            }),
        ),
        "listBackups" => (
            Value::Null,
            json!({ "success": true, "timestamp": time, "backups": [{
                "id": ID, "name": "before the upgrade", "dir": "/work/project", "sizeBytes": 48_213,
                "sha256": sha256, "entries": 120, "archivePath": archive, "createdAt": time, "expiresAt": expires
            }] }),
        ),
        "deleteBackup" => (Value::Null, json!({ "success": true, "id": ID, "timestamp": time })),
        _ => return None,
    })
}
