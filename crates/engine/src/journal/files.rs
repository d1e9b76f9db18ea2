//! Names of segments, and I/O at offsets.

use std::ffi::CStr;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, OFlags, unlinkat};
use rustix::io::{Errno, pread, pwritev};

use super::format::{HEADER_BYTES, Header, Salt, Slot};
use crate::trusted::open_own;

/// The file of a segment.
pub(super) fn segment_name(slot: Slot, segment: u64) -> String {
    if segment == 0 { slot.to_string() } else { format!("{slot}.{segment}") }
}

/// The slot and segment of a file name, if it is valid.
pub(super) fn parse_name(name: &CStr) -> Option<(Slot, u64)> {
    let name = name.to_str().ok()?;
    let (slot, segment) = name.split_once('.').map_or((name, "0"), |parts| parts);
    let (slot, segment) = (Slot(slot.parse().ok()?), segment.parse().ok()?);
    (segment_name(slot, segment) == name).then_some((slot, segment))
}

/// Opens a segment, if it belongs to this user.
pub(super) fn open_segment(
    dir: BorrowedFd<'_>,
    slot: Slot,
    segment: u64,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let name = segment_name(slot, segment);
    retry(|| open_own(dir, &name, flags))
}

/// Removes a segment's file, if it exists.
pub(super) fn unlink_segment(dir: BorrowedFd<'_>, slot: Slot, segment: u64) -> Result<(), Errno> {
    match unlinkat(dir, segment_name(slot, segment), AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        result => result,
    }
}

/// Writes all parts at an offset, with one system call if possible.
pub(super) fn write_all_at(file: BorrowedFd<'_>, parts: &[&[u8]], offset: u64) -> Result<(), Errno> {
    let mut slices = [IoSlice::new(&[]); 4];
    debug_assert!(parts.len() <= slices.len(), "no caller has more parts");
    for (slice, part) in slices.iter_mut().zip(parts) {
        *slice = IoSlice::new(part);
    }
    let mut left = &mut slices[..parts.len()];
    let mut offset = offset;
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match retry(|| pwritev(file, left, offset))? {
            0 => return Err(Errno::NOSPC),
            written => {
                offset += written as u64;
                IoSlice::advance_slices(&mut left, written);
            }
        }
    }
    Ok(())
}

/// Reads from an offset until `want` bytes are read, the buffer is full or the file ends. Returns the number of
/// bytes. Requests the size of the buffer.
pub(super) fn read_at(
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
    want: usize,
) -> Result<usize, Errno> {
    let mut got = 0;
    while got < want.min(buffer.len()) {
        match retry(|| pread(file, &mut buffer[got..], offset + got as u64))? {
            0 => break,
            read => got += read,
        }
    }
    Ok(got)
}

/// All files in the directory with the name of a segment.
pub(super) fn list(dir: BorrowedFd<'_>) -> Result<Vec<(Slot, u64)>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        names.extend(parse_name(entry?.file_name()));
    }
    Ok(names)
}

/// Whether a segment exists and belongs to this use of a slot.
pub(super) fn belongs(dir: BorrowedFd<'_>, slot: Slot, segment: u64, salt: &Salt) -> bool {
    let Ok(file) = open_segment(dir, slot, segment, OFlags::RDONLY) else {
        return false;
    };
    let mut block = [0; HEADER_BYTES];
    let got = read_at(file.as_fd(), &mut block, 0, HEADER_BYTES).unwrap_or(0);
    Header::decode(&block[..got]).is_ok_and(|header| header.salt == *salt && header.segment == segment)
}

/// The segments that belong to this use of a slot, in order. Reads the whole directory.
pub(super) fn list_segments(dir: BorrowedFd<'_>, slot: Slot, salt: &Salt) -> Result<Vec<u64>, Errno> {
    let mut segments: Vec<u64> = list(dir)?
        .into_iter()
        .filter(|name| name.0 == slot && belongs(dir, slot, name.1, salt))
        .map(|name| name.1)
        .collect();
    segments.sort_unstable();
    Ok(segments)
}

/// Repeats a system call that was interrupted by a signal.
pub(super) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}
