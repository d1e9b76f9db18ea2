//! Readers and writers at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use super::*;
use crate::journal::JournalError;

#[test]
fn readers_follow_a_writer_that_drops_segments() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    let (claimed, mut writer) = claim(&mut store);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for slow in [false, true] {
            let (store, done) = (&store, &done);
            scope.spawn(move || {
                let mut reader = store.reader(claimed).unwrap();
                let mut events = Vec::new();
                loop {
                    let last = done.load(Ordering::Acquire);
                    events.extend(drain(&mut reader).events.into_iter().map(|event| event.0));
                    if slow {
                        thread::sleep(std::time::Duration::from_millis(3));
                        // Jump about: into the head, into what is dropped, to the end.
                        let cursor = reader.cursor();
                        let mut other = store.reader(claimed).unwrap();
                        for part in [0, 1, 2, 3, 4] {
                            other.seek(cursor * part / 4).unwrap();
                            drain(&mut other);
                            let mut buffer = [0; 100];
                            other.read_stream(Stream::Stderr, cursor * part / 8, &mut buffer).unwrap();
                        }
                        other.seek_tail(Some(Stream::Stderr), 1000).unwrap();
                        drain(&mut other);
                    }
                    if last {
                        assert_eq!(events, [kind::SPEC, kind::ENDED]);
                        return reader.cursor();
                    }
                }
            });
        }
        let mut size = 1_usize;
        while writer.position() < 12_000_000 {
            size = size.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let stream = if size & (1 << 40) == 0 { Stream::Stdout } else { Stream::Stderr };
            append(&mut writer, stream, (size >> 33) % 30_000 + 1);
        }
        writer.append_event(kind::ENDED, b"ended").unwrap();
        done.store(true, Ordering::Release);
    });
}

#[test]
fn readers_notice_that_a_slot_has_a_new_owner() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = fresh(dir.path());
    let journals = Arc::clone(store.dir());
    let (sender, receiver) = mpsc::sync_channel::<(JournalSlot, u8)>(1);
    let reader = thread::spawn(move || {
        let (mut ended, mut retired) = (0, 0);
        for (claimed, mark) in receiver {
            let mut outcome = JournalReader::open(Arc::clone(&journals), claimed.slot, &claimed.salt);
            loop {
                match outcome.as_mut().map(JournalReader::next) {
                    Ok(Ok(Some(entry))) => match entry.item {
                        Item::Output { bytes, .. } => {
                            assert!(bytes.iter().all(|byte| *byte == mark));
                        }
                        Item::Event { kind: kind::ENDED, .. } => {
                            ended += 1;
                            break;
                        }
                        Item::Event { .. } | Item::Gap { .. } => {}
                    },
                    Ok(Ok(None)) => {}
                    Ok(Err(JournalError::Retired)) | Err(JournalError::Retired) => {
                        retired += 1;
                        break;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        (ended, retired)
    });
    for round in 0..1000_u32 {
        let (claimed, mut writer) = claim(&mut store);
        assert_eq!(claimed.slot.0, 0);
        let mark = round.to_le_bytes()[0];
        sender.send((claimed, mark)).unwrap();
        let len = if round % 10 == 0 { 30_000 } else { 100 };
        for _ in 0..20 {
            writer.append_output(Stream::Stdout, &vec![mark; len]).unwrap();
        }
        writer.append_event(kind::ENDED, &[mark]).unwrap();
        store.retire(claimed).unwrap();
    }
    drop(sender);
    let (ended, retired) = reader.join().unwrap();
    assert_eq!(ended + retired, 1000);
}
