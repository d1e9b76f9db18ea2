//! Read-ahead buffer of a segment.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::files::read_at;

/// Size of the first read of a segment: all of a small journal.
const FIRST_READ: usize = 8 << 10;
/// Maximum size of a read.
const LARGEST_READ: usize = 256 << 10;
/// Maximum memory of a buffer after the last record was read.
const LARGEST_RESTING: usize = 64 << 10;

/// Read-ahead bytes of a segment.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    /// The bytes; only the first `len` are valid.
    pub(super) bytes: Vec<u8>,
    /// The file offset of the first byte.
    start: u64,
    /// Number of valid bytes.
    len: usize,
    /// Size of the next read.
    next_read: usize,
}

impl Buffer {
    /// Discards all bytes.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Frees memory of an idle buffer.
    pub(super) fn rest(&mut self) {
        if self.bytes.len() > LARGEST_RESTING {
            *self = Self::default();
        }
    }

    /// The index of the byte at a file offset, if this many bytes from there are in the buffer.
    pub(super) fn index(&self, offset: u64, bytes: usize) -> Option<usize> {
        let index = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        (index.checked_add(bytes)? <= self.len).then_some(index)
    }

    /// Reads until `need` bytes from an offset are in the buffer. Returns their index; `None` if the file ends
    /// before.
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
