//! Copies the attributes of an old file to the one that replaces it.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, XattrFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

/// Maximum size of the names, and of a value, of extended attributes, as in the kernel.
const MAX_XATTR_BYTES: usize = 64 << 10;

/// The kernel removes this attribute when the content of a file changes.
const CAPABILITIES: &[u8] = b"security.capability";

/// Sets the owner and group of the old file. Returns whether they are the same then.
pub(super) fn owner(file: &File, old: &Metadata) -> Result<bool, std::io::Error> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) == (old.uid(), old.gid()) {
        return Ok(true);
    }
    let (uid, gid) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
    match rustix::fs::fchown(file, Some(uid), Some(gid)) {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Sets the permission bits.
pub(super) fn mode(file: &File, mode: Option<u32>) -> Result<(), Errno> {
    mode.map_or(Ok(()), |mode| rustix::fs::fchmod(file, Mode::from_bits_truncate(mode)))
}

/// Copies the extended attributes that the user may read and write.
pub(crate) fn copy_xattrs(from: &Path, to: &File) {
    let mut names = vec![0; MAX_XATTR_BYTES];
    let Ok(size) = rustix::fs::listxattr(from, &mut names[..]) else { return };
    let mut value = vec![0; MAX_XATTR_BYTES];
    for name in
        names[..size].split(|byte| *byte == 0).filter(|name| !name.is_empty() && *name != CAPABILITIES)
    {
        if let Ok(size) = rustix::fs::getxattr(from, name, &mut value[..]) {
            let _ = rustix::fs::fsetxattr(to, name, &value[..size], XattrFlags::empty());
        }
    }
}
