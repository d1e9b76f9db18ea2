//! Calls on backups.

use sandcrab_api::backup::{
    Backup, BackupCreated, BackupDeleted, BackupRestored, CreateBackupRequest, PartsUploaded,
    RestoreBackupRequest, UploadPartsRequest,
};

use super::scope::{Scope, bound};
use crate::ClientError;

impl Scope {
    /// Creates a backup of a folder. A text is the folder.
    pub async fn create_backup(
        &self,
        request: impl Into<CreateBackupRequest>,
    ) -> Result<BackupCreated, ClientError> {
        let request = bound!(self, request => CreateBackupRequest);
        self.client().create_backup(&request).await
    }

    /// Restores a folder.
    pub async fn restore_backup(&self, request: RestoreBackupRequest) -> Result<BackupRestored, ClientError> {
        let request = bound!(self, request => RestoreBackupRequest);
        self.client().restore_backup(&request).await
    }

    /// Sends parts of an archive to presigned URLs.
    pub async fn upload_backup_parts(
        &self,
        request: UploadPartsRequest,
    ) -> Result<PartsUploaded, ClientError> {
        let request = bound!(self, request => UploadPartsRequest);
        self.client().upload_backup_parts(&request).await
    }

    /// The backups that the server keeps.
    pub async fn list_backups(&self) -> Result<Vec<Backup>, ClientError> {
        Ok(self.client().list_backups().await?.backups)
    }

    /// Deletes a backup.
    pub async fn delete_backup(&self, id: &str) -> Result<BackupDeleted, ClientError> {
        self.client().delete_backup(id).await
    }
}
