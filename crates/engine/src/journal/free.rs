//! Free slots: kept to be used again, a few of them open already.
//!
//! Making a file, opening one and giving one back take longer than running a small command. So they are done ahead
//! or afterwards, and without holding the store: what has to be done is taken out under its lock, done, and handed
//! back in.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{OFlags, fstat, ftruncate};
use rustix::io::Errno;

use super::error::JournalError;
use super::files::{open_segment, unlink_segment, write_all_at};
use super::format::{Header, Slot};
use super::store::Claimed;
use super::tape::Tape;
use super::usage::is_short_of_space;

/// The most free slots that are kept. As many as a burst of commands has when it is removed: those beyond would be made
/// again for the next burst, and a file system takes longest to make files when it has just removed some.
const MOST_FREE_SLOTS: usize = 4096;
/// How many of them keep more than their first block, and the most bytes that those keep.
const MOST_LARGE_FREE_SLOTS: usize = 256;
const FREE_SLOT_BYTES: u64 = 64 << 10;
const SMALL_FREE_SLOT_BYTES: u64 = 4 << 10;
/// The most free slots that are kept on a disk that is nearly full, and the most bytes of each: with them a short command
/// can still be recorded.
const MOST_FREE_SLOTS_WHEN_SHORT: usize = 16;
/// How many of them are open at most; of a store with few slots one for so many.
const MOST_OPEN_SLOTS: usize = 64;
const SLOTS_FOR_ONE_OPEN: u32 = 8;
/// More are opened when no more than this part of them is left.
const LEFT_OPEN_DIVISOR: usize = 8;

/// A free slot whose file is open.
#[derive(Debug)]
pub(crate) struct OpenSlot {
    pub(super) slot: Slot,
    pub(super) file: OwnedFd,
    /// The size it has, to go back to.
    pub(super) bytes: u64,
    pub(super) is_new: bool,
}

impl OpenSlot {
    /// Leaves at most so many bytes of it; whether it had more.
    fn truncate(&mut self, bytes: u64) -> bool {
        let had_more = self.bytes > bytes && ftruncate(&self.file, bytes).is_ok();
        self.bytes = self.bytes.min(if had_more { bytes } else { u64::MAX });
        had_more
    }
}

/// The slots that can be used.
#[derive(Debug)]
pub(super) struct FreeSlots {
    dir: Arc<OwnedFd>,
    /// The one to take next at the end.
    closed: Vec<Slot>,
    open: Vec<OpenSlot>,
    /// No slot has a lower number that is not in use, as far as is known.
    next: u32,
    /// Those that are being given back: by one at a time, or a slot could become free twice.
    retiring: HashSet<Claimed>,
    /// More are being opened.
    opening: bool,
    /// Slots come back, so that none are made ahead any more: as many are free in turn as are needed.
    recycling: bool,
}

impl FreeSlots {
    /// None so far, and new ones from this number on.
    pub(super) fn new(dir: Arc<OwnedFd>, next: u32) -> Self {
        let retiring = HashSet::new();
        Self { dir, closed: Vec::new(), open: Vec::new(), next, retiring, opening: false, recycling: false }
    }

    /// Makes a slot that was found ready to be used. What fails here is tried again at the next start.
    pub(super) fn found(&mut self, slot: Slot, overflow: &[u64]) {
        let work = Retiring { dir: Arc::clone(&self.dir), slot, keep: self.room() };
        let file = open_segment(self.dir.as_fd(), slot, 0, OFlags::RDWR).ok();
        let cleared = work.clear(file, overflow);
        self.closed.extend(cleared.map(|open| open.slot));
    }

