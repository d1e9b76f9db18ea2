//! Watches: changes of files as they happen, and versions to compare.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::event::ErrorEvent;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// The kind of a change.
    pub enum ChangeKind {
        /// A file or directory was created.
        Create = "create",
        /// The content of a file was changed.
        Modify = "modify",
        /// A file or directory was deleted.
        Delete = "delete",
        /// A file or directory was moved away.
        MoveFrom = "move_from",
        /// A file or directory was moved here.
        MoveTo = "move_to",
        /// Mode, owner, times or another attribute was changed.
        Attrib = "attrib",
    }
}

wire_enum! {
    /// Why the state must be read again.
    pub enum ResyncReason {
        /// There were too many changes at once.
        Overflow = "overflow",
        /// The client read too slowly.
        SlowReader = "slow_reader",
        /// Another directory has taken the place of the watched one.
        Replaced = "replaced",
        /// The client has lost its connection, and has made another one. Only clients that reconnect report this.
        Reconnected = "reconnected",
        else Unknown
    }
}

wire_enum! {
    /// Whether a directory has changed since a version.
    pub enum WatchStatus {
        /// It has not changed.
        Unchanged = "unchanged",
        /// It has changed.
        Changed = "changed",
        /// Unknown: read the state again.
        Resync = "resync",
        else Unknown
    }
}

wire_enum! {
    /// Why it is unknown whether a directory has changed.
    pub enum ExpiryReason {
        /// The version was not used for ten minutes, or too many others were in use.
        Expired = "expired",
        /// The server was restarted.
        Restarted = "restarted",
        else Unknown
    }
}

/// The directory to watch, and the changes to report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct WatchRequest {
    /// The directory or file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The path in base64, instead of `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Also watch the directories below it. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Globs of what is reported, at most 100. A glob matches at any depth unless it begins with a slash. Not together
    /// with `exclude`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    /// Globs of what is not reported, at most 100. Default, without `include`: `.git`, `node_modules` and `.DS_Store`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
    /// The kinds of changes that are reported. Default: all but `attrib`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<ChangeKind>>,
    /// End the watch after this time in milliseconds. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// The directory to compare with an earlier version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct WatchCheckRequest {
    /// The directory or file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The path in base64, instead of `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Also compare the directories below it. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Compare only paths that match one of these globs. Not together with `exclude`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    /// Do not compare paths that match one of these globs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
    /// The kinds of changes that count. Default: all but `attrib`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<ChangeKind>>,
    /// The version of an earlier response. Without it, the response has the version from which to compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// Whether a directory has changed since a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatchCheckResponse {
    /// Always true.
    pub success: bool,
    /// Whether it has changed.
    pub status: WatchStatus,
    /// The version for the next request.
    pub version: String,
    /// Why the status is `resync`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ExpiryReason>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// The watch has begun: later changes are reported. First event of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatchStartedEvent {
    /// The path, as in the request.
    pub path: String,
    /// Id of the watch.
    pub watch_id: String,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// A change of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatchChangeEvent {
    /// The kind of the change.
    pub event_type: ChangeKind,
    /// Absolute path. Bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The path in base64, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// True if it is a directory.
    pub is_directory: bool,
    /// The same number for the `move_from` and the `move_to` of one move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub move_id: Option<u32>,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// Changes may be missing: read the state again. The watch goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatchResyncEvent {
    /// Reason for the resync.
    pub reason: ResyncReason,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// `timeoutMs` has passed. Last event of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatchStoppedEvent {
    /// Reason for the end of the watch.
    pub reason: String,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// An event of a watch: `watching`, then changes, and at the end `stopped` or `error`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WatchEvent {
    /// The watch has begun: later changes are reported. First event of the stream.
    Watching(WatchStartedEvent),
    /// A change of a file or directory.
    Event(WatchChangeEvent),
    /// Changes may be missing: read the state again. The watch goes on.
    Resync(WatchResyncEvent),
    /// `timeoutMs` has passed. Last event of the stream.
    Stopped(WatchStoppedEvent),
    /// The watch failed, or the server is stopping (`SHUTTING_DOWN`). Last event of the stream.
    Error(ErrorEvent),
}
