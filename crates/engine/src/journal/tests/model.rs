//! Random histories against a model that keeps everything.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::journal::StreamRead;

#[derive(Debug, Clone)]
enum Op {
    Output(Stream, usize),
    Event(u8, usize),
    Size,
    /// A new reader at this many thousandths of what is there.
    Open(u64),
    /// Some entries of one of the readers.
    Read(usize, usize),
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let stream = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
    let size = prop_oneof![4 => 1_usize..300, 3 => 300_usize..20_000, 1 => 20_000_usize..300_000];
    prop_oneof![
        10 => (stream, size).prop_map(|(stream, size)| Op::Output(stream, size)),
        1 => (prop_oneof![Just(4_u8), Just(7_u8), 9..=255_u8], 0_usize..3000).prop_map(|(kind, len)| Op::Event(kind, len)),
        1 => (0_usize..16_385).prop_map(|len| Op::Event(kind::ENDED, len)),
        1 => (0_usize..200).prop_map(|len| Op::Event(kind::CLOSED, len)),
        2 => Just(Op::Size),
        2 => (0..=1000_u64).prop_map(Op::Open),
        3 => (0_usize..8, 1_usize..20).prop_map(|(reader, n)| Op::Read(reader, n)),
        1 => Just(Op::Reopen),
    ]
}

/// One append of output.
#[derive(Clone, Copy)]
struct Run {
    stream: Stream,
    cursor: u64,
    stream_position: u64,
    len: u64,
}

/// What was written: every append, the bytes of each stream, and every event with its cursor.
#[derive(Default)]
struct Model {
    runs: Vec<Run>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    events: Vec<(u64, u8, Vec<u8>)>,
}

impl Model {
    fn total(&self) -> u64 {
        (self.stdout.len() + self.stderr.len()) as u64
    }

    fn of(&self, stream: Stream) -> &Vec<u8> {
        if stream == Stream::Stdout { &self.stdout } else { &self.stderr }
    }

    fn append(&mut self, stream: Stream, len: usize) {
        let cursor = self.total();
        let bytes = if stream == Stream::Stdout { &mut self.stdout } else { &mut self.stderr };
        self.runs.push(Run { stream, cursor, stream_position: bytes.len() as u64, len: len as u64 });
        bytes.extend_from_slice(bytes_at(stream, cursor, len));
    }

    fn run_at(&self, cursor: u64) -> Run {
        self.runs[self.runs.partition_point(|run| run.cursor <= cursor) - 1]
    }

    /// The cursor of a byte of a stream.
    fn cursor_of(&self, stream: Stream, position: u64) -> u64 {
        let run = self.runs.iter().find(|run| {
            run.stream == stream && (run.stream_position..run.stream_position + run.len).contains(&position)
        });
        run.map(|run| run.cursor + position - run.stream_position).unwrap()
    }
}

struct Follower {
    reader: JournalReader,
    from: u64,
    events: Vec<(u8, Vec<u8>)>,
}

impl Follower {
    /// Reads up to `n` entries and checks them; whether there may be more.
    fn read(&mut self, model: &Model, n: usize) -> bool {
        for turn in 0..n {
            let before = self.reader.cursor();
            // Wherever it stops, and whether or not it has to read again, it goes on there.
            let limit = [usize::MAX, 3, 50_000, 70_000][turn % 4];
            if turn % 7 == 6 {
                self.reader.release();
            }
            let Some(entry) = self.reader.next_within(limit).unwrap() else {
                return false;
            };
            match entry.item {
                Item::Output { stream, position, stream_position, bytes } => {
                    assert_eq!(position, before);
                    let run = model.run_at(position);
                    assert_eq!(stream, run.stream);
                    assert_eq!(stream_position, run.stream_position + position - run.cursor);
                    assert!(bytes.len() <= limit);
                    check_output(stream, position, bytes);
                }
                Item::Gap { from, to } => assert!(from == before && to > from),
                Item::Event { kind, payload } => self.events.push((kind, payload.to_vec())),
            }
        }
        true
    }

    /// Every event that was returned was written, in this order but for ends that came late; and ends came.
    fn check_events(&self, model: &Model) {
        let wanted = |sticky: bool| {
            model.events.iter().filter(move |e| e.0 >= self.from && kind::is_sticky(e.1) == sticky)
        };
        let mut rest = wanted(false);
        for (kind, payload) in self.events.iter().filter(|e| !kind::is_sticky(e.0)) {
            assert!(rest.any(|e| e.1 == *kind && e.2 == *payload), "an event that was not written");
        }
        for sticky in [kind::ENDED, kind::CLOSED] {
            let last = wanted(true).rfind(|e| e.1 == sticky);
            let got = self.events.iter().rfind(|e| e.0 == sticky);
            assert_eq!(last.is_some(), got.is_some(), "ends outlive their segment");
        }
        let sizes: Vec<_> = self.events.iter().filter(|e| e.0 == kind::SIZE).map(|e| &e.1).collect();
        assert!(sizes.is_sorted_by(|a, b| a < b), "each size is returned once, in order");
        let mut written = wanted(true).filter(|e| e.1 == kind::SIZE).map(|e| &e.2);
        assert!(sizes.iter().all(|size| written.any(|e| e == *size)), "a size that was not written");
        let last = wanted(true).rfind(|e| e.1 == kind::SIZE).map(|e| &e.2);
        assert_eq!(sizes.last().copied(), last, "the newest size outlives its segment");
    }
}

