//! Files: requests, responses and events.
//!
//! A path is text, or base64 in the field with the suffix `Base64` where a name is not UTF-8. A relative path is
//! relative to the working directory of the session that the request names, else to the workspace. `/workspace` means
//! the workspace on machines without such a directory.

mod event;
mod folder;
mod list;
mod request;
mod response;

pub use event::{FileChunk, FileComplete, FileEvent, FileFailure, FileMetadata};
pub use folder::{FolderFormat, FolderWritten};
pub use list::{FileEntry, FileList, ListOptions, ListRequest, Permissions};
pub use request::{
    ChmodRequest, CopyRequest, DeleteRequest, FileEncoding, MkdirRequest, PathRequest, ReadRequest,
    RenameRequest, TransferRequest, WriteRequest,
};
pub use response::{Exists, FileContent, FileDone, FileStat, FileType, Moved, Written};

/// Maximum size of a file in the JSON of `read`, in bytes.
pub const MAX_READ_BYTES: u64 = 32 << 20;
