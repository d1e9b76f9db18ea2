//! Free slots, which are kept for reuse, a few of them open.
//!
//! Creating, opening and releasing a file take longer than running a small command. So they are done in advance or
//! afterwards, and without holding the lock of the store: the work is taken out under the lock, done, and its result
//! handed back.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{OFlags, ftruncate};
use rustix::io::Errno;

use super::error::JournalError;
use super::files::{open_segment, unlink_segment, write_all_at};
use super::format::{HEADER_BYTES, Header, Slot};
use super::record_scanner::RecordScanner;
use super::store::JournalSlot;
use super::usage::is_short_of_space;

/// Maximum number of free slots. This is the size of a burst of removed commands: files beyond it would be created
/// again for the next burst, and a file system is slowest at creating files when it has just removed some.
const MOST_FREE_SLOTS: usize = 4096;
/// Number of free slots that keep more than their first block, and the bytes that they keep.
const MOST_LARGE_FREE_SLOTS: usize = 256;
const FREE_SLOT_BYTES: u64 = 64 << 10;
const SMALL_FREE_SLOT_BYTES: u64 = 4 << 10;
/// Maximum number of free slots on a nearly full disk, and the bytes of each: with them a short command can still be
/// recorded.
const MOST_FREE_SLOTS_WHEN_SHORT: usize = 16;
/// Maximum number of open free slots; a small store has one per this many slots.
const MOST_OPEN_SLOTS: usize = 64;
const SLOTS_FOR_ONE_OPEN: u32 = 8;
/// More are opened when at most this fraction of them is left.
const LEFT_OPEN_DIVISOR: usize = 8;

/// Number of slots after which a thread that opens more yields: commands need not wait for all of them to get this core.
const OPENED_AT_ONCE: usize = 4;

/// A free slot whose file is open.
#[derive(Debug)]
pub(crate) struct OpenSlot {
    pub(super) slot: Slot,
    pub(super) file: OwnedFd,
    /// Its size, restored when it is given back.
    pub(super) bytes: u64,
    pub(super) is_new: bool,
}

impl OpenSlot {
    /// Truncates it to at most this many bytes. Returns whether it was larger.
    fn truncate(&mut self, bytes: u64) -> bool {
        let had_more = self.bytes > bytes && ftruncate(&self.file, bytes).is_ok();
        self.bytes = self.bytes.min(if had_more { bytes } else { u64::MAX });
        had_more
    }
}

/// The free slots.
#[derive(Debug)]
pub(super) struct FreeSlots {
    dir: Arc<OwnedFd>,
    /// The next one to take is last.
    closed: Vec<Slot>,
    open: Vec<OpenSlot>,
    /// All slots with a lower number are in use, as far as known.
    next: u32,
    /// Slots that are being released: by one task at a time, or a slot could become free twice.
    retiring: HashSet<JournalSlot>,
    /// Whether more are being opened.
    opening: bool,
    /// Whether slots are being released, so that no new ones are created in advance.
    recycling: bool,
}

impl FreeSlots {
    /// Creates an empty set; new slots start at this number.
    pub(super) fn new(dir: Arc<OwnedFd>, next: u32) -> Self {
        let retiring = HashSet::new();
        Self { dir, closed: Vec::new(), open: Vec::new(), next, retiring, opening: false, recycling: false }
    }

    /// Adds a free slot that was found. A failure here is retried at the next start.
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

    /// Number of bytes that one more free slot may keep; `None` if it is not kept.
    fn room(&self) -> Option<u64> {
        let count = self.closed.len() + self.open.len() + self.retiring.len();
        let is_short = is_short_of_space(&self.dir);
        let most = if is_short { MOST_FREE_SLOTS_WHEN_SHORT } else { MOST_FREE_SLOTS };
        let is_large = !is_short && count < MOST_LARGE_FREE_SLOTS;
        (count < most).then_some(if is_large { FREE_SLOT_BYTES } else { SMALL_FREE_SLOT_BYTES })
    }

    /// Number of slots to keep open. A store that is hardly used creates no files in advance.
    fn wanted_open(&self) -> usize {
        usize::try_from(self.next / SLOTS_FOR_ONE_OPEN).map_or(MOST_OPEN_SLOTS, |n| n.min(MOST_OPEN_SLOTS))
    }

    /// Takes a slot: an open one, whose file may have been removed or replaced, else a free one, else a new one.
    pub(super) fn take(&mut self) -> Result<OpenSlot, Errno> {
        if let Some(open) = self.open.pop() {
            return Ok(open);
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
            // If this fails too, the next start finds a slot without a valid first record.
            let _ = unlink_segment(self.dir.as_fd(), open.slot, 0);
        } else {
            // These need no space. If they fail nevertheless, no later claim trusts the content.
            let _ = ftruncate(&open.file, open.bytes);
            let _ = write_all_at(open.file.as_fd(), &[&Header::free()], 0);
            self.closed.push(open.slot);
        }
    }

