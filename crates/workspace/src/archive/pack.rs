//! [`pack`]: a folder as an archive.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::attributes::{XattrBuffers, XattrSource, of_stat};
use super::codec::{Compression, Encoder};
use super::entry::{
    Entry, EntryKind, MAX_ENTRIES, MAX_EXTENSION_BYTES, MAX_OPEN_XATTR_BYTES, MAX_UNPACKED_BYTES,
    TOO_LARGE_XATTRS, checked_components,
};
use super::error::ArchiveError;
use super::sparse::{Segment, segments};
use super::write::{end, has_large_extension, pad, write_header};
use crate::error::{AtPath, FileError, FileErrorKind};
use crate::ignore_rules::{IgnoreFiles, IgnoreRules};
use crate::walk::{Cancel, check_glob};
use crate::write::is_temporary;

/// Maximum number of exclude rules.
pub const MAX_EXCLUDES: usize = 1_000;

/// Maximum number of files with several hard links that are remembered. Links of further ones are packed as files.
pub const MAX_TRACKED_LINKS: usize = 100_000;

/// Size of the buffer for the content of files.
const BUFFER_BYTES: usize = 256 << 10;

/// What is packed.
#[derive(Debug, Clone, Default)]
pub struct PackOptions {
    /// Rules as in a `.gitignore` file in the folder. What matches is not packed.
    pub excludes: Vec<String>,
    /// Whether `.gitignore` and `.git/info/exclude` files are respected, if the folder is in a repository.
    pub respects_gitignore: bool,
    /// Directories that are not packed, under any name.
    pub left_out: Vec<PathBuf>,
    /// How it is compressed; `None` for a plain archive.
    pub compression: Option<Compression>,
    /// Ends the packing early, with an error.
    pub cancel: Cancel,
}

/// A written archive.
#[derive(Debug)]
pub struct Packed<W> {
    /// Where it was written to.
    pub output: W,
    /// Size of the archive.
    pub size_bytes: u64,
    /// SHA-256 of the archive.
    pub sha256: [u8; 32],
    /// Number of entries.
    pub entries: u64,
    /// Bytes of content, without holes.
    pub content_bytes: u64,
    /// Number of files that changed while they were read. A file that became shorter ends with zeros.
    pub changed: u64,
    /// Number of sockets and devices, which are not packed.
    pub skipped: u64,
}

/// Follows a symbolic link that is given as the folder, and checks that it is a directory that can be read.
pub fn check_folder(path: &Path) -> Result<PathBuf, FileError> {
    let folder = std::fs::canonicalize(path).at(path)?;
    drop(std::fs::read_dir(&folder).at(path)?);
    Ok(folder)
}

/// Packs a folder. Other file systems that are mounted below it are packed as empty directories.
///
/// Files that vanish are left out. A file that cannot be read is an error, and one that [`Target`](super::Target) would
/// refuse to unpack too. The names of one directory at a time are in memory, because they are sorted.
pub fn pack<W: Write>(path: &Path, options: &PackOptions, output: W) -> Result<Packed<W>, ArchiveError> {
    let root = check_folder(path)?;
    let excludes = excludes(&root, &options.excludes)?;
    let output = Encoder::new(output, options.compression).map_err(ArchiveError::Output)?;
    let mut packer = Packer {
        output,
        order: PackOrder::default(),
        links: HashMap::new(),
        xattrs: XattrBuffers::new(),
        open_xattr_bytes: Vec::new(),
        buffer: vec![0; BUFFER_BYTES],
        cancel: options.cancel.clone(),
        entries: 0,
        content: 0,
        changed: 0,
        skipped: 0,
    };
    for entry in walk(&root, options, excludes).build() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(e) => match walk_error(&root, &e) {
                Some(error) => return Err(error.into()),
                None => continue,
            },
        };
        packer.check_cancel()?;
        if packer.order.leaves_out(entry.depth(), entry.file_name()) {
            continue;
        }
        let relative = entry.path().strip_prefix(&root).unwrap_or(Path::new(""));
        let is_file = entry.depth() > 0 && entry.file_type().is_some_and(|found| found.is_file());
        let relative = relative.as_os_str().as_bytes();
        // The open file tells whether it still is one. If not, it is packed as what it is now.
        let mut added = if is_file { packer.add_file(entry.path(), relative)? } else { None };
        if added.is_none() {
            added = packer.add(entry.path(), relative)?;
        }
        if added != Some(EntryKind::Directory) {
            packer.order.leave_out_below(entry.depth());
        }
    }
    let Packer { mut output, entries, content, changed, skipped, .. } = packer;
    end(&mut output).map_err(ArchiveError::Output)?;
    let done = output.finish(entries, content).map_err(ArchiveError::Output)?;
    Ok(Packed {
        output: done.output,
        size_bytes: done.size,
        sha256: done.sha256,
        entries,
        content_bytes: content,
        changed,
        skipped,
    })
}

