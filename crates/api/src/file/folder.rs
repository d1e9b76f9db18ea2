//! Folders as archives.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// How the archive of a folder is stored.
    pub enum FolderFormat = Tar {
        /// A plain tar archive.
        Tar = "tar",
        /// A tar archive, compressed with zstd.
        TarZst = "tar.zst",
    }
}

/// A folder that was replaced by the content of an archive.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FolderWritten {
    /// Always true.
    pub success: bool,
    /// The path, as in the request.
    pub path: String,
    /// Number of entries of the archive.
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
