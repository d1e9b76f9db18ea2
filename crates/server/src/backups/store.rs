//! [`Store`]: the archives and records of backups, in a directory of the state directory.
//!
//! An archive is written to `<id>.tmp`, synced, and renamed to `<id>.tar.zst`. Its record `<id>.json` follows. Archives
//! without a record are removed at the next start. If a record exists but cannot be read, both stay until the client
//! deletes the backup. All functions block, and run with the identity of the server.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sandcrab_api::backup::Backup;
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_workspace::FileError;

use crate::error::ApiError;

/// Maximum number of kept backups.
pub(crate) const MAX_BACKUPS: usize = 100;

/// Time for which the record of an expired backup is kept.
const EXPIRED_RECORD_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// Maximum number of records of expired backups. The newest ones are kept.
const MAX_EXPIRED_RECORDS: usize = 100;

/// Maximum size of a record.
const MAX_RECORD_BYTES: u64 = 64 << 10;

/// Length of an id.
const ID_CHARS: usize = 36;

/// The directory with backups. A handle.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    directory: PathBuf,
}

/// An archive that is being written. It is removed if it is dropped.
#[derive(Debug)]
pub(crate) struct UnfinishedArchive {
    pub(crate) id: String,
    pub(crate) file: File,
    path: PathBuf,
}

impl Drop for UnfinishedArchive {
    fn drop(&mut self) {
        // It does not exist after it was kept.
        drop(fs::remove_file(&self.path));
    }
}

