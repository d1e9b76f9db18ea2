//! Claiming, retiring, using again, finding again.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::journal::error::AppendError;
use crate::journal::format::{MAX_EVENT_BYTES, MAX_SPEC_BYTES};
use crate::journal::{ClaimError, JournalError, JournalSummary, Slot};

#[test]
fn the_default_temporary_directory() {
    exercise(tempfile::tempdir().unwrap().path());
}

#[test]
fn stale_content_of_a_slot_is_never_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    for round in 0..20 {
        let (claimed, mut writer) = claim(&mut store);
        assert_eq!(claimed.slot, Slot(0));
        let mut follower = store.reader(claimed).unwrap();
        // Records of one size stand at the same offsets in every round.
        for n in 0..(500 - round * 20) {
            append(&mut writer, Stream::Stdout, 60);
            if n < 20 {
                assert_eq!(drain(&mut follower).bytes, 60);
                assert_eq!(drain(&mut store.reader(claimed).unwrap()).bytes, writer.position());
                let reopened = JournalWriter::open(store.dir(), claimed.slot).unwrap();
                assert_eq!(reopened.position(), writer.position());
            }
        }
        let (_, found) = JournalStore::open(dir.path()).unwrap();
        assert_eq!(found[0].stdout_bytes, writer.position());
        store.retire(claimed).unwrap();
        // What has not been overwritten yet may still be read to the end.
        while follower.next().is_ok_and(|entry| entry.is_some()) {}
        assert!(matches!(follower.next(), Err(JournalError::Retired)));
        assert!(matches!(store.reader(claimed), Err(JournalError::Retired)));
        assert!(matches!(store.retire(claimed), Err(JournalError::Retired)));
        assert!(matches!(store.append_end_of_lost(claimed, b""), Err(JournalError::Retired)));
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn limits_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    let bound = MIN_JOURNAL_BYTES - 1;
    assert!(matches!(store.claim(b"", bound), Err(ClaimError::BoundTooSmall(n)) if n == bound));
    let spec = vec![1; MAX_SPEC_BYTES + 1];
    assert!(matches!(store.claim(&spec, 1 << 20), Err(ClaimError::SpecTooLarge(_))));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let (_, mut writer) = claim(&mut store);
    let event = vec![0; MAX_EVENT_BYTES + 1];
    assert!(matches!(writer.append_event(kind::ENDED, &event), Err(AppendError::TooLarge(_))));
    assert!(matches!(writer.append_event(kind::SPEC, b""), Err(AppendError::BadKind(kind::SPEC))));
}

#[test]
fn largest_spec_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    let spec = vec![5; MAX_SPEC_BYTES];
    let claimed = store.claim(&spec, MIN_JOURNAL_BYTES).unwrap().0;
    let mut writer = JournalWriter::open(store.dir(), claimed.slot).unwrap();
    (0..50).for_each(|_| append(&mut writer, Stream::Stdout, 10_000));
    assert!(disk_use(dir.path()) <= MIN_JOURNAL_BYTES + spec.len() as u64 + 40);
    let read = drain(&mut store.reader(claimed).unwrap());
    assert_eq!(read.events[0].1, spec);
    assert_eq!(JournalStore::open(dir.path()).unwrap().1[0].spec, spec);
}

/// On a full disk few free slots are kept, and they are small. Meanwhile the store is usable.
#[test]
fn free_slots_are_trimmed_without_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    let claimed: Vec<_> = (0..100).map(|_| claim(&mut store)).collect();
    for (claimed, mut writer) in claimed {
        append(&mut writer, Stream::Stdout, 20_000);
        drop(writer);
        store.retire(claimed).unwrap();
    }
    let trimming = store.begin_trimming();
    // A claim does not wait for the files to be removed, and none of them is its own.
    let (claimed, mut writer) = claim(&mut store);
    append(&mut writer, Stream::Stdout, 60);
    assert!(store.end_trimming(trimming.work()));
    assert_eq!(drain(&mut store.reader(claimed).unwrap()).bytes, 60);
    let sizes = || fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    assert_eq!(sizes().count(), 16);
    assert!(sizes().all(|size| size <= 4096), "{:?}", sizes().collect::<Vec<_>>());
    let again = store.begin_trimming().work();
    assert!(!store.end_trimming(again), "nothing is left to be freed");
}

#[test]
fn a_reader_past_the_end_waits_for_output_to_get_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    let (claimed, mut writer) = claim(&mut store);
    let mut reader = store.reader(claimed).unwrap();
    reader.seek(150).unwrap();
    append(&mut writer, Stream::Stdout, 100);
    assert_eq!(reader.next().unwrap(), None);
    append(&mut writer, Stream::Stderr, 100);
    assert_eq!(drain(&mut reader).bytes, 50);
    reader.seek_tail(None, 30).unwrap();
    assert_eq!(drain(&mut reader).bytes, 30);
}

