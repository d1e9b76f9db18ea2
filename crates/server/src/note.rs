//! Data of the server about an execution or a session: a note in the engine's own record, which survives a restart.

use sandcrab_api::execute::Encoding;
use sandcrab_api::session::{OnShellExit, SessionRequest};
use serde::{Deserialize, Serialize};

/// The note of an execution.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ExecutionNote {
    /// Default encoding of its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) encoding: Option<Encoding>,
    /// Whether it is the git of a clone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_clone: bool,
    /// Whether its record is removed at its end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_unrecorded: bool,
    /// Whether it is of no use without the server that has started it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) ends_with_server: bool,
}

/// The note of a session.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SessionNote {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command_timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_output_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) on_shell_exit: Option<OnShellExit>,
}

impl SessionNote {
    pub(crate) fn of(request: &SessionRequest) -> Self {
        Self {
            command_timeout_ms: request.command_timeout_ms,
            max_output_bytes: request.max_output_size_bytes,
            on_shell_exit: request.on_shell_exit,
        }
    }
}

/// A note as bytes.
pub(crate) fn write(note: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(note).unwrap_or_default()
}

/// Parses a note. A note of another version that cannot be read counts as empty.
pub(crate) fn read<T: Default + for<'de> Deserialize<'de>>(bytes: Option<&[u8]>) -> T {
    bytes.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default()
}
