//! [`Records`]: the temporary names in use, in a file. After a SIGKILL, the next process removes what they name.
//!
//! The file has slots of a fixed size, one per name in use. A slot is written through the open file, so a thread with
//! the identity of another user can do it. Nothing is synced: the file need only survive the process.

use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::{AtPath, FileError, FileErrorKind};
use crate::identity::Identity;
use crate::path::MAX_PATH_BYTES;
use crate::write::is_temporary;

/// Maximum number of temporary names at the same time.
pub const MAX_RECORDS: usize = 1024;

/// Size of a slot: the path, and the user with some groups.
const SLOT_BYTES: usize = 8192;

/// Maximum number of supplementary groups in a slot. Others are left out.
const MAX_GROUPS: usize = 512;

/// The temporary names in use. A handle.
///
/// ```
/// use sandcrab_workspace::staging::Records;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let (records, leftovers) = Records::open(&folder.path().join("staged"))?;
/// for leftover in leftovers {
///     leftover.recover()?.remove()?;
/// }
/// let temporary = folder.path().join(".sandcrab-1f.tmp");
/// // Before the file or directory is created.
/// let record = records.add(&temporary)?;
/// std::fs::create_dir(&temporary)?;
/// std::fs::rename(&temporary, folder.path().join("complete"))?;
/// // After it was renamed or removed.
/// drop(record);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Records(Option<Arc<Slots>>);

#[derive(Debug)]
struct Slots {
    file: File,
    /// Whether each slot is in use. Grows up to [`MAX_RECORDS`].
    used: Mutex<Vec<bool>>,
}

/// A temporary name in use. Drop it when nothing has the name any more.
#[derive(Debug)]
pub struct Record(Option<(Arc<Slots>, usize)>);

/// What an earlier process left behind. Dropped, it stays for the next process.
#[derive(Debug)]
pub struct Leftover {
    path: PathBuf,
    identity: Identity,
    record: Record,
}

/// What an earlier process left behind, when folders are as they were or as they were to be. Dropped, it stays for the next
/// process.
#[derive(Debug)]
pub struct Recovered(Leftover);

impl Records {
    /// Opens the file, which is created if it does not exist, and returns what an earlier process left behind. Only one
    /// process may use the file at a time.
    pub fn open(path: &Path) -> Result<(Self, Vec<Leftover>), FileError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).at(path)?);
        let slots = Arc::new(Slots { file, used: Mutex::default() });
        let mut leftovers = Vec::new();
        for index in 0..MAX_RECORDS {
            let mut slot = vec![0; SLOT_BYTES];
            if read_slot(&slots.file, &mut slot, index).at(path)? == 0 {
                break;
            }
            let found = parse(&slot);
            slots.lock().push(found.is_some());
            if let Some((path, identity)) = found {
                let record = Record(Some((Arc::clone(&slots), index)));
                leftovers.push(Leftover { path, identity, record });
            }
        }
        Ok((Self(Some(slots)), leftovers))
    }

    /// Records nothing: after a SIGKILL, temporary names stay.
    pub fn none() -> Self {
        Self(None)
    }

    /// Records a temporary name, before it is used. The path must be absolute, and its name one of
    /// [`Staging`](super::Staging): `.sandcrab-….tmp`.
    pub fn add(&self, path: &Path) -> Result<Record, FileError> {
        let Some(slots) = &self.0 else { return Ok(Record(None)) };
        let index = slots.take().ok_or_else(|| FileError::new(FileErrorKind::OutOfResources, path))?;
        // Frees the slot if it cannot be written.
        let record = Record(Some((Arc::clone(slots), index)));
        let slot = slot(path).at(path)?;
        slots.file.write_all_at(&slot, offset(index)).at(path)?;
        Ok(record)
    }
}

