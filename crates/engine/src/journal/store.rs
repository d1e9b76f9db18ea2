//! The slots that journals live in: claimed, retired, used again.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, fstat, ftruncate, mkdirat, openat};
use rustix::io::Errno;

use super::error::{ClaimError, JournalError};
use super::files::{list, open_segment, unlink_segment, write_all_at};
use super::format::{
    HEADER_BYTES, Header, Layout, MAX_SPEC_BYTES, MIN_JOURNAL_BYTES, Position, RANGE_AT, Range, Salt, Slot,
    kind,
};
use super::found::{Found, Inspection, inspect};
use super::reader::JournalReader;
use super::record::{RecordHead, Seal, now_nanos};
use super::tape::Tape;
use super::writer::JournalWriter;
use crate::id::random;

/// The most free slots that are kept.
const MOST_FREE_SLOTS: usize = 256;
/// The most bytes that a free slot keeps.
const FREE_SLOT_BYTES: u64 = 64 << 10;

/// A slot that has become a journal: all that is needed to write and to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claimed {
    /// The slot.
    pub(crate) slot: Slot,
    /// The salt of this use of it.
    pub(crate) salt: Salt,
}

/// The directory of journals. It has one owner at a time; the lock is the state directory's.
#[derive(Debug)]
pub(crate) struct JournalStore {
    dir: Arc<OwnedFd>,
    /// Slots that can be used, the one to take next at the end.
    free: Vec<Slot>,
    /// No slot has a lower number that is not in use, as far as is known.
    next: u32,
}

