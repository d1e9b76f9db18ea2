//! The state directory: who may use it, and whether it is of this boot.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FlockOperation, IFlags, Mode, OFlags, flock, ioctl_getflags, ioctl_setflags, mkdirat, renameat,
    statat, unlinkat,
};

use rustix::process::Pid;

use super::error::OpenError;
use crate::layout::{Folders, JOURNALS, SNAPSHOTS, SUPERVISORS};
use crate::procfs::Stat;
use crate::protocol::Bytes;
use crate::trusted::TrustedDir;

/// The file whose lock makes the state directory one engine's.
const LOCK: &str = "lock";

/// More than what names an instance has, in bytes.
const MAX_INSTANCE: u64 = 4096;
/// The file that has the key, and how long that is.
const KEY: &str = "key";
const KEY_BYTES: usize = 32;

/// A state directory that this engine has for itself.
#[derive(Debug)]
pub(super) struct StateDir {
    pub(super) path: PathBuf,
    pub(super) dir: TrustedDir,
    pub(super) folders: Arc<Folders>,
    /// What an engine has to know to be served by a supervisor.
    pub(super) key: Option<Bytes>,
    /// Whether what it says of living processes is of this boot and this pid namespace.
    pub(super) same_instance: bool,
    /// Held for as long as the engine lives.
    _lock: File,
}

impl StateDir {
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let fail = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::StateDir { doing, path, source }
        };
        let dir = TrustedDir::open_private(path)?;
        let path = dir.path().to_owned();
        let lock_path = path.join(LOCK);
        let mut lock = dir.open_file(LOCK, OFlags::RDWR | OFlags::CREATE)?;
        match take_lock(&lock) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(OpenError::InUse { path }),
            Err(e) => return Err(fail("lock", &lock_path)(e.into())),
        }
        make_journals(&dir);
        for name in [JOURNALS, SUPERVISORS, SNAPSHOTS] {
            dir.folder(name)?.check_entries()?;
        }
        let same_instance = check_instance(&mut lock).map_err(fail("update", &lock_path))?;
        let folders = Folders::open(&dir)?;
        let key_path = path.join(KEY);
        let mut file = dir.open_file(KEY, OFlags::RDWR | OFlags::CREATE)?;
        let key = read_key(&mut file).map_err(fail("read", &key_path))?;
        Ok(Self { path, dir, key, folders: Arc::new(folders), same_instance, _lock: lock })
    }
}

/// The key in its file, or a new one. It never changes: supervisors that live know it. A full disk must not keep an engine
/// from opening, which can free room: supervisors then serve every connection of their user, until an engine finds room.
fn read_key(file: &mut File) -> io::Result<Option<Bytes>> {
    let mut key = Vec::new();
    (&mut *file).take(KEY_BYTES as u64).read_to_end(&mut key)?;
    if key.len() < KEY_BYTES {
        key = crate::id::random::<KEY_BYTES>().to_vec();
        file.rewind()?;
        match file.write_all(&key) {
            Ok(()) => {}
            Err(e) if matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                file.set_len(0)?;
                return Ok(None);
            }
            Err(e) => return Err(e),
        }
    }
    Ok(Some(Bytes(key)))
}

/// Makes the folder of journals, if it is not there, in a part of the disk of its own.
///
/// Ext4 looks for a new file's inode near its folder, and goes around those deleted in the last minutes:
/// next to what a compiler made and removed, a new journal costs thirty times as much. In a folder
/// that is marked as the top of a tree it places new folders by their name; so this one is made under a
/// random name. Other file systems have no such flag and no such need, and whatever fails here, the
/// folder is made as any other.
fn make_journals(dir: &TrustedDir) {
    let mark = |flags| ioctl_setflags(dir, flags | IFlags::TOPDIR);
    let is_there = statat(dir, JOURNALS, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    if is_there || ioctl_getflags(dir).and_then(mark).is_err() {
        return;
    }
    let random = format!("{JOURNALS}.{:016x}", u64::from_ne_bytes(crate::id::random()));
    if mkdirat(dir, &random, Mode::RWXU).is_ok() && renameat(dir, &random, dir, JOURNALS).is_err() {
        let _ = unlinkat(dir, &random, AtFlags::REMOVEDIR);
    }
}

/// Takes the lock. A child that an engine had just forked when it was killed holds it until it has become another
/// program, so a refusal is final only when it is repeated.
fn take_lock(lock: &File) -> rustix::io::Result<()> {
    const TRIES: u32 = 20;
    let mut result = flock(lock, FlockOperation::NonBlockingLockExclusive);
    for _ in 1..TRIES {
        if result != Err(rustix::io::Errno::WOULDBLOCK) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        result = flock(lock, FlockOperation::NonBlockingLockExclusive);
    }
    result
}

/// Compares the instance in the lock file with this one, and writes this one.
fn check_instance(lock: &mut File) -> io::Result<bool> {
    // What is not of this instance may be anything.
    let mut before = Vec::new();
    (&mut *lock).take(MAX_INSTANCE).read_to_end(&mut before)?;
    let now = instance();
    if before == now.as_bytes() {
        return Ok(true);
    }
    lock.set_len(0)?;
    lock.rewind()?;
    lock.write_all(now.as_bytes())?;
    Ok(false)
}

/// What names this boot and this pid namespace. The number of a namespace may be used again after a
/// container's restart, so the start of its first process is part of it.
fn instance() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::metadata("/proc/self/ns/pid").map(|m| m.ino()).unwrap_or(0);
    let started = Stat::of(Pid::INIT).map_or_else(|| "?".to_owned(), |stat| stat.start.to_string());
    format!("boot {}\npid namespace {namespace}\nstarted {started}\n", boot.trim())
}
