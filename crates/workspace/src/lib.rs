//! Operations on the files of a sandbox.
//!
//! # Usage
//!
//! [`resolve`] maps a path of a request to an absolute path. [`Identity::run`] runs an operation with the permissions
//! of the user that commands run as. Every operation is a blocking function: call it on a blocking thread.
//!
//! ```
//! use sandcrab_workspace::{Base, Identity, resolve};
//!
//! # fn main() -> Result<(), sandcrab_workspace::FileError> {
//! let base = Base { cwd: "/tmp".as_ref(), workspace: "/srv/work".as_ref(), has_workspace_directory: false };
//! assert_eq!(resolve(b"/workspace/a.txt", &base)?, std::path::Path::new("/srv/work/a.txt"));
//! let exists = Identity::own().run(|| std::path::Path::new("/tmp").exists());
//! assert!(exists.is_ok_and(|exists| exists));
//! # Ok(())
//! # }
//! ```
//!
//! # Theory of operation
//!
//! See `docs/design/workspace.md`. The kernel checks every operation against the user of the commands, so a symbolic
//! link in the workspace cannot reach a file that the commands cannot reach.
//!
//! # Limits
//!
//! Every limit is a public constant beside the operation that it bounds.

mod archive;
mod copy;
mod error;
mod find;
mod identity;
mod ignore_rules;
mod list;
mod mime;
mod modify;
#[cfg(test)]
#[path = "../../engine/tests/engine/support/not_run.rs"]
mod not_run;
mod open;
mod path;
mod pattern;
mod read;
mod remove;
mod replace;
mod search;
mod sorted_walk;
pub mod staging;
mod stat;
mod transfer;
mod uuid;
mod walk;
mod watch;
mod write;

pub use archive::{
    ArchiveError, ArchiveFormat, COMPRESSION_LEVEL, Compression, MAX_COMPRESSION_THREADS, MAX_ENTRIES,
    MAX_EXCLUDES, MAX_EXTENSION_BYTES, MAX_OPEN_XATTR_BYTES, MAX_SEGMENTS, MAX_TRACKED_LINKS,
    MAX_UNPACKED_BYTES, MAX_WINDOW_LOG, PackOptions, Packed, PieceReader, ReservingWriter, Target, Unpacked,
    check_folder, pack,
};
pub use error::{FileError, FileErrorKind};
pub use find::{FindOptions, FindResult, MAX_FOUND_PATHS, find};
pub use identity::Identity;
pub use ignore_rules::{MAX_IGNORE_BYTES, MAX_IGNORE_LINES};
pub use list::{DEFAULT_LISTED, Entry, ListOptions, ListResult, MAX_LISTED, list};
pub use mime::{DETECTION_BYTES, FileKind};
pub use modify::{chmod, mkdir};
pub use open::open;
pub use path::{Base, MAX_PATH_BYTES, WORKSPACE, resolve};
pub use pattern::{MAX_PATTERN_BYTES, MAX_REGEX_BYTES, Pattern};
pub use read::{Content, read, read_cached};
pub use remove::{MAX_DEPTH, remove};
pub use replace::{
    MAX_DIFF_BYTES, MAX_DIFF_LINES, MAX_REPLACED_FILE_BYTES, MAX_REPLACED_FILES, MAX_REPLACEMENT_BYTES,
    ReplaceOptions, Replaced, ReplacedFile, SkippedFile, replace,
};
pub use search::{
    FileMatches, MAX_CONTEXT_LINES, MAX_MATCHES, MAX_SEARCHED_LINE_BYTES, MAX_SHOWN_LINE_BYTES, Match,
    SearchError, SearchOptions, SearchReceiver, SearchSummary, check_search, search,
};
pub use staging::{Record, Records, Staging};
pub use stat::{FileType, Stat, check_directory, etag, exists, is_directory_without_waiting, stat};
pub use transfer::{copy, rename};
pub use uuid::uuid;
pub use walk::{Cancel, CancelOnDrop, MAX_GLOB_BYTES, MAX_GLOBS, WalkOptions};
pub use watch::{
    CHECK_IDLE_TIMEOUT, COALESCE_WINDOW, Change, ChangeKind, CheckError, CheckResult, CheckStatus, Checks,
    DEFAULT_EXCLUDES, MAX_CHECKS, MAX_QUEUED_BYTES, MAX_QUEUED_EVENTS, MAX_WATCHED_DIRECTORIES, ResyncReason,
    Watch, WatchError, WatchEvent, WatchOptions,
};
pub use write::{Condition, Replacement, Tags, WriteResult, append};
