//! [`Tree`]: writes entries below a directory, and never outside of it.
//!
//! Every directory is opened relative to its parent, and never through a symbolic link. The open directories are a
//! stack, so an archive in the usual order opens each directory once. A directory gets its attributes when it is left,
//! because its mode may forbid to write, every new entry changes its time, and new entries inherit a default ACL.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::attributes::{Owner, of_stat};
use super::entry::{
    Attributes, Entry, EntryKind, MAX_OPEN_XATTR_BYTES, MAX_UNPACKED_BYTES, TOO_LARGE_XATTRS, components,
};
use super::error::ArchiveError;
use super::read::Reader;
use super::room::room;
use super::sparse::Segment;
use crate::error::{AtPath, FileError, FileErrorKind};

/// A directory below the root that is open.
struct Level {
    name: Vec<u8>,
    directory: OwnedFd,
    /// What the directory gets when it is left.
    attributes: Option<Attributes>,
}

/// Writes entries below a directory.
pub(super) struct Tree {
    root: OwnedFd,
    /// For errors.
    shown: PathBuf,
    levels: Vec<Level>,
    owner: Owner,
    /// The attributes of the root, from its entry.
    root_attributes: Option<Attributes>,
    /// Size in memory of the extended attributes of the root and of all levels.
    open_xattr_bytes: usize,
    content: u64,
    /// Bytes that may be written.
    room: u64,
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Tree {
    /// A tree in an empty directory. Errors show `shown`.
    pub(super) fn new(root: &Path, shown: &Path, owner: Owner) -> Result<Self, FileError> {
        let root = rustix::fs::open(root, DIRECTORY, Mode::empty()).at(shown)?;
        let room = room(&root).at(shown)?.unwrap_or(MAX_UNPACKED_BYTES);
        Ok(Self {
            root,
            shown: shown.to_owned(),
            levels: Vec::new(),
            owner,
            root_attributes: None,
            open_xattr_bytes: 0,
            content: 0,
            room,
        })
    }

    /// Bytes of content so far.
    pub(super) fn content_bytes(&self) -> u64 {
        self.content
    }

    /// Writes an entry with its content.
    pub(super) fn add<R: std::io::BufRead>(
        &mut self,
        entry: Entry,
        reader: &mut Reader<R>,
    ) -> Result<(), ArchiveError> {
        let names = components(&entry.path)?;
        let Some((name, parents)) = names.split_last() else {
            if entry.kind != EntryKind::Directory {
                return Err(ArchiveError::entry(&entry.path, "it replaces the folder itself"));
            }
            while !self.levels.is_empty() {
                self.leave()?;
            }
            return self.set_attributes(entry);
        };
        if entry.kind == EntryKind::Directory {
            self.enter(&names, &entry.path)?;
            return self.set_attributes(entry);
        }
        self.enter(parents, &entry.path)?;
        let created = match entry.kind {
            EntryKind::Symlink => self.add_symlink(name, &entry),
            EntryKind::HardLink => self.add_hard_link(name, &entry),
            EntryKind::Fifo => self.add_fifo(name, &entry),
            _ => self.add_file(name, &entry, reader),
        };
        created.map_err(|error| match error {
            ArchiveError::File(e) if e.kind == FileErrorKind::Exists => {
                ArchiveError::entry(&entry.path, "it occurs twice")
            }
            error => error,
        })
    }

    fn at<T>(&self, result: Result<T, Errno>) -> Result<T, ArchiveError> {
        Ok(result.at(&self.shown)?)
    }

    /// The innermost open directory.
    fn current(&self) -> BorrowedFd<'_> {
        self.levels.last().map_or(self.root.as_fd(), |level| level.directory.as_fd())
    }

    /// Keeps the attributes of the innermost open directory until it is left.
    fn set_attributes(&mut self, entry: Entry) -> Result<(), ArchiveError> {
        let Self { levels, root_attributes, open_xattr_bytes, .. } = self;
        let kept = levels.last_mut().map_or(root_attributes, |level| &mut level.attributes);
        let added = entry.attributes.xattr_bytes();
        let removed = kept.replace(entry.attributes).map_or(0, |old| old.xattr_bytes());
        *open_xattr_bytes = *open_xattr_bytes + added - removed;
        if *open_xattr_bytes > MAX_OPEN_XATTR_BYTES {
            return Err(ArchiveError::entry(&entry.path, TOO_LARGE_XATTRS));
        }
        Ok(())
    }

    /// Makes this directory the innermost one. Missing directories are created.
    fn enter(&mut self, names: &[&[u8]], path: &[u8]) -> Result<(), ArchiveError> {
        let common = self.levels.iter().zip(names).take_while(|(level, name)| level.name == **name).count();
        while self.levels.len() > common {
            self.leave()?;
        }
        for name in &names[common..] {
            let level = self.open_level(name, path)?;
            self.levels.push(level);
        }
        Ok(())
    }

