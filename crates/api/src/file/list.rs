//! Lists of files.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::FileType;
use crate::Timestamp;

/// A directory to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ListRequest {
    /// The path. Default: the working directory of the session, or the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The path in base64, instead of `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Options of the list.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub options: Option<ListOptions>,
}

/// Options of a list: depth, hidden entries and the number of entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ListOptions {
    /// Also list the content of subdirectories. Symbolic links are not followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Also list entries whose name begins with a dot. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_hidden: Option<bool>,
    /// Maximum number of entries in the response, 1 to 100,000. Default: 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100_000)]
    pub limit: Option<u32>,
    /// Continue after this entry: the `next` of the previous response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Session, if the request itself names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// What the owner of a file may do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Permissions {
    /// The owner may read it.
    pub readable: bool,
    /// The owner may write to it.
    pub writable: bool,
    /// The owner may execute it, or enter the directory.
    pub executable: bool,
}

/// An entry of a directory.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileEntry {
    /// The name. Bytes that are not UTF-8 are replaced.
    pub name: String,
    /// The absolute path.
    pub absolute_path: String,
    /// The path relative to the listed directory.
    pub relative_path: String,
    /// Type of the entry.
    #[serde(rename = "type")]
    pub file_type: FileType,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification.
    pub modified_at: Timestamp,
    /// Permission bits as text: `rw-r--r--`.
    pub mode: String,
    /// What the owner of the file may do with it.
    pub permissions: Permissions,
    /// The name in base64, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// The absolute path in base64, if it is not UTF-8. Use it as `pathBase64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
}

/// The entries of a directory.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileList {
    /// Always true.
    pub success: bool,
    /// The path, as in the request.
    pub path: String,
    /// The entries, sorted by the bytes of their names within each directory. An entry precedes its content.
    pub files: Vec<FileEntry>,
    /// Number of entries in this response.
    pub count: usize,
    /// If there are more entries: the `after` of the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Number of directories that could not be read and are listed without content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<u64>,
    /// Time of the response.
    pub timestamp: Timestamp,
}
