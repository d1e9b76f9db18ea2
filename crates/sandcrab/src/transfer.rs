//! Local files that are copied to and from the sandbox.

use std::fs::{File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
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
        let hint = format!("send it as an archive: `tar c {} | sandcrab exec 'tar x'`", path.display());
        return Err(failed(io::ErrorKind::IsADirectory.into()).with_hint(hint));
    }
    Ok((file, format!("{:04o}", metadata.permissions().mode() & 0o777)))
}

/// A local file that appears when it is complete.
#[derive(Debug)]
pub(crate) struct LocalCopy {
    file: NamedTempFile,
    path: PathBuf,
}

impl LocalCopy {
    /// Begins a file at `path`, or below it with the name of `from` if it is a directory.
    pub(crate) fn create(path: &Path, from: &Path) -> Result<Self, Failure> {
        let path = match from.file_name() {
            Some(name) if path.is_dir() => path.join(name),
            _ => path.to_owned(),
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let new = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(parent);
        let file = new.map_err(|error| Failure::local_file("write", &path, &error))?;
        Ok(Self { file, path })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| Failure::local_file("write", &self.path, &error))
    }

    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Self { file, path } = self;
        file.persist(&path).map_err(|error| Failure::local_file("write", &path, &error.error))?;
        Ok(())
    }
}
