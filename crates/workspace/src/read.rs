//! Reads whole files, within a limit.

use std::fs::File;
use std::io::{self, IoSliceMut, Read as _};
use std::path::Path;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::error::{AtPath, FileError, FileErrorKind};
use crate::mime::FileKind;
use crate::open::open;

/// Maximum memory that is reserved for a file of unknown size.
const FIRST_BYTES: usize = 64 << 10;

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The size of the file. More than the bytes if they are only the beginning.
    pub size: u64,
    /// The type of the content.
    pub kind: FileKind,
    /// Whether the bytes are only the beginning.
    pub is_cut: bool,
}

/// Reads a file with at most `most` bytes. With `only_start`, a longer file is cut off instead of refused.
///
/// `reserve` gets the size of memory before it is allocated. If it refuses, the file is not read, and its error is returned.
pub fn read<E>(
    path: &Path,
    most: u64,
    only_start: bool,
    reserve: &mut dyn FnMut(usize) -> Result<(), E>,
) -> Result<Result<Content, E>, FileError> {
    let (mut file, metadata) = open(path)?;
    if metadata.len() > most && !only_start {
        return Err(FileError::new(FileErrorKind::TooLarge, path));
    }
    // A file in /proc has the size 0, and any file may grow: the content counts.
    let most_bytes = usize::try_from(most).unwrap_or(usize::MAX).saturating_add(1);
    let expected = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    // One byte more, so that the end is found without another buffer.
    let mut next = expected.max(FIRST_BYTES).saturating_add(1).min(most_bytes);
    let mut bytes = Vec::new();
    loop {
        if let Err(refused) = reserve(next) {
            return Ok(Err(refused));
        }
        bytes.reserve_exact(next);
        let read = (&mut file).take(next as u64).read_to_end(&mut bytes).at(path)?;
        if read < next || bytes.len() == most_bytes {
            break;
        }
        next = bytes.len().min(most_bytes - bytes.len());
    }
    let is_longer = bytes.len() as u64 > most;
    if is_longer && !only_start {
        return Err(FileError::new(FileErrorKind::TooLarge, path));
    }
    bytes.truncate(most_bytes - 1);
    let kind = FileKind::detect(path, &bytes, !is_longer);
    // Files in /sys have the size of a page, and any file may have become shorter.
    let size = if is_longer { metadata.len().max(bytes.len() as u64) } else { bytes.len() as u64 };
    Ok(Ok(Content { size, bytes, kind, is_cut: is_longer }))
}

/// Reads at an offset what is in the page cache, and never waits for a disk or another machine. `None` if the first byte is
/// not there, at the end of the file, or if the file system cannot tell.
pub fn read_cached(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
    match preadv2(file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT) {
        // Linux 5.9 and 5.10 return 0 also before the end of the file.
        Ok(0) => Ok(None),
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn cached_bytes_are_read_without_waiting() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        let mut buffer = [0; 4];
        // Not every file system can tell what is cached.
        for (offset, bytes) in [(0, &b"cont"[..]), (5, b"nt")] {
            if let Some(count) = read_cached(&file, &mut buffer, offset).unwrap() {
                assert_eq!(&buffer[..count], bytes);
            }
        }
        for end in [7, 100] {
            assert_eq!(read_cached(&file, &mut buffer, end).unwrap(), None);
        }
    }

    fn read(path: &Path, most: u64, only_start: bool) -> Result<Content, FileError> {
        super::read(path, most, only_start, &mut |_| Ok::<(), ()>(())).map(Result::unwrap)
    }

    #[test]
    fn memory_is_reserved_before_it_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for size in [0, 1, FIRST_BYTES, FIRST_BYTES + 1, 1 << 20] {
            std::fs::write(&path, vec![b'x'; size]).unwrap();
            let mut reserved = 0;
            let content = super::read(&path, 1 << 20, false, &mut |bytes| {
                reserved += bytes;
                Ok::<(), ()>(())
            });
            assert_eq!(content.unwrap().unwrap().bytes.len(), size);
            assert!((size..=size.max(FIRST_BYTES) + 1).contains(&reserved), "{size}: {reserved}");
        }
        assert_eq!(super::read(&path, 1 << 20, false, &mut Err).unwrap(), Err((1 << 20) + 1));
        // A file without a size is reserved in steps.
        let mut steps = Vec::new();
        let maps = super::read(Path::new("/proc/kallsyms"), 32 << 20, true, &mut |bytes| {
            steps.push(bytes);
            if steps.len() < 3 { Ok(()) } else { Err(()) }
        });
        let is_long = maps.is_ok_and(|read| read.is_err());
        assert!(!is_long || steps == [FIRST_BYTES + 1, FIRST_BYTES + 1, 2 * (FIRST_BYTES + 1)], "{steps:?}");
    }

    #[test]
    fn limits() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "hello").unwrap();
        assert_eq!(read(&path, 5, false).unwrap().bytes, b"hello");
        assert_eq!(read(&path, 4, false).unwrap_err().kind, FileErrorKind::TooLarge);
        let start = read(&path, 4, true).unwrap();
        assert_eq!((start.bytes.as_slice(), start.size), (&b"hell"[..], 5));
        assert_eq!(read(&path, 0, true).unwrap().bytes, b"");
    }

    #[test]
    fn files_without_a_size() {
        let status = read(Path::new("/proc/self/status"), 1 << 20, false).unwrap();
        assert!(status.bytes.starts_with(b"Name:") && status.size == status.bytes.len() as u64);
        let mtu = Path::new("/sys/class/net/lo/mtu");
        if mtu.exists() {
            let mtu = read(mtu, 1 << 20, false).unwrap();
            assert_eq!(mtu.size, mtu.bytes.len() as u64);
        }
        let maps = read(Path::new("/proc/self/maps"), 16, false).unwrap_err();
        assert_eq!(maps.kind, FileErrorKind::TooLarge);
    }
}
