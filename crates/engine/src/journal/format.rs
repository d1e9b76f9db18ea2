//! The format of a journal: sizes, kinds and headers. Records are in [`super::record`].
//!
//! `docs/design/journal-format.md` describes it. All numbers are little-endian.

use std::fmt;

use crc32fast::Hasher;
use minicbor::{Decode, Encode};

/// The version of the format that is written, and the only one that is read.
pub(crate) const VERSION: u16 = 1;
/// Minimum bound of a journal, in bytes.
pub const MIN_JOURNAL_BYTES: u64 = 256 << 10;
/// Default bound of a journal, in bytes.
pub(crate) const DEFAULT_JOURNAL_BYTES: u64 = 64 << 20;
/// Maximum size of the output in one record.
pub(super) const MAX_OUTPUT_BYTES: usize = 256 << 10;
/// Maximum size of an event: a quarter of the smallest segment. Two events that are repeated in every segment, and a
/// size, leave room for a third, and for output.
pub(crate) const MAX_EVENT_BYTES: usize = 16 << 10;
/// Maximum size of the payload of [`kind::SIZE`].
pub(crate) const MAX_SIZE_BYTES: usize = 64;
/// Maximum size of the first record, which contains the text of the command.
pub(crate) const MAX_SPEC_BYTES: usize = 40 << 20;

/// Size of the header of a segment.
pub(super) const HEADER_BYTES: usize = 1024;
/// Size of the header of a record.
pub(super) const RECORD_HEAD_BYTES: usize = 40;
/// Offset of the range of segments in the first segment's header.
pub(super) const RANGE_AT: usize = 128;
/// The encoded size of a [`Range`].
pub(super) const RANGE_BYTES: usize = 24;
/// Offset of the reserve for the end in the first segment's header; it extends to the end of the header.
pub(super) const SPARE_AT: usize = 192;

/// The flag of a repeated record.
pub(super) const REPEAT: u8 = 1;

const MAGIC: &[u8; 8] = b"SCRBJRNL";
const FREE_MAGIC: &[u8; 8] = b"SCRBFREE";
const IDENTITY_BYTES: usize = 64;

/// The kinds of records.
pub(crate) mod kind {
    /// Bytes of standard output.
    pub(crate) const STDOUT: u8 = 1;
    /// Bytes of standard error.
    pub(crate) const STDERR: u8 = 2;
    /// The command. Always and only the first record of a journal.
    pub(crate) const SPEC: u8 = 3;
    /// It has started.
    pub(crate) const STARTED: u8 = 4;
    /// It has ended. Output of leftovers may follow.
    pub(crate) const ENDED: u8 = 5;
    /// No more output follows.
    pub(crate) const CLOSED: u8 = 6;
    /// A supervisor has it, and may start it at any moment. Written only if the engine requests it.
    pub(crate) const TAKEN: u8 = 7;
    /// The size of a terminal from here on, at most [`MAX_SIZE_BYTES`](super::MAX_SIZE_BYTES).
    pub(crate) const SIZE: u8 = 8;

    /// Whether events of this kind are repeated in later segments.
    pub(crate) fn is_sticky(kind: u8) -> bool {
        is_end(kind) || kind == SIZE
    }

    /// Whether a journal has a reserve for events of this kind, and at most one counts.
    pub(crate) fn is_end(kind: u8) -> bool {
        matches!(kind, ENDED | CLOSED)
    }
}

/// One of the two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The kind of this stream's records.
    pub(super) fn kind(self) -> u8 {
        match self {
            Self::Stdout => kind::STDOUT,
            Self::Stderr => kind::STDERR,
        }
    }

    /// The stream of a kind of record; `None` if it is not output.
    pub(super) fn of_kind(kind: u8) -> Option<Self> {
        match kind {
            kind::STDOUT => Some(Self::Stdout),
            kind::STDERR => Some(Self::Stderr),
            _ => None,
        }
    }
}

/// The number of a slot file, which holds one journal after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u32);

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

/// Identifies one use of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub(crate) struct Salt(#[cbor(n(0), with = "minicbor::bytes")] pub(crate) [u8; 16]);

/// Length of each stream at some point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Bytes of standard output.
    pub(crate) stdout: u64,
    /// Bytes of standard error.
    pub(crate) stderr: u64,
}

impl Position {
    /// Both streams together: the cursor.
    pub(crate) fn total(self) -> u64 {
        self.stdout.saturating_add(self.stderr)
    }

    /// One stream.
    pub(crate) fn of(self, stream: Stream) -> u64 {
        match stream {
            Stream::Stdout => self.stdout,
            Stream::Stderr => self.stderr,
        }
    }

