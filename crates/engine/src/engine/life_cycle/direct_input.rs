//! [`DirectInput`]: writes keys to a terminal without its supervisor, while that has nothing queued.
//!
//! `docs/design/terminals.md` describes when that is possible.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use crate::engine::link::lock;
use crate::engine::pool::is_reserved;
use crate::terminal::last_signal_in;

/// Maximum size of input that is written directly: keys and reports of a mouse, not pastes.
const MAX_DIRECT_BYTES: usize = 256;

/// The engine's copy of a terminal's master, while viewers are attached.
#[derive(Debug)]
pub(in crate::engine) struct DirectInput(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Number of viewers that type.
    users: usize,
    master: Option<OwnedFd>,
    /// Whether the supervisor may have input that the kernel has not accepted. It must come first.
    may_be_queued: bool,
    /// Number of bytes that were written here and that the supervisor was not told of.
    untold: u32,
    has_ended: bool,
}

impl Default for DirectInput {
    fn default() -> Self {
        // An earlier engine may have left input in the queue.
        let state = State { users: 0, master: None, may_be_queued: true, untold: 0, has_ended: false };
        Self(Mutex::new(state))
    }
}

impl DirectInput {
    /// Adds a viewer that types. Returns whether the master must be requested.
    pub(in crate::engine) fn add_user(&self) -> bool {
        let mut state = lock(&self.0);
        state.users += 1;
        state.users == 1 && !state.has_ended
    }

    /// Removes a viewer. The last one closes the master.
    pub(in crate::engine) fn remove_user(&self) {
        let mut state = lock(&self.0);
        state.users -= 1;
        if state.users == 0 {
            state.master = None;
        }
    }

    /// The master has arrived. If descriptors are scarce, it is closed, and all keys go through the supervisor.
    pub(in crate::engine) fn set_master(&self, master: OwnedFd) {
        let mut state = lock(&self.0);
        if state.users > 0 && !state.has_ended && !is_reserved(&master) {
            state.master = Some(master);
        }
    }

    /// Another connection serves the terminal.
    pub(super) fn reconnected(&self) {
        let mut state = lock(&self.0);
        (state.master, state.may_be_queued) = (None, true);
    }

    /// Whether the master must be requested on another connection.
    pub(in crate::engine) fn is_wanted(&self) -> bool {
        let state = lock(&self.0);
        state.users > 0 && !state.has_ended
    }

    /// The terminal has ended: a copy of its master would keep it open.
    pub(super) fn ended(&self) {
        let mut state = lock(&self.0);
        (state.master, state.has_ended) = (None, true);
    }

    /// Writes input, or the beginning of it. Returns the number of bytes. The rest is for the supervisor: a paste, input after
    /// input that is queued there, and characters that send a signal, which may have to pass other input.
    pub(in crate::engine) fn write(&self, bytes: &[u8]) -> usize {
        let mut state = lock(&self.0);
        let Some(master) = state.master.as_ref().filter(|_| !state.may_be_queued) else { return 0 };
        if bytes.is_empty()
            || bytes.len() > MAX_DIRECT_BYTES
            || last_signal_in(master.as_fd(), bytes).is_some()
        {
            return 0;
        }
        let written = rustix::io::retry_on_intr(|| rustix::io::write(master, bytes)).unwrap_or(0);
        state.untold = state.untold.saturating_add(u32::try_from(written).unwrap_or(u32::MAX));
        written
    }

    /// Input is about to be sent to the supervisor. Returns the number of bytes to tell it of.
    pub(in crate::engine) fn begin_queueing(&self) -> Option<u32> {
        let mut state = lock(&self.0);
        // Until the supervisor says otherwise, also if its reply is lost.
        state.may_be_queued = true;
        (state.untold > 0).then_some(state.untold)
    }

    /// The supervisor has got that input and was told of these bytes; `waiting` is what it still has in its queue.
    pub(in crate::engine) fn queued(&self, told: Option<u32>, waiting: Option<u32>) {
        let mut state = lock(&self.0);
        state.untold -= told.unwrap_or(0).min(state.untold);
        state.may_be_queued = waiting != Some(0);
    }
}
