//! The saved state of a session on disk, in case its supervisor is killed.
//!
//! There are two files ([`slot_files`]). Each begins with an increasing number, a length and a checksum. They are named
//! after the slot of the session's record. The checksum includes the salt of that use of the slot, so the state of
//! another session with the same slot is not valid.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::slot_files::{self, name};
use crate::journal::Salt;

const HEADER: usize = 24;
/// The last bytes of a header whose checksum includes a salt. Supervisors of version 3 wrote none.
const SALTED: [u8; 4] = *b"salt";
/// Maximum size of a state on disk, in bytes.
const MAX_STATE: usize = 64 << 20;

/// The files of one session's state.
#[derive(Debug)]
pub(crate) struct SnapshotFile {
    slot: u32,
    salt: Option<Salt>,
    written: u64,
    /// Number of the last written state.
    number: u64,
}

fn header(number: u64, salt: Option<Salt>, text: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&number.to_le_bytes());
    header[8..16].copy_from_slice(&(text.len() as u64).to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..16]);
    hasher.update(text);
    if let Some(salt) = salt {
        hasher.update(&salt.0);
        header[20..].copy_from_slice(&SALTED);
    }
    header[16..20].copy_from_slice(&hasher.finalize().to_le_bytes());
    header
}

impl SnapshotFile {
    /// For the session whose record is in this slot, with the salt of that record.
    pub(crate) fn new(slot: u32, salt: Option<Salt>) -> Self {
        Self { slot, salt, written: 0, number: 0 }
    }

    /// For a session whose state another process has saved: the next state does not overwrite the newest one.
    pub(crate) fn resume(folder: &OwnedFd, slot: u32, salt: Salt) -> Self {
        // One that cannot be read now is older than the next one, whose number is its time.
        let number = |turn| Some(read_one(folder, &name(slot, turn), Some(salt)).ok()??.number);
        let newest = [0, 1].into_iter().filter_map(|turn| Some((number(turn)?, turn))).max();
        let (number, written) = newest.unwrap_or_default();
        Self { slot, salt: Some(salt), written, number }
    }

    /// Whether a complete state was found or written.
    pub(crate) fn is_saved(&self) -> bool {
        self.number > 0
    }

    /// Time of the newest complete state of a session, as a number that increases. An error if one cannot be read now.
    pub(crate) fn newest(folder: &OwnedFd, slot: u32, salt: Salt) -> io::Result<Option<u64>> {
        let number = |turn| read_one(folder, &name(slot, turn), Some(salt));
        let (first, second) = (number(0)?, number(1)?);
        Ok([first, second].into_iter().flatten().map(|state| state.number).max())
    }

    /// Saves a state of the given age. Its number is its time, so that it increases across supervisors.
    pub(crate) fn write(&mut self, folder: &OwnedFd, text: &[u8], age: Duration) -> io::Result<()> {
        if text.len() > MAX_STATE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // The clock may have been set back.
        let number = micros(now.saturating_sub(age)).max(self.number.saturating_add(1));
        // A failed write is retried on the same file, so that the other one stays complete.
        let turn = self.written + 1;
        slot_files::write(folder, &name(self.slot, turn), &header(number, self.salt, text), text)?;
        (self.written, self.number) = (turn, number);
        Ok(())
    }

    /// Forgets what was saved; the next state is saved as before.
    pub(crate) fn clear(&mut self, folder: &OwnedFd) {
        self.written = 0;
        Self::remove(folder, self.slot);
    }

    /// The newest complete state of a session, and its age. A state without a salt is accepted if it is younger than
    /// the session. An error if one cannot be read now.
    pub(crate) fn read(
        folder: &OwnedFd,
        slot: u32,
        salt: Option<Salt>,
        created: SystemTime,
    ) -> io::Result<Option<(Vec<u8>, Duration)>> {
        let created = micros(created.duration_since(UNIX_EPOCH).unwrap_or_default());
        let (first, second) =
            (read_one(folder, &name(slot, 0), salt)?, read_one(folder, &name(slot, 1), salt)?);
        let is_own = |state: &StoredState| state.is_salted || state.number >= created;
        let newest = [first, second].into_iter().flatten().filter(is_own).max_by_key(|state| state.number);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(newest.map(|state| (state.text, now.saturating_sub(Duration::from_micros(state.number)))))
    }

    /// Removes a session's state; its slot may be reused.
    pub(crate) fn remove(folder: &OwnedFd, slot: u32) {
        slot_files::remove(folder, slot);
    }
}

fn micros(since_epoch: Duration) -> u64 {
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}

/// A state read from a file.
struct StoredState {
    number: u64,
    is_salted: bool,
    text: Vec<u8>,
}

/// Reads a file. `None` if it does not contain a complete state of this session.
fn read_one(folder: &OwnedFd, name: &str, salt: Option<Salt>) -> io::Result<Option<StoredState>> {
    Ok(slot_files::read(folder, name, HEADER + MAX_STATE)?.and_then(|bytes| parse(&bytes, salt)))
}

