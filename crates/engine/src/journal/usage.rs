//! The size of a journal on disk.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Stat, fstatvfs, statat};
use rustix::io::Errno;

use super::files::segment_name;
use super::format::Slot;
use super::record_scanner::RecordScanner;
use super::store::JournalSlot;

/// A smaller first segment has no successors, because it would have been filled first. The smallest segment has 64
/// KiB, and at most the size of the largest event stays unused.
const ONE_SEGMENT_BYTES: u64 = 40 << 10;
/// Below this number of free bytes or files, a disk is nearly full: free slots are released instead of kept.
const LOW_DISK_BYTES: u64 = 16 << 20;
const LOW_DISK_FILES: u64 = 64;
/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// Size of a journal's blocks on disk, in bytes. This is not the number of bytes written, which may be many times its
/// bound. 0 if the journal does not exist.
pub(crate) fn disk_bytes(dir: &Arc<OwnedFd>, journal: JournalSlot) -> u64 {
    let Ok(first) = stat_segment(dir, journal.slot, 0) else {
        return 0;
    };
    let own = blocks(&first);
    if u64::try_from(first.st_size).unwrap_or(0) < ONE_SEGMENT_BYTES {
        return own;
    }
    let range = RecordScanner::open(Arc::clone(dir), journal.slot, Some(&journal.salt))
        .and_then(|mut scanner| Ok((scanner.layout().head_segments, scanner.range()?)));
    let Ok((head, range)) = range else { return own };
    let segments = (1..head.min(range.newest + 1)).chain(range.oldest..range.newest + 1);
    let further = segments.filter_map(|segment| stat_segment(dir, journal.slot, segment).ok());
    own + further.map(|stat| blocks(&stat)).sum::<u64>()
}

/// Time of the last write to a journal; `None` if it does not exist.
pub(crate) fn modified_at(dir: &Arc<OwnedFd>, journal: JournalSlot) -> Option<SystemTime> {
    let mut stat = stat_segment(dir, journal.slot, 0).ok()?;
    if u64::try_from(stat.st_size).unwrap_or(0) >= ONE_SEGMENT_BYTES {
        let scanner = RecordScanner::open(Arc::clone(dir), journal.slot, Some(&journal.salt));
        let newest = scanner.and_then(|mut scanner| scanner.range()).map_or(0, |range| range.newest);
        stat = stat_segment(dir, journal.slot, newest).unwrap_or(stat);
    }
    let seconds = Duration::from_secs(u64::try_from(stat.st_mtime).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(seconds + Duration::from_nanos(stat.st_mtime_nsec))
}

/// Whether the disk of a directory is nearly full.
pub(crate) fn is_short_of_space(dir: &OwnedFd) -> bool {
    fstatvfs(dir).is_ok_and(|disk| {
        // A file system without a fixed number of files reports 0 of 0.
        disk.f_bavail.saturating_mul(disk.f_frsize) < LOW_DISK_BYTES
            || (disk.f_files > 0 && disk.f_favail < LOW_DISK_FILES)
    })
}

/// The `stat` of a segment; an error if it is not a regular file.
pub(super) fn stat_segment(dir: &OwnedFd, slot: Slot, segment: u64) -> Result<Stat, Errno> {
    let stat = statat(dir.as_fd(), segment_name(slot, segment), AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(stat),
        _ => Err(Errno::INVAL),
    }
}

/// The blocks of a file, in bytes.
pub(super) fn blocks(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0) * BLOCK_BYTES
}
