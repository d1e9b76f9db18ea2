//! [`Reader`]: the entries of a tar stream, in constant memory.

use std::io::BufRead;

use tar::{EntryType, GnuExtSparseHeader, Header};

use super::entry::{Attributes, Entry, EntryKind, MAX_ENTRIES, MAX_EXTENSION_BYTES, Time};
use super::error::ArchiveError;
use super::pax;
use super::sparse::{self, MAX_SEGMENTS, MapParser, Segment};

/// Size of a block. Headers have one block, and content is padded to blocks.
pub(super) const BLOCK: usize = 512;

/// Maximum size of what follows the end of the archive: the padding of its last record.
const MAX_TRAILING_BYTES: u64 = 4 << 20;

type Block = [u8; BLOCK];

/// Number of bytes that fill the last block of content of this size.
pub(super) fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

/// What extension headers say about the next entry.
#[derive(Debug, Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u32>,
    gid: Option<u32>,
    modified: Option<Time>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Size and name of a sparse file.
    sparse_size: Option<u64>,
    sparse_name: Option<Vec<u8>>,
    is_sparse: bool,
    /// Bytes of all extension headers of the entry.
    bytes: u64,
}

/// Reads the entries of a tar stream. The content of an entry is read with [`Reader::content`].
#[derive(Debug)]
pub(super) struct Reader<R> {
    input: R,
    /// Unread content of the current entry, and its padding.
    content: u64,
    padding: u64,
    entries: u64,
}

