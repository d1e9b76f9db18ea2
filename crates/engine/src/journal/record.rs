//! The format of a record, and the checksum that binds it to its location.

use std::time::{Duration, SystemTime};

use crc32fast::Hasher;

use super::format::{
    MAX_EVENT_BYTES, MAX_OUTPUT_BYTES, MAX_SPEC_BYTES, Position, RECORD_HEAD_BYTES, Salt, Stream, kind, put,
    u32_at, u64_at,
};

/// Binds records to one segment of one use of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seal {
    tag: u32,
    seed: u32,
}

impl Seal {
    /// The seal of a segment.
    pub(super) fn new(salt: &Salt, segment: u64) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&salt.0);
        hasher.update(&segment.to_le_bytes());
        Self { tag: u32_at(&salt.0, 0), seed: hasher.finalize() }
    }

    fn checksum(self, offset: u64, head: &[u8], payload: &[u8]) -> u32 {
        let mut bound = [0; RECORD_HEAD_BYTES + 4];
        put(&mut bound, 0, &offset.to_le_bytes());
        put(&mut bound, 8, &head[4..RECORD_HEAD_BYTES]);
        let mut hasher = Hasher::new_with_initial(self.seed);
        hasher.update(&bound);
        hasher.update(payload);
        hasher.finalize()
    }

    /// Whether these bytes are the record that was written at this offset.
    pub(super) fn fits(self, offset: u64, head: &[u8], payload: &[u8]) -> bool {
        self.checksum(offset, head, payload) == u32_at(head, 0)
    }
}

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHead {
    /// The size of the payload.
    pub(super) len: usize,
    /// See [`kind`].
    pub(super) kind: u8,
    /// [`REPEAT`](super::format::REPEAT) or nothing.
    pub(super) flags: u8,
    /// Time, in nanoseconds since 1970.
    pub(super) nanos: u64,
    /// The position before this record.
    pub(super) at: Position,
}

impl RecordHead {
    /// The header bytes of a record at this offset.
    pub(super) fn encode(&self, seal: Seal, offset: u64, payload: &[u8]) -> [u8; RECORD_HEAD_BYTES] {
        let mut bytes = [0; RECORD_HEAD_BYTES];
        // Payloads are limited far below 4 GiB before.
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        put(&mut bytes, 4, &len.to_le_bytes());
        bytes[8] = self.kind;
        bytes[9] = self.flags;
        put(&mut bytes, 12, &seal.tag.to_le_bytes());
        put(&mut bytes, 16, &self.nanos.to_le_bytes());
        put(&mut bytes, 24, &self.at.stdout.to_le_bytes());
        put(&mut bytes, 32, &self.at.stderr.to_le_bytes());
        let checksum = seal.checksum(offset, &bytes, payload);
        put(&mut bytes, 0, &checksum.to_le_bytes());
        bytes
    }

    /// Decodes a header without checking the checksum. It never returns a size that a record cannot have.
    pub(super) fn decode(seal: Seal, bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..RECORD_HEAD_BYTES)?;
        let head = Self {
            len: usize::try_from(u32_at(bytes, 4)).ok()?,
            kind: bytes[8],
            flags: bytes[9],
            nanos: u64_at(bytes, 16),
            at: Position { stdout: u64_at(bytes, 24), stderr: u64_at(bytes, 32) },
        };
        let max = match head.kind {
            0 => return None,
            kind::STDOUT | kind::STDERR => MAX_OUTPUT_BYTES,
            kind::SPEC => MAX_SPEC_BYTES,
            _ => MAX_EVENT_BYTES,
        };
        (u32_at(bytes, 12) == seal.tag && head.len <= max).then_some(head)
    }

    /// Whether another record is this one, repeated at the beginning of a later segment.
    pub(super) fn is_repeated_by(&self, other: &Self) -> bool {
        (self.kind, self.len, self.nanos, self.at) == (other.kind, other.len, other.nanos, other.at)
    }

    /// The position after this record.
    pub(super) fn end(&self) -> Position {
        Stream::of_kind(self.kind).map_or(self.at, |stream| self.at.plus(stream, self.len as u64))
    }

    /// Time of the record.
    pub(super) fn time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.nanos)
    }
}

/// The current time in the format of records.
pub(super) fn now_nanos() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