    /// The lowest numbers are taken first.
    pub(super) fn sort(&mut self) {
        self.closed.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// How many bytes one more free slot may keep; `None` if it is not kept.
    fn room(&self) -> Option<u64> {
        let count = self.closed.len() + self.open.len() + self.retiring.len();
        let is_short = is_short_of_space(&self.dir);
        let most = if is_short { MOST_FREE_SLOTS_WHEN_SHORT } else { MOST_FREE_SLOTS };
        let is_large = !is_short && count < MOST_LARGE_FREE_SLOTS;
        (count < most).then_some(if is_large { FREE_SLOT_BYTES } else { SMALL_FREE_SLOT_BYTES })
    }

    /// How many are to be open. A store that is hardly used makes no files ahead.
    fn wanted_open(&self) -> usize {
        usize::try_from(self.next / SLOTS_FOR_ONE_OPEN).map_or(MOST_OPEN_SLOTS, |n| n.min(MOST_OPEN_SLOTS))
    }

    /// A slot to use: one that is open, else one that is free, else a new one.
    pub(super) fn take(&mut self) -> Result<OpenSlot, Errno> {
        while let Some(open) = self.open.pop() {
            // Unless somebody has removed or replaced its file.
            if fstat(&open.file).is_ok_and(|stat| stat.st_nlink > 0) {
                return Ok(open);
            }
        }
        while let Some(slot) = self.closed.pop() {
            match open_free(&self.dir, slot) {
                Ok(Some(open)) => return Ok(open),
                Ok(None) => {}
                Err(errno) => {
                    self.closed.push(slot);
                    return Err(errno);
                }
            }
        }
        loop {
            let slot = Slot(self.next);
            match open_segment(self.dir.as_fd(), slot, 0, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL) {
                Err(Errno::EXIST) if self.next < u32::MAX => self.next += 1,
                result => {
                    let file = result?;
                    self.next = self.next.saturating_add(1);
                    return Ok(OpenSlot { slot, file, bytes: 0, is_new: true });
                }
            }
        }
    }

    /// Takes back a slot that could not be written to.
    pub(super) fn give_back(&mut self, open: &OpenSlot) {
        if open.is_new {
            // If that fails too, the next start finds a slot without a valid first record.
            let _ = unlink_segment(self.dir.as_fd(), open.slot, 0);
        } else {
            // These need no room. If they fail all the same, no later claim trusts what is there.
            let _ = ftruncate(&open.file, open.bytes);
            let _ = write_all_at(open.file.as_fd(), &[&Header::free()], 0);
            self.closed.push(open.slot);
        }
    }

    /// Gives back what free slots have on disk; whether there was something to give back.
    pub(super) fn trim(&mut self) -> bool {
        let mut trimmed = false;
        while self.closed.len() + self.open.len() > MOST_FREE_SLOTS_WHEN_SHORT {
            let Some(slot) = self.closed.pop().or_else(|| self.open.pop().map(|open| open.slot)) else {
                break;
            };
            trimmed |= unlink_segment(self.dir.as_fd(), slot, 0).is_ok();
        }
        for slot in &self.closed {
            if let Ok(Some(mut open)) = open_free(&self.dir, *slot) {
                trimmed |= open.truncate(SMALL_FREE_SLOT_BYTES);
            }
        }
        for open in &mut self.open {
            trimmed |= open.truncate(SMALL_FREE_SLOT_BYTES);
        }
        trimmed
    }

    /// What is to be opened ahead of time, if it is time for that.
    pub(super) fn begin_opening(&mut self) -> Option<Opening> {
        let wanted = self.wanted_open();
        if self.opening || wanted == 0 || self.open.len() > wanted / LEFT_OPEN_DIVISOR {
            return None;
        }
        let wanted = wanted - self.open.len();
        let free = self.closed.split_off(self.closed.len().saturating_sub(wanted));
        let new = if self.recycling { 0 } else { u32::try_from(wanted - free.len()).unwrap_or(0) };
        if free.is_empty() && new == 0 {
            return None;
        }
        self.opening = true;
        let first = self.next;
        self.next = self.next.saturating_add(new);
        Some(Opening { dir: Arc::clone(&self.dir), free, new: first..self.next })
    }

    pub(super) fn end_opening(&mut self, opened: Opened) {
        self.opening = false;
        self.closed.extend(opened.closed);
        // Those taken first stay first.
        self.open.splice(0..0, opened.open);
    }

    pub(super) fn begin_retiring(&mut self, journal: Claimed) -> Option<Retiring> {
        let keep = self.room();
        let (dir, slot) = (Arc::clone(&self.dir), journal.slot);
        self.retiring.insert(journal).then_some(Retiring { dir, slot, keep })
    }

    /// The slot is free, unless something went wrong; its file is still open if it is to be kept.
    pub(super) fn end_retiring(&mut self, journal: Claimed, retired: Option<OpenSlot>) {
        self.retiring.remove(&journal);
        self.recycling = true;
        match retired {
            Some(open) if self.open.len() < self.wanted_open() => self.open.push(open),
            Some(open) => self.closed.push(open.slot),
            None => {}
        }
    }
}

/// Opens a free slot; `None` if somebody has removed or replaced its file.
fn open_free(dir: &OwnedFd, slot: Slot) -> Result<Option<OpenSlot>, Errno> {
    match open_segment(dir.as_fd(), slot, 0, OFlags::RDWR) {
        Err(Errno::NOENT | Errno::LOOP | Errno::ISDIR | Errno::NXIO) => Ok(None),
        result => {
            let file = result?;
            let bytes = super::store::size(&file);
            Ok(Some(OpenSlot { slot, file, bytes, is_new: false }))
        }
    }
}

/// Slots to be opened ahead of time.
#[derive(Debug)]
pub(crate) struct Opening {
    dir: Arc<OwnedFd>,
    free: Vec<Slot>,
    new: std::ops::Range<u32>,
}

/// Slots that have been opened, and those that could not be.
#[derive(Debug)]
pub(crate) struct Opened {
    open: Vec<OpenSlot>,
    closed: Vec<Slot>,
}

impl Opening {
    /// Opens them, and makes the new ones.
    pub(crate) fn work(self) -> Opened {
        let mut opened = Opened { open: Vec::new(), closed: Vec::new() };
        for slot in self.free {
            // A command that waits for this core does not wait for all of it.
            std::thread::yield_now();
            match open_free(&self.dir, slot) {
                Ok(open) => opened.open.extend(open),
                Err(_) => opened.closed.push(slot),
            }
        }
        for slot in self.new.map(Slot) {
            std::thread::yield_now();
            // One that cannot be made now is not missed: the next claim makes its own, or says why it cannot.
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            let Ok(file) = open_segment(self.dir.as_fd(), slot, 0, flags) else { continue };
            // The disk has room for its first block, then.
            let header = Header::free();
            if write_all_at(file.as_fd(), &[&header], 0).is_ok() {
                opened.open.push(OpenSlot { slot, file, bytes: header.len() as u64, is_new: false });
            } else {
                let _ = unlink_segment(self.dir.as_fd(), slot, 0);
            }
        }
        opened
    }
}

/// A slot to be given back. Its writer must be gone.
#[derive(Debug)]
pub(crate) struct Retiring {
    dir: Arc<OwnedFd>,
    slot: Slot,
    /// How many bytes it keeps; `None` if it is removed.
    keep: Option<u64>,
}

impl Retiring {
    /// Gives up a journal. Readers that are still at it notice.
    pub(crate) fn work(self, journal: &Claimed) -> Result<Option<OpenSlot>, JournalError> {
        let mut tape = Tape::open_to_retire(Arc::clone(&self.dir), self.slot, &journal.salt)?;
        let range = tape.range_as_opened()?;
        let head = 1..tape.layout().head_segments.min(range.newest + 1);
        // One more than is known: a writer may have died between making it and saying so.
        let tail = range.oldest..range.newest.saturating_add(2);
        let file = tape.into_first();
        // A disk that is full may have no room to overwrite what is there. Its file can be removed all the same.
        let file = write_all_at(file.as_fd(), &[&Header::free()], 0).is_ok().then_some(file);
        let overflow: Vec<u64> = if range.newest == 0 { Vec::new() } else { head.chain(tail).collect() };
        Ok(self.clear(file, &overflow))
    }

    /// Leaves of a slot that holds no journal no more than is kept.
    fn clear(self, file: Option<OwnedFd>, overflow: &[u64]) -> Option<OpenSlot> {
        let Self { dir, slot, keep } = self;
        for segment in overflow {
            let _ = unlink_segment(dir.as_fd(), slot, *segment);
        }
        let (Some(file), Some(keep)) = (file, keep) else {
            let _ = unlink_segment(dir.as_fd(), slot, 0);
            return None;
        };
        let bytes = super::store::size(&file);
        let mut open = OpenSlot { slot, file, bytes, is_new: false };
        open.truncate(keep);
        Some(open)
    }
}