impl<R: BufRead> Reader<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, content: 0, padding: 0, entries: 0 }
    }

    /// The stream, to be verified.
    pub(super) fn into_input(self) -> R {
        self.input
    }

    /// Number of entries so far.
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// The next entry, after the content of the current one. `None` at the end of the archive, which is read to the
    /// end of the stream.
    pub(super) fn next_entry(&mut self) -> Result<Option<Entry>, ArchiveError> {
        let mut extensions = Extensions::default();
        loop {
            self.skip(self.content)?;
            self.skip(self.padding)?;
            (self.content, self.padding) = (0, 0);
            let block = self.block()?;
            if block.iter().all(|byte| *byte == 0) {
                self.end()?;
                return Ok(None);
            }
            let header = Header::from_byte_slice(&block);
            check_sum(&block, header)?;
            let size = header.entry_size().map_err(|_| malformed("size"))?;
            match header.entry_type() {
                EntryType::GNULongName => extensions.path = Some(self.name(size, &mut extensions.bytes)?),
                EntryType::GNULongLink => extensions.link = Some(self.name(size, &mut extensions.bytes)?),
                EntryType::XHeader => {
                    let records = self.extension(size, &mut extensions.bytes)?;
                    extensions.apply(&records)?;
                }
                // Comments of the whole archive, such as the commit of `git archive`.
                EntryType::XGlobalHeader => {
                    let mut bytes = 0;
                    self.extension(size, &mut bytes)?;
                    self.count()?;
                }
                _ => {
                    self.count()?;
                    return self.entry(header, size, extensions).map(Some);
                }
            }
        }
    }

    fn count(&mut self) -> Result<(), ArchiveError> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(ArchiveError::Invalid(format!("it has more than {MAX_ENTRIES} entries")));
        }
        Ok(())
    }

    fn entry(&mut self, header: &Header, size: u64, extensions: Extensions) -> Result<Entry, ArchiveError> {
        let path = extensions.path.unwrap_or_else(|| header.path_bytes().into_owned());
        let path = extensions.sparse_name.unwrap_or(path);
        let kind = match header.entry_type() {
            // Old archives mark directories with a slash.
            EntryType::Regular if path.ends_with(b"/") => EntryKind::Directory,
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => EntryKind::File,
            EntryType::Link => EntryKind::HardLink,
            EntryType::Symlink => EntryKind::Symlink,
            EntryType::Directory => EntryKind::Directory,
            EntryType::Fifo => EntryKind::Fifo,
            EntryType::Block | EntryType::Char => {
                return Err(ArchiveError::entry(&path, "it is a device"));
            }
            other => {
                return Err(ArchiveError::entry(
                    &path,
                    format!("its type {} is not supported", other.as_byte()),
                ));
            }
        };
        let id = |extension: Option<u32>, header: std::io::Result<u64>| {
            extension.or_else(|| u32::try_from(header.ok()?).ok()).ok_or_else(|| malformed("owner"))
        };
        let modified = match extensions.modified {
            Some(modified) => modified,
            None => Time { seconds: seconds(header).ok_or_else(|| malformed("time"))?, nanoseconds: 0 },
        };
        let attributes = Attributes {
            mode: header.mode().map_err(|_| malformed("mode"))? & 0o7777,
            uid: id(extensions.uid, header.uid())?,
            gid: id(extensions.gid, header.gid())?,
            modified,
            xattrs: extensions.xattrs,
        };
        let link = extensions.link.or_else(|| Some(header.link_name_bytes()?.into_owned()));
        let mut entry =
            Entry { kind, path, link: link.unwrap_or_default(), attributes, size: 0, segments: None };
        if kind != EntryKind::File {
            // A hard link has the size of its file, but not its content.
            return Ok(entry);
        }
        let size = extensions.size.unwrap_or(size);
        self.content = size;
        self.padding = padding(size);
        entry.size = size;
        if header.entry_type() == EntryType::GNUSparse {
            (entry.size, entry.segments) = self.old_sparse(header)?;
        } else if extensions.is_sparse {
            let size = extensions.sparse_size.ok_or_else(|| malformed("size"))?;
            (entry.size, entry.segments) = (size, Some(self.sparse_map()?));
        }
        if let Some(segments) = &entry.segments {
            sparse::check(segments, entry.size, self.content)?;
        }
        Ok(entry)
    }

    /// The map before the content of a sparse file.
    fn sparse_map(&mut self) -> Result<Vec<Segment>, ArchiveError> {
        let mut parser = MapParser::default();
        loop {
            self.content = self.content.checked_sub(BLOCK as u64).ok_or_else(|| malformed("sparse map"))?;
            let block = self.block()?;
            if let Some(map) = parser.feed(&block)? {
                return Ok(map);
            }
        }
    }

    /// The map in the header of a sparse file of the older format of GNU, and in the blocks after it.
    fn old_sparse(&mut self, header: &Header) -> Result<(u64, Option<Vec<Segment>>), ArchiveError> {
        let gnu = header.as_gnu().ok_or_else(|| malformed("sparse map"))?;
        let size = gnu.real_size().map_err(|_| malformed("size"))?;
        let mut segments = Vec::new();
        let mut add = |all: &[tar::GnuSparseHeader]| -> Result<(), ArchiveError> {
            for one in all.iter().filter(|one| !one.is_empty()) {
                let (Ok(offset), Ok(length)) = (one.offset(), one.length()) else {
                    return Err(malformed("sparse map"));
                };
                segments.push(Segment { offset, length });
            }
            if segments.len() > MAX_SEGMENTS { Err(malformed("sparse map")) } else { Ok(()) }
        };
        add(&gnu.sparse)?;
        let mut is_extended = gnu.is_extended();
        while is_extended {
            let mut more = GnuExtSparseHeader::new();
            *more.as_mut_bytes() = self.block()?;
            add(more.sparse())?;
            is_extended = more.is_extended();
        }
        Ok((size, Some(segments)))
    }

    /// The name in an extension header of GNU.
    fn name(&mut self, size: u64, total: &mut u64) -> Result<Vec<u8>, ArchiveError> {
        let mut name = self.extension(size, total)?;
        if name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    /// The content of an extension header, with its padding.
    fn extension(&mut self, size: u64, total: &mut u64) -> Result<Vec<u8>, ArchiveError> {
        // A header without content counts too, so that there is an end.
        *total = total.saturating_add(size).saturating_add(BLOCK as u64);
        if *total > MAX_EXTENSION_BYTES {
            return Err(ArchiveError::Invalid(format!(
                "the extension headers of an entry have more than {MAX_EXTENSION_BYTES} bytes"
            )));
        }
        let mut content = vec![0; usize::try_from(size).map_err(|_| malformed("size"))?];
        self.input.read_exact(&mut content).map_err(ArchiveError::input)?;
        self.skip(padding(size))?;
        Ok(content)
    }

    /// Passes the next `count` bytes of the content on.
    pub(super) fn content(
        &mut self,
        mut count: u64,
        mut sink: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        self.content = self.content.checked_sub(count).ok_or_else(|| malformed("size"))?;
        while count > 0 {
            let available = self.input.fill_buf().map_err(ArchiveError::input)?;
            if available.is_empty() {
                return Err(ArchiveError::Invalid("it is incomplete".into()));
            }
            let taken = usize::try_from(count).unwrap_or(usize::MAX).min(available.len());
            sink(&available[..taken])?;
            self.input.consume(taken);
            count -= taken as u64;
        }
        Ok(())
    }

    fn skip(&mut self, count: u64) -> Result<(), ArchiveError> {
        let content = std::mem::replace(&mut self.content, count);
        self.content(count, |_| Ok(()))?;
        self.content = content;
        Ok(())
    }

    fn block(&mut self) -> Result<Block, ArchiveError> {
        let mut block = [0; BLOCK];
        self.input.read_exact(&mut block).map_err(ArchiveError::input)?;
        Ok(block)
    }

    /// Reads the stream to its end, after the first of two empty blocks.
    fn end(&mut self) -> Result<(), ArchiveError> {
        let mut trailing = 0;
        loop {
            let available = self.input.fill_buf().map_err(ArchiveError::input)?;
            if available.is_empty() {
                break;
            }
            if available.iter().any(|byte| *byte != 0) {
                return Err(ArchiveError::Invalid("data follows its end".into()));
            }
            let count = available.len();
            self.input.consume(count);
            trailing += count as u64;
            if trailing > MAX_TRAILING_BYTES {
                return Err(ArchiveError::Invalid("too much padding follows its end".into()));
            }
        }
        if trailing < BLOCK as u64 {
            return Err(ArchiveError::Invalid("it is incomplete".into()));
        }
        Ok(())
    }
}

