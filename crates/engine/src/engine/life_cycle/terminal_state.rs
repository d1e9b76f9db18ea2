//! [`TerminalState`]: the engine's state of a terminal.

use std::sync::Mutex;
use std::time::SystemTime;

use tokio::sync::watch;

use super::direct_input::DirectInput;
use crate::record::TerminalRecord;
use crate::terminal::TerminalSize;

/// The engine's state of a terminal.
#[derive(Debug)]
pub(in crate::engine) struct TerminalState {
    pub(in crate::engine) term: String,
    pub(in crate::engine) first_size: TerminalSize,
    /// Its current size.
    pub(in crate::engine) sizes: watch::Sender<TerminalSize>,
    /// Whether output is missing in its journal because the disk is full.
    pub(in crate::engine) unrecorded: watch::Sender<bool>,
    /// Held during a resize, so that the last one wins here too.
    pub(in crate::engine) resizing: tokio::sync::Mutex<()>,
    /// Time of the last input.
    pub(in crate::engine) last_input: Mutex<Option<SystemTime>>,
    pub(in crate::engine) direct: DirectInput,
}

impl TerminalState {
    pub(super) fn new(record: &TerminalRecord) -> Self {
        Self {
            term: record.term.clone(),
            first_size: record.size,
            sizes: watch::Sender::new(record.size),
            unrecorded: watch::Sender::new(false),
            resizing: tokio::sync::Mutex::default(),
            last_input: Mutex::default(),
            direct: DirectInput::default(),
        }
    }
}
