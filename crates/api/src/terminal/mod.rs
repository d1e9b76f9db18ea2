//! Terminals: programs on a pseudo-terminal, with a screen.
//!
//! [`request`] has the requests and responses of `/api/terminal`, [`screen`] the content of a screen, [`frame`] the control
//! frames of `/ws/terminal` and `/ws/pty`.

mod frame;
mod request;
mod screen;

pub use frame::{
    TerminalClientFrame, TerminalClientFrameKind, TerminalErrorFrame, TerminalExitFrame, TerminalFrame,
    TerminalReadyFrame, TerminalRepaintFrame, TerminalResizeFrame,
};
pub use request::{
    ResizeRequest, ResizeResponse, Terminal, TerminalCreated, TerminalDeleted, TerminalInputRequest,
    TerminalInputResponse, TerminalList, TerminalRequest, TerminalResponse, TerminalStatus,
    TerminalWaitRequest, TerminalWaitResponse,
};
pub use screen::{
    Color, RecordingFormat, ScreenCursor, ScreenFormat, ScreenResponse, ScreenRun, ScreenSource,
    UnderlineStyle,
};

/// Default number of columns.
pub const DEFAULT_COLS: u16 = 80;
/// Default number of rows.
pub const DEFAULT_ROWS: u16 = 24;
/// Maximum number of columns, and of rows.
pub const MAX_TERMINAL_SIZE: u16 = 1_000;
/// Default value of `TERM`.
pub const DEFAULT_TERM: &str = "xterm-256color";
