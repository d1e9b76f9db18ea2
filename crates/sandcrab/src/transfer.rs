//! Local files that are copied to and from the sandbox.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use bytes::Bytes;
use futures_util::{Stream, stream};
use tempfile::NamedTempFile;

use crate::failure::Failure;
use crate::relay::Stdin;

/// Size of the pieces in which a file is sent.
const PIECE_BYTES: usize = 256 << 10;

/// Standard input, piece by piece.
pub(crate) fn standard_input() -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::try_unfold(Stdin::open(), |stdin| async move {
        let bytes = stdin.read().await.map_err(|failure| io::Error::other(failure.message()))?;
        Ok((!bytes.is_empty()).then_some((bytes.into(), stdin)))
    })
}

/// A file, piece by piece.
pub(crate) fn content(file: File) -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::try_unfold(file, |mut file| async move {
        let mut bytes = vec![0; PIECE_BYTES];
        let size = file.read(&mut bytes)?;
        bytes.truncate(size);
        Ok((size > 0).then_some((bytes.into(), file)))
    })
}

/// Bytes in base64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Opens a local file. Returns its permission bits in octal too.
pub(crate) fn open(path: &Path) -> Result<(File, String), Failure> {
    let failed = |error: io::Error| Failure::local_file("read", path, &error);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    Ok((file, format!("{:04o}", metadata.permissions().mode() & 0o777)))
}

/// A local file that appears when it is complete. A device or FIFO gets the bytes as they come.
#[derive(Debug)]
pub(crate) struct LocalCopy {
    destination: Destination,
    path: PathBuf,
}

#[derive(Debug)]
enum Destination {
    /// A temporary file beside the path, and the file that it replaces.
    Temporary(NamedTempFile, Option<Box<Metadata>>),
    /// A file that must not be replaced, such as `/dev/null`.
    Special(File),
}

/// Whether a path is that of a device, a FIFO or the like, also through a link such as `/dev/stdout`.
pub(crate) fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

impl LocalCopy {
    /// Begins a file at `path`, or below it with the name of `from` if it is a directory. A symbolic link stays. A new
    /// file has the permission bits `mode` without those of the umask, an existing one keeps its own.
    pub(crate) fn create(path: &Path, from: &Path, mode: Option<u32>) -> Result<Self, Failure> {
        let path = match from.file_name() {
            Some(name) if path.is_dir() => path.join(name),
            _ => path.to_owned(),
        };
        let failed = |error: io::Error| Failure::local_file("write", &path, &error);
        // Before its path is resolved: a pipe behind /dev/stdout has none.
        if is_special(&path) {
            let file = File::options().write(true).open(&path).map_err(failed)?;
            return Ok(Self { destination: Destination::Special(file), path });
        }
        let is_there = path.symlink_metadata().is_ok();
        let target = if is_there { path.canonicalize().map_err(failed)? } else { path.clone() };
        let old = is_there.then(|| target.metadata()).transpose().map_err(failed)?;
        let parent =
            target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // A file that replaces another one gets its mode when it is complete.
        let mode = if old.is_some() { 0o600 } else { mode.unwrap_or(0o666) & 0o777 | 0o600 };
        let mode = Permissions::from_mode(mode);
        let file = tempfile::Builder::new().permissions(mode).tempfile_in(parent).map_err(failed)?;
        Ok(Self { destination: Destination::Temporary(file, old.map(Box::new)), path: target })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = match &mut self.destination {
            Destination::Temporary(file, _) => file.write_all(bytes),
            Destination::Special(file) => file.write_all(bytes),
        };
        written.map_err(|error| Failure::local_file("write", &self.path, &error))
    }

    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Self { destination, path } = self;
        let Destination::Temporary(file, old) = destination else { return Ok(()) };
        let failed = |error: io::Error| Failure::local_file("write", &path, &error);
        if let Some(old) = old {
            // Only root can give a file away. Other users can keep its group if they are in it.
            let chown = |uid| std::os::unix::fs::fchown(file.as_file(), uid, Some(old.gid()));
            drop(chown(Some(old.uid())).or_else(|_| chown(None)));
            let mode = Permissions::from_mode(old.permissions().mode() & 0o777);
            file.as_file().set_permissions(mode).map_err(failed)?;
        }
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}
