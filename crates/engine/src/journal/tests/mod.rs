//! What journals promise, checked on real files.

mod disks;
mod model;
mod races;
mod slots;
mod torn;

use std::path::Path;
use std::sync::OnceLock;

use super::{
    Item, JournalReader, JournalSlot, JournalStore, JournalWriter, MIN_JOURNAL_BYTES, Stream, disk_bytes,
    kind,
};

/// How often the test bytes come again. A prime, so that it fits no size of the format.
const PERIOD: usize = 1_048_573;

/// The bytes that stand at a cursor, different for the two streams.
fn bytes_at(stream: Stream, cursor: u64, len: usize) -> &'static [u8] {
    static BYTES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let [stdout, stderr] = BYTES.get_or_init(|| {
        let byte = |i: usize| ((i % PERIOD) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[0];
        let stdout: Vec<u8> = (0..2 * PERIOD).map(byte).collect();
        let stderr = stdout.iter().map(|byte| !byte).collect();
        [stdout, stderr]
    });
    let start = usize::try_from(cursor % PERIOD as u64).unwrap();
    &(if stream == Stream::Stdout { stdout } else { stderr })[start..start + len]
}

/// Appends bytes that can be checked by [`check_output`].
fn append(writer: &mut JournalWriter, stream: Stream, len: usize) {
    let bytes = bytes_at(stream, writer.position(), len);
    writer.append_output(stream, bytes).unwrap();
}

fn check_output(stream: Stream, position: u64, bytes: &[u8]) {
    assert_eq!(bytes, bytes_at(stream, position, bytes.len()), "at {position}");
}

fn fresh(path: &Path) -> JournalStore {
    let (store, found) = JournalStore::open(path).unwrap();
    assert!(found.is_empty());
    store
}

fn claim(store: &mut JournalStore) -> (JournalSlot, JournalWriter) {
    let (claimed, journal) = store.claim(b"spec", MIN_JOURNAL_BYTES).unwrap();
    let writer = JournalWriter::begin(store.dir(), claimed.slot, journal);
    (claimed, writer)
}

/// What a reader returned.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    /// Output bytes.
    bytes: u64,
    gaps: Vec<(u64, u64)>,
    /// Kind, payload, and the cursor they came at.
    events: Vec<(u8, Vec<u8>, u64)>,
}

/// Reads all there is, checks every byte and that nothing is missing without a gap.
fn drain(reader: &mut JournalReader) -> Read {
    let mut read = Read::default();
    loop {
        let before = reader.cursor();
        let Some(entry) = reader.next().unwrap() else {
            return read;
        };
        match entry.item {
            Item::Output { stream, position, bytes, .. } => {
                assert_eq!(position, before);
                assert_eq!(entry.cursor_after, before + bytes.len() as u64);
                assert!(!bytes.is_empty());
                check_output(stream, position, bytes);
                read.bytes += bytes.len() as u64;
            }
            Item::Gap { from, to } => {
                assert_eq!((from, to), (before, entry.cursor_after));
                assert!(to > from);
                read.gaps.push((from, to));
            }
            Item::Event { kind, payload } => {
                read.events.push((kind, payload.to_vec(), entry.cursor_after));
            }
        }
    }
}

fn disk_use(path: &Path) -> u64 {
    std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

fn blocks_use(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512).sum()
}

/// A whole life of a few journals, for whatever file system the directory is on.
fn exercise(path: &Path) {
    let mut store = fresh(path);
    for round in 0..3 {
        let (claimed, mut writer) = claim(&mut store);
        writer.append_event(kind::STARTED, b"started").unwrap();
        let mut follower = store.reader(claimed).unwrap();
        for _ in 0..100 {
            append(&mut writer, Stream::Stdout, 10_000);
            append(&mut writer, Stream::Stderr, 77);
            drain(&mut follower);
        }
        writer.append_event(kind::ENDED, b"ended").unwrap();
        let read = drain(&mut follower);
        assert_eq!(read.events, [(kind::ENDED, b"ended".to_vec(), writer.position())]);
        assert!(disk_use(path) <= MIN_JOURNAL_BYTES + 44 + 1024);
        let read = drain(&mut store.reader(claimed).unwrap());
        assert_eq!(read.gaps.len(), 1);
        assert_eq!(read.bytes + writer.dropped_bytes(), writer.position());
        let (_, found) = JournalStore::open(path).unwrap();
        assert_eq!(found.len(), 1, "round {round}");
        assert_eq!(found[0].ended.as_deref(), Some(&b"ended"[..]));
        assert_eq!(found[0].started.as_deref(), Some(&b"started"[..]));
        assert_eq!((found[0].stdout_bytes, found[0].stderr_bytes), (1_000_000, 7_700));
        assert_eq!(
            (found[0].bytes_on_disk, disk_bytes(store.dir(), claimed)),
            (blocks_use(path), blocks_use(path))
        );
        store.retire(claimed).unwrap();
        assert!(disk_use(path) <= 64 << 10);
        assert!(matches!(follower.next(), Err(super::JournalError::Retired)));
    }
}