#[test]
fn garbage_is_left_alone_or_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let mut store = fresh(dir.path());
    let (kept, mut writer) = claim(&mut store);
    append(&mut writer, Stream::Stdout, 10);
    fs::write(file("notes.txt"), "not ours").unwrap();
    fs::write(file("1"), "not a slot's name").unwrap();
    fs::write(file("000001"), "").unwrap();
    fs::write(file("000002"), vec![0xAA; 100_000]).unwrap();
    fs::write(file("000002.7"), "left over").unwrap();
    fs::write(file("000003.1"), "left over").unwrap();
    fs::create_dir(file("000004")).unwrap();
    symlink("/etc/passwd", file("000005")).unwrap();
    // A header without a first record, and another version's.
    let mut newer = fs::read(file("000000")).unwrap();
    fs::write(file("000006"), &newer[..1030]).unwrap();
    newer[8] = 2;
    let checksum = crc32fast::hash(&newer[..64]);
    newer[64..68].copy_from_slice(&checksum.to_le_bytes());
    fs::write(file("000007"), &newer).unwrap();

    let (mut store, found) = JournalStore::open(dir.path()).unwrap();
    assert_eq!(found.iter().map(|found: &JournalSummary| found.slot).collect::<Vec<_>>(), [kept.slot]);
    assert!(!file("000002.7").exists() && !file("000003.1").exists());
    let claimed: Vec<u32> = (0..6).map(|_| claim(&mut store).0.slot.0).collect();
    assert_eq!(claimed, [1, 2, 6, 8, 9, 10]);
    assert_eq!(fs::read(file("000007")).unwrap(), newer);
    assert!(file("notes.txt").exists() && file("000004").is_dir() && file("000005").is_symlink());
}

#[test]
fn free_slots_are_kept_in_moderation() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    let spec = vec![0; 8 << 10];
    let claimed: Vec<JournalSlot> =
        (0..4200).map(|_| store.claim(&spec, MIN_JOURNAL_BYTES).unwrap().0).collect();
    claimed.into_iter().for_each(|claimed| store.retire(claimed).unwrap());
    let sizes = fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    let (small, large): (Vec<_>, Vec<_>) = sizes.partition(|size| *size <= 4 << 10);
    assert_eq!((small.len(), large.len()), (4096 - 256, 256));
    assert!(JournalStore::open(dir.path()).unwrap().1.is_empty());
}

/// Opens what the store wants open, as the engine does beside its work.
fn open_ahead(store: &mut JournalStore) {
    if let Some(opening) = store.begin_opening() {
        let opened = opening.work();
        store.end_opening(opened);
    }
}

#[test]
fn a_busy_store_opens_slots_ahead_and_never_hands_one_out_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    let mut living = std::collections::VecDeque::new();
    for round in 0..600 {
        let (claimed, _) = claim(&mut store);
        assert!(living.iter().all(|other: &JournalSlot| other.slot != claimed.slot));
        living.push_back(claimed);
        open_ahead(&mut store);
        if round == 3 {
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "nothing is made ahead for so few");
        }
        if living.len() > 100 {
            store.retire(living.pop_front().unwrap()).unwrap();
        }
    }
    assert!(fs::read_dir(dir.path()).unwrap().count() < 130);
    // What was made ahead and never used is no journal, and is used after a restart.
    let (mut store, found) = JournalStore::open(dir.path()).unwrap();
    assert_eq!(found.len(), living.len());
    let (claimed, _) = claim(&mut store);
    assert!(living.iter().all(|other| other.slot != claimed.slot));
}

#[test]
fn an_open_slot_whose_file_was_removed_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    for _ in 0..32 {
        claim(&mut store);
    }
    open_ahead(&mut store);
    let names = || fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    assert!(names().count() > 32);
    names().for_each(|path| fs::remove_file(path).unwrap());
    let (claimed, _) = claim(&mut store);
    assert!(store.reader(claimed).is_ok());
}

#[test]
fn a_journal_is_given_back_by_one_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    let (claimed, _) = claim(&mut store);
    let retiring = store.begin_retiring(claimed).unwrap();
    assert!(store.begin_retiring(claimed).is_none());
    let retired = retiring.work(&claimed).unwrap();
    store.end_retiring(claimed, retired);
    // A second time it is found to be gone, also when the slot has another journal.
    assert!(matches!(store.retire(claimed), Err(JournalError::Retired)));
    let (next, _) = claim(&mut store);
    assert_eq!(next.slot, claimed.slot);
    assert!(matches!(store.retire(claimed), Err(JournalError::Retired)));
    assert!(store.reader(next).is_ok());
}

#[test]
fn a_file_with_the_highest_number_leaves_room_for_others() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["000001", "4294967295"] {
        fs::write(dir.path().join(name), b"not a journal").unwrap();
    }
    let (mut store, found) = JournalStore::open(dir.path()).unwrap();
    assert!(found.is_empty());
    let claimed: std::collections::BTreeSet<_> = (0..10).map(|_| claim(&mut store).0.slot).collect();
    assert_eq!(claimed.len(), 10);
}

/// Journals that could not be read for want of descriptors would count as missing, and what belongs to them as left over.
#[test]
fn a_store_without_descriptors_is_not_an_empty_one() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::os::fd::AsRawFd;
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    let (_, mut writer) = claim(&mut store);
    append(&mut writer, Stream::Stdout, 200_000);
    let before = getrlimit(Resource::Nofile);
    // One for the directory, and one for the first segment.
    let two = [(); 2].map(|()| rustix::io::fcntl_dupfd_cloexec(store.dir(), 0).unwrap());
    let most = u64::try_from(two[1].as_raw_fd()).unwrap() + 1;
    drop(two);
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: before.maximum }).unwrap();
    let opened = JournalStore::open(dir.path());
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(opened.is_err(), "{:?}", opened.map(|(_, found)| found.len()));
    assert_eq!(JournalStore::open(dir.path()).unwrap().1.len(), 1);
}