fn excludes(root: &Path, rules: &[String]) -> Result<Gitignore, ArchiveError> {
    if rules.len() > MAX_EXCLUDES {
        let why = format!("{} exclude rules given; at most {MAX_EXCLUDES} are allowed", rules.len());
        return Err(ArchiveError::InvalidExclude(why));
    }
    let mut builder = GitignoreBuilder::new(root);
    for rule in rules {
        check_glob(rule).map_err(|e| ArchiveError::InvalidExclude(e.to_string()))?;
        builder.add_line(None, rule).map_err(|e| ArchiveError::InvalidExclude(e.to_string()))?;
    }
    builder.build().map_err(|e| ArchiveError::InvalidExclude(e.to_string()))
}

fn walk(root: &Path, options: &PackOptions, excludes: Gitignore) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    let left_out: Vec<_> = options.left_out.iter().filter_map(|path| identity(path)).collect();
    let rules = options.respects_gitignore.then(|| IgnoreRules::new(root, IgnoreFiles::Git));
    builder
        .standard_filters(false)
        .follow_links(false)
        .same_file_system(true)
        .sort_by_file_name(Ord::cmp)
        .filter_entry(move |entry| {
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            entry.depth() == 0
                || !(is_temporary(entry.file_name())
                    || excludes.matched(entry.path(), is_directory).is_ignore()
                    || rules
                        .as_ref()
                        .is_some_and(|rules| rules.matched(entry.path(), is_directory).is_ignore())
                    || (is_directory
                        && identity(entry.path()).is_some_and(|found| left_out.contains(&found))))
        });
    builder
}

/// Device and inode.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// The error of a walk, unless a directory has vanished or was replaced.
fn walk_error(root: &Path, error: &ignore::Error) -> Option<FileError> {
    fn path_of(error: &ignore::Error) -> Option<&Path> {
        match error {
            ignore::Error::WithPath { path, .. } => Some(path),
            ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
            _ => None,
        }
    }
    let path = path_of(error).unwrap_or(root);
    // Not if it cannot be read: without it, the archive would be incomplete.
    let is_replaced = || match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => FileType::from_raw_mode(found.st_mode) != FileType::Directory,
        Err(error) => has_vanished(error),
    };
    match error.io_error() {
        Some(e) if e.kind() == io::ErrorKind::NotFound && path != root => None,
        Some(_) if path != root && is_replaced() => None,
        Some(e) => {
            let source = e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error);
            Some(FileError::of(path, source))
        }
        None => Some(FileError::new(FileErrorKind::Other, path)),
    }
}

/// The state of packing.
struct Packer<W: Write> {
    output: Encoder<W>,
    order: PackOrder,
    /// Files with several hard links, by device and inode.
    links: HashMap<(u64, u64), HardLink>,
    xattrs: XattrBuffers,
    /// Size of the extended attributes of the directories above the current entry, by their depth.
    open_xattr_bytes: Vec<usize>,
    buffer: Vec<u8>,
    cancel: Cancel,
    entries: u64,
    content: u64,
    changed: u64,
    skipped: u64,
}

/// A file with several hard links.
struct HardLink {
    first: Vec<u8>,
    /// Number of links that were not seen.
    missing: u64,
    /// Size and time of the last change. A new file may get the inode of a deleted one.
    version: (i64, i64, i64),
}

/// Where the walk is. The names of a directory are sorted; one that is renamed while they are read may occur twice. A
/// directory may be replaced after its names were read, for example by a symbolic link: then they are names in another
/// directory, and an archive with them could not be unpacked.
#[derive(Default)]
struct PackOrder {
    /// The current entry and the directories above it.
    names: Vec<OsString>,
    /// The depth of an entry whose content is left out.
    left_out: Option<usize>,
}