fn parse(bytes: &[u8], salt: Option<Salt>) -> Option<StoredState> {
    let (head, rest) = bytes.split_at_checked(HEADER)?;
    let number = u64::from_le_bytes(head[..8].try_into().ok()?);
    let length = usize::try_from(u64::from_le_bytes(head[8..16].try_into().ok()?)).ok()?;
    let text = rest.get(..length)?;
    let is_salted = head[20..] == SALTED;
    let salt = salt.filter(|_| is_salted);
    (header(number, salt, text) == *head).then(|| StoredState { number, is_salted, text: text.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{self, Resource};
    use rustix::fs::{CWD, Mode, OFlags, openat};
    use rustix::io::Errno;

    #[test]
    fn the_newest_whole_state_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = openat(CWD, dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        assert!(SnapshotFile::read(&folder, 7, Some(Salt([1; 16])), UNIX_EPOCH).unwrap().is_none());
        let mut file = SnapshotFile::new(7, Some(Salt([1; 16])));
        file.write(&folder, b"first", Duration::ZERO).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        file.write(&folder, b"second, longer", Duration::ZERO).unwrap();
        assert_eq!(
            SnapshotFile::read(&folder, 7, Some(Salt([1; 16])), UNIX_EPOCH).unwrap().unwrap().0,
            b"second, longer"
        );
        // A torn write of the newer one: the older one stands.
        std::fs::write(dir.path().join("000007.a"), b"garbage that is longer than a header").unwrap();
        assert_eq!(
            SnapshotFile::read(&folder, 7, Some(Salt([1; 16])), UNIX_EPOCH).unwrap().unwrap().0,
            b"first"
        );
        SnapshotFile::remove(&folder, 7);
        assert!(SnapshotFile::read(&folder, 7, Some(Salt([1; 16])), UNIX_EPOCH).unwrap().is_none());
    }

    #[test]
    fn newest_state_does_not_depend_on_the_clock() {
        let dir = tempfile::tempdir().unwrap();
        let folder = openat(CWD, dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        let salt = Salt([1; 16]);
        let read = || SnapshotFile::read(&folder, 7, Some(salt), UNIX_EPOCH).unwrap().unwrap().0;
        let mut file = SnapshotFile::new(7, Some(salt));
        let back = Duration::from_secs(60);
        file.write(&folder, b"first", Duration::ZERO).unwrap();
        file.write(&folder, b"second", back).unwrap();
        assert_eq!(read(), b"second");
        for text in [b"third", b"forth"] {
            let mut file = SnapshotFile::resume(&folder, 7, salt);
            let newest = read();
            // The newest state is in the other file, and stays if the write fails.
            let aside = name(7, file.written + 1);
            std::fs::rename(dir.path().join(&aside), dir.path().join("aside")).unwrap();
            assert_eq!(read(), newest);
            std::fs::rename(dir.path().join("aside"), dir.path().join(&aside)).unwrap();
            file.write(&folder, text, back).unwrap();
            assert_eq!(read(), text);
        }
    }

    #[test]
    fn fifo_in_place_of_the_file_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let folder = openat(CWD, dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        for name in ["000007.a", "000007.b"] {
            rustix::fs::mkfifoat(&folder, name, Mode::RUSR | Mode::WUSR).unwrap();
        }
        assert!(SnapshotFile::new(7, Some(Salt([1; 16]))).write(&folder, b"state", Duration::ZERO).is_err());
        assert!(SnapshotFile::read(&folder, 7, Some(Salt([1; 16])), UNIX_EPOCH).unwrap().is_none());
    }

    #[test]
    fn state_of_another_session_in_the_slot_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = openat(CWD, dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        SnapshotFile::new(7, Some(Salt([1; 16]))).write(&folder, b"another's", Duration::ZERO).unwrap();
        assert!(SnapshotFile::read(&folder, 7, Some(Salt([2; 16])), UNIX_EPOCH).unwrap().is_none());
        assert!(SnapshotFile::read(&folder, 7, None, UNIX_EPOCH).unwrap().is_none());
        // What has no salt is from before this version: its time has to tell.
        SnapshotFile::new(7, None).write(&folder, b"old", Duration::from_secs(9)).unwrap();
        let now = SystemTime::now();
        assert!(
            SnapshotFile::read(&folder, 7, Some(Salt([2; 16])), now - Duration::from_secs(5))
                .unwrap()
                .is_none()
        );
        assert_eq!(
            SnapshotFile::read(&folder, 7, Some(Salt([2; 16])), now - Duration::from_secs(60))
                .unwrap()
                .unwrap()
                .0,
            b"old"
        );
    }

    /// Otherwise a session would continue without its state, and the state would be removed.
    #[test]
    fn a_state_that_cannot_be_read_now_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let folder = openat(CWD, dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        let salt = Salt([1; 16]);
        SnapshotFile::new(7, Some(salt)).write(&folder, b"state", Duration::ZERO).unwrap();
        let (soft, hard) = sys::limit(None, Resource::OpenFiles).unwrap();
        sys::set_limit(None, Resource::OpenFiles, 0, hard).unwrap();
        let read = SnapshotFile::read(&folder, 7, Some(salt), UNIX_EPOCH);
        sys::set_limit(None, Resource::OpenFiles, soft, hard).unwrap();
        assert_eq!(Errno::from_io_error(&read.unwrap_err()), Some(Errno::MFILE));
        assert_eq!(SnapshotFile::read(&folder, 7, Some(salt), UNIX_EPOCH).unwrap().unwrap().0, b"state");
        // Another error, of the file that has no state yet.
        std::fs::create_dir(dir.path().join(name(7, 2))).unwrap();
        assert!(SnapshotFile::read(&folder, 7, Some(salt), UNIX_EPOCH).is_err());
        assert!(SnapshotFile::newest(&folder, 7, salt).is_err());
    }

    #[test]
    fn a_smaller_state_needs_less_space() {
        let dir = tempfile::tempdir().unwrap();
        let folder = openat(CWD, dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        let mut file = SnapshotFile::new(7, Some(Salt([1; 16])));
        for size in [1 << 20, 1 << 20, 10, 10] {
            file.write(&folder, &vec![b'x'; size], Duration::ZERO).unwrap();
        }
        for turn in [0, 1] {
            let size = std::fs::metadata(dir.path().join(name(7, turn))).unwrap().len();
            assert_eq!(size, (HEADER + 10) as u64);
        }
    }
}
