//! The control frames of `/ws/terminal` and `/ws/pty`: text frames with one JSON object. Binary frames carry the bytes of the
//! terminal.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ErrorCode;
use crate::execute::End;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// The kind of a control frame of a client.
    pub enum TerminalClientFrameKind {
        /// The client shows the terminal in this size from now on.
        Resize = "resize",
    }
}

/// A control frame of a client. Input is a binary frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalClientFrame {
    /// The kind of frame.
    #[serde(rename = "type")]
    pub kind: TerminalClientFrameKind,
    /// Number of columns.
    #[schema(minimum = 1, maximum = 1000)]
    pub cols: u16,
    /// Number of rows.
    #[schema(minimum = 1, maximum = 1000)]
    pub rows: u16,
}

/// The next binary message is a repaint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TerminalRepaintFrame {
    /// The cursor of the output after which the screen looks like this. Binary messages after the repaint continue from here;
    /// the repaint itself does not count.
    pub cursor: u64,
    /// Number of columns.
    pub cols: u16,
    /// Number of rows.
    pub rows: u16,
}

/// The client has received what it missed. Output follows as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TerminalReadyFrame {
    /// The id of the terminal.
    pub id: String,
    /// The cursor of the output so far. To resume after a disconnect, add the number of bytes received since, and send it as
    /// `since`.
    pub cursor: u64,
    /// Number of columns.
    pub cols: u16,
    /// Number of rows.
    pub rows: u16,
    /// Differs from that of every other terminal with this id. Send it with `since`: the cursor is not valid for another terminal.
    #[serde(default)]
    pub incarnation: String,
}

/// The size of the terminal has changed, not by this client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TerminalResizeFrame {
    /// Number of columns.
    pub cols: u16,
    /// Number of rows.
    pub rows: u16,
}

/// The program of the terminal has ended. The last frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TerminalExitFrame {
    /// Its exit code.
    pub exit_code: i32,
    /// The same, as clients of the reference read it.
    pub code: i32,
    /// How it ended.
    pub end: End,
    /// The name of the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}

/// A request of this viewer failed. The socket stays open unless the server closes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TerminalErrorFrame {
    /// The error code.
    pub code: ErrorCode,
    /// The error message, with what to do.
    pub message: String,
}

/// A control frame of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum TerminalFrame {
    /// The next binary message is a repaint.
    Repaint(TerminalRepaintFrame),
    /// The client has received what it missed.
    Ready(TerminalReadyFrame),
    /// The size of the terminal has changed.
    Resize(TerminalResizeFrame),
    /// The program of the terminal has ended.
    Exit(TerminalExitFrame),
    /// A request of this viewer failed.
    Error(TerminalErrorFrame),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::EndReason;

    #[test]
    fn frames_have_both_spellings() {
        let end = End { reason: EndReason::Signaled, signal: Some(9) };
        let frame = TerminalFrame::Exit(TerminalExitFrame {
            exit_code: 137,
            code: 137,
            end,
            signal: Some("SIGKILL".into()),
        });
        assert_eq!(
            serde_json::to_string(&frame).unwrap(),
            r#"{"type":"exit","exitCode":137,"code":137,"end":{"reason":"signaled","signal":9},"signal":"SIGKILL"}"#
        );
        let resize = r#"{"type":"resize","cols":80,"rows":24}"#;
        assert_eq!(serde_json::from_str::<TerminalClientFrame>(resize).unwrap().cols, 80);
    }
}
