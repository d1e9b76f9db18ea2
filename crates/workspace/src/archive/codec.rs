//! Compression with zstd, and the trailer with which an archive is verified.
//!
//! The trailer is a skippable frame of zstd: other programs pass over it. It has the number of entries, the bytes of
//! their content, and the SHA-256 of everything before it.

use std::io::{self, BufReader, BufWriter, IntoInnerError, Read, Write};

use sha2::{Digest, Sha256};
use zstd::stream::raw::{CParameter, DParameter};
use zstd::stream::{read, write};

use super::error::ArchiveError;

/// Level of compression, as of `zstd`: the default of the program.
pub const COMPRESSION_LEVEL: i32 = 3;

/// Maximum number of threads that compress one archive. Each needs about 5 MiB.
pub const MAX_COMPRESSION_THREADS: u32 = 4;

/// Maximum window of a compressed archive, as a power of two: 16 MiB. It is the memory that the decoder needs.
/// `zstd` exceeds it only with `--long` and `--ultra`.
pub const MAX_WINDOW_LOG: u32 = 24;

/// Size of the pieces that threads compress. The default of the library, four windows, needs more memory.
const JOB_BYTES: u32 = 1 << 20;

/// Size of the buffer for headers and small files. Each write to the encoder is a turn with its threads.
const SMALL_BYTES: usize = 128 << 10;

/// Size of a skippable frame's header, and of the trailer in it.
const FRAME_HEADER_BYTES: usize = 8;
const TRAILER_BYTES: usize = FRAME_HEADER_BYTES + NAME.len() + 8 + 8 + 32;
/// Magic number of the skippable frame.
const SKIPPABLE: u32 = 0x184D_2A5C;
/// The beginning of the trailer's content.
const NAME: &[u8; 8] = b"sandcrab";

/// Magic number of a frame of zstd.
const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// How an archive is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// Plain.
    Tar,
    /// Compressed with zstd.
    TarZst,
}

/// How an archive is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// Level, as of `zstd`.
    pub level: i32,
    /// Number of threads, at most [`MAX_COMPRESSION_THREADS`].
    pub threads: u32,
}

impl Default for Compression {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
        Self { level: COMPRESSION_LEVEL, threads: threads.min(MAX_COMPRESSION_THREADS) }
    }
}

/// What a trailer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) entries: u64,
    pub(super) bytes: u64,
    sha256: [u8; 32],
}

impl Trailer {
    fn encode(self) -> Vec<u8> {
        let length = u32::try_from(TRAILER_BYTES - FRAME_HEADER_BYTES).unwrap_or(0);
        let mut bytes = Vec::with_capacity(TRAILER_BYTES);
        bytes.extend_from_slice(&SKIPPABLE.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(NAME);
        bytes.extend_from_slice(&self.entries.to_le_bytes());
        bytes.extend_from_slice(&self.bytes.to_le_bytes());
        bytes.extend_from_slice(&self.sha256);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(FRAME_HEADER_BYTES)?;
        let rest = rest.strip_prefix(NAME)?;
        let number = |at: usize| Some(u64::from_le_bytes(rest.get(at..at + 8)?.try_into().ok()?));
        let sha256 = rest.get(16..)?.try_into().ok()?;
        header.starts_with(&SKIPPABLE.to_le_bytes()).then_some(())?;
        Some(Self { entries: number(0)?, bytes: number(8)?, sha256 })
    }
}

/// Counts and hashes what is written.
pub(super) struct HashingWriter<W> {
    output: W,
    hash: Sha256,
    count: u64,
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.output.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.count += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// The output of an archive.
pub(super) enum Encoder<W: Write> {
    Plain(HashingWriter<W>),
    Zstd(Box<BufWriter<write::Encoder<'static, HashingWriter<W>>>>),
}

/// A written archive.
#[derive(Debug)]
pub(super) struct Encoded<W> {
    pub(super) output: W,
    /// Size of the archive.
    pub(super) size: u64,
    /// SHA-256 of the archive.
    pub(super) sha256: [u8; 32],
}

impl<W: Write> Encoder<W> {
    /// Without compression, the archive is plain.
    pub(super) fn new(output: W, compression: Option<Compression>) -> io::Result<Self> {
        let output = HashingWriter { output, hash: Sha256::new(), count: 0 };
        let Some(Compression { level, threads }) = compression else { return Ok(Self::Plain(output)) };
        let mut encoder = write::Encoder::new(output, level)?;
        encoder.include_checksum(true)?;
        encoder.set_parameter(CParameter::NbWorkers(threads.clamp(1, MAX_COMPRESSION_THREADS)))?;
        encoder.set_parameter(CParameter::JobSize(JOB_BYTES))?;
        Ok(Self::Zstd(Box::new(BufWriter::with_capacity(SMALL_BYTES, encoder))))
    }