/// An id of a backup, and never another name of a file.
fn is_id(id: &str) -> bool {
    id.len() == ID_CHARS && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn not_found(id: &str) -> ApiError {
    let shown: String = id.chars().take(64).collect();
    ApiError::new(ErrorCode::BackupNotFound, format!("backup {shown:?} not found"))
        .with("backupId", shown)
        .suggest("list all backups: GET /api/backup/list")
}

impl Store {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self { directory: state_dir.join("backups") }
    }

    fn failed(&self, e: io::Error) -> ApiError {
        FileError::of(&self.directory, e).into()
    }

    /// The path of an archive.
    pub(crate) fn archive(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.tar.zst"))
    }

    fn record(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.json"))
    }

    /// Begins an archive.
    pub(crate) fn begin(&self) -> Result<UnfinishedArchive, ApiError> {
        if self.list()?.len() >= MAX_BACKUPS {
            let message = format!("the server keeps {MAX_BACKUPS} backups; delete some first");
            return Err(ApiError::new(ErrorCode::LimitExceeded, message));
        }
        self.create().map_err(|e| self.failed(e))
    }

    fn create(&self) -> io::Result<UnfinishedArchive> {
        match fs::DirBuilder::new().mode(0o700).create(&self.directory) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let id = sandcrab_workspace::uuid()?;
        let path = self.directory.join(format!("{id}.tmp"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(UnfinishedArchive { id, file, path })
    }

    /// Keeps a complete archive.
    pub(crate) fn keep(&self, draft: &UnfinishedArchive, backup: &Backup) -> Result<(), ApiError> {
        let temporary = self.directory.join(format!("{}.record.tmp", draft.id));
        let kept = || {
            draft.file.sync_all()?;
            fs::rename(&draft.path, self.archive(&draft.id))?;
            let mut record = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
            record.write_all(&serde_json::to_vec(backup)?)?;
            record.sync_all()?;
            fs::rename(&temporary, self.record(&draft.id))?;
            File::open(&self.directory)?.sync_all()
        };
        kept().map_err(|e| {
            for path in [&temporary, &self.record(&draft.id), &self.archive(&draft.id)] {
                drop(fs::remove_file(path));
            }
            self.failed(e)
        })
    }

    /// Reads a record. The error is `NotFound` only if there is none.
    fn read(&self, id: &str) -> io::Result<Backup> {
        let invalid =
            |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("record of backup {id}: {why}"));
        let path = self.record(id);
        let found = fs::symlink_metadata(&path)?;
        if !found.is_file() || found.len() > MAX_RECORD_BYTES {
            return Err(invalid("expected a file of at most 64 KiB"));
        }
        let backup: Backup = serde_json::from_slice(&fs::read(path)?).map_err(|e| invalid(&e.to_string()))?;
        if backup.id != id {
            return Err(invalid("it has the id of another backup"));
        }
        Ok(backup)
    }

    /// Reads a record. One that cannot be read is logged, and left as it is.
    fn read_or_log(&self, id: &str) -> Option<Backup> {
        match self.read(id) {
            Ok(backup) => Some(backup),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => {
                tracing::warn!(backup = id, error = %e, "the record of a backup cannot be read; the backup is kept");
                None
            }
        }
    }

    /// The ids of all records.
    fn ids(&self) -> Result<Vec<String>, ApiError> {
        let entries = match fs::read_dir(&self.directory) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|e| self.failed(e))?,
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names
            .filter_map(|name| Some(name.strip_suffix(".json")?.to_owned()))
            .filter(|id| is_id(id))
            .collect())
    }

    /// The backups that have not expired, the newest first.
    pub(crate) fn list(&self) -> Result<Vec<Backup>, ApiError> {
        let now = Timestamp::now();
        let mut backups: Vec<_> = self.ids()?.iter().filter_map(|id| self.read_or_log(id)).collect();
        backups.retain(|backup| backup.expires_at > now && self.archive(&backup.id).exists());
        backups.sort_by_key(|backup| std::cmp::Reverse(backup.created_at));
        Ok(backups)
    }

    /// Finds a backup that has not expired.
    pub(crate) fn find(&self, id: &str) -> Result<Backup, ApiError> {
        if !is_id(id) {
            return Err(not_found(id));
        }
        let backup = self.read(id).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => not_found(id),
            _ => self.failed(e),
        })?;
        if backup.expires_at <= Timestamp::now() {
            let message = format!("backup {id:?} has expired at {}; create a new one", backup.expires_at);
            return Err(ApiError::new(ErrorCode::BackupExpired, message)
                .with("backupId", id)
                .with("expiredAt", backup.expires_at.to_string()));
        }
        Ok(backup)
    }

    /// Opens the archive of a backup.
    pub(crate) fn open(&self, id: &str) -> Result<File, ApiError> {
        self.find(id)?;
        match File::open(self.archive(id)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(not_found(id)),
            file => file.map_err(|e| self.failed(e)),
        }
    }

    /// Deletes a backup, also an expired one, or one whose record cannot be read.
    pub(crate) fn delete(&self, id: &str) -> Result<(), ApiError> {
        if !is_id(id) {
            return Err(not_found(id));
        }
        // In this order: a record without an archive is not listed, and an archive without a record is removed.
        let removed =
            fs::remove_file(self.record(id)).and_then(|()| match fs::remove_file(self.archive(id)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            });
        match removed {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(not_found(id)),
            removed => removed.map_err(|e| self.failed(e)),
        }
    }

    /// Removes what an earlier server has not completed. Only before others use the store.
    pub(crate) fn clean_up(&self) {
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_orphan = name.strip_suffix(".tar.zst").is_some_and(|id| self.has_no_record(id));
            if is_orphan || name.ends_with(".tmp") {
                drop(fs::remove_file(entry.path()));
            }
        }
    }

    /// Whether it is certain that there is no record. After any other error, the archive may be a good backup.
    fn has_no_record(&self, id: &str) -> bool {
        fs::symlink_metadata(self.record(id)).is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
    }

    /// Removes archives that have expired, and records that expired long ago, or are too many. Returns when the next
    /// one expires.
    pub(crate) fn expire(&self) -> Result<Option<SystemTime>, ApiError> {
        let now = SystemTime::now();
        let (mut next, mut expired) = (None, Vec::new());
        for id in self.ids()? {
            let Some(backup) = self.read_or_log(&id) else { continue };
            let expires = backup.expires_at.to_system_time();
            if expires > now {
                next = Some(next.map_or(expires, |next: SystemTime| next.min(expires)));
                continue;
            }
            drop(fs::remove_file(self.archive(&id)));
            expired.push((expires, id));
        }
        expired.sort_unstable_by(|one, other| other.cmp(one));
        for (number, (expires, id)) in expired.iter().enumerate() {
            if number >= MAX_EXPIRED_RECORDS || *expires + EXPIRED_RECORD_TIME < now {
                drop(fs::remove_file(self.record(id)));
            }
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(store: &Store, seconds: i64) -> Backup {
        let draft = store.begin().unwrap();
        let expires = if seconds < 0 {
            SystemTime::now() - Duration::from_secs(seconds.unsigned_abs())
        } else {
            SystemTime::now() + Duration::from_secs(seconds.unsigned_abs())
        };
        let backup = Backup {
            id: draft.id.clone(),
            name: None,
            dir: "/x".into(),
            size_bytes: 0,
            sha256: String::new(),
            entries: 0,
            archive_path: String::new(),
            created_at: Timestamp::now(),
            expires_at: expires.into(),
        };
        store.keep(&draft, &backup).unwrap();
        backup
    }

    fn names(store: &Store) -> usize {
        fs::read_dir(&store.directory).unwrap().count()
    }

    #[test]
    fn backups_are_kept_found_and_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        assert!(store.list().unwrap().is_empty());
        store.clean_up();
        let one = kept(&store, 100);
        assert_eq!((store.list().unwrap(), store.find(&one.id).unwrap()), (vec![one.clone()], one.clone()));
        store.open(&one.id).unwrap();
        for id in ["", "../x", &"x".repeat(36), &one.id.to_uppercase().replace('A', "0")] {
            assert_eq!(store.find(id).unwrap_err().code(), ErrorCode::BackupNotFound, "{id}");
        }
        store.delete(&one.id).unwrap();
        assert_eq!(store.delete(&one.id).unwrap_err().code(), ErrorCode::BackupNotFound);
        assert_eq!(names(&store), 0);
    }

    #[test]
    fn what_is_incomplete_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        drop(store.begin().unwrap());
        assert_eq!(names(&store), 0);
        let one = kept(&store, 100);
        std::mem::forget(store.begin().unwrap());
        fs::write(store.archive(&one.id.replace('-', "0")), "x").unwrap();
        store.clean_up();
        assert_eq!(names(&store), 2);
        assert_eq!(store.list().unwrap(), [one]);
    }

    #[test]
    fn backups_with_records_that_cannot_be_read_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let backups: Vec<_> = (0..4).map(|_| kept(&store, 100)).collect();
        let record = |number: usize| store.record(&backups[number].id);
        fs::write(record(0), "{ of a later version").unwrap();
        fs::write(record(1), vec![b' '; 100 << 10]).unwrap();
        fs::remove_file(record(2)).unwrap();
        // Following it fails with an error other than `NotFound`.
        std::os::unix::fs::symlink(record(2).file_name().unwrap(), record(2)).unwrap();
        fs::copy(record(0), record(3)).unwrap();
        store.clean_up();
        store.expire().unwrap();
        assert!(store.list().unwrap().is_empty());
        for backup in &backups {
            assert!(store.archive(&backup.id).exists());
            assert_eq!(store.find(&backup.id).unwrap_err().code(), ErrorCode::FileSystemError);
            store.delete(&backup.id).unwrap();
        }
        assert_eq!(names(&store), 0);
    }

    #[test]
    fn expired_backups() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let (old, gone, new) = (kept(&store, -10), kept(&store, -1_000_000), kept(&store, 100));
        assert_eq!(store.expire().unwrap(), Some(new.expires_at.to_system_time()));
        assert_eq!(store.find(&old.id).unwrap_err().code(), ErrorCode::BackupExpired);
        assert_eq!(store.find(&gone.id).unwrap_err().code(), ErrorCode::BackupNotFound);
        assert!(!store.archive(&old.id).exists());
        assert_eq!(store.list().unwrap(), [new]);
        store.delete(&old.id).unwrap();
    }

    #[test]
    fn records_of_expired_backups_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let oldest = kept(&store, -10_000);
        let newer: Vec<_> = (0..MAX_EXPIRED_RECORDS).map(|_| kept(&store, -10)).collect();
        store.expire().unwrap();
        assert_eq!(store.find(&oldest.id).unwrap_err().code(), ErrorCode::BackupNotFound);
        for backup in newer {
            assert_eq!(store.find(&backup.id).unwrap_err().code(), ErrorCode::BackupExpired);
        }
        assert_eq!(names(&store), MAX_EXPIRED_RECORDS);
    }

    #[test]
    fn a_backup_that_cannot_be_kept_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let backup = kept(&store, 100);
        store.delete(&backup.id).unwrap();
        let draft = store.begin().unwrap();
        // The record cannot replace a directory.
        fs::create_dir(store.record(&draft.id)).unwrap();
        assert!(store.keep(&draft, &backup).is_err());
        fs::remove_dir(store.record(&draft.id)).unwrap();
        drop(draft);
        assert_eq!(names(&store), 0);
    }

    #[test]
    fn number_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        for _ in 0..MAX_BACKUPS {
            kept(&store, 100);
        }
        assert_eq!(store.begin().unwrap_err().code(), ErrorCode::LimitExceeded);
    }
}