    fn open_level(&self, name: &[u8], path: &[u8]) -> Result<Level, ArchiveError> {
        let parent = self.current();
        let level = |directory, attributes| Level { name: name.to_vec(), directory, attributes };
        match rustix::fs::mkdirat(parent, name, Mode::from_bits_truncate(0o777)) {
            Ok(()) => {
                let directory = self.at(rustix::fs::openat(parent, name, DIRECTORY, Mode::empty()))?;
                return Ok(level(directory, None));
            }
            Err(Errno::EXIST) => {}
            Err(e) => return self.at(Err(e)),
        }
        // It was left before, with its attributes.
        let stat = self.at(rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Err(ArchiveError::entry(path, "it passes through an entry that is not a directory"));
        }
        if stat.st_mode & 0o700 != 0o700 {
            // It is not a link, and only the user of this thread could replace it.
            let opened = Mode::from_bits_truncate(stat.st_mode & 0o7777 | 0o700);
            self.at(rustix::fs::chmodat(parent, name, opened, AtFlags::empty()))?;
        }
        let directory = self.at(rustix::fs::openat(parent, name, DIRECTORY, Mode::empty()))?;
        Ok(level(directory, Some(of_stat(&stat))))
    }

    /// Leaves the innermost directory.
    fn leave(&mut self) -> Result<(), ArchiveError> {
        let Some(level) = self.levels.pop() else { return Ok(()) };
        match &level.attributes {
            Some(attributes) => {
                self.open_xattr_bytes -= attributes.xattr_bytes();
                self.at(self.owner.apply(&level.directory, attributes))
            }
            None => Ok(()),
        }
    }

    fn add_symlink(&self, name: &[u8], entry: &Entry) -> Result<(), ArchiveError> {
        if entry.link.is_empty() || entry.link.contains(&0) {
            return Err(ArchiveError::entry(&entry.path, "its target is empty, or contains a NUL byte"));
        }
        let parent = self.current();
        self.at(rustix::fs::symlinkat(entry.link.as_slice(), parent, name))?;
        self.at(self.owner.apply_at(parent, name, &entry.attributes)).map(drop)
    }

    fn add_hard_link(&self, name: &[u8], entry: &Entry) -> Result<(), ArchiveError> {
        let refused = |why| ArchiveError::entry(&entry.path, why);
        let names = components(&entry.link)?;
        let Some((target, parents)) = names.split_last() else {
            return Err(refused("it is a hard link to the folder itself"));
        };
        let missing = || refused("it is a hard link to a file that is not an earlier entry");
        let mut directory: Option<OwnedFd> = None;
        for parent in parents {
            let above = directory.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
            match rustix::fs::openat(above, *parent, DIRECTORY, Mode::empty()) {
                Ok(opened) => directory = Some(opened),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Err(missing()),
                Err(e) => return self.at(Err(e)),
            }
        }
        let directory = directory.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
        match rustix::fs::statat(directory, *target, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {}
            Ok(_) | Err(Errno::NOENT) => return Err(missing()),
            Err(e) => return self.at(Err(e)),
        }
        self.at(rustix::fs::linkat(directory, *target, self.current(), name, AtFlags::empty()))
    }

    fn add_fifo(&self, name: &[u8], entry: &Entry) -> Result<(), ArchiveError> {
        let parent = self.current();
        let mode = Mode::from_bits_truncate(entry.attributes.mode & 0o777);
        self.at(rustix::fs::mknodat(parent, name, FileType::Fifo, mode, 0))?;
        // Not a link: it was created here. The umask may have removed bits.
        self.at(rustix::fs::chmodat(parent, name, mode, AtFlags::empty()))?;
        self.at(self.owner.apply_at(parent, name, &entry.attributes)).map(drop)
    }

    fn add_file<R: std::io::BufRead>(
        &mut self,
        name: &[u8],
        entry: &Entry,
        reader: &mut Reader<R>,
    ) -> Result<(), ArchiveError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(self.current(), name, flags, Mode::from_bits_truncate(0o600));
        let mut file = File::from(self.at(opened)?);
        match &entry.segments {
            None => self.write_content(&mut file, entry.size, reader)?,
            Some(segments) => {
                for Segment { offset, length } in segments {
                    file.seek(SeekFrom::Start(*offset)).at(&self.shown)?;
                    self.write_content(&mut file, *length, reader)?;
                }
                self.at(rustix::fs::ftruncate(&file, entry.size))?;
            }
        }
        self.at(self.owner.apply(&file, &entry.attributes))
    }

    fn write_content<R: std::io::BufRead>(
        &mut self,
        file: &mut File,
        count: u64,
        reader: &mut Reader<R>,
    ) -> Result<(), ArchiveError> {
        let Self { content, room, shown, .. } = self;
        reader.content(count, |bytes| {
            *content += bytes.len() as u64;
            if *content > MAX_UNPACKED_BYTES {
                let why = format!("it has more than {MAX_UNPACKED_BYTES} bytes");
                return Err(ArchiveError::Invalid(why));
            }
            if *content > *room {
                return Err(FileError::new(FileErrorKind::NoSpace, &*shown).into());
            }
            Ok(file.write_all(bytes).at(shown)?)
        })
    }

    /// Leaves all directories, and writes everything to the disk. Returns the attributes of the root.
    pub(super) fn finish(mut self) -> Result<Option<Attributes>, ArchiveError> {
        while !self.levels.is_empty() {
            self.leave()?;
        }
        self.at(rustix::fs::syncfs(&self.root))?;
        Ok(self.root_attributes)
    }
}