/// A thousandth part, `thousandths` times.
fn part_of(total: u64, thousandths: u64) -> u64 {
    total * thousandths / 1000
}

fn check_streams(store: &JournalStore, claimed: JournalSlot, model: &Model, from: u64) {
    for stream in [Stream::Stdout, Stream::Stderr] {
        let written = model.of(stream);
        let total = written.len() as u64;
        let mut reader = store.reader(claimed).unwrap();
        assert_eq!(reader.totals().unwrap().of(stream), total);
        let start = part_of(total, from);
        let mut at = start;
        let mut buffer = vec![0; 7000];
        loop {
            match reader.read_stream(stream, at, &mut buffer).unwrap() {
                StreamRead::Bytes(n) => {
                    let here = usize::try_from(at).unwrap();
                    assert!(buffer[..n] == written[here..here + n]);
                    at += n as u64;
                }
                StreamRead::Gap { to } => {
                    assert!(to > at);
                    at = to;
                }
                StreamRead::Nothing => break,
            }
        }
        assert_eq!(at, total);
        // The same place, by its cursor.
        reader.seek_tail(Some(stream), total - start).unwrap();
        let read = drain(&mut reader);
        assert_eq!(reader.cursor(), model.total());
        if read.gaps.is_empty() && start < total {
            assert_eq!(read.bytes, model.total() - model.cursor_of(stream, start));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn readers_get_exactly_what_was_written(
        ops in proptest::collection::vec(op(), 1..80),
        bound in prop_oneof![Just(MIN_JOURNAL_BYTES), Just(300_000_u64), Just(1_u64 << 20), Just(64 << 20)],
        spec_len in prop_oneof![0_usize..100, 0_usize..200_000],
        from in 0..=1000_u64,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = fresh(dir.path());
        let (claimed, journal) = store.claim(&vec![7; spec_len], bound).unwrap();
        let mut writer = JournalWriter::begin(store.dir(), claimed.slot, journal);
        let mut model = Model { events: vec![(0, kind::SPEC, vec![7; spec_len])], ..Model::default() };
        let mut followers: Vec<Follower> = Vec::new();
        for op in ops {
            match op {
                Op::Output(stream, len) => {
                    append(&mut writer, stream, len);
                    model.append(stream, len);
                    let use_ = disk_use(dir.path());
                    prop_assert!(use_ <= bound + spec_len as u64 + 40, "{} of {}", use_, bound);
                }
                Op::Event(kind, len) => {
                    let payload = vec![kind; len];
                    writer.append_event(kind, &payload).unwrap();
                    model.events.push((writer.position(), kind, payload));
                }
                Op::Size => {
                    let payload = (model.events.len() as u64).to_be_bytes().to_vec();
                    writer.append_event(kind::SIZE, &payload).unwrap();
                    model.events.push((writer.position(), kind::SIZE, payload));
                }
                Op::Open(part) if followers.len() < 8 => {
                    let cursor = part_of(model.total(), part);
                    let mut reader =
                        JournalReader::open(Arc::clone(store.dir()), claimed.slot, &claimed.salt).unwrap();
                    reader.seek(cursor).unwrap();
                    followers.push(Follower { reader, from: cursor, events: Vec::new() });
                }
                Op::Open(_) => {}
                Op::Read(i, n) => {
                    if let Some(follower) = followers.get_mut(i) {
                        follower.read(&model, n);
                    }
                }
                Op::Reopen => {
                    let position = writer.position();
                    writer = JournalWriter::open(store.dir(), claimed.slot).unwrap();
                    prop_assert_eq!(writer.position(), position);
                }
            }
            prop_assert_eq!(writer.position(), model.total());
        }
        let reader = store.reader(claimed).unwrap();
        followers.push(Follower { reader, from: 0, events: Vec::new() });
        for follower in &mut followers {
            while follower.read(&model, 100) {}
            prop_assert_eq!(follower.reader.cursor(), model.total());
            follower.check_events(&model);
        }
        check_streams(&store, claimed, &model, from);
        // What fits into the bound is all there.
        let read = drain(&mut store.reader(claimed).unwrap());
        if model.total() < bound / 4 && model.events.len() < 4 {
            prop_assert!(read.gaps.is_empty());
            prop_assert_eq!(read.events.len(), model.events.len());
        }
        let (_, found) = JournalStore::open(dir.path()).unwrap();
        let ended = model.events.iter().rev().find(|e| e.1 == kind::ENDED).map(|e| &e.2);
        prop_assert_eq!(found[0].ended.as_ref(), ended);
        let size = model.events.iter().rev().find(|e| e.1 == kind::SIZE).map(|e| &e.2);
        prop_assert_eq!(found[0].size.as_ref(), size);
        prop_assert_eq!(found[0].stdout_bytes + found[0].stderr_bytes, model.total());
        prop_assert_eq!(found[0].spec.len(), spec_len);
    }
}
