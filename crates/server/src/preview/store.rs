//! The file of the exposed ports.

use std::io;
use std::path::Path;

use sandcrab_api::Timestamp;
use sandcrab_engine::trusted::TrustedDir;
use serde::{Deserialize, Serialize};

/// The file, readable only by this user: tokens are secrets.
const FILE: &str = "previews.json";
/// Maximum size of the file.
const MAX_BYTES: u64 = 1 << 20;

/// An exposed port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    pub(super) port: u16,
    pub(super) token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) process_id: Option<String>,
    pub(super) exposed_at: Timestamp,
}

/// Reads all records.
pub(super) fn read(state_dir: &Path) -> io::Result<Vec<Record>> {
    let Some(bytes) = TrustedDir::open(state_dir)?.read(FILE, MAX_BYTES)? else { return Ok(Vec::new()) };
    // The text of the error may contain a token.
    serde_json::from_slice(&bytes).map_err(|e| {
        io::Error::other(format!("line {}, column {} is not what was written", e.line(), e.column()))
    })
}

/// Replaces all records atomically.
pub(super) fn write(state_dir: &Path, records: &[Record]) -> io::Result<()> {
    Ok(TrustedDir::open(state_dir)?.replace(FILE, &serde_json::to_vec(records)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_kept_and_private() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()).unwrap(), []);
        let record = Record {
            port: 8080,
            token: "secret".into(),
            name: Some("web".into()),
            process_id: None,
            exposed_at: Timestamp::now(),
        };
        write(dir.path(), std::slice::from_ref(&record)).unwrap();
        let kept = read(dir.path()).unwrap();
        assert_eq!((kept[0].port, &*kept[0].token, kept.len()), (8080, "secret", 1));
        let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(dir.path().join(FILE), r#"[{"port": "secret"}]"#).unwrap();
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("line 1") && !error.contains("secret"), "{error}");
    }
}