    /// The position after more bytes of a stream.
    pub(super) fn plus(mut self, stream: Stream, bytes: u64) -> Self {
        let counter = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        *counter = counter.saturating_add(bytes);
        self
    }
}

/// The division of a bound into segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Size of a segment; the first one is larger by its first record.
    pub(super) segment_bytes: u64,
    /// Number of segments in the head, which are kept.
    pub(super) head_segments: u64,
    /// Maximum number of segments.
    pub(super) max_segments: u64,
}

impl Layout {
    /// The layout of a journal with this bound.
    pub(super) fn new(bound: u64) -> Self {
        let bound = bound.max(MIN_JOURNAL_BYTES);
        let segment_bytes = (bound / 16).clamp(64 << 10, 8 << 20);
        Self {
            segment_bytes,
            head_segments: (bound / 4 / segment_bytes).max(1),
            max_segments: bound / segment_bytes,
        }
    }
}

/// The segments besides the head: from `oldest` to `newest`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    /// The oldest segment outside the head; larger than `newest` if there is none.
    pub(super) oldest: u64,
    /// The segment that is written to.
    pub(super) newest: u64,
}

fn range_checksum(salt: &Salt, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(b"range");
    hasher.update(&salt.0);
    hasher.update(bytes);
    hasher.finalize()
}

impl Range {
    /// The bytes for [`RANGE_AT`].
    pub(super) fn encode(self, salt: &Salt) -> [u8; RANGE_BYTES] {
        let mut bytes = [0; RANGE_BYTES];
        put(&mut bytes, 0, &self.oldest.to_le_bytes());
        put(&mut bytes, 8, &self.newest.to_le_bytes());
        let checksum = range_checksum(salt, &bytes[..16]);
        put(&mut bytes, 16, &checksum.to_le_bytes());
        bytes
    }

    /// The range in a header block; `None` if it is damaged or being written.
    pub(super) fn decode(salt: &Salt, header: &[u8]) -> Option<Self> {
        let bytes = header.get(RANGE_AT..RANGE_AT + RANGE_BYTES)?;
        let fits = range_checksum(salt, &bytes[..16]) == u32_at(bytes, 16);
        fits.then(|| Self { oldest: u64_at(bytes, 0), newest: u64_at(bytes, 8) })
    }
}

/// Why a header is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadHeader {
    /// The slot is free.
    Free,
    /// It is of another version.
    Version(u16),
    /// It is not a header.
    Garbage,
}

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// The use of the slot that the segment belongs to.
    pub(super) salt: Salt,
    /// The bound of the journal.
    pub(super) bound: u64,
    /// The segment's index.
    pub(super) segment: u64,
    /// The position at its beginning.
    pub(super) start: Position,
}

impl Header {
    /// The header block of a segment.
    pub(super) fn encode(&self, range: Option<Range>) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        put(&mut bytes, 10, &1024_u16.to_le_bytes());
        put(&mut bytes, 16, &self.salt.0);
        put(&mut bytes, 32, &self.bound.to_le_bytes());
        put(&mut bytes, 40, &self.segment.to_le_bytes());
        put(&mut bytes, 48, &self.start.stdout.to_le_bytes());
        put(&mut bytes, 56, &self.start.stderr.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..IDENTITY_BYTES]);
        put(&mut bytes, IDENTITY_BYTES, &checksum.to_le_bytes());
        if let Some(range) = range {
            put(&mut bytes, RANGE_AT, &range.encode(&self.salt));
        }
        bytes
    }

    /// Decodes a header block.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        if bytes.starts_with(FREE_MAGIC) {
            return Err(BadHeader::Free);
        }
        if bytes.len() < HEADER_BYTES || !bytes.starts_with(MAGIC) {
            return Err(BadHeader::Garbage);
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if crc32fast::hash(&bytes[..IDENTITY_BYTES]) != u32_at(bytes, IDENTITY_BYTES) {
            return Err(BadHeader::Garbage);
        }
        if version != VERSION {
            return Err(BadHeader::Version(version));
        }
        let mut salt = [0; 16];
        salt.copy_from_slice(&bytes[16..32]);
        Ok(Self {
            salt: Salt(salt),
            bound: u64_at(bytes, 32),
            segment: u64_at(bytes, 40),
            start: Position { stdout: u64_at(bytes, 48), stderr: u64_at(bytes, 56) },
        })
    }

    /// The header block of a free slot.
    pub(super) fn free() -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, FREE_MAGIC);
        bytes
    }
}

/// Writes bytes into a block.
pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Reads a number from a block.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads a number from a block.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
