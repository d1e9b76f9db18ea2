//! Reads and sets the attributes of files.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;

use super::entry::{Attributes, Time, Xattrs};

/// Maximum size of the names, and of a value, of extended attributes, as in the kernel.
const MAX_XATTR_BYTES: usize = 64 << 10;

/// Set-user-id and set-group-id.
const SET_ID_BITS: u32 = 0o6000;

/// Start of the names of extended attributes that give no rights.
const PLAIN_XATTRS: &[u8] = b"user.";

/// Buffers for extended attributes.
#[derive(Debug)]
pub(super) struct XattrBuffers {
    names: Vec<u8>,
    value: Vec<u8>,
}

/// A file whose extended attributes are read.
#[derive(Debug, Clone, Copy)]
pub(super) enum XattrSource<'a> {
    Open(BorrowedFd<'a>),
    /// Not through a symbolic link.
    Path(&'a Path),
}

impl XattrBuffers {
    pub(super) fn new() -> Self {
        Self { names: vec![0; MAX_XATTR_BYTES], value: vec![0; MAX_XATTR_BYTES] }
    }

    /// The extended attributes that the user may read.
    pub(super) fn read(&mut self, from: XattrSource<'_>) -> Xattrs {
        let Self { names, value } = self;
        let listed = match from {
            XattrSource::Open(file) => rustix::fs::flistxattr(file, &mut names[..]),
            XattrSource::Path(path) => rustix::fs::llistxattr(path, &mut names[..]),
        };
        let Ok(size @ 1..) = listed else { return Vec::new() };
        let mut found = Vec::new();
        for name in names[..size].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let read = match from {
                XattrSource::Open(file) => rustix::fs::fgetxattr(file, name, &mut value[..]),
                XattrSource::Path(path) => rustix::fs::lgetxattr(path, name, &mut value[..]),
            };
            if let Ok(size) = read {
                found.push((name.to_vec(), value[..size].to_vec()));
            }
        }
        found
    }
}

/// The attributes of a file without extended ones.
pub(super) fn of_stat(stat: &Stat) -> Attributes {
    Attributes {
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified: Time {
            seconds: stat.st_mtime,
            nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
        },
        xattrs: Vec::new(),
    }
}

/// The time as the kernel takes it. The access time stays.
pub(super) fn timestamps(modified: Time) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanoseconds.into() },
    }
}

/// The user that owns what is unpacked, and whether it may give files away.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    uid: u32,
    gid: u32,
    is_root: bool,
    /// Whether set-user-id bits and all extended attributes are kept.
    is_trusted: bool,
}

impl Owner {
    /// The user of this thread. If the archive is not trusted, files belong to this user also if it is root.
    pub(super) fn of_thread(is_trusted: bool) -> Self {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Self { uid: uid.as_raw(), gid: gid.as_raw(), is_root: uid.is_root() && is_trusted, is_trusted }
    }

    /// Sets the owner with `chown`. Returns whether the file has it then. Only root can give files away; for other
    /// users, files belong to them.
    fn set(
        self,
        attributes: &Attributes,
        chown: impl FnOnce(Uid, Gid) -> Result<(), Errno>,
    ) -> Result<bool, Errno> {
        let Attributes { uid, gid, .. } = *attributes;
        let is_possible = uid != u32::MAX && gid != u32::MAX;
        if !is_possible || !self.is_root {
            return Ok((uid, gid) == (self.uid, self.gid));
        }
        match chown(Uid::from_raw(uid), Gid::from_raw(gid)) {
            Ok(()) => Ok(true),
            // A user namespace does not map the id, or the file system has no owners.
            Err(Errno::INVAL | Errno::PERM | Errno::OPNOTSUPP) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Sets all attributes of an open file or directory. Extended attributes that the user or the file system does not
    /// allow are left out.
    pub(super) fn apply(self, file: impl AsFd, attributes: &Attributes) -> Result<(), Errno> {
        let file = file.as_fd();
        let is_owner = self.set(attributes, |uid, gid| rustix::fs::fchown(file, Some(uid), Some(gid)))?;
        // After the owner, which removes capabilities, and before the mode, which may forbid it.
        let xattrs = attributes.xattrs.iter();
        for (name, value) in xattrs.filter(|(name, _)| self.is_trusted || name.starts_with(PLAIN_XATTRS)) {
            let set = rustix::fs::fsetxattr(file, name.as_slice(), value, XattrFlags::empty());
            if let Err(e @ (Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::IO)) = set {
                return Err(e);
            }
        }
        let bits = if is_owner && self.is_trusted { attributes.mode } else { attributes.mode & !SET_ID_BITS };
        rustix::fs::fchmod(file, Mode::from_bits_truncate(bits))?;
        rustix::fs::futimens(file, &timestamps(attributes.modified))
    }

    /// Sets owner and time of an entry that cannot be opened: a symbolic link or a FIFO.
    pub(super) fn apply_at(
        self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        attributes: &Attributes,
    ) -> Result<bool, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let is_owner = self
            .set(attributes, |uid, gid| rustix::fs::chownat(directory, name, Some(uid), Some(gid), flags))?;
        rustix::fs::utimensat(directory, name, &timestamps(attributes.modified), flags)?;
        Ok(is_owner)
    }
}

/// Runs an operation that renames a directory. That requires the permission to write to it, because the kernel changes
/// `..` in it, so a directory without this permission has it meanwhile. It is then at `moved`, or after an error at
/// `path`.
pub(super) fn with_write_permission<T, E>(
    path: &Path,
    moved: &Path,
    rename: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    use std::os::unix::fs::PermissionsExt;
    let before = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_dir);
    let Some(before) = before.map(|found| found.permissions()).filter(|found| found.mode() & 0o200 == 0)
    else {
        return rename();
    };
    // If it belongs to another user, the rename fails.
    let set = |path: &Path, mode| drop(std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)));
    set(path, before.mode() | 0o200);
    let done = rename();
    set(if done.is_ok() { moved } else { path }, before.mode());
    done
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    /// As root, owners and capabilities too.
    #[test]
    fn privileges_are_not_taken_from_untrusted_archives() {
        let user = Owner::of_thread(true);
        let capability =
            b"\x01\x00\x00\x02\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00".to_vec();
        let xattrs =
            vec![(b"security.capability".to_vec(), capability), (b"user.note".to_vec(), b"x".to_vec())];
        let given = if user.is_root { (1234, 1234) } else { (user.uid, user.gid) };
        for (uid, gid) in [given, (user.uid, user.gid)] {
            let attributes =
                Attributes { mode: 0o6755, uid, gid, modified: Time::default(), xattrs: xattrs.clone() };
            let file = tempfile::NamedTempFile::new().unwrap();
            Owner::of_thread(false).apply(&file, &attributes).unwrap();
            let found = file.as_file().metadata().unwrap();
            assert_eq!(found.permissions().mode() & 0o7777, 0o755);
            assert_eq!((found.uid(), found.gid()), (user.uid, user.gid));
            let mut names = [0; 1000];
            let count = rustix::fs::flistxattr(&file, &mut names[..]).unwrap();
            assert!(!names[..count].starts_with(b"security.capability"));
            user.apply(&file, &attributes).unwrap();
            let found = file.as_file().metadata().unwrap();
            assert_eq!((found.permissions().mode() & 0o7777, found.uid()), (0o6755, uid));
        }
    }
}
