//! [`ReaderGate`]: a command waits for its reader instead of dropping unread output.
//!
//! The engine reports the position of the reader that counts. While the journal is full of unread output, the
//! supervisor does not read the command's pipes, so the command blocks. A disconnected engine counts as a detached
//! reader.

use std::time::{Duration, Instant};

use crate::command::READER_GRACE;

/// The supervisor's knowledge of a command's reader.
#[derive(Debug)]
pub(crate) struct ReaderGate {
    /// Position of the attached reader that counts.
    read: u64,
    /// Time since which none is attached.
    detached: Option<Instant>,
}

impl ReaderGate {
    /// Creates it without a reader.
    pub(crate) fn new(now: Instant) -> Self {
        Self { read: 0, detached: Some(now) }
    }

    /// A reader is attached at this position.
    pub(crate) fn attach(&mut self, read: u64) {
        (self.read, self.detached) = (read, None);
    }

    /// No reader is attached any more.
    pub(crate) fn detach(&mut self, now: Instant) {
        self.detached.get_or_insert(now);
    }

    /// The position from which the journal must keep everything; `None` if it need not wait any more.
    pub(crate) fn floor(&self, now: Instant) -> Option<u64> {
        let is_waiting =
            self.detached.is_none_or(|since| now.saturating_duration_since(since) < READER_GRACE);
        is_waiting.then_some(self.read)
    }

    /// Time at which it stops waiting for a reader.
    pub(crate) fn expires_at(&self) -> Option<Instant> {
        self.detached.and_then(|since| since.checked_add(READER_GRACE + Duration::from_millis(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_only_for_an_attached_reader() {
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