impl PackOrder {
    /// Whether this entry was packed before, or is below one whose content is left out.
    fn leaves_out(&mut self, depth: usize, name: &OsStr) -> bool {
        if self.left_out.is_some_and(|above| depth > above) {
            return true;
        }
        self.left_out = (self.names.get(depth).is_some_and(|last| last == name)).then_some(depth);
        self.names.truncate(depth);
        self.names.push(name.to_owned());
        self.left_out.is_some()
    }

    /// Leaves out what the walk has found below the current entry, because it is not a directory.
    fn leave_out_below(&mut self, depth: usize) {
        self.left_out = Some(depth);
    }
}

/// Whether the error means that the file has vanished, or that it or a directory above it was replaced.
fn has_vanished(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::STALE)
}

impl<W: Write> Packer<W> {
    /// Packs an entry. Returns as what, or `None` if it is left out.
    fn add(&mut self, path: &Path, relative: &[u8]) -> Result<Option<EntryKind>, ArchiveError> {
        let stat = match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            Err(e) if has_vanished(e) && !relative.is_empty() => return Ok(None),
            stat => stat.at(path)?,
        };
        let file_type = FileType::from_raw_mode(stat.st_mode);
        if relative.is_empty() && file_type != FileType::Directory {
            return Err(FileError::new(FileErrorKind::NotDirectory, path).into());
        }
        let entry = match file_type {
            FileType::RegularFile => return self.add_file(path, relative),
            FileType::Directory => {
                let path_in_archive =
                    if relative.is_empty() { b"./".to_vec() } else { [relative, b"/"].concat() };
                let mut entry = of_kind(EntryKind::Directory, path_in_archive, &stat);
                entry.attributes.xattrs = self.xattrs.read(XattrSource::Path(path));
                entry
            }
            FileType::Symlink => {
                let link = match rustix::fs::readlinkat(CWD, path, Vec::new()) {
                    // It has vanished, or is not a link any more.
                    Err(e) if has_vanished(e) || e == Errno::INVAL => return Ok(None),
                    link => link.at(path)?,
                };
                let mut entry = of_kind(EntryKind::Symlink, relative.to_vec(), &stat);
                entry.link = link.into_bytes();
                entry
            }
            FileType::Fifo => of_kind(EntryKind::Fifo, relative.to_vec(), &stat),
            _ => {
                self.skipped += 1;
                return Ok(None);
            }
        };
        self.write(path, &entry)?;
        Ok(Some(entry.kind))
    }

    fn add_file(&mut self, path: &Path, relative: &[u8]) -> Result<Option<EntryKind>, ArchiveError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
        let mut file = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(e) if has_vanished(e) => return Ok(None),
            file => File::from(file.at(path)?),
        };
        let stat = rustix::fs::fstat(&file).at(path)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let mut entry = of_kind(EntryKind::File, relative.to_vec(), &stat);
        if stat.st_nlink > 1
            && let Some(first) = self.first_link(&stat, relative)
        {
            (entry.kind, entry.link) = (EntryKind::HardLink, first);
            self.write(path, &entry)?;
            return Ok(Some(entry.kind));
        }
        entry.attributes.xattrs = self.xattrs.read(XattrSource::Open(file.as_fd()));
        entry.size = u64::try_from(stat.st_size).unwrap_or(0);
        let has_holes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512) < entry.size;
        if has_holes {
            entry.segments = segments(&file, entry.size, &self.cancel).at(path)?;
        }
        self.write(path, &entry)?;
        let is_complete = match &entry.segments {
            None => self.copy(&mut file, path, entry.size)?,
            Some(segments) => {
                let mut is_complete = true;
                for Segment { offset, length } in segments {
                    file.seek(SeekFrom::Start(*offset)).at(path)?;
                    is_complete &= self.copy(&mut file, path, *length)?;
                }
                is_complete
            }
        };
        let stored = entry.segments.as_ref().map_or(entry.size, |all| all.iter().map(|one| one.length).sum());
        pad(&mut self.output, stored).map_err(ArchiveError::Output)?;
        self.content += stored;
        let now = rustix::fs::fstat(&file).at(path)?;
        self.changed += u64::from(!is_complete || version(&now) != version(&stat));
        Ok(Some(entry.kind))
    }

    /// The path of an earlier entry that is the same file.
    fn first_link(&mut self, stat: &Stat, relative: &[u8]) -> Option<Vec<u8>> {
        let key = (stat.st_dev, stat.st_ino);
        let version = version(stat);
        if let Some(linked) = self.links.get_mut(&key).filter(|linked| linked.version == version) {
            linked.missing -= 1;
            if linked.missing > 0 {
                return Some(linked.first.clone());
            }
            return self.links.remove(&key).map(|linked| linked.first);
        }
        if self.links.len() < MAX_TRACKED_LINKS || self.links.contains_key(&key) {
            let linked = HardLink { first: relative.to_vec(), missing: stat.st_nlink - 1, version };
            self.links.insert(key, linked);
        }
        None
    }

    fn write(&mut self, path: &Path, entry: &Entry) -> Result<(), ArchiveError> {
        self.entries += 1;
        self.check_limits(entry).map_err(|why| ArchiveError::Limit { path: path.to_owned(), why })?;
        write_header(&mut self.output, entry).map_err(ArchiveError::Output)
    }

    /// Checks the limits of unpacking.
    fn check_limits(&mut self, entry: &Entry) -> Result<(), String> {
        let depth = checked_components(&entry.path)?.len();
        if self.entries > MAX_ENTRIES {
            return Err(format!("the folder has more than {MAX_ENTRIES} entries"));
        }
        if has_large_extension(entry) {
            return Err(format!("its extended attributes have more than {MAX_EXTENSION_BYTES} bytes"));
        }
        if entry.kind == EntryKind::Directory {
            self.open_xattr_bytes.resize(depth, 0);
            self.open_xattr_bytes.push(entry.attributes.xattr_bytes());
            if self.open_xattr_bytes.iter().sum::<usize>() > MAX_OPEN_XATTR_BYTES {
                return Err(TOO_LARGE_XATTRS.into());
            }
        }
        let stored = match &entry.segments {
            Some(segments) => segments.iter().map(|segment| segment.length).sum(),
            None => entry.size,
        };
        if self.content.saturating_add(stored) > MAX_UNPACKED_BYTES {
            return Err(format!("the folder has more than {MAX_UNPACKED_BYTES} bytes"));
        }
        Ok(())
    }

    fn check_cancel(&self) -> Result<(), ArchiveError> {
        match self.cancel.is_cancelled() {
            true => Err(ArchiveError::Output(io::ErrorKind::BrokenPipe.into())),
            false => Ok(()),
        }
    }

    /// Copies content of this size. Returns false if the file has less, which is filled with zeros.
    fn copy(&mut self, file: &mut File, path: &Path, size: u64) -> Result<bool, ArchiveError> {
        let mut missing = size;
        let mut is_complete = true;
        while missing > 0 {
            self.check_cancel()?;
            let wanted = usize::try_from(missing).unwrap_or(usize::MAX).min(self.buffer.len());
            let count = match is_complete {
                true => match file.read(&mut self.buffer[..wanted]) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    count => count.at(path)?,
                },
                false => wanted,
            };
            if count == 0 {
                is_complete = false;
                self.buffer.fill(0);
                continue;
            }
            self.output.write_all(&self.buffer[..count]).map_err(ArchiveError::Output)?;
            missing -= count as u64;
        }
        Ok(is_complete)
    }
}