impl Slots {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<bool>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free slot.
    fn take(&self) -> Option<usize> {
        let mut used = self.lock();
        let index = used.iter().position(|used| !used).unwrap_or(used.len());
        if index == MAX_RECORDS {
            return None;
        }
        if index == used.len() {
            used.push(false);
        }
        used[index] = true;
        Some(index)
    }
}

impl Record {
    /// Leaves the record for the next process, because the temporary file could not be removed. The slot is not used
    /// again by this one.
    pub fn keep(&mut self) {
        self.0 = None;
    }

    /// Frees the slot.
    fn end(&mut self) {
        if let Some((slots, index)) = self.0.take() {
            // A record that stays names a file that does not exist.
            drop(slots.file.write_all_at(&[0; 4], offset(index)));
            slots.lock()[index] = false;
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.end();
    }
}

impl Leftover {
    /// The temporary file or directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Completes or undoes the replacement of the entries of a folder, if the earlier process had begun one. Do this before
    /// others use the folder: their files could be taken for entries of it. After an error the record stays, because the
    /// directory may contain the only copy of entries. The next process tries again.
    pub fn recover(self) -> Result<Recovered, FileError> {
        self.run(crate::archive::recover)?;
        Ok(Recovered(self))
    }

    /// Does something as the user that created it.
    fn run(&self, operation: impl FnOnce(&Path) -> Result<(), FileError>) -> Result<(), FileError> {
        self.identity.run(|| operation(&self.path)).at(&self.path)?
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        self.record.keep();
    }
}

impl Recovered {
    /// The temporary file or directory.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Removes the file, or the directory with its content, as the user that created it. After an error the record stays,
    /// and the next process tries again.
    pub fn remove(mut self) -> Result<(), FileError> {
        self.0.run(crate::remove::discard_tree)?;
        self.0.record.end();
        Ok(())
    }
}

fn offset(index: usize) -> u64 {
    (index * SLOT_BYTES) as u64
}

fn read_slot(file: &File, slot: &mut [u8], index: usize) -> io::Result<usize> {
    loop {
        match file.read_at(slot, offset(index)) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// A slot: number of bytes of the path (0: free), user, group, number of groups, groups, path.
fn slot(path: &Path) -> Result<Vec<u8>, Errno> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > MAX_PATH_BYTES {
        return Err(Errno::NAMETOOLONG);
    }
    let groups = rustix::process::getgroups()?;
    let groups = &groups[..groups.len().min(MAX_GROUPS)];
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let count = |length: usize| u32::try_from(length).map_err(|_| Errno::INVAL);
    let numbers = [count(bytes.len())?, user, group, count(groups.len())?];
    let numbers = numbers.into_iter().chain(groups.iter().map(|group| group.as_raw()));
    let mut slot: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
    slot.extend_from_slice(bytes);
    Ok(slot)
}

/// The path and the user of a slot. `None` if it is free, or not one that [`slot`] has written.
fn parse(slot: &[u8]) -> Option<(PathBuf, Identity)> {
    let number = |index: usize| -> Option<u32> {
        slot.get(index * 4..index * 4 + 4)?.try_into().ok().map(u32::from_le_bytes)
    };
    let (length, user, group) = (number(0)? as usize, number(1)?, number(2)?);
    let count = number(3)? as usize;
    if count > MAX_GROUPS {
        return None;
    }
    let groups: Vec<u32> = (4..4 + count).map(number).collect::<Option<_>>()?;
    let start = (4 + count) * 4;
    let path = PathBuf::from(std::ffi::OsString::from_vec(slot.get(start..start + length)?.to_vec()));
    // Nothing else is ever removed, whatever the file contains.
    if !path.is_absolute() || !path.file_name().is_some_and(is_temporary) {
        return None;
    }
    let is_own = user == rustix::process::geteuid().as_raw();
    let identity = if is_own { Identity::own() } else { Identity::of(user, group, &groups) };
    Some((path, identity))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn leftovers_are_found_until_they_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (records, leftovers) = Records::open(&at("staged")).unwrap();
        assert!(leftovers.is_empty());
        let done = records.add(&at(".sandcrab-1.tmp")).unwrap();
        let kept = ["2", "3", "4"].map(|name| records.add(&at(&format!(".sandcrab-{name}.tmp"))).unwrap());
        // Neither is a temporary name.
        let invalid = [at("file"), "relative/.sandcrab-5.tmp".into()].map(|path| records.add(&path).unwrap());
        drop(done);
        fs::write(at("file"), "").unwrap();
        fs::create_dir_all(at(".sandcrab-2.tmp/a/b")).unwrap();
        fs::write(at(".sandcrab-3.tmp"), "").unwrap();
        // As by a SIGKILL.
        std::mem::forget((kept, invalid));
        drop(records);

        let (records, leftovers) = Records::open(&at("staged")).unwrap();
        assert_eq!(leftovers.len(), 3);
        let new = records.add(&at(".sandcrab-6.tmp")).unwrap();
        for leftover in leftovers {
            leftover.recover().unwrap().remove().unwrap();
        }
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["file", "staged"]);
        drop(new);
        assert!(Records::open(&at("staged")).unwrap().1.is_empty());
    }

