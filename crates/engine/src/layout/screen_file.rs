//! The saved screens of a terminal on disk: see `docs/design/terminals.md`.
//!
//! There are two files ([`slot_files`]), named after the slot of the terminal's journal. The checksum includes the salt of that use of the slot, so the screen of another terminal with the same
//! slot is not valid.

use std::io;
use std::os::fd::OwnedFd;

use minicbor::{Decode, Encode};
use rustix::fs::{AtFlags, Dir, statat};

use super::slot_files::{self, name};
use crate::journal::Salt;
use crate::protocol::Bytes;
use crate::terminal::TerminalSize;
use crate::wire;

/// Maximum size of a saved screen, in bytes.
pub const MAX_SAVED_SCREEN_BYTES: usize = 16 << 20;
/// Checksum (4), reserved (4), length of the body (8).
const HEADER: usize = 16;
/// Maximum size of the body: the repaint and a few numbers.
const MAX_BODY: usize = MAX_SAVED_SCREEN_BYTES + 256;
/// Number of attempts to find a complete file: the writer may overwrite each of them while it is read.
const ATTEMPTS: usize = 4;
/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// A screen at some position of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct ScreenState {
    /// The cursor up to which output is part of it.
    #[n(0)]
    pub(crate) cursor: u64,
    /// Number of sizes that are part of it.
    #[n(1)]
    pub(crate) sizes: u64,
    #[n(2)]
    pub(crate) size: TerminalSize,
    /// Whether all output before the cursor is part of it.
    #[n(3)]
    pub(crate) complete: bool,
    /// The bytes that paint it on a new emulator of this size.
    #[n(4)]
    pub(crate) repaint: Bytes,
}

/// The writer of one terminal's saved screens.
#[derive(Debug)]
pub(crate) struct ScreenFile {
    slot: u32,
    salt: Salt,
    written: u64,
}

/// The slot of a file with this name.
fn slot_of(name: &str) -> Option<u32> {
    let (slot, turn) = name.split_once('.')?;
    slot.parse().ok().filter(|_| matches!(turn, "a" | "b"))
}

