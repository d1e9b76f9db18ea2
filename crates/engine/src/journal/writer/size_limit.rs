//! Keeps a journal within its size limit: adds segments, drops old ones, and uses the reserve on a full disk.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{JournalWriter, Segment};
use crate::journal::error::is_full;
use crate::journal::files::{open_segment, unlink_segment, write_all_at};
use crate::journal::format::{HEADER_BYTES, Header, RANGE_AT, RECORD_HEAD_BYTES, REPEAT, Range, SPARE_AT};
use crate::journal::record::{RecordHead, Seal};

/// Maximum number of segments that one append may drop on a full disk: another writer may fill the space at once, and
/// the whole history must not be lost.
const MOST_DROPS: usize = 2;
/// The fraction of the tail that is kept behind a reader's position: it may be in transit, and be requested again.
const KEPT_BEHIND_READER: u64 = 3;

impl JournalWriter {
    /// Tries an operation; on a full disk, drops old segments and retries.
    pub(super) fn making_room<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut drops = 0;
        loop {
            match attempt(self) {
                Err(errno) if is_full(errno) && drops < MOST_DROPS && self.drop_oldest() => {
                    drops += 1;
                }
                result => return result,
            }
        }
    }

    /// Number of segments besides the head.
    pub(super) fn tail_segments(&self) -> usize {
        usize::try_from((self.segment.index + 1).saturating_sub(self.oldest)).unwrap_or(0)
    }

    /// Starts a new segment, within the bound.
    pub(super) fn roll(&mut self) -> Result<(), Errno> {
        // Protected output is kept, even if that is one segment too many: callers that append output check before.
        while !self.is_within_bound() && self.drop_oldest() {}
        let index = self.segment.index + 1;
        // An existing file with this name is from an earlier use of the slot.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let file = open_segment(self.dir.as_fd(), self.slot, index, flags)?;
        let seal = Seal::new(&self.salt, index);
        let offset = self.write_start(&file, index, seal).inspect_err(|_| {
            // No reader has seen it. A failure to remove it has no effect: the next attempt uses the same name.
            let _ = unlink_segment(self.dir.as_fd(), self.slot, index);
        })?;
        // Readers may have found it by its header, so it is the newest one even if this fails: they look for a
        // successor of a segment that is nearly full.
        let _ = self.write_range(index);
        let limit = self.layout.segment_bytes;
        self.segment = Segment { index, file: Some(file), seal, offset, limit };
        if index >= self.layout.head_segments {
            self.recorded.push_back(0);
            self.starts.push_back(self.position.total());
        }
        Ok(())
    }

    /// Writes the beginning of a new segment: the end and the size if they exist, and then the header, with which
    /// readers find the segment. Returns the offset of the first record.
    fn write_start(&self, file: &OwnedFd, index: u64, seal: Seal) -> Result<u64, Errno> {
        let mut offset = HEADER_BYTES as u64;
        for sticky in &self.sticky {
            let head = RecordHead { flags: REPEAT, ..sticky.head };
            let bytes = head.encode(seal, offset, &sticky.payload);
            write_all_at(file.as_fd(), &[&bytes, &sticky.payload], offset)?;
            offset += (bytes.len() + sticky.payload.len()) as u64;
        }
        let header = Header { salt: self.salt, bound: self.bound, segment: index, start: self.position };
        write_all_at(file.as_fd(), &[&header.encode(None)], 0)?;
        Ok(offset)
    }

    pub(super) fn write_range(&self, newest: u64) -> Result<(), Errno> {
        let range = Range { oldest: self.oldest, newest };
        write_all_at(self.first.as_fd(), &[&range.encode(&self.salt)], RANGE_AT as u64)
    }

    /// Whether one more segment is allowed.
    pub(super) fn is_within_bound(&self) -> bool {
        let head = (self.segment.index + 1).min(self.layout.head_segments);
        head + (self.tail_segments() as u64) < self.layout.max_segments
    }

    /// Whether the oldest segment may be dropped: it is neither in the head nor the current one, nor kept for a
    /// reader.
    pub(super) fn may_drop_oldest(&self) -> bool {
        if self.oldest >= self.segment.index {
            return false;
        }
        // The oldest segment ends where the next one starts.
        let is_covered = |covered: u64| self.starts.get(1).is_some_and(|end| *end <= covered);
        if !self.covered.is_none_or(is_covered) {
            return false;
        }
        let Some(floor) = self.floor else { return true };
        let tail = self.layout.max_segments.saturating_sub(self.layout.head_segments);
        let on_its_way = usize::try_from(tail / KEPT_BEHIND_READER).unwrap_or(usize::MAX);
        self.starts.get(1 + on_its_way).is_some_and(|start| *start <= floor)
    }

    /// Drops the oldest segment, if allowed.
    pub(super) fn drop_oldest(&mut self) -> bool {
        if !self.may_drop_oldest() {
            return false;
        }
        self.starts.pop_front();
        self.oldest += 1;
        // Updated first, so that a reader that misses the file finds the reason. If the update fails, readers list
        // the directory.
        let _ = self.write_range(self.segment.index);
        // A file that cannot be removed only occupies disk space.
        let _ = unlink_segment(self.dir.as_fd(), self.slot, self.oldest - 1);
        self.dropped += self.recorded.pop_front().unwrap_or(0);
        true
    }

    /// Writes a record into the reserve of the first segment's header. Returns whether it fits and succeeded. The
    /// space was allocated when the slot was claimed, so this works on a full disk.
    pub(super) fn write_to_spare(&mut self, head: RecordHead, payload: &[u8]) -> bool {
        debug_assert!(self.spare >= SPARE_AT, "the spare room begins there");
        let end = self.spare + RECORD_HEAD_BYTES + payload.len();
        if end > HEADER_BYTES {
            return false;
        }
        let offset = self.spare as u64;
        let bytes = head.encode(Seal::new(&self.salt, 0), offset, payload);
        let written = write_all_at(self.first.as_fd(), &[&bytes, payload], offset).is_ok();
        if written {
            self.spare = end;
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Item, JournalStore, MIN_JOURNAL_BYTES, Stream};

    /// Readers find the new segment without the range, so it must not be given up.
    #[test]
    fn a_segment_whose_range_cannot_be_written_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = JournalStore::open(dir.path()).unwrap();
        let (claimed, journal) = store.claim(b"spec", MIN_JOURNAL_BYTES).unwrap();
        let mut writer = JournalWriter::begin(store.dir(), claimed.slot, journal);
        let mut reader = store.reader(claimed).unwrap();
        let mut read = |writer: &JournalWriter| {
            let mut bytes = 0;
            while let Some(entry) = reader.next().unwrap() {
                if let Item::Output { bytes: more, .. } = entry.item {
                    bytes += more.len();
                }
            }
            assert_eq!(reader.cursor(), writer.position());
            bytes
        };
        writer.append_output(Stream::Stdout, &[1; 61_500]).unwrap();
        assert_eq!(read(&writer), 61_500);
        let first = open_segment(store.dir().as_fd(), claimed.slot, 0, OFlags::RDONLY).unwrap();
        let first = std::mem::replace(&mut writer.first, first);
        writer.append_output(Stream::Stdout, &[2; 60_000]).unwrap();
        assert_eq!(read(&writer), 60_000);
        writer.append_output(Stream::Stdout, &[3; 30_000]).unwrap();
        assert_eq!(read(&writer), 30_000);
        writer.first = first;
        writer.append_output(Stream::Stdout, &[4; 90_000]).unwrap();
        assert_eq!(read(&writer), 90_000);
    }
}
