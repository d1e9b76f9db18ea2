//! Folders as archives: [`pack`] writes one, [`Target::unpack`] replaces a folder by the content of one.
//!
//! An archive is a POSIX tar stream, plain or compressed with zstd. The crate `tar` encodes and decodes its headers. Its
//! reader is not used: it reads extension headers of any size into memory.
//!
//! Packing keeps modes, owners, times, symbolic and hard links, extended attributes, holes of sparse files, FIFOs and
//! names of any bytes. Unpacking follows no symbolic link: it opens each directory relative to its parent with
//! `O_NOFOLLOW`. It works in a temporary directory, and nothing of it is visible before the archive was read to its end
//! and verified.

mod attributes;
mod codec;
mod entry;
mod error;
mod pack;
mod pax;
mod pieces;
mod read;
mod room;
mod sparse;
mod swap;
mod target;
mod threaded;
mod tree;
mod write;

pub use codec::{ArchiveFormat, COMPRESSION_LEVEL, Compression, MAX_COMPRESSION_THREADS, MAX_WINDOW_LOG};
pub use entry::{MAX_ENTRIES, MAX_EXTENSION_BYTES, MAX_OPEN_XATTR_BYTES, MAX_UNPACKED_BYTES};
pub use error::ArchiveError;
pub use pack::{MAX_EXCLUDES, MAX_TRACKED_LINKS, PackOptions, Packed, check_folder, pack};
pub use pieces::PieceReader;
pub use room::ReservingWriter;
pub use sparse::MAX_SEGMENTS;
#[cfg(test)]
pub(crate) use swap::target_link;
pub(crate) use swap::{NEW, fill, recover};
pub use target::{Target, Unpacked};

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
