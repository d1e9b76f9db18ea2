//! Watches of a directory: a stream of changes ([`Watch`]), and versions to compare ([`Checks`]).
//!
//! Both use inotify directly ([`tree`]), not a crate above it, because they need what such a crate hides: excluded
//! directories must not use watches of the kernel, files that are created in a new directory before it is watched must
//! not be missed, moves must be paired by their cookie, and an overflow must lead to a new scan.

mod checks;
mod coalesce;
mod filter;
mod options;
mod stream;
mod tree;

pub use checks::{CHECK_IDLE_TIMEOUT, CheckError, CheckResult, CheckStatus, Checks, MAX_CHECKS};
pub use options::{
    Change, ChangeKind, DEFAULT_EXCLUDES, MAX_WATCHED_DIRECTORIES, ResyncReason, WatchError, WatchEvent,
    WatchOptions,
};
pub use stream::{COALESCE_WINDOW, MAX_QUEUED_BYTES, MAX_QUEUED_EVENTS, Watch};

#[cfg(test)]
mod tests;
