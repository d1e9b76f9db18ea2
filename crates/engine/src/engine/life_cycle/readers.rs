//! Readers for which a command waits: see [`Overflow::Wait`](crate::Overflow).
//!
//! One reader counts at a time. The stream of the command itself has priority over observers, and a later stream over
//! an earlier one of the same kind: a client that reconnects replaces its old connection, which may be dead without
//! having been detected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Tracked;
use crate::engine::link::lock;
use crate::protocol::Request;

/// The role of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderRole {
    /// The stream of the client that started the command.
    Command,
    /// An observer. If it resumes from a cursor that a stalled reader has passed, it counts as the same client.
    Viewer,
}

/// The attached readers of one execution: the last one counts, and when it is gone the one before it.
#[derive(Debug, Default)]
pub(super) struct Readers {
    next: u64,
    attached: Vec<Attached>,
    /// The last position sent to the supervisor.
    told: Option<u64>,
}

/// An attached reader.
#[derive(Debug)]
struct Attached {
    key: u64,
    role: ReaderRole,
    /// Its position.
    position: Arc<AtomicU64>,
    /// The position that its supervisor may know.
    reported: u64,
}

impl Readers {
    /// Adds a reader that starts at position `from` of a journal that ends at `end`; `None` if it does not count.
    fn attach(&mut self, role: ReaderRole, from: u64, end: u64) -> Option<(u64, Arc<AtomicU64>)> {
        let (mut role, mut is_next) = (role, false);
        if let Some(counted) = self.attached.last()
            && (counted.role, role) == (ReaderRole::Command, ReaderRole::Viewer)
        {
            let passed = counted.position.load(Ordering::Relaxed);
            if from == 0 || from > passed {
                return None;
            }
            // A reader that has read everything does not lag, but may be dead: this one counts when it has gone.
            is_next = passed >= end;
            role = ReaderRole::Command;
        }
        if role == ReaderRole::Command && !is_next {
            // Earlier readers never count again: a dead connection must not block the command later.
            self.attached.clear();
        }
        let (key, position) = (self.next, Arc::new(AtomicU64::new(from)));
        self.next += 1;
        let new = Attached { key, role, position: Arc::clone(&position), reported: from };
        self.attached.insert(self.attached.len() - usize::from(is_next), new);
        Some((key, position))
    }

    /// The reported position of the reader that counts.
    fn counted(&self) -> Option<u64> {
        self.attached.last().map(|counted| counted.reported)
    }
}

/// A reader for which its execution waits, until this is dropped.
#[derive(Debug)]
pub(in crate::engine) struct AttachedReader {
    tracked: Arc<Tracked>,
    key: u64,
    position: Arc<AtomicU64>,
    /// The last reported position.
    reported: u64,
    /// Number of bytes between two reports to the supervisor.
    step: u64,
}

impl AttachedReader {
    /// Attaches a reader that starts at position `from` of a journal that ends at `end`; `None` if it does not count.
    /// Its position is sent to the supervisor after each step, and when it has read everything.
    pub(in crate::engine) fn new(
        tracked: &Arc<Tracked>,
        role: ReaderRole,
        from: u64,
        end: u64,
        step: u64,
    ) -> Option<Self> {
        let mut readers = lock(&tracked.readers);
        let (key, position) = readers.attach(role, from, end)?;
        tracked.report_readers(&mut readers);
        drop(readers);
        Some(Self { tracked: Arc::clone(tracked), key, position, reported: from, step })
    }

    /// The reader has read up to a position.
    pub(in crate::engine) fn advance(&mut self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
        if position >= self.reported + self.step {
            self.report(position);
        }
    }

    /// The reader has read everything, up to this position.
    pub(in crate::engine) fn caught_up(&mut self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
        if position > self.reported {
            self.report(position);
        }
    }

    fn report(&mut self, position: u64) {
        self.reported = position;
        let mut readers = lock(&self.tracked.readers);
        if let Some(own) = readers.attached.iter_mut().find(|reader| reader.key == self.key) {
            own.reported = position;
            self.tracked.report_readers(&mut readers);
        }
    }
}

impl Drop for AttachedReader {
    fn drop(&mut self) {
        let mut readers = lock(&self.tracked.readers);
        readers.attached.retain(|reader| reader.key != self.key);
        self.tracked.report_readers(&mut readers);
    }
}

impl Tracked {
    /// Sends the position of the reader that counts to the supervisor, if it has changed.
    fn report_readers(&self, readers: &mut Readers) {
        let counted = readers.counted();
        let link = lock(&self.link).clone();
        if let Some(link) = link.filter(|_| counted != readers.told) {
            readers.told = counted;
            // The link notices a dead supervisor.
            let _ = link.notify(&Request::Reader { slot: self.slot(), read: counted });
        }
    }

    /// Reports to a newly connected supervisor, which knows of no readers.
    pub(in crate::engine) fn report_readers_again(&self) {
        let mut readers = lock(&self.readers);
        readers.told = None;
        self.report_readers(&mut readers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ReaderRole::{Command, Viewer};

    #[test]
    fn the_commands_own_latest_stream_counts() {
        let mut readers = Readers::default();
        let (_, first) = readers.attach(Command, 0, 0).unwrap();
        first.store(70, Ordering::Relaxed);
        // Observers do not count: from the start, or beyond the position of the first.
        for (from, end) in [(0, 100), (71, 100), (0, 70)] {
            assert!(readers.attach(Viewer, from, end).is_none(), "{from} of {end}");
        }
        assert!(readers.attach(Command, 60, 100).is_some());
        assert_eq!((readers.counted(), readers.attached.len()), (Some(60), 1));
        // The same client on another route: it has what the stalled one has passed.
        assert!(readers.attach(Viewer, 55, 100).is_some());
        assert_eq!((readers.counted(), readers.attached.len()), (Some(55), 1));
        assert!(readers.attach(Viewer, 0, 100).is_none());
    }

    /// The old connection has read everything, so it is unknown whether it is alive.
    #[test]
    fn a_client_that_resumes_counts_when_its_old_connection_has_gone() {
        let mut readers = Readers::default();
        let (key, first) = readers.attach(Command, 0, 0).unwrap();
        first.store(70, Ordering::Relaxed);
        readers.attach(Viewer, 70, 70).unwrap();
        assert_eq!((readers.counted(), readers.attached.len()), (Some(0), 2));
        readers.attached.retain(|reader| reader.key != key);
        assert_eq!(readers.counted(), Some(70));
    }

    #[test]
    fn latest_observer_counts_until_it_detaches() {
        let mut readers = Readers::default();
        readers.attach(Viewer, 10, 100).unwrap();
        let (key, _) = readers.attach(Viewer, 90, 100).unwrap();
        assert_eq!(readers.counted(), Some(90));
        readers.attached.retain(|reader| reader.key != key);
        assert_eq!(readers.counted(), Some(10));
        readers.attach(Command, 0, 100).unwrap();
        assert_eq!((readers.counted(), readers.attached.len()), (Some(0), 1));
    }
}
