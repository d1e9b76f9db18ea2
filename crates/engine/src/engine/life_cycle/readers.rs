//! Readers that a command waits for: see [`Overflow::Wait`](crate::Overflow).
//!
//! One reader counts at a time. The stream of the command itself counts before streams that only look on, and of two
//! streams of one kind the later one: a client that connects again takes over from its old connection, which may be dead
//! without anyone having noticed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Tracked;
use crate::engine::link::lock;
use crate::protocol::Request;

/// What a reader is to the command that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderRole {
    /// It is the stream of the client that started the command.
    Command,
    /// It looks on. Where it goes on from a cursor that a stalled reader has passed, it is taken for the same client.
    Viewer,
}

/// The attached readers of one execution: the last one counts.
#[derive(Debug, Default)]
pub(super) struct Readers {
    next: u64,
    attached: Vec<Attached>,
    /// What the supervisor was told last.
    told: Option<u64>,
}

/// One of them.
#[derive(Debug)]
struct Attached {
    key: u64,
    role: ReaderRole,
    /// How far it has read.
    position: Arc<AtomicU64>,
    /// How far its supervisor may know that it has read.
    reported: u64,
}

impl Readers {
    /// Adds a reader that goes on from a position of a journal that ends at `end`; `None` if it does not count.
    fn attach(&mut self, role: ReaderRole, from: u64, end: u64) -> Option<(u64, Arc<AtomicU64>)> {
        let mut role = role;
        if let Some(counted) = self.attached.last()
            && (counted.role, role) == (ReaderRole::Command, ReaderRole::Viewer)
        {
            let passed = counted.position.load(Ordering::Relaxed);
            let resumes = from > 0 && from <= passed && passed < end;
            if !resumes {
                return None;
            }
            role = ReaderRole::Command;
        }
        if role == ReaderRole::Command {
            // Those before it never count again: a dead connection must not hold the command up later.
            self.attached.clear();
        }
        let (key, position) = (self.next, Arc::new(AtomicU64::new(from)));
        self.next += 1;
        self.attached.push(Attached { key, role, position: Arc::clone(&position), reported: from });
        Some((key, position))
    }

    /// How far the reader that counts has read, as it has reported it.
    fn counted(&self) -> Option<u64> {
        self.attached.last().map(|counted| counted.reported)
    }
}

/// A reader that its execution waits for, until this is dropped.
#[derive(Debug)]
pub(in crate::engine) struct AttachedReader {
    tracked: Arc<Tracked>,
    key: u64,
    position: Arc<AtomicU64>,
    /// What was reported last.
    reported: u64,
    /// How far the reader goes before its supervisor is told.
    step: u64,
}

impl AttachedReader {
    /// Attaches a reader that goes on from a position of a journal that ends at `end`; `None` if it does not count. The
    /// supervisor is told each time that it has read so much, and when it has read everything.
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

    /// The reader has read all there is, up to this position.
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
    /// Tells the supervisor how far the reader that counts has read, if that is new.
    fn report_readers(&self, readers: &mut Readers) {
        let counted = readers.counted();
        let link = lock(&self.link).clone();
        if let Some(link) = link.filter(|_| counted != readers.told) {
            readers.told = counted;
            // A supervisor that is gone is noticed by its link.
            let _ = link.tell(&Request::Reader { slot: self.slot(), read: counted });
        }
    }

    /// Tells a supervisor that is connected anew, which knows of no readers.
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
        // Those that look on do not: from the start, beyond what the first has read, or while it has read all.
        for (from, end) in [(0, 100), (71, 100), (50, 70)] {
            assert!(readers.attach(Viewer, from, end).is_none(), "{from} of {end}");
        }
        assert!(readers.attach(Command, 60, 100).is_some());
        assert_eq!((readers.counted(), readers.attached.len()), (Some(60), 1));
        // The same client by another route: it has what the stalled one has passed.
        assert!(readers.attach(Viewer, 55, 100).is_some());
        assert_eq!((readers.counted(), readers.attached.len()), (Some(55), 1));
        assert!(readers.attach(Viewer, 0, 100).is_none());
    }

    #[test]
    fn of_those_that_look_on_the_latest_counts_until_it_has_gone() {
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
