//! Folders as archives, and backups of them.

use bytes::Bytes;
use futures_util::Stream;
use reqwest::{Body, Method};
use sandcrab_api::backup::{
    BackupCreated, BackupDeleted, BackupList, BackupRestored, CreateBackupRequest, PartsUploaded,
    RestoreBackupRequest, UploadPartsRequest,
};
use sandcrab_api::file::{FolderFormat, FolderWritten};

use crate::{Client, ClientError, RawOutput};

impl Client {
    /// A folder as one archive.
    pub async fn get_folder(
        &self,
        path: &str,
        format: FolderFormat,
        session_id: Option<&str>,
    ) -> Result<RawOutput, ClientError> {
        let query = [
            ("path", Some(path.to_owned())),
            ("format", Some(format.as_str().to_owned())),
            ("session", session_id.map(str::to_owned)),
        ];
        let request = self.query(Method::GET, &["api", "folder"], &query)?;
        Ok(RawOutput::new(self.clone(), self.send(request).await?))
    }

    /// Replaces a folder with the content of an archive. If the stream fails, the folder stays as it was.
    pub async fn put_folder<E>(
        &self,
        path: &str,
        session_id: Option<&str>,
        archive: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    ) -> Result<FolderWritten, ClientError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        let query = [("path", Some(path.to_owned())), ("session", session_id.map(str::to_owned))];
        let request = self.body_query(Method::PUT, &["api", "folder"], &query)?;
        self.call(request.body(Body::wrap_stream(archive))).await
    }

    /// Creates a backup of a folder.
    pub async fn create_backup(&self, request: &CreateBackupRequest) -> Result<BackupCreated, ClientError> {
        self.post(&["api", "backup", "create"], request).await
    }

    /// Restores a folder.
    pub async fn restore_backup(
        &self,
        request: &RestoreBackupRequest,
    ) -> Result<BackupRestored, ClientError> {
        self.post(&["api", "backup", "restore"], request).await
    }

    /// Sends parts of an archive to presigned URLs.
    pub async fn upload_backup_parts(
        &self,
        request: &UploadPartsRequest,
    ) -> Result<PartsUploaded, ClientError> {
        self.post(&["api", "backup", "upload-parts"], request).await
    }

    /// Lists the backups that the server keeps.
    pub async fn list_backups(&self) -> Result<BackupList, ClientError> {
        self.get(&["api", "backup", "list"]).await
    }

    /// Deletes a backup.
    pub async fn delete_backup(&self, id: &str) -> Result<BackupDeleted, ClientError> {
        self.call(self.request(Method::DELETE, &["api", "backup", id])?).await
    }
}
