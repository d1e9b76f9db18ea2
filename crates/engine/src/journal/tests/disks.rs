//! File systems: in memory, overlaid, and full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::journal::error::AppendError;
use crate::journal::{ClaimError, DEFAULT_JOURNAL_BYTES};
use crate::not_run::not_run;

/// A file system that is there for one test.
struct Mount(PathBuf);

impl Mount {
    /// Mounts, or notes that the test is not run.
    fn new(kind: &str, options: &str, path: &Path) -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "mount leaves no process behind")]
        let output =
            Command::new("mount").args(["-t", kind, "-o", options, "sandcrab-test"]).arg(path).output();
        match output {
            Ok(output) if output.status.success() => Some(Self(path.to_owned())),
            Ok(_) | Err(_) => {
                not_run("file systems cannot be mounted");
                None
            }
        }
    }
}

/// A small disk in a directory of its own.
struct Disk {
    // First, so that it is unmounted before its directory is removed.
    _mount: Mount,
    dir: tempfile::TempDir,
}

impl Disk {
    fn tiny() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        Some(Self { _mount: Mount::new("tmpfs", "size=512k", dir.path())?, dir })
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Detached, so that descriptors that a failed test left open do not keep it.
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

/// Fills what is left.
fn fill(path: &Path) {
    let mut block = vec![1; 4096];
    let mut file = fs::File::create(path).unwrap();
    while std::io::Write::write(&mut file, &block).is_ok_and(|n| n > 0) {}
    block.truncate(1);
    while std::io::Write::write(&mut file, &block).is_ok_and(|n| n > 0) {}
}

#[test]
fn in_memory() {
    match tempfile::tempdir_in("/dev/shm") {
        Ok(dir) => exercise(dir.path()),
        Err(_) => not_run("/dev/shm is not writable"),
    }
}

#[test]
fn overlaid() {
    let dir = tempfile::tempdir().unwrap();
    let part = |name: &str| {
        let path = dir.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let base = part("base");
    // An overlay cannot have another overlay as its upper layer, so it gets a disk of its own.
    let Some(_base) = Mount::new("tmpfs", "size=8m", &base) else {
        return;
    };
    let inner = |name: &str| {
        let path = base.join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let (lower, upper, work, merged) = (inner("lower"), inner("upper"), inner("work"), part("merged"));
    // A slot in the lower layer is copied up when it is written to.
    let lower_store = fresh(&lower.join("journals"));
    drop(lower_store);
    let mut store = fresh(&lower.join("below"));
    let (claimed, mut writer) = claim(&mut store);
    append(&mut writer, Stream::Stdout, 500);
    let options =
        format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    let Some(_merged) = Mount::new("overlay", &options, &merged) else {
        return;
    };
    exercise(&merged.join("journals"));
    let (mut store, found) = JournalStore::open(&merged.join("below")).unwrap();
    assert_eq!(found.len(), 1);
    store.append_end_of_lost(claimed, b"lost").unwrap();
    let read = drain(&mut store.reader(claimed).unwrap());
    assert_eq!((read.bytes, read.events.len()), (500, 2));
    store.retire(claimed).unwrap();
    let (claimed, _) = claim(&mut store);
    assert_eq!(drain(&mut store.reader(claimed).unwrap()).bytes, 0);
}

#[test]
fn a_full_disk_drops_output_but_not_the_end() {
    let Some(dir) = Disk::tiny() else {
        return;
    };
    let mut store = fresh(&dir.path().join("journals"));
    let claimed = store.claim(b"spec", DEFAULT_JOURNAL_BYTES).unwrap().0;
    let mut writer = JournalWriter::open(store.dir(), claimed.slot).unwrap();
    let mut follower = store.reader(claimed).unwrap();
    append(&mut writer, Stream::Stdout, 100_000);
    fill(&dir.path().join("ballast"));
    let before = writer.position();
    // What fits into the last page still goes in; then nothing does.
    let failed = |writer: &mut JournalWriter| {
        let bytes = bytes_at(Stream::Stderr, writer.position(), 5000);
        let result = writer.append_output(Stream::Stderr, bytes);
        assert!(matches!(result, Err(AppendError::Dropped { bytes: 5000, .. })), "{result:?}");
    };
    failed(&mut writer);
    failed(&mut writer);
    while writer.append_output(Stream::Stdout, bytes_at(Stream::Stdout, writer.position(), 1)).is_ok() {}
    assert!(matches!(writer.append_event(7, &[1; 5000]), Err(AppendError::NotRecorded { kind: 7, .. })));
    writer.append_event(kind::ENDED, &[9; 600]).unwrap();
    let read = drain(&mut follower);
    assert_eq!(read.events.last().unwrap(), &(kind::ENDED, vec![9; 600], writer.position()));
    assert_eq!(read.bytes + writer.dropped_bytes(), writer.position());
    assert!(!read.gaps.is_empty() && read.gaps[0].0 == before);
    let end = JournalStore::open(&dir.path().join("journals")).unwrap().1[0].ended.clone();
    assert_eq!(end, Some(vec![9; 600]));
    let reopened = JournalWriter::open(store.dir(), claimed.slot).unwrap();
    assert_eq!(reopened.position(), writer.position());

    fs::remove_file(dir.path().join("ballast")).unwrap();
    append(&mut writer, Stream::Stdout, 50_000);
    let read = drain(&mut follower);
    assert_eq!((read.bytes, read.gaps.len(), read.events.len()), (50_000, 0, 0));
    assert_eq!(follower.cursor(), writer.position());
    let read = drain(&mut store.reader(claimed).unwrap());
    assert_eq!(read.events.iter().filter(|event| event.0 == kind::ENDED).count(), 1);
}

/// A reader that has found the new segment would otherwise wait in a removed file for what comes.
#[test]
fn a_start_that_is_read_before_the_rest_fails_stays() {
    let Some(dir) = Disk::tiny() else {
        return;
    };
    let mut store = fresh(&dir.path().join("journals"));
    let (claimed, mut writer) = claim(&mut store);
    append(&mut writer, Stream::Stdout, 44_000);
    // The end is repeated at the start of the next segment, which therefore needs more than one page.
    writer.append_event(kind::ENDED, &vec![9; 16 << 10]).unwrap();
    fill(&dir.path().join("ballast"));
    let done = AtomicBool::new(false);
    let mut reader = store.reader(claimed).unwrap();
    drain(&mut reader);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                drain(&mut reader);
            }
        });
        // Room for the header of a segment, and not for the rest.
        let ballast = fs::File::options().write(true).open(dir.path().join("ballast")).unwrap();
        ballast.set_len(ballast.metadata().unwrap().len().next_multiple_of(4096) - 4096).unwrap();
        for _ in 0..2000 {
            let bytes = bytes_at(Stream::Stdout, writer.position(), 10_000);
            writer.append_output(Stream::Stdout, bytes).unwrap_err();
        }
        ballast.set_len(0).unwrap();
        done.store(true, Ordering::Release);
        reading.join().unwrap();
    });
    append(&mut writer, Stream::Stdout, 10_000);
    assert_eq!(drain(&mut reader).bytes, 10_000, "the reader waits in a segment that is not there");
    assert_eq!(reader.cursor(), writer.position());
}

