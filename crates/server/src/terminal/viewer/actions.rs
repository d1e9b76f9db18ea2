//! What a client of a viewer asks for: input and sizes, one at a time and in order.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sandcrab_api::terminal::{MAX_TERMINAL_SIZE, TerminalClientFrame, TerminalFrame, TerminalResizeFrame};
use sandcrab_api::{ErrorCode, JsonProblem, Object};
use sandcrab_engine::{ControlError, InputError, InputTurn, TerminalSize};
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;

use super::reports::is_only_reports;
use super::{Dialect, Viewer};
use crate::app::BodyBytes;
use crate::terminal::hub::Hub;

/// Delay before a request is repeated whose supervisor could not be reached.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Maximum length of a key: function keys with modifiers.
const MAX_KEY_BYTES: usize = 8;

/// What a client asks for.
#[derive(Debug)]
pub(super) enum Action {
    /// The first `written` bytes are written already. The rest follows in the same turn, if there is one.
    Input {
        bytes: Bytes,
        written: usize,
        turn: Option<InputTurn>,
        size: Option<TerminalSize>,
    },
    Resize(TerminalSize),
}

/// The result of an action.
#[derive(Debug)]
pub(super) enum Done {
    Ok,
    /// The client is told.
    Error(ErrorCode, String),
}

impl Viewer {
    /// Handles a message, whose bytes are counted by `held`. Returns whether the client has closed the socket.
    pub(super) fn receive(&mut self, message: Message, held: BodyBytes) -> bool {
        match message {
            Message::Close(_) => return true,
            Message::Binary(bytes) if bytes.is_empty() => {}
            Message::Binary(_) | Message::Text(_) if self.is_watcher => {
                self.error(
                    ErrorCode::ValidationFailed,
                    "this viewer only watches; attach without readOnly to type and resize",
                );
            }
            Message::Binary(bytes) => self.input(bytes, held),
            Message::Text(text) => match self.parse(&text) {
                Ok(Some(size)) => self.resize(size, held),
                Ok(None) => {}
                Err(why) => self.error(ErrorCode::ValidationFailed, &why),
            },
            message => debug_assert!(super::is_control(&message)),
        }
        false
    }

    /// The size in a control frame.
    fn parse(&self, text: &str) -> Result<Option<TerminalSize>, String> {
        let (cols, rows) = match self.dialect {
            Dialect::Native => {
                let frame: Result<Object<TerminalClientFrame>, _> = serde_json::from_str(text);
                let Object(frame) = frame.map_err(|e| {
                    format!("invalid control frame: {}; send input as binary", JsonProblem::new(&e, true))
                })?;
                (frame.cols.into(), frame.rows.into())
            }
            Dialect::Reference => {
                let frame: Value = serde_json::from_str(text).map_err(|_| "Invalid control message")?;
                if frame["type"] != "resize" {
                    return Ok(None);
                }
                // Its clients send fractions of cells too.
                let side = |name: &str| frame[name].as_f64().map_or(0.0, f64::floor);
                (side("cols"), side("rows"))
            }
        };
        size(cols, rows).map(Some)
    }

    fn input(&mut self, bytes: Bytes, held: BodyBytes) {
        if !self.guard.is_leader() {
            // Every viewer answers a query of the program, which expects one answer.
            if is_only_reports(&bytes) {
                return;
            }
            self.guard.lead();
        }
        // The last client that resized or typed decides on the size.
        let size = self.own_size.filter(|size| *size != self.hub.terminal.size());
        if let Some(size) = size {
            self.sizes.request(size);
        }
        // A key needs no action: nothing is left to wait for. If it is accepted in part, the action keeps others out until the
        // rest is written.
        let is_key = size.is_none() && bytes.len() <= MAX_KEY_BYTES;
        let (written, turn) = if is_key { self.hub.terminal.write_now(&bytes) } else { (0, None) };
        if written < bytes.len() {
            self.act(Action::Input { bytes, written, turn, size }, held);
        }
    }

