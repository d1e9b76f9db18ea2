//! [`ReaderGate`]: a command waits for its reader instead of having unread output dropped.
//!
//! The engine says how far the attached reader that counts has read. As long as the journal is full of what it has not read, the
//! supervisor does not read the command's pipes, and the command blocks when they are full. An engine that is gone counts as
//! a reader that is gone.

use std::time::{Duration, Instant};

use crate::command::READER_GRACE;

/// A command's reader, as far as the supervisor knows it.
#[derive(Debug)]
pub(crate) struct ReaderGate {
    /// How far the attached reader that counts has read.
    read: u64,
    /// Since when none is attached.
    detached: Option<Instant>,
}

impl ReaderGate {
    /// No reader is there yet.
    pub(crate) fn new(now: Instant) -> Self {
        Self { read: 0, detached: Some(now) }
    }

    /// A reader is attached and has read so far.
    pub(crate) fn attach(&mut self, read: u64) {
        (self.read, self.detached) = (read, None);
    }

    /// No reader is attached any more.
    pub(crate) fn detach(&mut self, now: Instant) {
        self.detached.get_or_insert(now);
    }

    /// The position from which on the journal must keep everything; `None` if it need not wait any more.
    pub(crate) fn floor(&self, now: Instant) -> Option<u64> {
        let is_waiting =
            self.detached.is_none_or(|since| now.saturating_duration_since(since) < READER_GRACE);
        is_waiting.then_some(self.read)
    }

    /// When it stops waiting for a reader.
    pub(crate) fn expires_at(&self) -> Option<Instant> {
        self.detached.and_then(|since| since.checked_add(READER_GRACE + Duration::from_millis(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_an_attached_reader_and_not_for_ever_for_another() {
        let start = Instant::now();
        let later = |seconds: u64| start + Duration::from_secs(seconds);
        let mut gate = ReaderGate::new(start);
        assert_eq!((gate.floor(later(29)), gate.floor(later(30))), (Some(0), None));
        gate.attach(7);
        assert_eq!((gate.floor(later(3600)), gate.expires_at()), (Some(7), None));
        gate.detach(later(100));
        gate.detach(later(120));
        assert_eq!((gate.floor(later(129)), gate.floor(later(131))), (Some(7), None));
        assert!(gate.expires_at().is_some_and(|at| at > later(130) && gate.floor(at).is_none()));
        gate.attach(5);
        assert_eq!(gate.floor(later(200)), Some(5));
    }
}
