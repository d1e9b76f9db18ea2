//! Requests on files.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::wire_enum::wire_enum;

wire_enum! {
    /// Encoding of the content of a file in JSON.
    pub enum FileEncoding = Utf8 {
        /// As text.
        Utf8 = "utf-8" | "utf8",
        /// As base64, without loss.
        Base64 = "base64",
    }
}

/// A file or directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PathRequest {
    /// The path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The path in base64, instead of `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// A file to read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ReadRequest {
    /// The path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The path in base64, instead of `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Encoding of the content in the response. Default: `utf-8` for text, `base64` for other files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<FileEncoding>,
    /// Read at most this many bytes from the beginning of the file. Default and maximum: 32 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 33_554_432)]
    pub max_bytes: Option<u64>,
}

/// A file to write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct WriteRequest {
    /// The path. Missing parent directories are created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The path in base64, instead of `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The content. Default: empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Encoding of `content`. Default: `utf-8`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<FileEncoding>,
    /// Permission bits in octal, such as `0644`. Default: those of the existing file, or 0666 without the umask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Write to the end of the file instead of replacing its content. Not atomic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append: Option<bool>,
}

/// A file or directory to delete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DeleteRequest {
    /// The path. A symbolic link is deleted itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The path in base64, instead of `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Delete a directory with its content. Without it, a directory is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
}

/// A file or directory to rename.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RenameRequest {
    /// The present path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    /// The present path in base64, instead of `oldPath`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_path_base64: Option<String>,
    /// The new path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_path: Option<String>,
    /// The new path in base64, instead of `newPath`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Replace an existing file, or an empty directory. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
}

/// A file or directory to move.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TransferRequest {
    /// The present path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_path: Option<String>,
    /// The present path in base64, instead of `sourcePath`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_path_base64: Option<String>,
    /// The new path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_path: Option<String>,
    /// The new path in base64, instead of `destinationPath`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Replace an existing file, or an empty directory. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
}

/// A file or directory to copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CopyRequest {
    /// The path to copy from. Directories are copied with their content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_path: Option<String>,
    /// The same in base64, instead of `sourcePath`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_path_base64: Option<String>,
    /// The path of the copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_path: Option<String>,
    /// The same in base64, instead of `destinationPath`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Replace an existing file, or an empty directory. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
}

/// A directory to create.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MkdirRequest {
    /// The path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The path in base64, instead of `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Also create missing parent directories, and accept an existing directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
}

/// New permission bits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ChmodRequest {
    /// The path. The target of a symbolic link is changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The path in base64, instead of `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Permission bits in octal, such as `0755`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}
