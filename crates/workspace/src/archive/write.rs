//! Writes entries of a tar stream.

use std::io::{self, Write};

use tar::{EntryType, Header};

use super::entry::{Entry, EntryKind, MAX_EXTENSION_BYTES, Time};
use super::pax;
use super::read::{BLOCK, padding};
use super::sparse::format_map;

/// Length of a name in a header. Longer ones have an extension header.
const NAME_BYTES: usize = 100;

/// Maximum size in the octal digits of a header.
const MAX_OCTAL_SIZE: u64 = (1 << 33) - 1;

/// Writes the headers of an entry, and for a sparse file its map. The content and its padding must follow.
pub(super) fn write_header(output: &mut impl Write, entry: &Entry) -> io::Result<()> {
    let map = entry.segments.as_ref().map(|segments| format_map(segments, entry.size));
    let stored = match (&entry.segments, &map) {
        (Some(segments), Some(map)) => {
            map.len() as u64 + segments.iter().map(|segment| segment.length).sum::<u64>()
        }
        _ => entry.size,
    };
    let records = extension_records(entry, stored);
    if !records.is_empty() {
        let mut header = Header::new_ustar();
        fill(&mut header, b"././@PaxHeader", EntryType::XHeader, records.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_cksum();
        output.write_all(header.as_bytes())?;
        output.write_all(&records)?;
        pad(output, records.len() as u64)?;
    }
    let kind = match entry.kind {
        EntryKind::File => EntryType::Regular,
        EntryKind::HardLink => EntryType::Link,
        EntryKind::Symlink => EntryType::Symlink,
        EntryKind::Directory => EntryType::Directory,
        EntryKind::Fifo => EntryType::Fifo,
    };
    let mut header = Header::new_ustar();
    fill(&mut header, &entry.path, kind, stored);
    let attributes = &entry.attributes;
    header.set_mode(attributes.mode);
    header.set_uid(attributes.uid.into());
    header.set_gid(attributes.gid.into());
    header.set_mtime(octal_seconds(attributes.modified).unwrap_or(0));
    let link = &entry.link[..entry.link.len().min(NAME_BYTES)];
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
    header.set_cksum();
    output.write_all(header.as_bytes())?;
    output.write_all(&map.unwrap_or_default())
}

/// The records of the extension header of an entry that has this size in the archive.
fn extension_records(entry: &Entry, stored: u64) -> Vec<u8> {
    let mut records = Vec::new();
    if entry.segments.is_some() {
        pax::append(&mut records, b"GNU.sparse.major", b"1");
        pax::append(&mut records, b"GNU.sparse.minor", b"0");
        pax::append(&mut records, b"GNU.sparse.name", &entry.path);
        pax::append(&mut records, b"GNU.sparse.realsize", entry.size.to_string().as_bytes());
    } else if entry.path.len() > NAME_BYTES {
        pax::append(&mut records, b"path", &entry.path);
    }
    if entry.link.len() > NAME_BYTES {
        pax::append(&mut records, b"linkpath", &entry.link);
    }
    if stored > MAX_OCTAL_SIZE {
        pax::append(&mut records, b"size", stored.to_string().as_bytes());
    }
    let modified = entry.attributes.modified;
    if modified.nanoseconds != 0 || octal_seconds(modified).is_none() {
        pax::append(&mut records, b"mtime", pax::format_time(modified).as_bytes());
    }
    for (name, value) in &entry.attributes.xattrs {
        pax::append(&mut records, &[pax::XATTR, name].concat(), value);
    }
    records
}

/// Whether the extension header of an entry is larger than unpacking allows. Without extended attributes it has only
/// paths, which are short.
pub(super) fn has_large_extension(entry: &Entry) -> bool {
    !entry.attributes.xattrs.is_empty()
        && (extension_records(entry, u64::MAX).len() + BLOCK) as u64 > MAX_EXTENSION_BYTES
}

/// The seconds of a time, if they fit into the octal digits of a header.
fn octal_seconds(time: Time) -> Option<u64> {
    u64::try_from(time.seconds).ok().filter(|seconds| *seconds <= MAX_OCTAL_SIZE)
}

fn fill(header: &mut Header, name: &[u8], kind: EntryType, size: u64) {
    let name = &name[..name.len().min(NAME_BYTES)];
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
}

/// Fills the last block of content of this size.
pub(super) fn pad(output: &mut impl Write, size: u64) -> io::Result<()> {
    let missing = padding(size);
    output.write_all(&[0; BLOCK][..usize::try_from(missing).unwrap_or(0)])
}

/// Writes the two empty blocks that end an archive.
pub(super) fn end(output: &mut impl Write) -> io::Result<()> {
    output.write_all(&[0; 2 * BLOCK])
}
