//! Tails that a crash has torn, and bytes that only look like records.

use std::fs;

use super::*;
use crate::journal::files::segment_name;
use crate::journal::format::{RANGE_AT, RANGE_BYTES, RECORD_HEAD_BYTES, Range};

/// Reads a journal whose tail is damaged: exactly the first records come, then the end that is written then.
fn check_prefix(store: &JournalStore, claimed: JournalSlot, bytes: u64) {
    let mut reader = store.reader(claimed).unwrap();
    let read = drain(&mut reader);
    assert_eq!((read.bytes, &read.gaps[..], read.events.len()), (bytes, &[][..], 1));
    store.append_end_of_lost(claimed, b"lost").unwrap();
    let read = drain(&mut reader);
    assert_eq!((read.bytes, read.events), (0, vec![(kind::ENDED, b"lost".to_vec(), bytes)]));
}

#[test]
fn a_tail_torn_at_any_byte_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    let (claimed, mut writer) = claim(&mut store);
    let path = dir.path().join(segment_name(claimed.slot, 0));
    append(&mut writer, Stream::Stdout, 100);
    append(&mut writer, Stream::Stderr, 50);
    let tail = fs::read(&path).unwrap().len();
    append(&mut writer, Stream::Stdout, 60);
    let whole = fs::read(&path).unwrap();
    for at in tail..whole.len() {
        fs::write(&path, &whole[..at]).unwrap();
        check_prefix(&store, claimed, 150);

        let mut zeroed = whole.clone();
        zeroed[at..].fill(0);
        if zeroed != whole {
            fs::write(&path, &zeroed).unwrap();
            check_prefix(&store, claimed, 150);
        }
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            fs::write(&path, &flipped).unwrap();
            check_prefix(&store, claimed, 150);
        }
    }
    fs::write(&path, &whole).unwrap();
    check_prefix(&store, claimed, 210);
}

#[test]
fn whole_records_behind_a_torn_one_do_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    let (claimed, mut writer) = claim(&mut store);
    let path = dir.path().join(segment_name(claimed.slot, 0));
    append(&mut writer, Stream::Stdout, 100);
    let torn = fs::read(&path).unwrap().len();
    // The end that is written later has just the size of the torn record.
    append(&mut writer, Stream::Stdout, 4);
    append(&mut writer, Stream::Stdout, 500);
    let mut bytes = fs::read(&path).unwrap();
    bytes[torn + RECORD_HEAD_BYTES] ^= 1;
    fs::write(&path, &bytes).unwrap();
    check_prefix(&store, claimed, 100);
}

#[test]
fn copies_of_records_are_not_records() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    let (claimed, mut writer) = claim(&mut store);
    let path = dir.path().join(segment_name(claimed.slot, 0));
    append(&mut writer, Stream::Stdout, 100);
    let before = fs::read(&path).unwrap().len();
    writer.append_event(9, b"copied").unwrap();
    let bytes = fs::read(&path).unwrap();
    let record = &bytes[before..];
    let events = |read: Read| read.events.into_iter().map(|event| event.0).collect::<Vec<_>>();
    // As the torn tail itself, where the next record would begin.
    fs::write(&path, [&bytes[..], record].concat()).unwrap();
    let read = drain(&mut store.reader(claimed).unwrap());
    assert_eq!(events(read), [kind::SPEC, 9]);
    // In output that could not be written completely, which a shorter record then overwrites in part.
    fs::write(&path, [&bytes[..], &[0; RECORD_HEAD_BYTES + 8], record, record].concat()).unwrap();
    append(&mut writer, Stream::Stderr, 8);
    let mut reader = store.reader(claimed).unwrap();
    assert_eq!(events(drain(&mut reader)), [kind::SPEC, 9]);
    assert_eq!(reader.cursor(), 108);
    // As output.
    writer.append_output(Stream::Stdout, record).unwrap();
    let entry = reader.next().unwrap().unwrap();
    assert!(matches!(entry.item, Item::Output { bytes, .. } if bytes == record));
    assert_eq!(reader.next().unwrap(), None);
    // In another segment, at the very same offset.
    let name = |segment| dir.path().join(segment_name(claimed.slot, segment));
    while !name(2).exists() {
        append(&mut writer, Stream::Stdout, 1000);
    }
    let newest = fs::read(name(2)).unwrap();
    let older = fs::read(name(1)).unwrap();
    fs::write(name(2), [&newest[..], &older[newest.len()..]].concat()).unwrap();
    drain(&mut reader);
    assert_eq!(reader.cursor(), writer.position());
    let reopened = JournalWriter::open(store.dir(), claimed.slot).unwrap();
    assert_eq!(reopened.position(), writer.position());
}

#[test]
fn a_damaged_range_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    let (claimed, mut writer) = claim(&mut store);
    (0..100).for_each(|_| append(&mut writer, Stream::Stdout, 10_000));
    writer.append_event(kind::ENDED, b"ended").unwrap();
    let before = drain(&mut store.reader(claimed).unwrap());
    let path = dir.path().join(segment_name(claimed.slot, 0));
    let whole = fs::read(&path).unwrap();
    let range = Range::decode(&claimed.salt, &whole).unwrap();
    let other = store.claim(b"spec", MIN_JOURNAL_BYTES).unwrap().0;
    // Damaged; as it was when the slot was claimed; as it was before the newest segment.
    let newest = range.newest;
    for replacement in [
        [0xFF; RANGE_BYTES],
        Range { oldest: 1, newest: 0 }.encode(&claimed.salt),
        Range { newest: newest - 1, ..range }.encode(&claimed.salt),
    ] {
        let mut bytes = whole.clone();
        bytes[RANGE_AT..RANGE_AT + RANGE_BYTES].copy_from_slice(&replacement);
        fs::write(&path, &bytes).unwrap();
        let (_, found) = JournalStore::open(dir.path()).unwrap();
        assert_eq!(found[0].stdout_bytes, 1_000_000);
        assert!(found[0].ended.is_some());
        assert_eq!(drain(&mut store.reader(claimed).unwrap()), before);
    }
    store.retire(other).unwrap();
    store.retire(claimed).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}
