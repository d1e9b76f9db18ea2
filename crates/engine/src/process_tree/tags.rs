//! [`Tags`]: allocates the tags of a supervisor's commands.

use std::collections::HashSet;

use rustix::process::{Pid, getpid};

use super::tag::{LAST_COMMAND, Nonce, Tag};
use super::walk::descendants;

/// Gives each command of a supervisor a [`Tag`].
///
/// A tag has room for 2²⁰ commands, and a session may run more. So numbers are reused, but never one that a live
/// process carries, or that a command has whose processes have lost it. When the numbers are exhausted, the tags of
/// everything below the supervisor are read, and the numbers found are skipped in the next round. Processes that start
/// during a round have a number of that round.
/// Number 0 is for processes that belong to no command: an idle shell, and its forks that save its state.
#[derive(Debug)]
pub(crate) struct Tags {
    nonce: Nonce,
    last: u64,
    previous: u64,
    /// The numbers of processes of earlier rounds.
    taken: HashSet<u64>,
}

impl Tags {
    /// The tags of a supervisor, which calls this and [`next_besides`](Self::next_besides) itself.
    pub(crate) fn new(nonce: Nonce) -> Self {
        Self::with_last(nonce, LAST_COMMAND)
    }

    /// With fewer numbers, for tests.
    pub(super) fn with_last(nonce: Nonce, last: u64) -> Self {
        Self { nonce, last, previous: 0, taken: HashSet::new() }
    }

    /// The tag of processes that belong to no command.
    pub(crate) fn of_no_command(&self) -> Tag {
        Tag::new(self.nonce, 0)
    }

    /// The tag of the next command. `None` if all numbers are in use: carried by processes, or held by commands.
    pub(crate) fn next_besides(&mut self, held: impl Iterator<Item = Tag>) -> Option<Tag> {
        let free = self.next_free().or_else(|| {
            self.begin_round(held);
            self.next_free()
        })?;
        self.previous = free;
        Some(Tag::new(self.nonce, free))
    }

    fn next_free(&self) -> Option<u64> {
        (self.previous + 1..=self.last).find(|number| !self.taken.contains(number))
    }

    /// The tag of the next command of a supervisor without others.
    #[cfg(test)]
    pub(super) fn next(&mut self) -> Option<Tag> {
        self.next_besides(std::iter::empty())
    }

    fn begin_round(&mut self, held: impl Iterator<Item = Tag>) {
        let carried = |pid: Pid| Tag::of(pid).filter(|tag| tag.nonce() == self.nonce);
        let carried = descendants(getpid()).into_iter().filter_map(carried);
        self.taken = carried.chain(held).map(Tag::command).collect();
        self.previous = 0;
    }
}
