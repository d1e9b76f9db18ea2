//! Readers that a command waits for: see [`Overflow::Wait`](crate::Overflow).

use std::collections::HashMap;
use std::sync::Arc;

use super::Tracked;
use crate::engine::link::lock;
use crate::protocol::Request;

/// The attached readers of one execution, and how far each has read.
#[derive(Debug, Default)]
pub(super) struct Readers {
    next: u64,
    read: HashMap<u64, u64>,
    /// What the supervisor was told last.
    told: Option<u64>,
}

/// A reader that its execution waits for, until this is dropped.
#[derive(Debug)]
pub(in crate::engine) struct AttachedReader {
    tracked: Arc<Tracked>,
    key: u64,
    /// What was reported last.
    reported: u64,
    /// How far the reader goes before its supervisor is told.
    step: u64,
}

impl AttachedReader {
    /// Attaches a reader that goes on from a position, if its execution waits for readers. The supervisor is told each time
    /// that it has read so much, and when it has read everything.
    pub(in crate::engine) fn new(tracked: &Arc<Tracked>, position: u64, step: u64) -> Option<Self> {
        if !tracked.fixed.waits_for_reader {
            return None;
        }
        let mut readers = lock(&tracked.readers);
        let key = readers.next;
        readers.next += 1;
        readers.read.insert(key, position);
        tracked.report_readers(&mut readers);
        drop(readers);
        Some(Self { tracked: Arc::clone(tracked), key, reported: position, step })
    }

    /// The reader has read up to a position.
    pub(in crate::engine) fn advance(&mut self, position: u64) {
        if position >= self.reported + self.step {
            self.report(position);
        }
    }

    /// The reader has read all there is, up to this position.
    pub(in crate::engine) fn caught_up(&mut self, position: u64) {
        if position > self.reported {
            self.report(position);
        }
    }

    fn report(&mut self, position: u64) {
        self.reported = position;
        let mut readers = lock(&self.tracked.readers);
        readers.read.insert(self.key, position);
        self.tracked.report_readers(&mut readers);
    }
}

impl Drop for AttachedReader {
    fn drop(&mut self) {
        let mut readers = lock(&self.tracked.readers);
        readers.read.remove(&self.key);
        self.tracked.report_readers(&mut readers);
    }
}

impl Tracked {
    /// Tells the supervisor how far the slowest reader has read, if that is new.
    fn report_readers(&self, readers: &mut Readers) {
        let slowest = readers.read.values().min().copied();
        let link = lock(&self.link).clone();
        if let Some(link) = link.filter(|_| slowest != readers.told) {
            readers.told = slowest;
            // A supervisor that is gone is noticed by its link.
            let _ = link.tell(&Request::Reader { slot: self.slot(), read: slowest });
        }
    }

    /// Tells a supervisor that is connected anew, which knows of no readers.
    pub(in crate::engine) fn report_readers_again(&self) {
        let mut readers = lock(&self.readers);
        readers.told = None;
        self.report_readers(&mut readers);
    }
}
