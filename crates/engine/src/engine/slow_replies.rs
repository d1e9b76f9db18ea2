//! Slow replies: a command may have stopped the supervisor that should reply.
//!
//! One task checks all pending replies once per second, and only while there are any. A timer per reply would be set
//! and cancelled with every command, and setting a timer wakes the runtime.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::link::lock;
use crate::supervisor::zygote::continue_stopped;

const PERIOD: Duration = Duration::from_secs(1);

/// The pending replies.
#[derive(Debug, Default)]
pub(super) struct SlowReplies {
    state: Mutex<State>,
    begin: Notify,
}

#[derive(Debug, Default)]
struct State {
    awaited: HashMap<u64, Awaited>,
    next: u64,
    watched: bool,
}

#[derive(Debug)]
struct Awaited {
    supervisor: u32,
    /// Number of checks that found it pending.
    looks: u32,
}

/// Registers a pending reply until it is dropped.
#[derive(Debug)]
pub(super) struct PendingReply<'a> {
    slow_replies: &'a SlowReplies,
    key: u64,
}

impl SlowReplies {
    /// Registers a pending reply of the supervisor with this process id.
    pub(super) fn wait_for(&self, supervisor: u32) -> PendingReply<'_> {
        let mut state = lock(&self.state);
        let key = state.next;
        state.next += 1;
        state.awaited.insert(key, Awaited { supervisor, looks: 0 });
        if !std::mem::replace(&mut state.watched, true) {
            self.begin.notify_one();
        }
        PendingReply { slow_replies: self, key }
    }

    /// The task that checks pending replies.
    pub(super) async fn watch(self: Arc<Self>) {
        loop {
            self.begin.notified().await;
            while let Some(late) = self.look() {
                continue_stopped(&late);
                tokio::time::sleep(PERIOD).await;
            }
        }
    }

    /// The supervisors with late replies, each at increasing intervals; `None` without pending replies.
    fn look(&self) -> Option<Vec<u32>> {
        let mut state = lock(&self.state);
        if state.awaited.is_empty() {
            state.watched = false;
            return None;
        }
        let late = state.awaited.values_mut().filter_map(|awaited| {
            awaited.looks += 1;
            let periods = awaited.looks - 1;
            (periods.is_power_of_two() || (periods > 0 && periods % 64 == 0)).then_some(awaited.supervisor)
        });
        Some(late.collect())
    }
}

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        lock(&self.slow_replies.state).awaited.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_replies_are_checked_periodically() {
        let slow_replies = SlowReplies::default();
        assert_eq!(slow_replies.look(), None);
        let first = slow_replies.wait_for(7);
        let seen: Vec<_> = (0..70).filter(|_| slow_replies.look().unwrap() == [7]).collect();
        assert_eq!(seen, [1, 2, 4, 8, 16, 32, 64]);
        let second = slow_replies.wait_for(8);
        drop(first);
        assert_eq!((slow_replies.look(), slow_replies.look()), (Some(vec![]), Some(vec![8])));
        drop(second);
        assert_eq!(slow_replies.look(), None);
        assert!(!lock(&slow_replies.state).watched);
        drop(slow_replies.wait_for(9));
        assert!(lock(&slow_replies.state).watched);
    }
}
