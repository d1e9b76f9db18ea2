//! Limits of the tools.

use std::time::Duration;

/// Default size of the output in a result. About 8,000 tokens.
pub const DEFAULT_OUTPUT_BYTES: usize = 32 << 10;
/// Maximum size of the output in a result.
pub const MAX_OUTPUT_BYTES: usize = 256 << 10;
/// Minimum size of the output in a result: some characters, so that a cursor advances.
const MIN_OUTPUT_BYTES: usize = 64;
/// Maximum size of a resource.
pub const MAX_RESOURCE_BYTES: usize = 1 << 20;
/// Maximum size of a message to `/mcp`.
pub const MAX_MESSAGE_BYTES: usize = 8 << 20;
/// Maximum number of sessions of `/mcp`.
pub const MAX_MCP_SESSIONS: usize = 256;

/// Maximum number of concurrent calls: of one `sandcrab mcp`, or of all clients of `/mcp`.
pub const MAX_CALLS: usize = 256;

/// Default timeout of a command.
pub(crate) const DEFAULT_COMMAND_TIMEOUT_MS: u64 = 120_000;
/// Default time of a wait.
pub(crate) const DEFAULT_WAIT_MS: u64 = 30_000;
/// Maximum time of a wait.
pub(crate) const MAX_WAIT_MS: u64 = 600_000;
/// How long the server may take to open a stream, if the wait of the call is not longer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client of `/mcp` that has lost the stream of a call may take to resume it. Then the call is cancelled.
pub(crate) const CALL_RESUME_WINDOW: Duration = Duration::from_secs(10);
/// Time between two progress notifications of a call.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum length of the message of a progress notification.
pub(crate) const MAX_PROGRESS_BYTES: usize = 200;
/// Maximum number of entries in a list of processes, sessions, ports or resources.
pub(crate) const MAX_LISTED: usize = 100;
/// Default number of entries of a directory in a result.
pub(crate) const DEFAULT_ENTRIES: u32 = 200;
/// Maximum number of entries of a directory, matches or paths in a result.
pub(crate) const MAX_ENTRIES: u32 = 1_000;
/// Default number of matches in a result.
pub(crate) const DEFAULT_MATCHES: u32 = 50;
/// Maximum size of a file that `file_edit` changes.
pub(crate) const MAX_EDITED_BYTES: usize = 8 << 20;
/// How long the screen of a terminal must be unchanged after input, before it is read.
pub(crate) const SETTLE_MS: u64 = 100;
/// Maximum time to wait for that.
pub(crate) const MAX_SETTLE_MS: u64 = 1_000;

/// A requested size of output, within the bounds.
pub(crate) fn output_bytes(requested: Option<u64>) -> usize {
    let requested = requested.and_then(|bytes| usize::try_from(bytes).ok());
    requested.unwrap_or(DEFAULT_OUTPUT_BYTES).clamp(MIN_OUTPUT_BYTES, MAX_OUTPUT_BYTES)
}

/// A requested wait, within the bounds.
pub(crate) fn wait(requested: Option<u64>) -> Duration {
    Duration::from_millis(requested.unwrap_or(DEFAULT_WAIT_MS).min(MAX_WAIT_MS))
}