#[test]
fn a_full_disk_costs_the_oldest_segments_first() {
    let Some(dir) = Disk::tiny() else {
        return;
    };
    let mut store = fresh(&dir.path().join("journals"));
    let claimed = store.claim(b"spec", 1 << 20).unwrap().0;
    let mut writer = JournalWriter::open(store.dir(), claimed.slot).unwrap();
    (0..300).for_each(|_| append(&mut writer, Stream::Stdout, 5000));
    writer.append_event(kind::ENDED, b"ended").unwrap();
    let read = drain(&mut store.reader(claimed).unwrap());
    assert_eq!(read.gaps.len(), 1);
    assert_eq!(read.bytes + writer.dropped_bytes(), writer.position());
    // A quarter of the bound from the beginning (less headers and the ends of segments), and the newest.
    assert!(read.gaps[0].0 >= 230_000 && read.gaps[0].1 < 1_500_000 - 64_000, "{:?}", read.gaps);
}

#[test]
fn a_failed_claim_leaves_nothing_behind() {
    let Some(dir) = Disk::tiny() else {
        return;
    };
    let path = dir.path().join("journals");
    let mut store = fresh(&path);
    let count = || fs::read_dir(&path).unwrap().count();
    let large = vec![0; 1 << 20];
    assert!(matches!(store.claim(&large, DEFAULT_JOURNAL_BYTES), Err(ClaimError::NoSpace(_))));
    assert_eq!(count(), 0);
    // A slot that is used again needs no space for a small journal, and gives back what it could not fill.
    let (claimed, _) = claim(&mut store);
    store.retire(claimed).unwrap();
    assert!(matches!(store.claim(&large, DEFAULT_JOURNAL_BYTES), Err(ClaimError::NoSpace(_))));
    assert_eq!((count(), disk_use(&path)), (1, 1068));
    fill(&dir.path().join("ballast"));
    let (claimed, _) = claim(&mut store);
    assert!(matches!(store.claim(&large, DEFAULT_JOURNAL_BYTES), Err(ClaimError::NoSpace(_))));
    assert_eq!(count(), 1);
    store.append_end_of_lost(claimed, b"lost").unwrap();
    let (_, found) = JournalStore::open(&path).unwrap();
    assert_eq!((found.len(), found[0].ended.as_deref()), (1, Some(&b"lost"[..])));
}
