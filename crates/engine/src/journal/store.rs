//! The slots of journals: claimed, retired, reused.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, Stat, fstat, mkdirat, openat};
use rustix::io::Errno;

use super::error::{ClaimError, JournalError};
use super::files::{list, open_segment, write_all_at};
use super::format::{
    HEADER_BYTES, Header, Layout, MAX_SPEC_BYTES, MIN_JOURNAL_BYTES, Position, RANGE_AT, RECORD_HEAD_BYTES,
    Range, Salt, Slot, kind,
};
use super::free::{FreeSlots, OpenSlot, Opened, Opening, Retiring, Trimmed, Trimming};
use super::inspect::{Inspection, JournalSummary, inspect};
use super::reader::JournalReader;
use super::record::{RecordHead, Seal, now_nanos};
use super::record_scanner::RecordScanner;
use super::usage::blocks;
use super::writer::{JournalWriter, NewJournal, NewJournalKey};
use crate::id::random;

/// Maximum size of the records of a command without output and leftovers, after the first.
const SILENT_RECORDS: u64 = 512;

/// A slot with a journal: everything that is needed to write and to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct JournalSlot {
    /// The slot.
    pub(crate) slot: Slot,
    /// The salt of this use of it.
    pub(crate) salt: Salt,
}

/// The directory of journals. It has one owner at a time, protected by the lock of the state directory.
#[derive(Debug)]
pub(crate) struct JournalStore {
    dir: Arc<OwnedFd>,
    free: FreeSlots,
    /// Slots whose files could not be read when this was opened, or are of another version.
    unread: HashSet<Slot>,
}

