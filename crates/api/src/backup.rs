//! Backups of folders: requests and responses.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::wire_enum::wire_enum;

/// Default time until a backup expires, in seconds: 3 days.
pub const DEFAULT_TTL_SECONDS: u64 = 259_200;
/// Maximum time until a backup expires, in seconds: about 100 years.
pub const MAX_TTL_SECONDS: u64 = 3_155_760_000;
/// Maximum number of characters of the name of a backup.
pub const MAX_BACKUP_NAME_CHARS: usize = 256;
/// Maximum number of parts of one upload.
pub const MAX_UPLOAD_PARTS: usize = 1_000;

wire_enum! {
    /// The requested compression. Archives are always compressed with zstd; this selects its level.
    pub enum BackupCompressionFormat = Zstd {
        /// Level 3.
        Zstd = "zstd",
        /// Level 3.
        Gzip = "gzip",
        /// Level 1, which is faster.
        Lz4 = "lz4",
    }
}

/// How an archive is compressed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct BackupCompression {
    /// The level. Default: that of `zstd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<BackupCompressionFormat>,
    /// Number of threads. Default: one per core. At most 4 are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub threads: Option<u32>,
}

/// A backup to create.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CreateBackupRequest {
    /// The folder.
    pub dir: String,
    /// A name for people, of at most 256 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time until the backup expires, in seconds. Default: 259200 (3 days).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3_155_760_000_u64)]
    pub ttl: Option<u64>,
    /// Leave out what `.gitignore` files exclude, if the folder is in a repository. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gitignore: Option<bool>,
    /// Rules as in a `.gitignore` file in the folder. What matches is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1000)]
    pub excludes: Option<Vec<String>>,
    /// How the archive is compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<BackupCompression>,
    /// Write the archive to this file, instead of keeping it in the server. It then belongs to the client: it is not listed and
    /// does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_path: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// A backup that was created.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupCreated {
    /// Always true.
    pub success: bool,
    /// Id of the backup. Without `archivePath` in the request, it can be restored, uploaded and deleted with this id.
    pub id: String,
    /// The folder, as in the request.
    pub dir: String,
    /// Size of the archive.
    pub size_bytes: u64,
    /// Path of the archive.
    pub archive_path: String,
    /// SHA-256 of the archive, in hexadecimal digits.
    pub sha256: String,
    /// Number of entries.
    pub entries: u64,
    /// Number of files that changed while they were read. A file that became shorter ends with zeros.
    pub changed_files: u64,
    /// Number of sockets and devices, which are left out.
    pub skipped_files: u64,
    /// Time at which the backup expires, if the server keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A folder to restore. Exactly one of `id`, `archivePath` and `url` is required.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RestoreBackupRequest {
    /// The folder. It is replaced, and created if it does not exist.
    pub dir: String,
    /// Id of a backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Path of an archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_path: Option<String>,
    /// URL of an archive, such as a presigned one of S3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// A folder that was restored.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupRestored {
    /// Always true.
    pub success: bool,
    /// The folder, as in the request.
    pub dir: String,
    /// Id of the backup, if it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Number of entries.
    pub entries: u64,
    /// Number of bytes of content, without holes of sparse files.
    pub bytes_written: u64,
    /// False if the entries of the folder were replaced one by one, because the folder is a mount point, the workspace,
    /// or in a directory that the user may not change.
    pub atomic: bool,
    /// Directory with old content that could not be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftover: Option<String>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A part of an archive to upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UploadPart {
    /// Number of the part.
    #[schema(minimum = 1, maximum = 10_000)]
    pub part_number: u32,
    /// Presigned URL, to which the bytes are sent with `PUT`.
    pub url: String,
    /// Position of the first byte in the archive.
    pub offset: u64,
    /// Number of bytes.
    pub size: u64,
}

/// Parts of an archive to upload. Either `archivePath` or `id` is required.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct UploadPartsRequest {
    /// Path of an archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_path: Option<String>,
    /// Id of a backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The parts, at most 1,000.
    #[serde(deserialize_with = "crate::object::list")]
    #[schema(max_items = 1000)]
    pub parts: Vec<UploadPart>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// A part that was uploaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UploadedPart {
    /// Number of the part.
    pub part_number: u32,
    /// Entity tag, from the answer of the other server. Empty if it sent none.
    pub etag: String,
}

/// Parts that were uploaded.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartsUploaded {
    /// Always true.
    pub success: bool,
    /// The parts, in the order of the request.
    pub parts: Vec<UploadedPart>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A backup that the server keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// Id of the backup.
    pub id: String,
    /// Name of the backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The folder, without symbolic links.
    pub dir: String,
    /// Size of the archive.
    pub size_bytes: u64,
    /// SHA-256 of the archive, in hexadecimal digits.
    pub sha256: String,
    /// Number of entries.
    pub entries: u64,
    /// Path of the archive.
    pub archive_path: String,
    /// Time at which it was created.
    pub created_at: Timestamp,
    /// Time at which it expires.
    pub expires_at: Timestamp,
}

/// The backups that the server keeps.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupList {
    /// Always true.
    pub success: bool,
    /// The backups, the newest first.
    pub backups: Vec<Backup>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A backup that was deleted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupDeleted {
    /// Always true.
    pub success: bool,
    /// Id of the backup.
    pub id: String,
    /// Time of the response.
    pub timestamp: Timestamp,
}
