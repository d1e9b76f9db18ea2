//! The content of a slot when the engine starts.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::io::Errno;

use super::error::JournalError;
use super::format::{HEADER_BYTES, REPEAT, Salt, Slot, kind};
use super::record_scanner::{Record, RecordScanner};
use super::store::repair_range;
use super::usage::{blocks, stat_segment};

/// Maximum distance between the first record and a start in a journal of several segments. The start is the first
/// record that a supervisor writes.
const START_WITHIN_BYTES: u64 = 64 << 10;

/// A journal that existed when the store was opened. Its writer may be alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalSummary {
    /// The slot.
    pub(crate) slot: Slot,
    /// The salt of this use of it.
    pub(crate) salt: Salt,
    /// The payload of [`kind::SPEC`].
    pub(crate) spec: Vec<u8>,
    /// The payload of [`kind::STARTED`].
    pub(crate) started: Option<Vec<u8>>,
    /// The payload of [`kind::ENDED`].
    pub(crate) ended: Option<Vec<u8>>,
    /// The payload of the newest [`kind::SIZE`].
    pub(crate) size: Option<Vec<u8>>,
    /// Whether there is a [`kind::CLOSED`].
    pub(crate) closed: bool,
    /// Bytes of standard output, dropped ones included.
    pub(crate) stdout_bytes: u64,
    /// Bytes of standard error, dropped ones included.
    pub(crate) stderr_bytes: u64,
    /// The blocks of its files together, in bytes.
    pub(crate) bytes_on_disk: u64,
    /// Time of the claim of the slot.
    pub(crate) claimed_at: SystemTime,
    /// Time of the start record.
    pub(crate) started_at: Option<SystemTime>,
    /// Time of the end record.
    pub(crate) ended_at: Option<SystemTime>,
}

/// The content of a slot's file.
#[derive(Debug)]
pub(super) enum Inspection {
    /// A journal.
    Journal(JournalSummary),
    /// Free, or without a valid journal.
    Usable,
    /// Another file, which is not touched.
    Foreign,
}

fn add_record(summary: &mut JournalSummary, scanner: &RecordScanner, record: &Record) {
    let head = &record.head;
    let payload = || scanner.payload(record).to_vec();
    match head.kind {
        kind::STARTED => {
            summary.started = Some(payload());
            summary.started_at = Some(head.time());
        }
        kind::ENDED => {
            summary.ended = Some(payload());
            summary.ended_at = Some(head.time());
        }
        kind::SIZE => summary.size = Some(payload()),
        kind::CLOSED => summary.closed = true,
        _ => {}
    }
    let end = head.end();
    if head.flags & REPEAT == 0 && end.total() >= summary.stdout_bytes + summary.stderr_bytes {
        (summary.stdout_bytes, summary.stderr_bytes) = (end.stdout, end.stderr);
    }
}

/// Inspects a slot. Reads only its first and its newest segment.
pub(super) fn inspect(dir: &Arc<OwnedFd>, slot: Slot, overflow: &[u64]) -> Result<Inspection, JournalError> {
    let bytes_on_disk = match stat_segment(dir, slot, 0) {
        Ok(stat) => blocks(&stat),
        Err(Errno::INVAL) => return Ok(Inspection::Foreign),
        // Further segments alone are the rest of a removal.
        Err(Errno::NOENT) => return Ok(Inspection::Usable),
        Err(errno) => return Err(errno.into()),
    };
    let mut scanner = match RecordScanner::open(Arc::clone(dir), slot, None) {
        Err(JournalError::Retired | JournalError::NotAJournal) => return Ok(Inspection::Usable),
        Err(JournalError::Version(_)) => return Ok(Inspection::Foreign),
        result => result?,
    };
    let salt = scanner.header().salt;
    let Some(spec) = scanner.record_in_segment()?.filter(|record| record.head.kind == kind::SPEC) else {
        return Ok(Inspection::Usable);
    };
    let mut summary = JournalSummary {
        slot,
        salt,
        spec: scanner.payload(&spec).to_vec(),
        started: None,
        ended: None,
        size: None,
        closed: false,
        stdout_bytes: 0,
        stderr_bytes: 0,
        bytes_on_disk,
        claimed_at: spec.head.time(),
        started_at: None,
        ended_at: None,
    };
    let range = scanner.range()?;
    let newest = newest_valid(&mut scanner, overflow, range.newest)?;
    if newest > 0 {
        // The directory was listed before the range was read, so no live writer is ahead by two. If this fails,
        // readers only miss the newest segments.
        if newest > range.newest + 1 {
            let _ = repair_range(dir, slot, &salt, scanner.range_from_directory()?);
        }
        for segment in overflow {
            summary.bytes_on_disk += stat_segment(dir, slot, *segment).map_or(0, |stat| blocks(&stat));
        }
        scanner.go_to(0)?;
        while summary.started.is_none() && scanner.offset() < start_limit(&summary) {
            let Some(record) = scanner.record_in_segment()? else {
                break;
            };
            add_record(&mut summary, &scanner, &record);
        }
        scanner.go_to(newest)?;
        let start = scanner.header().start;
        (summary.stdout_bytes, summary.stderr_bytes) = (start.stdout, start.stderr);
    }
    while let Some(record) = scanner.record_in_segment()? {
        add_record(&mut summary, &scanner, &record);
    }
    for record in scanner.spare().0 {
        add_record(&mut summary, &scanner, &record);
    }
    Ok(Inspection::Journal(summary))
}

fn start_limit(summary: &JournalSummary) -> u64 {
    (HEADER_BYTES + summary.spec.len()) as u64 + START_WITHIN_BYTES
}

/// The newest segment of the journal: as listed, or newer if the writer is alive. Does not move the scanner unless it is
/// in another segment than the first.
fn newest_valid(scanner: &mut RecordScanner, overflow: &[u64], known: u64) -> Result<u64, JournalError> {
    if overflow.is_empty() && known == 0 {
        return Ok(0);
    }
    let listed = overflow.iter().rev().copied();
    for segment in std::iter::once(known.saturating_add(1))
        .chain([known])
        .filter(|s| !overflow.contains(s))
        .chain(listed)
    {
        if segment > 0 && scanner.go_to(segment)? {
            return Ok(segment);
        }
    }
    Ok(0)
}
