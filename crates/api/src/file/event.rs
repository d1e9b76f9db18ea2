//! Events of the stream of a file.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::FileEncoding;
use crate::{ErrorCode, Timestamp};

/// The type and size of a file.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileMetadata {
    /// MIME type, from the content and the name of the file.
    pub mime_type: String,
    /// Size of the file in bytes when the stream began.
    pub size: u64,
    /// True if the beginning of the file is not text.
    pub is_binary: bool,
    /// Encoding of the chunks.
    pub encoding: FileEncoding,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// The next part of the content.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChunk {
    /// The content, as UTF-8 text or base64. A character is never split. Each chunk in base64 is complete.
    pub data: String,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// The whole file was sent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileComplete {
    /// Number of bytes of the file that were read.
    pub bytes_read: u64,
    /// True if bytes that are not valid UTF-8 were replaced: the file begins with text, and continues with other bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub invalid_utf8: bool,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// The file could not be read to its end.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileFailure {
    /// The error message.
    pub error: String,
    /// The error code.
    pub code: ErrorCode,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// An event of the stream of a file: `metadata`, then `chunk`s, then `complete` or `error`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FileEvent {
    /// First event: the type and size of the file.
    Metadata(FileMetadata),
    /// The next part of the content.
    Chunk(FileChunk),
    /// The whole file was sent. Last event of the stream.
    Complete(FileComplete),
    /// The file could not be read to its end. Last event of the stream.
    Error(FileFailure),
}
