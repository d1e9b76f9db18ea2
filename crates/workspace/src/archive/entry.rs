//! [`Entry`]: a file of an archive, without its content.

use super::error::ArchiveError;
use super::sparse::Segment;
use crate::remove::MAX_DEPTH;

/// Maximum number of entries of an archive.
pub const MAX_ENTRIES: u64 = 5_000_000;

/// Maximum number of bytes that an archive is unpacked to. Holes are not counted.
pub const MAX_UNPACKED_BYTES: u64 = 1 << 40;

/// Maximum size of the extension headers of one entry: long names, extended attributes.
pub const MAX_EXTENSION_BYTES: u64 = 1 << 20;

/// Maximum size in memory of the extended attributes of a directory and its parent directories. An archive is unpacked
/// in the order of its entries, and a directory gets its attributes after its content.
pub const MAX_OPEN_XATTR_BYTES: usize = 4 << 20;

/// What is wrong with a directory beyond [`MAX_OPEN_XATTR_BYTES`].
pub(super) const TOO_LARGE_XATTRS: &str =
    "the extended attributes of the directory and its parent directories have more than 4 MiB";

/// Maximum length of a path in an archive.
const MAX_ENTRY_PATH_BYTES: usize = 4095;

/// Maximum length of a name in an archive.
const MAX_ENTRY_NAME_BYTES: usize = 255;

/// Type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    HardLink,
    Symlink,
    Directory,
    Fifo,
}

/// A time with nanoseconds since 1970. Earlier times have negative seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Time {
    pub(super) seconds: i64,
    pub(super) nanoseconds: u32,
}

/// Extended attributes: names and values.
pub(super) type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// Attributes of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Attributes {
    /// Permission bits, with set-user-id, set-group-id and sticky.
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) modified: Time,
    pub(super) xattrs: Xattrs,
}

impl Attributes {
    /// Size of the extended attributes in memory. Small ones need more than their bytes.
    pub(super) fn xattr_bytes(&self) -> usize {
        const ALLOCATION_BYTES: usize = 32;
        let one = |(name, value): &(Vec<u8>, Vec<u8>)| {
            name.len() + value.len() + 2 * (size_of::<Vec<u8>>() + ALLOCATION_BYTES)
        };
        self.xattrs.iter().map(one).sum()
    }
}

/// A file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) kind: EntryKind,
    pub(super) path: Vec<u8>,
    /// Target of a link. For a hard link, the path of an earlier entry.
    pub(super) link: Vec<u8>,
    pub(super) attributes: Attributes,
    /// Size of the content, with holes.
    pub(super) size: u64,
    /// The data of a sparse file, which the archive contains without the holes.
    pub(super) segments: Option<Vec<Segment>>,
}

/// The names of a path. Refuses paths that leave the folder.
pub(super) fn components(path: &[u8]) -> Result<Vec<&[u8]>, ArchiveError> {
    checked_components(path).map_err(|why| ArchiveError::entry(path, why))
}

/// The same, with the reason as the error.
pub(super) fn checked_components(path: &[u8]) -> Result<Vec<&[u8]>, &'static str> {
    let refused = Err;
    if path.starts_with(b"/") {
        return refused("its path is absolute");
    }
    if path.is_empty() || path.contains(&0) {
        return refused("its path is empty, or contains a NUL byte");
    }
    if path.len() > MAX_ENTRY_PATH_BYTES {
        return refused("its path is longer than 4,095 bytes");
    }
    let names: Vec<_> =
        path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")).collect();
    if names.contains(&b"..".as_slice()) {
        return refused("its path contains `..`");
    }
    if names.iter().any(|name| name.len() > MAX_ENTRY_NAME_BYTES) {
        return refused("a name is longer than 255 bytes");
    }
    if names.len() > MAX_DEPTH {
        return refused("it is deeper than 512 levels");
    }
    Ok(names)
}
