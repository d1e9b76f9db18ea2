//! Memory files.

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags, SeekFrom, fcntl_add_seals, memfd_create, seek};
use rustix::io::{fcntl_dupfd_cloexec, write};

/// The lowest descriptor of a memory file: the first ten belong to commands.
const LOWEST: i32 = 10;

/// Creates a memory file with these bytes, positioned at its start.
pub(crate) fn memory_file(name: &str, parts: &[&[u8]]) -> rustix::io::Result<OwnedFd> {
    written(name, MemfdFlags::empty(), parts)
}

/// The same, sealed: neither its bytes nor its length can be changed.
pub(crate) fn sealed_file(name: &str, parts: &[&[u8]]) -> rustix::io::Result<OwnedFd> {
    let file = written(name, MemfdFlags::ALLOW_SEALING, parts)?;
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(file)
}

fn written(name: &str, flags: MemfdFlags, parts: &[&[u8]]) -> rustix::io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | flags)?;
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            let count = write(&file, rest)?;
            rest = &rest[count..];
        }
    }
    seek(&file, SeekFrom::Start(0))?;
    fcntl_dupfd_cloexec(&file, LOWEST)
}