fn header(salt: Salt, body: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[8..].copy_from_slice(&(body.len() as u64).to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(b"screen");
    hasher.update(&salt.0);
    hasher.update(&header[4..]);
    hasher.update(body);
    header[..4].copy_from_slice(&hasher.finalize().to_le_bytes());
    header
}

impl ScreenFile {
    /// For the terminal whose journal is in this slot, with the salt of that journal.
    pub(crate) fn new(slot: u32, salt: Salt) -> Self {
        Self { slot, salt, written: 0 }
    }

    /// Saves a screen. If this fails, the previous one stays.
    pub(crate) fn write(&mut self, folder: &OwnedFd, screen: &ScreenState) -> io::Result<()> {
        let body = wire::to_bytes(screen);
        if body.len() > MAX_BODY {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let turn = self.written + 1;
        slot_files::write(folder, &name(self.slot, turn), &header(self.salt, &body), &body)?;
        self.written = turn;
        Ok(())
    }

    /// The newest complete screen that this writer has saved.
    pub(crate) fn read_own(&self, folder: &OwnedFd) -> io::Result<Option<ScreenState>> {
        Self::read(folder, self.slot, self.salt)
    }

    /// The newest complete screen of the terminal with this journal. An error is not the same as none: the journal may
    /// have dropped the output that led to it.
    pub(crate) fn read(folder: &OwnedFd, slot: u32, salt: Salt) -> io::Result<Option<ScreenState>> {
        for _ in 0..ATTEMPTS {
            let found = [read_one(folder, &name(slot, 0), salt)?, read_one(folder, &name(slot, 1), salt)?];
            let is_absent = found.iter().all(|one| matches!(one, FoundFile::Absent));
            let screens = found.into_iter().filter_map(|one| match one {
                FoundFile::Screen(screen) => Some(*screen),
                FoundFile::Absent | FoundFile::Invalid => None,
            });
            if let Some(newest) = screens.max_by_key(|screen| (screen.cursor, screen.sizes)) {
                return Ok(Some(newest));
            }
            if is_absent {
                break;
            }
        }
        Ok(None)
    }

    /// Removes the saved screens of a slot.
    pub(crate) fn remove(folder: &OwnedFd, slot: u32) {
        slot_files::remove(folder, slot);
    }

    /// Removes those of all slots for which this is false.
    pub(crate) fn remove_others(folder: &OwnedFd, is_kept: impl Fn(u32) -> bool) {
        let Ok(entries) = Dir::read_from(folder) else { return };
        let slots: Vec<u32> =
            entries.flatten().filter_map(|entry| slot_of(&entry.file_name().to_string_lossy())).collect();
        slots.into_iter().filter(|slot| !is_kept(*slot)).for_each(|slot| Self::remove(folder, slot));
    }

    /// Their size on disk.
    pub(crate) fn bytes_on_disk(folder: &OwnedFd, slot: u32) -> u64 {
        let blocks = |turn| {
            let stat = statat(folder, name(slot, turn), AtFlags::SYMLINK_NOFOLLOW).ok()?;
            u64::try_from(stat.st_blocks).ok()
        };
        [0, 1].into_iter().filter_map(blocks).sum::<u64>() * BLOCK_BYTES
    }
}

/// The content of a file.
#[derive(Debug)]
enum FoundFile {
    Absent,
    /// Being written, or of an earlier use of the slot.
    Invalid,
    Screen(Box<ScreenState>),
}

fn read_one(folder: &OwnedFd, name: &str, salt: Salt) -> io::Result<FoundFile> {
    let Some(bytes) = slot_files::read(folder, name, HEADER + MAX_BODY)? else {
        return Ok(FoundFile::Absent);
    };
    Ok(decode(&bytes, salt).map_or(FoundFile::Invalid, |screen| FoundFile::Screen(Box::new(screen))))
}

fn decode(bytes: &[u8], salt: Salt) -> Option<ScreenState> {
    let (head, rest) = bytes.split_at_checked(HEADER)?;
    let length = usize::try_from(u64::from_le_bytes(head[8..].try_into().ok()?)).ok()?;
    let body = rest.get(..length)?;
    if header(salt, body) != *head {
        return None;
    }
    minicbor::decode(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, openat};

    const SALT: Salt = Salt([1; 16]);

    fn screen(cursor: u64, bytes: usize) -> ScreenState {
        let size = TerminalSize::default();
        ScreenState { cursor, sizes: 1, size, complete: true, repaint: Bytes(vec![b'x'; bytes]) }
    }

    fn folder(dir: &tempfile::TempDir) -> OwnedFd {
        openat(CWD, dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap()
    }

    #[test]
    fn the_newest_complete_screen_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(&dir);
        assert_eq!(ScreenFile::read(&folder, 7, SALT).unwrap(), None);
        let mut file = ScreenFile::new(7, SALT);
        for (cursor, bytes) in [(10, 5000), (20, 3), (30, 70_000)] {
            file.write(&folder, &screen(cursor, bytes)).unwrap();
            assert_eq!(ScreenFile::read(&folder, 7, SALT).unwrap(), Some(screen(cursor, bytes)));
        }
        assert!(ScreenFile::bytes_on_disk(&folder, 7) >= 70_000);
        // A torn write of the newer one.
        let path = dir.path().join(name(7, 3));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[40_000] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(ScreenFile::read(&folder, 7, SALT).unwrap(), Some(screen(20, 3)));
        // Another use of the slot.
        assert_eq!(ScreenFile::read(&folder, 7, Salt([2; 16])).unwrap(), None);
        // A file that cannot be read is not an absent one.
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(ScreenFile::read(&folder, 7, SALT).is_err());
    }

    #[test]
    fn only_unknown_screens_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(&dir);
        for slot in [1, 2, 3] {
            ScreenFile::new(slot, SALT).write(&folder, &screen(1, 1)).unwrap();
        }
        std::fs::write(dir.path().join("other"), "file").unwrap();
        ScreenFile::remove_others(&folder, |slot| slot == 2);
        let mut names: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["000002.b", "other"]);
        assert!(ScreenFile::new(9, SALT).write(&folder, &screen(1, MAX_BODY)).is_err());
    }
}
