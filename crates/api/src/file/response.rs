//! Responses about files.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::FileEncoding;
use crate::Timestamp;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// Type of a directory entry.
    pub enum FileType {
        /// A regular file.
        File = "file",
        /// A directory.
        Directory = "directory",
        /// A symbolic link.
        Symlink = "symlink",
        /// A FIFO, socket or device.
        Other = "other",
        else Unknown
    }
}

/// The content of a file.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileContent {
    /// Always true.
    pub success: bool,
    /// The path, as in the request.
    pub path: String,
    /// The content.
    pub content: String,
    /// Encoding of `content`.
    pub encoding: FileEncoding,
    /// True if the file is not text.
    pub is_binary: bool,
    /// MIME type, from the content and the name of the file.
    pub mime_type: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// True if `maxBytes` left out the rest of the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// True if bytes that are not valid UTF-8 were replaced, because the request has the encoding `utf-8`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub invalid_utf8: bool,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A written file.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// Always true.
    pub success: bool,
    /// The path, as in the request.
    pub path: String,
    /// Number of bytes written.
    pub bytes_written: u64,
    /// False if the file was written in place: readers may have seen a part of it.
    pub atomic: bool,
    /// Entity tag of the file, as of `GET /api/file`.
    pub etag: String,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// An operation on a file was done.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileDone {
    /// Always true.
    pub success: bool,
    /// The path, as in the request.
    pub path: String,
    /// Whether the request was recursive. Only for `mkdir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A file was renamed, moved or copied.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Moved {
    /// Always true.
    pub success: bool,
    /// The old path, as in the request.
    pub path: String,
    /// The new path, as in the request.
    pub new_path: String,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// Whether a file exists.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exists {
    /// Always true.
    pub success: bool,
    /// The path, as in the request.
    pub path: String,
    /// True if the file exists. A symbolic link without a target does not.
    pub exists: bool,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// The metadata of a file. A symbolic link is not followed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileStat {
    /// Always true.
    pub success: bool,
    /// The path, as in the request.
    pub path: String,
    /// Type of the entry.
    #[serde(rename = "type")]
    pub file_type: FileType,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits in octal: `0644`.
    pub mode: String,
    /// Permission bits as text: `rw-r--r--`.
    pub permissions: String,
    /// User id of the owner.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Number of hard links.
    pub links: u64,
    /// Time of the last modification.
    pub modified_at: Timestamp,
    /// Target of a symbolic link. Bytes that are not UTF-8 are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Entity tag of a regular file, as of `GET /api/file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// Time of the response.
    pub timestamp: Timestamp,
}
