//! Unified diffs with a bound.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffTag, capture_diff_slices_deadline, group_diff_ops};

/// Maximum size of the diff of one file.
pub const MAX_DIFF_BYTES: usize = 256 << 10;

/// Maximum number of lines of a file, before and after. A longer one has no diff: the comparison needs about 50 bytes for each.
pub const MAX_DIFF_LINES: usize = 100_000;

/// Time after which the search for the shortest diff ends with a longer one.
const DIFF_TIMEOUT: Duration = Duration::from_millis(200);

/// Lines of context around a change.
const CONTEXT_LINES: usize = 3;

/// The unified diff of a file, and whether it is incomplete. It is cut at the end of a line.
pub(super) fn unified(path: &Path, old: &[u8], new: &[u8], max_bytes: usize) -> (String, bool) {
    let line_breaks = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
    if max_bytes == 0 || line_breaks(old).max(line_breaks(new)) > MAX_DIFF_LINES {
        return (String::new(), true);
    }
    let mut text = BoundedBuffer { bytes: Vec::new(), left: max_bytes };
    let name = path.to_string_lossy();
    let name = name.trim_start_matches('/');
    // A carriage return ends no line.
    let lines = |text| -> Vec<&[u8]> { <[u8]>::split_inclusive(text, |byte| *byte == b'\n').collect() };
    let is_truncated = write(&mut text, name, &lines(old), &lines(new)).is_err();
    let mut bytes = text.bytes;
    if is_truncated {
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
    }
    (String::from_utf8_lossy(&bytes).into_owned(), is_truncated)
}

/// Writes a diff in the unified format.
fn write(to: &mut impl Write, name: &str, old: &[&[u8]], new: &[&[u8]]) -> io::Result<()> {
    let deadline = Some(Instant::now() + DIFF_TIMEOUT);
    let operations = capture_diff_slices_deadline(Algorithm::Myers, old, new, deadline);
    let hunks = group_diff_ops(operations, CONTEXT_LINES);
    if !hunks.is_empty() {
        write!(to, "--- a/{name}\n+++ b/{name}\n")?;
    }
    for hunk in hunks {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let before = first.old_range().start..last.old_range().end;
        let after = first.new_range().start..last.new_range().end;
        writeln!(to, "@@ -{} +{} @@", shown(&before), shown(&after))?;
        for operation in &hunk {
            let (removed, added) = (&old[operation.old_range()], &new[operation.new_range()]);
            if operation.tag() == DiffTag::Equal {
                write_lines(to, b' ', removed)?;
            } else {
                write_lines(to, b'-', removed)?;
                write_lines(to, b'+', added)?;
            }
        }
    }
    Ok(())
}

fn write_lines(to: &mut impl Write, sign: u8, lines: &[&[u8]]) -> io::Result<()> {
    for line in lines {
        to.write_all(&[sign])?;
        to.write_all(line)?;
        if !line.ends_with(b"\n") {
            to.write_all(b"\n\\ No newline at end of file\n")?;
        }
    }
    Ok(())
}

/// The lines of a hunk, as `START,COUNT`. An empty range has the number of the line before it.
fn shown(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        count => format!("{},{count}", range.start + 1),
    }
}

/// Fails when it is full.
struct BoundedBuffer {
    bytes: Vec<u8>,
    left: usize,
}

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.left);
        self.bytes.extend_from_slice(&bytes[..taken]);
        self.left -= taken;
        if taken < bytes.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