impl Extensions {
    fn apply(&mut self, records: &[u8]) -> Result<(), ArchiveError> {
        let mut version = (None, None);
        for (name, value) in pax::parse(records)? {
            let text = || Some(value.to_vec());
            match name {
                b"path" => self.path = text(),
                b"linkpath" => self.link = text(),
                b"size" => self.size = Some(pax::number(value).ok_or_else(|| malformed("size"))?),
                b"uid" => self.uid = Some(pax::number(value).ok_or_else(|| malformed("owner"))?),
                b"gid" => self.gid = Some(pax::number(value).ok_or_else(|| malformed("owner"))?),
                b"mtime" => self.modified = Some(pax::parse_time(value).ok_or_else(|| malformed("time"))?),
                b"GNU.sparse.major" => version.0 = text(),
                b"GNU.sparse.minor" => version.1 = text(),
                b"GNU.sparse.name" => self.sparse_name = text(),
                b"GNU.sparse.realsize" => {
                    self.sparse_size = Some(pax::number(value).ok_or_else(|| malformed("size"))?);
                }
                b"GNU.sparse.map" | b"GNU.sparse.numblocks" => {
                    return Err(ArchiveError::Invalid(
                        "its format of sparse files is not supported; use `tar --sparse-version=1.0`".into(),
                    ));
                }
                _ => {
                    if let Some(name) = name.strip_prefix(pax::XATTR) {
                        self.xattrs.push((name.to_vec(), value.to_vec()));
                    }
                }
            }
        }
        match version {
            (None, None) => Ok(()),
            (Some(major), Some(minor)) if major == b"1" && minor == b"0" => {
                self.is_sparse = true;
                Ok(())
            }
            _ => Err(ArchiveError::Invalid("its format of sparse files is not supported".into())),
        }
    }
}

fn malformed(what: &str) -> ArchiveError {
    ArchiveError::Invalid(format!("the {what} of an entry is malformed"))
}

/// The time in a header. GNU writes times before 1970 as a negative binary number.
fn seconds(header: &Header) -> Option<i64> {
    let field = header.as_old().mtime;
    if field[0] == 0xff {
        return Some(i64::from_be_bytes(field[4..].try_into().ok()?));
    }
    i64::try_from(header.mtime().ok()?).ok()
}

/// Checks the sum of a header. Old programs counted signed bytes.
fn check_sum(block: &Block, header: &Header) -> Result<(), ArchiveError> {
    let bytes =
        || block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { b' ' } else { *byte });
    let unsigned: u32 = bytes().map(u32::from).sum();
    let signed: i32 = bytes().map(|byte| i32::from(byte.cast_signed())).sum();
    match header.cksum() {
        Ok(sum) if sum == unsigned || i64::from(sum) == i64::from(signed) => Ok(()),
        _ => Err(ArchiveError::Invalid("it is damaged, or not a tar archive".into())),
    }
}