impl JournalStore {
    /// Opens the directory, makes it if need be, and finds what is in it.
    ///
    /// Files that are not named like slots, or are not plain files, or are of another version are left alone; a slot
    /// with a damaged header or first record is used again.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<Found>), JournalError> {
        match mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let dir = openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let dir = Arc::new(dir);
        let mut slots: BTreeMap<Slot, Vec<u64>> = BTreeMap::new();
        for (slot, segment) in list(dir.as_fd())? {
            let overflow = slots.entry(slot).or_default();
            if segment > 0 {
                overflow.push(segment);
            }
        }
        // The first gap: somebody may have put a file with the highest number there.
        let taken = (0..).zip(slots.keys()).take_while(|(number, slot)| *number == slot.0);
        let next = taken.last().map_or(0, |(number, _)| number.saturating_add(1));
        let mut store = Self { dir, free: Vec::new(), next };
        let mut found = Vec::new();
        for (slot, mut overflow) in slots {
            overflow.sort_unstable();
            match inspect(&store.dir, slot, &overflow) {
                Ok(Inspection::Journal(journal)) => found.push(journal),
                Ok(Inspection::Usable) => store.take_back(slot, &overflow),
                // Something else, or something that cannot be read now: not ours to touch.
                Ok(Inspection::Foreign) | Err(_) => {}
            }
        }
        // The lowest numbers are taken first.
        store.free.reverse();
        Ok((store, found))
    }

    /// The directory, for readers and writers.
    #[cfg(test)]
    pub(crate) fn dir(&self) -> &Arc<OwnedFd> {
        &self.dir
    }

    /// A reader of a journal, at cursor 0.
    pub(crate) fn reader(&self, journal: Claimed) -> Result<JournalReader, JournalError> {
        JournalReader::open(Arc::clone(&self.dir), journal.slot, &journal.salt)
    }

    /// Makes a journal for a new execution. The payload of its first record, [`kind::SPEC`], says what
    /// runs; it is not part of the bound.
    pub(crate) fn claim(&mut self, spec: &[u8], bound: u64) -> Result<Claimed, ClaimError> {
        if bound < MIN_JOURNAL_BYTES {
            return Err(ClaimError::BoundTooSmall(bound));
        }
        if spec.len() > MAX_SPEC_BYTES {
            return Err(ClaimError::SpecTooLarge(spec.len()));
        }
        let salt = Salt(random());
        let header = Header { salt, bound, segment: 0, start: Position::default() };
        let range = Range { oldest: Layout::new(bound).head_segments, newest: 0 };
        let head = RecordHead {
            len: spec.len(),
            kind: kind::SPEC,
            flags: 0,
            nanos: now_nanos(),
            at: Position::default(),
        };
        let head = head.encode(Seal::new(&salt, 0), HEADER_BYTES as u64, spec);
        let (slot, file, is_new) = self.take_slot()?;
        let size = size(&file);
        match write_all_at(file.as_fd(), &[&header.encode(Some(range)), &head, spec], 0) {
            Ok(()) => Ok(Claimed { slot, salt }),
            Err(errno) => {
                if is_new {
                    // If that fails too, the next start finds a slot without a valid first record.
                    let _ = unlink_segment(self.dir.as_fd(), slot, 0);
                } else {
                    // These need no room. If they fail all the same, no later claim trusts what is there.
                    let _ = ftruncate(&file, size);
                    let _ = write_all_at(file.as_fd(), &[&Header::free()], 0);
                    self.free.push(slot);
                }
                Err(errno.into())
            }
        }
    }

    /// A slot, its file, and whether it is new.
    fn take_slot(&mut self) -> Result<(Slot, OwnedFd, bool), Errno> {
        let dir = self.dir.as_fd();
        while let Some(slot) = self.free.pop() {
            match open_segment(dir, slot, 0, OFlags::RDWR) {
                // Somebody has removed or replaced it.
                Err(Errno::NOENT | Errno::LOOP | Errno::ISDIR | Errno::NXIO) => {}
                result => {
                    if result.is_err() {
                        self.free.push(slot);
                    }
                    return Ok((slot, result?, false));
                }
            }
        }
        loop {
            let slot = Slot(self.next);
            match open_segment(dir, slot, 0, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL) {
                Err(Errno::EXIST) if self.next < u32::MAX => self.next += 1,
                result => {
                    let file = result?;
                    self.next = self.next.saturating_add(1);
                    return Ok((slot, file, true));
                }
            }
        }
    }

    /// Gives up a journal. Its writer must be gone. Readers that are still at it notice.
    pub(crate) fn retire(&mut self, journal: Claimed) -> Result<(), JournalError> {
        let Claimed { slot, salt } = journal;
        let mut tape = Tape::open(Arc::clone(&self.dir), slot, Some(&salt))?;
        let range = tape.range()?;
        let head = 1..tape.layout().head_segments.min(range.newest + 1);
        // One more than is known: a writer may have died between making it and saying so.
        let tail = range.oldest..range.newest.saturating_add(2);
        let file = open_segment(self.dir.as_fd(), slot, 0, OFlags::RDWR)?;
        write_all_at(file.as_fd(), &[&Header::free()], 0)?;
        let overflow: Vec<u64> = if range.newest == 0 { Vec::new() } else { head.chain(tail).collect() };
        self.take_back(slot, &overflow);
        Ok(())
    }

    /// Makes a slot that holds no journal ready to be used. What fails here is tried again at the next start.
    fn take_back(&mut self, slot: Slot, overflow: &[u64]) {
        let dir = self.dir.as_fd();
        for segment in overflow {
            let _ = unlink_segment(dir, slot, *segment);
        }
        if self.free.len() >= MOST_FREE_SLOTS {
            let _ = unlink_segment(dir, slot, 0);
            return;
        }
        if let Ok(file) = open_segment(dir, slot, 0, OFlags::RDWR)
            && size(&file) > FREE_SLOT_BYTES
        {
            let _ = ftruncate(&file, FREE_SLOT_BYTES);
        }
        self.free.push(slot);
    }

    /// Writes the end of an execution whose writer is gone, behind its last valid record.
    pub(crate) fn append_end_of_lost(&self, journal: Claimed, ended: &[u8]) -> Result<(), JournalError> {
        // Opened once more by salt: the slot may have been taken over.
        drop(Tape::open(Arc::clone(&self.dir), journal.slot, Some(&journal.salt))?);
        let mut writer = JournalWriter::open(self.dir.as_fd(), journal.slot)?;
        writer.cut_tail()?;
        Ok(writer.append_event(kind::ENDED, ended)?)
    }
}

/// Says again which segments a journal has, where a power cut has lost it.
pub(super) fn repair_range(dir: &Arc<OwnedFd>, slot: Slot, salt: &Salt, range: Range) -> Result<(), Errno> {
    let file = open_segment(dir.as_fd(), slot, 0, OFlags::RDWR)?;
    write_all_at(file.as_fd(), &[&range.encode(salt)], RANGE_AT as u64)
}

/// The size of a file; 0 if it cannot be told.
pub(super) fn size(file: impl AsFd) -> u64 {
    fstat(file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
}
