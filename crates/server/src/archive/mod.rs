//! Archives of folders: streams between connections and the threads that pack and unpack.

mod input;
mod output;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandcrab_api::ErrorCode;
use sandcrab_workspace::{ArchiveError, FileError, FileErrorKind, PackOptions, Target, check_folder};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use input::{ArchiveSender, archive_channel, send_body};
pub(crate) use output::body;

use crate::error::ApiError;
use crate::files::Place;

/// Maximum number of archives that are packed or unpacked at a time. Each needs up to 48 MiB: 16 MiB for
/// the window of zstd, the rest for its threads, buffers and extended attributes. Packing needs about 100 bytes more for
/// each file of the largest directory, whose names it sorts.
pub(crate) const MAX_ARCHIVES: usize = 4;

/// Maximum number of them that are sent or received. Clients and other servers may be slow: backups of local files need not
/// wait for all of them.
pub(crate) const MAX_ARCHIVE_STREAMS: usize = MAX_ARCHIVES - 1;

/// Permits of archives that are packed or unpacked. A handle.
#[derive(Debug, Clone)]
pub(crate) struct Archives {
    all: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

/// Permission to pack or unpack an archive, until it is dropped.
#[derive(Debug)]
pub(crate) struct ArchivePermit {
    _archive: OwnedSemaphorePermit,
    _stream: Option<OwnedSemaphorePermit>,
}

impl Default for Archives {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MAX_ARCHIVES)),
            streams: Arc::new(Semaphore::new(MAX_ARCHIVE_STREAMS)),
        }
    }
}

impl Archives {
    /// Permits one more that has only local files, unless there are too many. It does not wait, because others may be slow.
    pub(crate) fn permit(&self) -> Result<ArchivePermit, ApiError> {
        let archive = take(&self.all, MAX_ARCHIVES, "packed or unpacked")?;
        Ok(ArchivePermit { _archive: archive, _stream: None })
    }

    /// Permits one more that a client or another server sends or receives.
    pub(crate) fn stream_permit(&self) -> Result<ArchivePermit, ApiError> {
        let stream = take(&self.streams, MAX_ARCHIVE_STREAMS, "sent or received")?;
        Ok(ArchivePermit { _stream: Some(stream), ..self.permit()? })
    }
}

fn take(permits: &Arc<Semaphore>, most: usize, done: &str) -> Result<OwnedSemaphorePermit, ApiError> {
    Arc::clone(permits).try_acquire_owned().map_err(|_| {
        let message = format!("at most {most} archives are {done} at a time; retry later");
        ApiError::new(ErrorCode::LimitExceeded, message)
    })
}

/// Options of an archive without rules. The state directory is left out: it would contain the archive.
pub(crate) fn pack_options(place: &Place) -> PackOptions {
    PackOptions { left_out: vec![place.sandbox.state_dir.clone()], ..PackOptions::default() }
}

/// Checks a folder that is to be packed, and follows symbolic links in its path.
pub(crate) async fn checked_folder(place: &Place, path: PathBuf) -> Result<PathBuf, ApiError> {
    place.run(move || check_folder(&path)).await
}

/// Chooses how a folder is replaced. The workspace stays the same directory, because sessions work in it. So a folder
/// that contains it is refused, and one that contains the state directory too.
pub(crate) fn choose_target(place: &Place, path: &Path) -> Result<Target, FileError> {
    target_of(path, &place.sandbox.workspace_path, &place.sandbox.state_dir)
}

fn target_of(path: &Path, workspace: &Path, state: &Path) -> Result<Target, FileError> {
    let (workspace, mut kept) = (workspace.to_owned(), vec![state.to_owned()]);
    let canonical = |path: &Path| std::fs::canonicalize(path).ok();
    if canonical(path) != canonical(&workspace) {
        kept.push(workspace.clone());
    }
    Target::choose(path, &kept, &[workspace])
}

impl From<ArchiveError> for ApiError {
    fn from(e: ArchiveError) -> Self {
        match e {
            ArchiveError::File(e) => e.into(),
            ArchiveError::Invalid(_) => Self::new(ErrorCode::InvalidArchive, e.to_string()),
            ArchiveError::InvalidExclude(why) => {
                Self::new(ErrorCode::InvalidBackupConfig, format!("excludes: {why}"))
                    .with("field", "excludes")
                    .with("reason", why)
            }
            ArchiveError::Limit { .. } => {
                let why = e.to_string();
                Self::new(ErrorCode::InvalidBackupConfig, format!("excludes: {why}"))
                    .with("field", "excludes")
                    .with("reason", why)
            }
            ArchiveError::Output(e) | ArchiveError::Input(e) => {
                let error = FileError::of(Path::new("the archive"), e);
                match error.kind {
                    FileErrorKind::NoSpace => Self::new(ErrorCode::NoSpace, error.to_string()),
                    _ => Self::new(ErrorCode::FileSystemError, error.to_string()),
                }
            }
            other => Self::internal(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_streams_leave_a_permit_for_backups() {
        let archives = Archives::default();
        let streams: Vec<_> = std::iter::from_fn(|| archives.stream_permit().ok()).collect();
        assert_eq!(streams.len(), MAX_ARCHIVE_STREAMS);
        let backup = archives.permit().unwrap();
        archives.permit().unwrap_err();
        drop(streams);
        let backups: Vec<_> = std::iter::from_fn(|| archives.permit().ok()).collect();
        assert_eq!(backups.len(), MAX_ARCHIVES - 1);
        // A refused one gives back what it has taken.
        archives.stream_permit().unwrap_err();
        drop((backup, backups));
        let streams: Vec<_> = std::iter::from_fn(|| archives.stream_permit().ok()).collect();
        assert_eq!(streams.len(), MAX_ARCHIVE_STREAMS);
    }

    #[test]
    fn folders_with_the_workspace_are_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for directory in ["home/workspace/folder", "state", "other"] {
            std::fs::create_dir_all(at(directory)).unwrap();
        }
        std::os::unix::fs::symlink(at("home/workspace"), at("link")).unwrap();
        let chosen = |path: &str| {
            target_of(&at(path), &at("home/workspace"), &at("state")).map(drop).map_err(|e| e.kind)
        };
        for path in
            ["home/workspace", "link", "home/workspace/../workspace", "home/workspace/folder", "other"]
        {
            assert_eq!(chosen(path), Ok(()), "{path}");
        }
        for path in ["home", "", "link/..", "state"] {
            assert_eq!(chosen(path), Err(FileErrorKind::Protected), "{path}");
        }
    }
}
