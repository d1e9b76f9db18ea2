//! Reading ahead.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::files::read_at;

/// The first read of a segment: all of a small journal.
const FIRST_READ: usize = 8 << 10;
/// The largest read.
const LARGEST_READ: usize = 256 << 10;
/// The most memory of a tape that has read all there is.
const LARGEST_RESTING: usize = 64 << 10;

/// Bytes of a segment that have been read ahead.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    /// What has been read; longer than what is valid of it.
    pub(super) bytes: Vec<u8>,
    /// The file offset of the first byte.
    start: u64,
    /// How many bytes are valid.
    len: usize,
    /// How much to read next.
    next_read: usize,
}

impl Buffer {
    /// Forgets what has been read.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Gives memory back, for the many that only wait.
    pub(super) fn rest(&mut self) {
        if self.bytes.len() > LARGEST_RESTING {
            *self = Self::default();
        }
    }

    /// The index of the byte at a file offset, if that many bytes from there on are there.
    pub(super) fn index(&self, offset: u64, bytes: usize) -> Option<usize> {
        let index = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        (index.checked_add(bytes)? <= self.len).then_some(index)
    }

    /// Reads on so that `need` bytes from an offset on are there; their index, `None` if the file ends before.
    pub(super) fn fill(
        &mut self,
        file: BorrowedFd<'_>,
        offset: u64,
        need: usize,
    ) -> Result<Option<usize>, Errno> {
        if let Some(index) = self.index(offset, need) {
            return Ok(Some(index));
        }
        let kept = self.index(offset, 1).map_or(0, |index| {
            self.bytes.copy_within(index..self.len, 0);
            self.len - index
        });
        let size = self.next_read.clamp(FIRST_READ, LARGEST_READ).max(need);
        if self.bytes.len() > LARGEST_READ && size <= LARGEST_READ {
            self.bytes.truncate(size.max(kept));
            self.bytes.shrink_to_fit();
        }
        if self.bytes.len() < size {
            self.bytes.resize(size, 0);
        }
        let room = &mut self.bytes[kept..];
        let asked = room.len();
        let got = read_at(file, room, offset + kept as u64, need.saturating_sub(kept))?;
        if got == asked {
            self.next_read = size.saturating_mul(4);
        }
        (self.start, self.len) = (offset, kept + got);
        Ok((self.len >= need).then_some(0))
    }
}
