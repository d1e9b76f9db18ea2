//! Follows the output of a running terminal while no viewer does: answers queries, and wakes waits.

use std::sync::Arc;

use sandcrab_engine::{Event, Execution, ReadError};

use super::hub::{Hub, until_possible};
use super::query::QueryScanner;
use crate::stopping::Stopping;

/// Number of bytes after which other tasks of the thread get their turn.
const YIELD_BYTES: usize = 256 << 10;

/// The end of the output so far.
pub(super) fn end_of(execution: &Execution) -> Result<u64, ReadError> {
    execution.reader()?.cursor_end()
}

/// Follows the output from this cursor, or from the end of the output so far, until the terminal ends or the server stops.
pub(super) async fn track(hub: Arc<Hub>, from: Option<u64>, stopping: Stopping) {
    tokio::select! {
        _ = follow(&hub, from) => {}
        () = stopping.begun() => {}
    }
}

/// Ends with the terminal, or when its record can no longer be read.
async fn follow(hub: &Arc<Hub>, from: Option<u64>) -> Result<(), ReadError> {
    let execution = hub.terminal.execution();
    let mut unyielded = 0;
    let mut cursor = match from {
        Some(from) => from,
        None => {
            let end = until_possible(|| std::future::ready(end_of(execution))).await?;
            hub.answer_from(end);
            end
        }
    };
    loop {
        while !hub.needs_tracking() {
            let changed = hub.changed.notified();
            if !hub.needs_tracking() {
                tokio::select! {
                    () = changed => {}
                    // Viewers read the rest themselves.
                    _ = execution.wait() => return Ok(()),
                }
            }
        }
        // What viewers have received meanwhile needs no answer.
        cursor = cursor.max(hub.answered());
        let mut follower = until_possible(|| std::future::ready(execution.follow(cursor))).await?;
        let mut scanner = QueryScanner::default();
        loop {
            let changed = hub.changed.notified();
            // A viewer may have come while the last entry was handled.
            if !hub.needs_tracking() {
                break;
            }
            let entry = match follower.try_next() {
                Ok(None) => {
                    follower.release();
                    tokio::select! {
                        entry = follower.next() => entry,
                        () = changed => continue,
                    }
                }
                entry => entry,
            };
            let entry = match entry {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(()),
                Err(ReadError::OutOf(_)) => {
                    tokio::time::sleep(crate::summary::READ_RETRY_INTERVAL).await;
                    continue;
                }
                Err(e) => return Err(e),
            };
            match entry.event {
                Event::Output { bytes, .. } => {
                    if scanner.scan(&bytes) && entry.cursor > hub.answered() {
                        // Feeding it produces the answer.
                        drop(until_possible(|| hub.screen()).await?);
                    }
                    hub.set_answered(entry.cursor);
                    unyielded += bytes.len();
                    if unyielded >= YIELD_BYTES {
                        unyielded = 0;
                        tokio::task::yield_now().await;
                    }
                }
                Event::Gap { .. } => scanner = QueryScanner::default(),
                Event::Ended(_) => {
                    hub.saw(entry.cursor);
                    return Ok(());
                }
                _ => {}
            }
            hub.saw(entry.cursor);
        }
        cursor = follower.cursor();
    }
}
