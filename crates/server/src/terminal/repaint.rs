//! [`Repaint`]: the bytes that bring a viewer to the present screen, and the output that follows.

use std::sync::Arc;

use bytes::Bytes;
use sandcrab_engine::{Event, Follower, ReadError, TerminalSize};

use super::hub::{Hub, blocking, is_quick_size, until_possible};
use super::query::may_contain_query;
use super::terminals::RepaintMemory;
use crate::outgoing::Outgoing;

/// Maximum size of a repaint. A larger one has less scrollback.
pub(crate) const MAX_REPAINT_BYTES: usize = 16 << 20;
/// The same while much unsent data is in memory. The text of the largest screen fits.
const SCARCE_REPAINT_BYTES: usize = 4 << 20;
/// Estimated size of a cell in a repaint.
const CELL_REPAINT_BYTES: usize = 8;
/// Maximum number of missed bytes that a viewer with a cursor receives instead of a repaint.
pub(crate) const MAX_RESUME_BYTES: usize = 256 << 10;

/// How a viewer gets to the present.
#[derive(Debug)]
pub(super) enum Start {
    /// With a repaint.
    Repaint(Repaint),
    /// With the output that it missed.
    Resume { missed: Vec<u8>, from: u64, size: TerminalSize, follower: Box<Follower> },
}

/// A repaint, and what follows.
#[derive(Debug)]
pub(super) struct Repaint {
    pub(super) bytes: Bytes,
    /// The cursor after which the screen looks like this.
    pub(super) cursor: u64,
    pub(super) size: TerminalSize,
    pub(super) follower: Box<Follower>,
    /// Free again when the repaint is sent.
    pub(super) _memory: Option<RepaintMemory>,
}

/// Prepares a repaint. Waits for memory, and retries while the machine lacks resources.
pub(super) async fn prepare(hub: &Arc<Hub>, outgoing: &Outgoing) -> Result<Repaint, ReadError> {
    let most = if outgoing.is_scarce() { SCARCE_REPAINT_BYTES } else { MAX_REPAINT_BYTES };
    let size = hub.terminal.size();
    let cells = usize::from(size.cols) * (usize::from(size.rows) + sandcrab_screen::SCROLLBACK_LINES);
    let mut memory = hub.terminals().repaint_memory(most.min(cells * CELL_REPAINT_BYTES)).await;
    until_possible(|| async {
        let guard = hub.screen().await?;
        let (guard, bytes) = if is_quick_size(guard.emulator().size()) {
            let bytes = guard.emulator().repaint_within(most);
            (guard, bytes)
        } else {
            blocking(move || {
                let bytes = guard.emulator().repaint_within(most);
                (guard, bytes)
            })
            .await
        };
        let emulator = guard.emulator();
        let (cursor, size) = (emulator.cursor(), emulator.size());
        let follower = Box::new(hub.terminal.follow_screen(&emulator.position())?);
        Ok((bytes, cursor, size, follower))
    })
    .await
    .map(|(bytes, cursor, size, follower)| {
        if let Some(memory) = &mut memory {
            memory.shrink(bytes.capacity());
        }
        Repaint { bytes: outgoing.count(bytes), cursor, size, follower, _memory: memory }
    })
}

/// Prepares the output that a viewer has missed since a cursor; a repaint, if that is long, incomplete, or contains queries, which
/// were answered and must not be answered again.
pub(super) async fn resume(hub: &Arc<Hub>, since: u64, outgoing: &Outgoing) -> Result<Start, ReadError> {
    let missed = until_possible(|| std::future::ready(missed(hub, since))).await?;
    match missed {
        Some(start) => Ok(start),
        None => prepare(hub, outgoing).await.map(Start::Repaint),
    }
}

/// The missed output, if it can be sent.
fn missed(hub: &Arc<Hub>, since: u64) -> Result<Option<Start>, ReadError> {
    let mut follower = hub.terminal.execution().follow(since)?;
    if follower.cursor() != since || hub.terminal.execution().reader()?.cursor_end()? < since {
        return Ok(None);
    }
    let (mut bytes, mut size) = (Vec::new(), None);
    while let Some(entry) = follower.try_next()? {
        match entry.event {
            Event::Output { bytes: more, .. } => bytes.extend(more),
            // Bytes before and after a resize belong to different sizes.
            Event::Size { size: new, .. } if bytes.is_empty() => size = Some(new),
            Event::Size { .. } | Event::Gap { .. } => return Ok(None),
            // Read again by the follower of the viewer.
            Event::Ended(_) => break,
            _ => {}
        }
        if bytes.len() > MAX_RESUME_BYTES {
            return Ok(None);
        }
    }
    if may_contain_query(&bytes) {
        return Ok(None);
    }
    let follower = Box::new(hub.terminal.execution().follow(since + bytes.len() as u64)?);
    let size = size.unwrap_or_else(|| hub.terminal.size());
    Ok(Some(Start::Resume { missed: bytes, from: since, size, follower }))
}
