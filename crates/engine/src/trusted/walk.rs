//! Walks a path, one component at a time, through directories that no other user can change.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, mkdirat, openat, readlinkat,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use super::error::TrustError;

/// Maximum number of symbolic links in one path, as in the kernel.
const MAX_LINKS: u32 = 40;
const GROUP_WRITE: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;
const PERMISSIONS: u32 = 0o7777;

/// Treatment of the last component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastComponent {
    /// Enter it; it is a directory.
    Enter,
    /// The same, and create missing directories, private to this user.
    Make,
    /// Stop before it; it is or will be a file.
    Stop,
}

/// Result of a walk.
#[derive(Debug)]
pub(super) struct WalkResult {
    /// The last directory, opened with `O_PATH`.
    pub(super) dir: OwnedFd,
    /// Its path, without symbolic links.
    pub(super) path: PathBuf,
    /// With [`LastComponent::Stop`], the name of the file in it.
    pub(super) name: OsString,
    /// Whether the file is a link of the proc file system, such as /dev/fd/3, which only the kernel can follow.
    pub(super) is_magic: bool,
}

/// The permission bits of a file.
pub(super) fn mode_of(stat: &Stat) -> u32 {
    stat.st_mode & PERMISSIONS
}

/// Whether it belongs to this user, to root, or to the owner of the root directory, which can replace everything
/// below it. (In a user namespace that owner may have no id of its own.)
pub(super) fn is_owner_trusted(owner: u32) -> bool {
    owner == geteuid().as_raw() || owner == 0 || rustix::fs::stat("/").is_ok_and(|root| root.st_uid == owner)
}

/// Refuses a directory in which another user could replace an entry.
fn check_folder(stat: &Stat, path: &Path) -> Result<(), TrustError> {
    let mode = mode_of(stat);
    if !is_owner_trusted(stat.st_uid) {
        return Err(TrustError::ParentOwner {
            path: path.to_owned(),
            owner: stat.st_uid,
            user: geteuid().as_raw(),
        });
    }
    // In a sticky directory, only their owners can replace entries, and the owner of the next component is checked.
    if mode & STICKY != 0 || mode & (GROUP_WRITE | OTHERS_WRITE) == 0 {
        return Ok(());
    }
    // If every user has a group with the same id, home directories are often writable for it.
    let own = geteuid().as_raw();
    let is_private_group = own != 0 && own == getegid().as_raw() && stat.st_gid == own;
    if mode & OTHERS_WRITE == 0 && is_private_group {
        return Ok(());
    }
    let fix = mode & !(GROUP_WRITE | OTHERS_WRITE);
    Err(TrustError::Writable { path: path.to_owned(), mode, fix })
}

fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter(|part| *part != Component::CurDir).map(|part| part.as_os_str().to_owned())
}

/// Walks along a path. Symbolic links are followed if they belong to this user or root.
pub(super) fn walk(path: &Path, last: LastComponent) -> Result<WalkResult, TrustError> {
    let path = std::path::absolute(path).map_err(TrustError::io("find", path))?;
    let mut left: VecDeque<OsString> = components(&path).collect();
    let mut at = enter(CWD, OsStr::new("/"), Path::new("/"))?;
    let mut here = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == "/" {
            at = enter(CWD, &name, Path::new("/"))?;
            here = "/".into();
            continue;
        }
        if name == ".." {
            here.pop();
            at = enter(&at, &name, &here)?;
            continue;
        }
        let full = here.join(&name);
        let is_end = left.is_empty() && last == LastComponent::Stop;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match openat(&at, &name, flags, Mode::empty()) {
            Err(Errno::NOENT) if is_end => {
                return Ok(WalkResult { dir: at, path: here, name, is_magic: false });
            }
            Err(Errno::NOENT) if last == LastComponent::Make => {
                match mkdirat(&at, &name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(TrustError::io("make", &full)(errno)),
                }
                openat(&at, &name, flags, Mode::empty())
            }
            found => found,
        };
        let found = found.map_err(TrustError::io("open", &full))?;
        let stat = fstat(&found).map_err(TrustError::io("look at", &full))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                if is_end && is_proc(&found) {
                    return Ok(WalkResult { dir: at, path: here, name, is_magic: true });
                }
                links += 1;
                if links > MAX_LINKS || !is_owner_trusted(stat.st_uid) {
                    return Err(TrustError::Link(full));
                }
                let target = readlinkat(&found, "", Vec::new()).map_err(TrustError::io("read", &full))?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                for part in components(&target).rev() {
                    left.push_front(part);
                }
            }
            _ if is_end => return Ok(WalkResult { dir: at, path: here, name, is_magic: false }),
            FileType::Directory => {
                // The caller checks the last one, with stricter rules.
                if !left.is_empty() {
                    check_folder(&stat, &full)?;
                }
                (at, here) = (found, full);
            }
            _ => return Err(TrustError::Kind { path: full, expected: "directory" }),
        }
    }
    match last {
        LastComponent::Enter | LastComponent::Make => {
            Ok(WalkResult { dir: at, path: here, name: OsString::new(), is_magic: false })
        }
        LastComponent::Stop => Err(TrustError::Kind { path: here, expected: "regular file" }),
    }
}

fn enter(dir: impl AsFd, name: &OsStr, path: &Path) -> Result<OwnedFd, TrustError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let entered = openat(dir, name, flags, Mode::empty()).map_err(TrustError::io("open", path))?;
    check_folder(&fstat(&entered).map_err(TrustError::io("look at", path))?, path)?;
    Ok(entered)
}

fn is_proc(file: &OwnedFd) -> bool {
    fstatfs(file).is_ok_and(|stat| stat.f_type == PROC_SUPER_MAGIC)
}
