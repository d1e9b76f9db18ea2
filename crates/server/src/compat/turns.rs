//! [`SessionLocks`]: runs one foreground command of a session at a time.
//!
//! The engine has a queue for each session, but starts the next command as soon as the shell is restored. In
//! this mode the next command must wait until it is known whether the shell has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sandcrab_engine::{Execution, SessionId};
use tokio::sync::OwnedMutexGuard;

use crate::app::App;

/// Number of turns in memory above which unused ones are removed.
const MAX_IDLE_TURNS: usize = 1_024;

/// Turns by session.
#[derive(Debug, Default)]
pub(super) struct SessionLocks(Mutex<HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>>);

/// The right to use a session, held until dropped.
#[derive(Debug)]
pub(super) struct SessionLock(#[expect(dead_code, reason = "held, not used")] OwnedMutexGuard<()>);

impl SessionLocks {
    /// Waits for the session's turn, in the order of the calls.
    pub(super) async fn wait(&self, id: &SessionId) -> SessionLock {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if turns.len() >= MAX_IDLE_TURNS && !turns.contains_key(id) {
                turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            }
            Arc::clone(turns.entry(id.clone()).or_default())
        };
        SessionLock(turn.lock_owned().await)
    }
}

impl SessionLock {
    /// Keeps the turn until a command has ended, even if its client disconnects.
    pub(super) fn keep_until_end(self, app: &App, execution: &Execution) {
        let (execution, stopping) = (execution.clone(), app.stopping.clone());
        app.tasks.spawn(async move {
            tokio::select! {
                end = execution.wait() => drop(end),
                // After this, nothing new starts.
                () = stopping.begun() => {}
            }
            drop(self);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn idle_turns_are_forgotten_and_used_ones_are_not() {
        let turns = SessionLocks::default();
        let held: SessionId = "held".parse().unwrap();
        let turn = turns.wait(&held).await;
        for number in 0..2 * MAX_IDLE_TURNS {
            drop(turns.wait(&format!("s{number}").parse().unwrap()).await);
        }
        let known = turns.0.lock().unwrap();
        assert!(known.len() <= MAX_IDLE_TURNS, "{}", known.len());
        assert!(known[&held].try_lock().is_err());
        drop((known, turn));
    }
}
