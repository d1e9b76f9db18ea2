//! Terminals: viewers, screens, waits and recordings.
//!
//! The engine owns terminals, their output and their saved screens. This module has what exists only while a client uses a
//! terminal:
//!
//! - A [`Hub`] per terminal counts viewers and waits, and holds the one emulator that they share. The emulator is built from the
//!   saved screen and the journal when a client needs it, fed from the journal, and dropped when it is not used.
//! - A viewer ([`viewer`]) is one task. It sends a repaint, then the bytes of the journal as they are written. The journal is its
//!   buffer: a viewer that does not read costs one piece, and is repainted when it reads again.
//! - A tracker ([`tracker`]) follows the output of a terminal without viewers. It answers queries, because no viewer does.

mod asciicast;
mod emulator;
mod hub;
pub(crate) mod keys;
pub(crate) mod matching;
mod query;
pub(crate) mod recording;
mod repaint;
mod terminals;
mod tracker;
mod viewer;
pub(crate) mod wait;

use std::sync::Arc;

use sandcrab_engine::Terminal;

pub(crate) use hub::{Hub, ScreenGuard};
pub(crate) use terminals::Terminals;
pub(crate) use viewer::{Attachment, Dialect, serve};

use crate::app::App;

/// The hub of a terminal. A terminal that runs is tracked from now on.
pub(crate) fn hub(app: &App, terminal: &Terminal, from: TrackFrom) -> Arc<Hub> {
    let (hub, is_new) = app.terminals.hub(terminal);
    if is_new && terminal.execution().status().end().is_none() {
        let from = match from {
            TrackFrom::Start => Some(0),
            // Queries that were written while no server ran stay unanswered.
            TrackFrom::Now => tracker::end_of(terminal.execution()).ok(),
        };
        if let Some(from) = from {
            hub.answer_from(from);
        }
        tokio::spawn(tracker::track(Arc::clone(&hub), from, app.stopping.clone()));
    }
    hub
}

/// From where on the queries of a terminal are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrackFrom {
    /// It was just created.
    Start,
    /// It was created before; only future output counts.
    Now,
}

/// Tracks the terminals that were running when the server started.
pub(crate) fn adopt(app: &App) {
    for terminal in app.sandbox.engine.terminals() {
        if terminal.execution().status().end().is_none() {
            drop(hub(app, &terminal, TrackFrom::Now));
        }
    }
}