/// Size and time of the last change of the content.
fn version(stat: &Stat) -> (i64, i64, i64) {
    (stat.st_size, stat.st_mtime, stat.st_mtime_nsec.cast_signed())
}

fn of_kind(kind: EntryKind, path: Vec<u8>, stat: &Stat) -> Entry {
    Entry { kind, path, link: Vec::new(), attributes: of_stat(stat), size: 0, segments: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packer() -> Packer<Vec<u8>> {
        Packer {
            output: Encoder::new(Vec::new(), None).unwrap(),
            order: PackOrder::default(),
            links: HashMap::new(),
            xattrs: XattrBuffers::new(),
            open_xattr_bytes: Vec::new(),
            buffer: Vec::new(),
            cancel: Cancel::default(),
            entries: 0,
            content: 0,
            changed: 0,
            skipped: 0,
        }
    }

    fn entry(kind: EntryKind, path: &str, xattr_bytes: usize) -> Entry {
        let mut attributes = super::super::entry::Attributes::default();
        if xattr_bytes > 0 {
            attributes.xattrs = vec![(b"user.large".to_vec(), vec![b'x'; xattr_bytes])];
        }
        Entry { kind, path: path.into(), link: Vec::new(), attributes, size: 0, segments: None }
    }

    #[test]
    fn names_that_are_read_twice_are_packed_once() {
        let mut order = PackOrder::default();
        let walk = [
            (0, "folder"),
            (1, "a"),
            (1, "a"),
            (1, "d"),
            (2, "x"),
            (2, "y"),
            (1, "d"),
            (2, "x"),
            (3, "y"),
            (1, "e"),
            (2, "x"),
        ];
        let packed: Vec<_> =
            walk.into_iter().filter(|(depth, name)| !order.leaves_out(*depth, OsStr::new(name))).collect();
        assert_eq!(packed, [(0, "folder"), (1, "a"), (1, "d"), (2, "x"), (2, "y"), (1, "e"), (2, "x")]);
    }

    #[test]
    fn names_below_an_entry_that_is_not_a_directory_are_left_out() {
        let mut order = PackOrder::default();
        let mut leaves_out = |depth, name| order.leaves_out(depth, OsStr::new(name));
        assert!(!leaves_out(0, "folder") && !leaves_out(1, "replaced"));
        order.leave_out_below(1);
        let mut leaves_out = |depth, name| order.leaves_out(depth, OsStr::new(name));
        assert!(leaves_out(2, "x") && leaves_out(3, "y"));
        assert!(!leaves_out(1, "s") && !leaves_out(2, "x"));
    }

    #[test]
    fn a_new_file_with_the_inode_of_a_deleted_one_is_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let mut stat = rustix::fs::stat(folder.path()).unwrap();
        stat.st_nlink = 3;
        let mut packer = packer();
        assert_eq!(packer.first_link(&stat, b"a"), None);
        assert_eq!(packer.first_link(&stat, b"b").as_deref(), Some(b"a".as_slice()));
        stat.st_mtime += 1;
        assert_eq!(packer.first_link(&stat, b"c"), None);
        assert_eq!(packer.first_link(&stat, b"d").as_deref(), Some(b"c".as_slice()));
    }

    fn why(packer: &mut Packer<Vec<u8>>, entry: &Entry) -> String {
        match packer.write(Path::new("/folder/x"), entry).unwrap_err() {
            ArchiveError::Limit { path, why } if path == Path::new("/folder/x") => why,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn what_could_not_be_unpacked_is_not_packed() {
        let file = entry(EntryKind::File, "x", 0);
        assert!(why(&mut packer(), &entry(EntryKind::File, "x", 1 << 20)).contains("attributes"));
        assert!(why(&mut packer(), &entry(EntryKind::File, &"d/".repeat(513), 0)).contains("512 levels"));
        assert!(why(&mut Packer { entries: MAX_ENTRIES, ..packer() }, &file).contains("entries"));
        let huge = Entry { size: MAX_UNPACKED_BYTES + 1, ..file.clone() };
        assert!(why(&mut packer(), &huge).contains("bytes"));
        packer().write(Path::new("/folder/x"), &Entry { size: MAX_UNPACKED_BYTES, ..file }).unwrap();
    }

    #[test]
    fn packing_ends_early() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("large")).unwrap();
        file.set_len(1 << 40).unwrap();
        // Without holes in the archive, packing takes hours.
        let cancel = Cancel::default();
        let mut packer = Packer { buffer: vec![0; 1 << 10], cancel: cancel.clone(), ..packer() };
        cancel.cancel();
        let mut file = File::open(folder.path().join("large")).unwrap();
        let copied = packer.copy(&mut file, folder.path(), 1 << 40);
        assert!(matches!(copied, Err(ArchiveError::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe));
        let options = PackOptions { cancel, ..PackOptions::default() };
        assert!(pack(folder.path(), &options, Vec::new()).is_err());
    }

    #[test]
    fn extended_attributes_of_nested_directories_are_bounded() {
        let mut packer = packer();
        let path = |depth: usize| if depth == 0 { "./".into() } else { "d/".repeat(depth) };
        for depth in [0, 1, 2, 2, 3, 1, 2, 3] {
            packer
                .write(Path::new("/folder/x"), &entry(EntryKind::Directory, &path(depth), 1_000_000))
                .unwrap();
        }
        let deeper = entry(EntryKind::Directory, &path(4), 1_000_000);
        assert!(why(&mut packer, &deeper).contains("parent directories"));
    }
}
