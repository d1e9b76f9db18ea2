//! Sparse files: where their data is.

use std::fs::File;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::error::ArchiveError;
use super::pax;
use crate::walk::Cancel;

/// Maximum number of pieces of data of a sparse file. If it has more, its smallest holes are packed as zeros.
pub const MAX_SEGMENTS: usize = 65_536;

/// A piece of data in a sparse file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// The data of a file of this size, or `None` if it has no holes.
pub(super) fn segments(file: &File, size: u64, cancel: &Cancel) -> Result<Option<Vec<Segment>>, Errno> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < size {
        if cancel.is_cancelled() {
            return Err(Errno::CANCELED);
        }
        let offset = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(offset) if offset < size => offset,
            // The rest is a hole.
            Ok(_) | Err(Errno::NXIO) => break,
            // The file system does not report holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(None),
            Err(e) => return Err(e),
        };
        let Some(end) = hole_after(file, offset)? else { break };
        let end = end.min(size);
        found.push(Segment { offset, length: end.saturating_sub(offset) });
        at = end;
        // Seldom, because it costs as much as all pieces.
        if found.len() == 2 * MAX_SEGMENTS {
            found = without_smallest_holes(&found, MAX_SEGMENTS);
        }
    }
    found = without_smallest_holes(&found, MAX_SEGMENTS);
    let is_dense = matches!(found[..], [Segment { offset: 0, length }] if length == size);
    Ok((!is_dense).then_some(found))
}

/// The first hole after an offset, or the end of the file. `None` if the file ends before the offset: a program has made it
/// shorter.
fn hole_after(file: &File, offset: u64) -> Result<Option<u64>, Errno> {
    match rustix::fs::seek(file, SeekFrom::Hole(offset)) {
        Err(Errno::NXIO) => Ok(None),
        found => found.map(Some),
    }
}

/// Joins pieces until there are at most so many. The largest holes stay.
fn without_smallest_holes(segments: &[Segment], most: usize) -> Vec<Segment> {
    let surplus = segments.len().saturating_sub(most);
    let Some(last) = surplus.checked_sub(1) else { return segments.to_vec() };
    let hole = |pair: &[Segment]| pair[1].offset - (pair[0].offset + pair[0].length);
    let mut holes: Vec<u64> = segments.windows(2).map(hole).collect();
    let threshold = *holes.select_nth_unstable(last).1;
    // Of those that are as large as the threshold, only as many as needed.
    let mut equal = surplus - holes.iter().filter(|hole| **hole < threshold).count();
    let mut joined: Vec<Segment> = Vec::with_capacity(most);
    for segment in segments {
        if let Some(before) = joined.last_mut() {
            let hole = segment.offset - (before.offset + before.length);
            let is_joined = hole < threshold || hole == threshold && equal > 0;
            equal -= usize::from(is_joined && hole == threshold);
            if is_joined {
                before.length = segment.offset + segment.length - before.offset;
                continue;
            }
        }
        joined.push(*segment);
    }
    joined
}

/// The text of a map before the data: number of segments, then offset and length of each, padded to a block.
pub(super) fn format_map(segments: &[Segment], size: u64) -> Vec<u8> {
    let end = Segment { offset: size, length: 0 };
    let ends_with_data = segments.last().is_some_and(|last| last.offset.saturating_add(last.length) == size);
    let last = (!ends_with_data).then_some(end);
    let mut text = format!("{}\n", segments.len() + usize::from(last.is_some()));
    for Segment { offset, length } in segments.iter().copied().chain(last) {
        text.extend([offset.to_string(), "\n".into(), length.to_string(), "\n".into()]);
    }
    let mut map = text.into_bytes();
    map.resize(map.len().next_multiple_of(512), 0);
    map
}

/// Reads numbers of a map, line by line, until it is complete.
#[derive(Debug, Default)]
pub(super) struct MapParser {
    line: Vec<u8>,
    numbers: Vec<u64>,
}

impl MapParser {
    /// Takes a block of 512 bytes. Returns the map when it is complete.
    pub(super) fn feed(&mut self, block: &[u8]) -> Result<Option<Vec<Segment>>, ArchiveError> {
        let invalid = || ArchiveError::Invalid("the map of a sparse file is malformed".into());
        for byte in block {
            if *byte != b'\n' {
                self.line.push(*byte);
                if self.line.len() > 20 {
                    return Err(invalid());
                }
                continue;
            }
            self.numbers.push(pax::number(&self.line).ok_or_else(invalid)?);
            self.line.clear();
            let count = usize::try_from(self.numbers[0]).unwrap_or(usize::MAX);
            // One more for the end of the file.
            if count > MAX_SEGMENTS + 1 {
                return Err(invalid());
            }
            if self.numbers.len() == 1 + 2 * count {
                let pairs = self.numbers[1..].chunks_exact(2);
                return Ok(Some(pairs.map(|pair| Segment { offset: pair[0], length: pair[1] }).collect()));
            }
        }
        Ok(None)
    }
}

/// Checks that segments are in order, within the file, and have this many bytes.
pub(super) fn check(segments: &[Segment], size: u64, stored: u64) -> Result<(), ArchiveError> {
    let invalid = || ArchiveError::Invalid("the map of a sparse file does not fit its data".into());
    let (mut end, mut sum) = (0, 0);
    for Segment { offset, length } in segments {
        if *offset < end {
            return Err(invalid());
        }
        end = offset.checked_add(*length).filter(|end| *end <= size).ok_or_else(invalid)?;
        sum += length;
    }
    if sum == stored { Ok(()) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program may make a file shorter between two seeks.
    #[test]
    fn no_hole_after_the_end_of_a_file() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        assert_eq!(hole_after(&file, 8192), Ok(None));
        assert_eq!(hole_after(&file, 0), Ok(Some(0)));
    }

    #[test]
    fn largest_holes_stay() {
        let at = |offset, length| Segment { offset, length };
        let all = [at(0, 1), at(2, 1), at(10, 1), at(12, 1), at(100, 5), at(106, 1)];
        assert_eq!(without_smallest_holes(&all, 6), all);
        assert_eq!(without_smallest_holes(&all, 3), [at(0, 3), at(10, 3), at(100, 7)]);
        assert_eq!(without_smallest_holes(&all, 4), [at(0, 3), at(10, 3), at(100, 5), at(106, 1)]);
        assert_eq!(without_smallest_holes(&all, 1), [at(0, 107)]);
    }
}