    /// Takes out the slots that a full disk does not keep. The few others are truncated at once, because the next
    /// claim may take them.
    pub(super) fn begin_trimming(&mut self) -> Trimming {
        let excess = (self.closed.len() + self.open.len()).saturating_sub(MOST_FREE_SLOTS_WHEN_SHORT);
        let from_closed = excess.min(self.closed.len());
        let closed = self.closed.split_off(self.closed.len() - from_closed);
        let open = self.open.split_off(self.open.len() - (excess - from_closed));
        let mut has_freed = false;
        for slot in &self.closed {
            if let Ok(Some(mut open)) = open_free(&self.dir, *slot) {
                has_freed |= open.truncate(SMALL_FREE_SLOT_BYTES);
            }
        }
        for open in &mut self.open {
            has_freed |= open.truncate(SMALL_FREE_SLOT_BYTES);
        }
        Trimming { dir: Arc::clone(&self.dir), closed, open, has_freed }
    }

    /// Adds the slots whose files could not be removed. Returns whether any disk space was freed.
    pub(super) fn end_trimming(&mut self, trimmed: Trimmed) -> bool {
        self.closed.extend(trimmed.kept);
        trimmed.has_freed
    }

    /// The slots to open in advance, if it is time for that.
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
        // Those opened first stay first.
        self.open.splice(0..0, opened.open);
    }

    pub(super) fn begin_retiring(&mut self, journal: JournalSlot) -> Option<Retiring> {
        let keep = self.room();
        let (dir, slot) = (Arc::clone(&self.dir), journal.slot);
        self.retiring.insert(journal).then_some(Retiring { dir, slot, keep })
    }

    /// Adds the released slot, unless releasing it failed; its file is still open if it is kept.
    pub(super) fn end_retiring(&mut self, journal: JournalSlot, retired: Option<OpenSlot>) {
        self.retiring.remove(&journal);
        self.recycling = true;
        match retired {
            Some(open) if self.open.len() < self.wanted_open() => self.open.push(open),
            Some(open) => self.closed.push(open.slot),
            None => {}
        }
    }
}

/// Opens a free slot; `None` if its file was removed or replaced.
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

/// Slots to be opened in advance.
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
    /// Opens them, and creates new ones.
    pub(crate) fn work(self) -> Opened {
        let mut opened = Opened { open: Vec::new(), closed: Vec::new() };
        let yield_sometimes = |index: usize| {
            if index.is_multiple_of(OPENED_AT_ONCE) {
                std::thread::yield_now();
            }
        };
        for (index, slot) in self.free.into_iter().enumerate() {
            yield_sometimes(index);
            match open_free(&self.dir, slot) {
                Ok(open) => opened.open.extend(open),
                Err(_) => opened.closed.push(slot),
            }
        }
        for (index, slot) in self.new.map(Slot).enumerate() {
            yield_sometimes(index);
            // A failure here has no effect: the next claim creates its own, or reports the error.
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            let Ok(file) = open_segment(self.dir.as_fd(), slot, 0, flags) else { continue };
            // Ensures that the disk has room for its first block.
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

/// Slots to be removed because the disk is full.
#[derive(Debug)]
pub(crate) struct Trimming {
    dir: Arc<OwnedFd>,
    closed: Vec<Slot>,
    open: Vec<OpenSlot>,
    has_freed: bool,
}

/// The result of removing slots.
#[derive(Debug)]
pub(crate) struct Trimmed {
    /// Those that could not be removed.
    kept: Vec<Slot>,
    has_freed: bool,
}

impl Trimming {
    /// Removes them. There may be thousands, so this is done without holding the store.
    pub(crate) fn work(self) -> Trimmed {
        let Self { dir, closed, open, mut has_freed } = self;
        // A file's space is freed when it is closed, too.
        let slots = closed.into_iter().chain(open.into_iter().map(|open| open.slot));
        let mut kept = Vec::new();
        for slot in slots {
            match unlink_segment(dir.as_fd(), slot, 0) {
                Ok(()) => has_freed = true,
                Err(Errno::NOENT) => {}
                Err(_) => kept.push(slot),
            }
        }
        Trimmed { kept, has_freed }
    }
}

/// A slot to be released. Its writer must have exited.
#[derive(Debug)]
pub(crate) struct Retiring {
    dir: Arc<OwnedFd>,
    slot: Slot,
    /// Number of bytes that it keeps; `None` if it is removed.
    keep: Option<u64>,
}

impl Retiring {
    /// Removes the content from the disk, too. Otherwise a free slot has it until the next journal overwrites it.
    pub(crate) fn wiped(self) -> Self {
        Self { keep: self.keep.map(|_| HEADER_BYTES as u64), ..self }
    }

    /// Retires a journal. Readers that still use it notice.
    pub(crate) fn work(self, journal: &JournalSlot) -> Result<Option<OpenSlot>, JournalError> {
        let mut scanner = RecordScanner::open_to_retire(Arc::clone(&self.dir), self.slot, &journal.salt)?;
        let range = scanner.range_as_opened()?;
        let head = 1..scanner.layout().head_segments.min(range.newest + 1);
        // One more than known: a writer may have died between creating it and updating the range.
        let tail = range.oldest..range.newest.saturating_add(2);
        let file = scanner.into_first();
        // A full disk may have no room to overwrite the header. The file can then still be removed.
        let file = write_all_at(file.as_fd(), &[&Header::free()], 0).is_ok().then_some(file);
        if file.is_none() {
            unlink_segment(self.dir.as_fd(), self.slot, 0)?;
        }
        let overflow: Vec<u64> = if range.newest == 0 { Vec::new() } else { head.chain(tail).collect() };
        Ok(self.clear(file, &overflow))
    }

    /// Truncates a slot without a journal to the size that is kept.
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
