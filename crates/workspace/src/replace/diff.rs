//! Unified diffs with a bound.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use similar::TextDiff;

/// Maximum size of the diff of one file.
pub const MAX_DIFF_BYTES: usize = 256 << 10;

/// Time after which the search for the shortest diff ends with a longer one.
const DIFF_TIMEOUT: Duration = Duration::from_millis(200);

/// Lines of context around a change.
const CONTEXT_LINES: usize = 3;

/// The unified diff of a file, and whether it is incomplete. It is cut at the end of a line.
pub(super) fn unified(path: &Path, old: &[u8], new: &[u8], max_bytes: usize) -> (String, bool) {
    if max_bytes == 0 {
        return (String::new(), true);
    }
    let mut text = Bounded { bytes: Vec::new(), left: max_bytes };
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(old, new);
    let name = path.to_string_lossy();
    let name = name.trim_start_matches('/');
    let written = diff
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .header(&format!("a/{name}"), &format!("b/{name}"))
        .to_writer(&mut text);
    let is_truncated = written.is_err();
    let mut bytes = text.bytes;
    if is_truncated {
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
    }
    (String::from_utf8_lossy(&bytes).into_owned(), is_truncated)
}

/// Fails when it is full.
struct Bounded {
    bytes: Vec<u8>,
    left: usize,
}

impl Write for Bounded {
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