    /// Entries of a folder are in the temporary directory, and cannot be put back yet.
    #[test]
    fn failed_recovery_is_tried_again_by_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let temporary = at(".sandcrab-1.tmp");
        let leftovers = || Records::open(&at("staged")).unwrap().1;
        let (records, _) = Records::open(&at("staged")).unwrap();
        std::mem::forget(records.add(&temporary).unwrap());
        fs::create_dir_all(temporary.join("old/directory")).unwrap();
        std::os::unix::fs::symlink(at("target"), crate::archive::target_link(&temporary)).unwrap();
        for _ in 0..2 {
            let [leftover] = <[_; 1]>::try_from(leftovers()).unwrap();
            assert_eq!(leftover.recover().unwrap_err().kind, FileErrorKind::NotFound);
            assert!(temporary.join("old/directory").exists());
        }
        fs::create_dir(at("target")).unwrap();
        leftovers().into_iter().for_each(|leftover| leftover.recover().unwrap().remove().unwrap());
        assert!(at("target/directory").exists() && !temporary.exists());
        assert!(leftovers().is_empty());
    }

    #[test]
    fn number_of_records_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let (records, _) = Records::open(&folder.path().join("staged")).unwrap();
        let path = folder.path().join(".sandcrab-1.tmp");
        let mut held: Vec<_> = (0..MAX_RECORDS).map(|_| records.add(&path).unwrap()).collect();
        assert_eq!(records.add(&path).unwrap_err().kind, FileErrorKind::OutOfResources);
        held.pop();
        records.add(&path).unwrap();
    }

    #[test]
    fn root_record_of_another_user_is_removed_as_that_user() {
        use std::os::unix::fs::PermissionsExt;
        const NOBODY: u32 = 65534;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::create_dir_all(at("private")).unwrap();
        fs::set_permissions(at("private"), fs::Permissions::from_mode(0o700)).unwrap();
        let (own, others) = (at("private/.sandcrab-1.tmp"), at(".sandcrab-2.tmp"));
        let (records, _) = Records::open(&at("staged")).unwrap();
        let user = Identity::of(NOBODY, NOBODY, &[NOBODY]);
        for path in [&own, &others] {
            fs::write(path, "").unwrap();
            std::mem::forget(user.run(|| records.add(path)).unwrap().unwrap());
        }
        drop(records);
        let leftovers = Records::open(&at("staged")).unwrap().1.into_iter();
        let removed: Vec<_> =
            leftovers.map(|leftover| leftover.recover().and_then(Recovered::remove)).collect();
        assert_eq!(removed[0].as_ref().unwrap_err().kind, FileErrorKind::PermissionDenied);
        assert!(removed[1].is_ok() && own.exists() && !others.exists());
        assert_eq!(Records::open(&at("staged")).unwrap().1.len(), 1);
    }
}