    /// Completes the archive.
    pub(super) fn finish(self, entries: u64, bytes: u64) -> io::Result<Encoded<W>> {
        let mut hashed = match self {
            Self::Plain(hashed) => hashed,
            Self::Zstd(encoder) => {
                let mut hashed = encoder.into_inner().map_err(IntoInnerError::into_error)?.finish()?;
                let sha256 = hashed.hash.clone().finalize().into();
                hashed.write_all(&Trailer { entries, bytes, sha256 }.encode())?;
                hashed
            }
        };
        hashed.flush()?;
        let HashingWriter { output, hash, count } = hashed;
        Ok(Encoded { output, size: count, sha256: hash.finalize().into() })
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(output) => output.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hashes what is read, without the trailer.
pub(super) struct HashingReader<R> {
    input: R,
    hash: Sha256,
    /// The last bytes, which may be the trailer.
    last: Vec<u8>,
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        let new = &buffer[..count];
        if let Some(before) = count.checked_sub(TRAILER_BYTES) {
            self.hash.update(&self.last);
            self.hash.update(&new[..before]);
            self.last.clear();
            self.last.extend_from_slice(&new[before..]);
        } else {
            self.last.extend_from_slice(new);
            let excess = self.last.len().saturating_sub(TRAILER_BYTES);
            self.hash.update(&self.last[..excess]);
            self.last.drain(..excess);
        }
        Ok(count)
    }
}

/// The content of an archive that may be compressed.
pub(super) enum Decoder<R: Read> {
    Plain(PrefixedReader<R>),
    Zstd(Box<read::Decoder<'static, BufReader<HashingReader<PrefixedReader<R>>>>>),
}

/// The first bytes of a stream, and the rest.
pub(super) type PrefixedReader<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

impl<R: Read> Decoder<R> {
    /// Detects the format if it is not given.
    pub(super) fn new(mut input: R, format: Option<ArchiveFormat>) -> Result<Self, ArchiveError> {
        let mut first = Vec::new();
        (&mut input).take(4).read_to_end(&mut first).map_err(ArchiveError::input)?;
        let is_zstd = first == ZSTD
            || (first.len() == 4 && first[0] & 0xF0 == 0x50 && first[1..] == SKIPPABLE.to_le_bytes()[1..]);
        let format = format.unwrap_or(if is_zstd { ArchiveFormat::TarZst } else { ArchiveFormat::Tar });
        if format == ArchiveFormat::TarZst && !is_zstd {
            return Err(ArchiveError::Invalid("it is not compressed with zstd".into()));
        }
        let input = io::Cursor::new(first).chain(input);
        if format == ArchiveFormat::Tar {
            return Ok(Self::Plain(input));
        }
        let verified = HashingReader { input, hash: Sha256::new(), last: Vec::new() };
        let input = BufReader::with_capacity(256 << 10, verified);
        let mut decoder = read::Decoder::with_buffer(input).map_err(ArchiveError::Input)?;
        decoder.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG)).map_err(ArchiveError::Input)?;
        Ok(Self::Zstd(Box::new(decoder)))
    }

    /// Verifies the archive after its end was read, if it has a trailer.
    pub(super) fn verify(self) -> Result<Option<Trailer>, ArchiveError> {
        let Self::Zstd(decoder) = self else { return Ok(None) };
        let verified = decoder.finish().into_inner();
        let Some(trailer) = Trailer::decode(&verified.last) else { return Ok(None) };
        if trailer.sha256 != <[u8; 32]>::from(verified.hash.finalize()) {
            return Err(ArchiveError::Invalid("its checksum is wrong".into()));
        }
        Ok(Some(trailer))
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}