impl JournalStore {
    /// Opens the directory, creates it if necessary, and finds the journals in it.
    ///
    /// Ignores files that are not named like slots, are not regular files, or are of another version. A slot with a
    /// damaged header or first record is reused. An error if this process has no descriptor or memory to read them.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<JournalSummary>), JournalError> {
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
        // The first gap: another program may have created a file with the highest number.
        let taken = (0..).zip(slots.keys()).take_while(|(number, slot)| *number == slot.0);
        let next = taken.last().map_or(0, |(number, _)| number.saturating_add(1));
        let free = FreeSlots::new(Arc::clone(&dir), next);
        let mut store = Self { free, dir, unread: HashSet::new() };
        let mut found = Vec::new();
        for (slot, mut overflow) in slots {
            overflow.sort_unstable();
            match inspect(&store.dir, slot, &overflow) {
                Ok(Inspection::Journal(journal)) => found.push(journal),
                Ok(Inspection::Usable) => store.free.found(slot, &overflow),
                // It says nothing about this file: all others would count as missing, too.
                Err(JournalError::Io(e)) if is_exhausted(&e) => return Err(e.into()),
                // Another file, or one that cannot be read now: not touched.
                Ok(Inspection::Foreign) | Err(_) => drop(store.unread.insert(slot)),
            }
        }
        store.free.sort();
        Ok((store, found))
    }

    /// Whether a slot has a file that was not read. What belongs to it must not count as left over.
    pub(crate) fn is_unread(&self, slot: Slot) -> bool {
        self.unread.contains(&slot)
    }

    /// The directory, for readers and writers.
    pub(crate) fn dir(&self) -> &Arc<OwnedFd> {
        &self.dir
    }

    /// A reader of a journal, at cursor 0.
    pub(crate) fn reader(&self, journal: JournalSlot) -> Result<JournalReader, JournalError> {
        JournalReader::open(Arc::clone(&self.dir), journal.slot, &journal.salt)
    }

    /// Creates a journal. The payload of its first record, [`kind::SPEC`], is not part of the bound. Also returns the
    /// open journal for its writer.
    pub(crate) fn claim(&mut self, spec: &[u8], bound: u64) -> Result<(JournalSlot, NewJournal), ClaimError> {
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
        let first_record = (RECORD_HEAD_BYTES + spec.len()) as u64;
        let header = header.encode(Some(range));
        loop {
            let open = self.free.take()?;
            if let Err(errno) = write_all_at(open.file.as_fd(), &[&header, &head, spec], 0) {
                self.free.give_back(&open);
                return Err(errno.into());
            }
            let stat = fstat(&open.file).ok();
            if stat.is_some_and(|stat| stat.st_nlink == 0) && !open.is_new {
                // Its file was removed or replaced.
                continue;
            }
            // Without an inode number the file is not recognised, and the journal is opened by its slot.
            let key = NewJournalKey { salt, bound, first_record, inode: stat.map_or(0, |stat| stat.st_ino) };
            let silent_bytes = stat.and_then(|stat| silent_bytes(&stat, HEADER_BYTES as u64 + first_record));
            let claimed = JournalSlot { slot: open.slot, salt };
            return Ok((claimed, NewJournal { file: open.file, key, silent_bytes }));
        }
    }

    /// Begins to free the disk space of free slots: the returned work is done without holding the store.
    pub(crate) fn begin_trimming(&mut self) -> Trimming {
        self.free.begin_trimming()
    }

    /// Takes back what could not be freed. Returns whether any space was.
    pub(crate) fn end_trimming(&mut self, trimmed: Trimmed) -> bool {
        self.free.end_trimming(trimmed)
    }

    /// The slots to open in advance without holding the store, if it is time for that.
    pub(crate) fn begin_opening(&mut self) -> Option<Opening> {
        self.free.begin_opening()
    }

    /// Adds opened slots.
    pub(crate) fn end_opening(&mut self, opened: Opened) {
        self.free.end_opening(opened);
    }

    /// Begins to retire a journal: the returned work is done without holding the store. `None` if it is already in
    /// progress.
    pub(crate) fn begin_retiring(&mut self, journal: JournalSlot) -> Option<Retiring> {
        self.free.begin_retiring(journal)
    }

    /// Takes the slot back, if it could be retired.
    pub(crate) fn end_retiring(&mut self, journal: JournalSlot, retired: Option<OpenSlot>) {
        self.free.end_retiring(journal, retired);
    }

    /// Retires a journal in one call.
    #[cfg(test)]
    pub(crate) fn retire(&mut self, journal: JournalSlot) -> Result<(), JournalError> {
        let retiring = self.begin_retiring(journal).ok_or(JournalError::Retired)?;
        let (retired, result) = match retiring.work(&journal) {
            Ok(retired) => (retired, Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.end_retiring(journal, retired);
        result
    }

    /// Writes the end of an execution whose writer is dead, after its last valid record.
    pub(crate) fn append_end_of_lost(&self, journal: JournalSlot, ended: &[u8]) -> Result<(), JournalError> {
        self.append_end(journal, ended, Position::default())
    }

    /// Records an end that the writer, which has closed the journal, could not record. Output up to this position
    /// that is not in the journal is a gap.
    pub(crate) fn append_end(
        &self,
        journal: JournalSlot,
        ended: &[u8],
        position: Position,
    ) -> Result<(), JournalError> {
        // Opened again by salt: the slot may have been reused.
        drop(RecordScanner::open(Arc::clone(&self.dir), journal.slot, Some(&journal.salt))?);
        let mut writer = JournalWriter::open(&self.dir, journal.slot)?;
        writer.cut_tail()?;
        writer.skip_to(position);
        Ok(writer.append_event(kind::ENDED, ended)?)
    }
}

/// Whether this process has no descriptor or no memory left.
fn is_exhausted(error: &std::io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

/// The size on disk of a journal that gets no output, if the block that contains its first record also has room for
/// the others. Determined now, because it is cheaper than for a file that is not open.
fn silent_bytes(stat: &Stat, end: u64) -> Option<u64> {
    let block = u64::try_from(stat.st_blksize).ok().filter(|block| *block > 0)?;
    (end + SILENT_RECORDS <= end.next_multiple_of(block)).then(|| blocks(stat))
}

/// Writes the range of a journal again, which a power failure has lost.
pub(super) fn repair_range(dir: &Arc<OwnedFd>, slot: Slot, salt: &Salt, range: Range) -> Result<(), Errno> {
    let file = open_segment(dir.as_fd(), slot, 0, OFlags::RDWR)?;
    write_all_at(file.as_fd(), &[&range.encode(salt)], RANGE_AT as u64)
}

/// The size of a file; 0 if unknown.
pub(super) fn size(file: impl AsFd) -> u64 {
    fstat(file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
}
