//! [`ReservingWriter`]: writes a file, and leaves free space on its file system.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::io::Errno;

/// Space that stays free on the file system: this, or a twentieth of it.
const RESERVED_BYTES: u64 = 64 << 20;

/// Bytes after which the free space is read again, because other programs write too.
const CHECKED_BYTES: u64 = 1 << 20;

/// Bytes that may be written to the file system of a file. `None` if it does not tell its size.
pub(super) fn room(file: impl AsFd) -> Result<Option<u64>, Errno> {
    let found = rustix::fs::fstatvfs(file)?;
    let total = found.f_blocks.saturating_mul(found.f_frsize);
    let reserved = RESERVED_BYTES.min(total / 20);
    let free = found.f_bavail.saturating_mul(found.f_frsize).saturating_sub(reserved);
    Ok((total != 0).then_some(free))
}

/// Writes a file. Before the disk is full, writing fails with the error of a full disk.
#[derive(Debug)]
pub struct ReservingWriter {
    file: File,
    /// Bytes that may be written before the free space is read again.
    allowed: u64,
    room: fn(&File) -> Result<Option<u64>, Errno>,
}

impl ReservingWriter {
    /// A writer at the position of the file.
    pub fn new(file: File) -> Self {
        Self { file, allowed: 0, room: |file| room(file) }
    }
}

impl Write for ReservingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wanted = bytes.len() as u64;
        if self.allowed < wanted {
            let room = (self.room)(&self.file)?.unwrap_or(u64::MAX);
            if room < wanted {
                return Err(Errno::NOSPC.into());
            }
            self.allowed = room.min(CHECKED_BYTES.max(wanted));
        }
        let written = self.file.write(bytes)?;
        self.allowed = self.allowed.saturating_sub(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_stays_free() {
        // The file system has 3 MiB.
        let room = |file: &File| {
            let used = file.metadata().map_err(|_| Errno::IO)?.len();
            Ok(Some((3_u64 << 20).saturating_sub(used)))
        };
        let mut writer = ReservingWriter { room, ..ReservingWriter::new(tempfile::tempfile().unwrap()) };
        let piece = vec![0; 300 << 10];
        let error = loop {
            if let Err(e) = writer.write_all(&piece) {
                break e;
            }
        };
        assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        assert_eq!(writer.file.metadata().unwrap().len(), 10 * (300 << 10));
        writer.write_all(&[0; 10]).unwrap();
        ReservingWriter::new(tempfile::tempfile().unwrap()).write_all(&piece).unwrap();
    }

    #[test]
    fn packing_fails_before_the_disk_is_full() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "content").unwrap();
        let full = |_: &File| Ok(Some(0));
        let output = ReservingWriter { room: full, ..ReservingWriter::new(tempfile::tempfile().unwrap()) };
        let error = super::super::pack(folder.path(), &Default::default(), output).unwrap_err();
        assert!(
            matches!(&error, super::super::ArchiveError::Output(e) if e.kind() == io::ErrorKind::StorageFull),
            "{error}"
        );
    }
}