    fn resize(&mut self, size: TerminalSize, held: BodyBytes) {
        self.own_size = Some(size);
        self.guard.lead();
        if size != self.hub.terminal.size() {
            self.sizes.request(size);
            self.act(Action::Resize(size), held);
        }
    }

    fn act(&mut self, action: Action, held: BodyBytes) {
        let hub = Arc::clone(&self.hub);
        self.action = Some(Box::pin(async move {
            let done = perform(&hub, action).await;
            // In memory until here.
            drop(held);
            done
        }));
    }

    pub(super) fn finish_action(&mut self, done: Done) {
        if let Done::Error(code, message) = done {
            self.error(code, &message);
        }
    }

    /// The terminal has this size from here on in its output.
    pub(super) fn resized(&mut self, size: TerminalSize) {
        if self.sizes.seen(size) {
            let TerminalSize { cols, rows } = size;
            self.outbox.frame(&TerminalFrame::Resize(TerminalResizeFrame { cols, rows }));
        }
    }
}

/// A valid size.
pub(super) fn size(cols: f64, rows: f64) -> Result<TerminalSize, String> {
    let side = |side: f64| (1..=MAX_TERMINAL_SIZE).find(|whole| f64::from(*whole) == side);
    match (side(cols), side(rows)) {
        (Some(cols), Some(rows)) => Ok(TerminalSize { cols, rows }),
        _ => Err(format!("Invalid dimensions: cols and rows must be 1 to {MAX_TERMINAL_SIZE}")),
    }
}

async fn perform(hub: &Arc<Hub>, action: Action) -> Done {
    match action {
        Action::Resize(size) => resize(hub, size).await,
        Action::Input { bytes, written, turn, size } => {
            if let Some(size) = size {
                drop(resize(hub, size).await);
            }
            let rest = &bytes[written..];
            let done = match turn {
                Some(turn) => hub.terminal.write_in(turn, rest).await,
                None => hub.terminal.write(rest).await,
            };
            match done {
                Ok(()) => Done::Ok,
                // The exit frame says it.
                Err(InputError::Ended) => Done::Ok,
                Err(InputError::Full { accepted }) => Done::Error(
                    ErrorCode::TerminalInputFull,
                    format!(
                        "the program does not read: {} of {} bytes were accepted; retry the rest later",
                        written + accepted,
                        bytes.len()
                    ),
                ),
                Err(InputError::Control(e)) => Done::Error(control_code(&e), e.to_string()),
                Err(e) => Done::Error(ErrorCode::InternalError, e.to_string()),
            }
        }
    }
}

/// Sets the size; retries while the supervisor cannot be reached. Setting a size twice does no harm.
async fn resize(hub: &Arc<Hub>, size: TerminalSize) -> Done {
    loop {
        match hub.terminal.resize(size).await {
            Ok(()) => return Done::Ok,
            Err(_) if hub.terminal.execution().status().end().is_some() => return Done::Ok,
            Err(ControlError::Disconnected | ControlError::Ended | ControlError::Busy) => {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            Err(e) => return Done::Error(control_code(&e), e.to_string()),
        }
    }
}

fn control_code(error: &ControlError) -> ErrorCode {
    match error {
        ControlError::Unsupported => ErrorCode::NotSupported,
        ControlError::Busy => ErrorCode::LimitExceeded,
        ControlError::Disconnected => ErrorCode::ExecutionLost,
        _ => ErrorCode::InternalError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_bounds() {
        assert_eq!(size(1.0, 1000.0), Ok(TerminalSize { cols: 1, rows: 1000 }));
        assert_eq!(size(80.9_f64.floor(), 24.0), Ok(TerminalSize { cols: 80, rows: 24 }));
        for (cols, rows) in [(0.0, 1.0), (1.0, 1001.0), (-1.0, 1.0), (f64::NAN, 1.0), (f64::INFINITY, 1.0)] {
            assert!(size(cols, rows).is_err(), "{cols} {rows}");
        }
    }
}
