//! Calls on files.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::Stream;
use sandcrab_api::file::{
    ChmodRequest, CopyRequest, DeleteRequest, FileContent, FileDone, FileEncoding, FileEvent, FileList,
    FileStat, FolderFormat, FolderWritten, ListRequest, MkdirRequest, Moved, PathRequest, ReadRequest,
    RenameRequest, TransferRequest, WriteRequest, Written,
};

use super::scope::{Scope, bound};
use crate::{ClientError, Events, PutOptions, RawOutput};

impl Scope {
    /// The content of a file, at most 32 MiB. [`Scope::read_bytes`] has no limit.
    pub async fn read_file(&self, request: impl Into<ReadRequest>) -> Result<FileContent, ClientError> {
        let request = bound!(self, request => ReadRequest);
        self.client().read_file(&request).await
    }

    /// The content of a file in pieces, with its type and encoding first.
    pub async fn read_file_stream(
        &self,
        request: impl Into<ReadRequest>,
    ) -> Result<Events<FileEvent>, ClientError> {
        let request = bound!(self, request => ReadRequest);
        self.client().stream_file(&request).await
    }

    /// The bytes of a file, of any size.
    pub async fn read_bytes(&self, path: &str) -> Result<RawOutput, ClientError> {
        self.client().get_file(path, self.session_id()).await
    }

    /// Writes a text or bytes to a file, and creates it and its directory if they do not exist.
    pub async fn write_file(&self, path: &str, content: impl AsRef<[u8]>) -> Result<Written, ClientError> {
        let (content, encoding) = match std::str::from_utf8(content.as_ref()) {
            Ok(text) => (text.to_owned(), None),
            Err(_) => (BASE64_STANDARD.encode(content), Some(FileEncoding::Base64)),
        };
        let path = Some(path.to_owned());
        let request = WriteRequest { path, content: Some(content), encoding, ..WriteRequest::default() };
        self.write_file_with(request).await
    }

    /// The same with a mode, or to the end of the file.
    pub async fn write_file_with(&self, request: WriteRequest) -> Result<Written, ClientError> {
        let request = bound!(self, request => WriteRequest);
        self.client().write_file(&request).await
    }

    /// Replaces a file with the bytes of a stream, of any size. If the stream fails, the file stays as it was.
    pub async fn put_file<E>(
        &self,
        path: &str,
        options: PutOptions,
        content: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    ) -> Result<Written, ClientError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        let options = bound!(self, options => PutOptions);
        self.client().put_file(path, &options, content).await
    }

    /// Lists a directory.
    pub async fn list_files(&self, request: impl Into<ListRequest>) -> Result<FileList, ClientError> {
        let request = bound!(self, request => ListRequest);
        self.client().list_files(&request).await
    }

    /// Type, size, permissions and times of a file.
    pub async fn stat(&self, request: impl Into<PathRequest>) -> Result<FileStat, ClientError> {
        let request = bound!(self, request => PathRequest);
        self.client().stat_file(&request).await
    }

    /// Whether a file or directory exists.
    pub async fn exists(&self, request: impl Into<PathRequest>) -> Result<bool, ClientError> {
        let request = bound!(self, request => PathRequest);
        Ok(self.client().file_exists(&request).await?.exists)
    }

    /// Creates a directory.
    pub async fn mkdir(&self, request: impl Into<MkdirRequest>) -> Result<FileDone, ClientError> {
        let request = bound!(self, request => MkdirRequest);
        self.client().make_directory(&request).await
    }

    /// Deletes a file; with `recursive` a directory with its content.
    pub async fn delete_file(&self, request: impl Into<DeleteRequest>) -> Result<FileDone, ClientError> {
        let request = bound!(self, request => DeleteRequest);
        self.client().delete_file(&request).await
    }

    /// Renames a file or directory.
    pub async fn rename_file(&self, old_path: &str, new_path: &str) -> Result<Moved, ClientError> {
        let (old_path, new_path) = (Some(old_path.to_owned()), Some(new_path.to_owned()));
        let request =
            bound!(self, RenameRequest { old_path, new_path, ..RenameRequest::default() } => RenameRequest);
        self.client().rename_file(&request).await
    }

    /// Moves a file or directory.
    pub async fn move_file(&self, from: &str, to: &str) -> Result<Moved, ClientError> {
        let (source_path, destination_path) = (Some(from.to_owned()), Some(to.to_owned()));
        let moved = TransferRequest { source_path, destination_path, ..TransferRequest::default() };
        let request = bound!(self, moved => TransferRequest);
        self.client().move_file(&request).await
    }

    /// Copies a file or directory within the sandbox.
    pub async fn copy_file(&self, from: &str, to: &str) -> Result<Moved, ClientError> {
        let (source_path, destination_path) = (Some(from.to_owned()), Some(to.to_owned()));
        let copied = CopyRequest { source_path, destination_path, ..CopyRequest::default() };
        let request = bound!(self, copied => CopyRequest);
        self.client().copy_file(&request).await
    }

    /// Changes the permission bits of a file, given in octal: `0644`.
    pub async fn chmod(&self, path: &str, mode: &str) -> Result<FileDone, ClientError> {
        let (path, mode) = (Some(path.to_owned()), Some(mode.to_owned()));
        let request = bound!(self, ChmodRequest { path, mode, ..ChmodRequest::default() } => ChmodRequest);
        self.client().change_mode(&request).await
    }

    /// A folder as one archive.
    pub async fn read_folder(&self, path: &str, format: FolderFormat) -> Result<RawOutput, ClientError> {
        self.client().get_folder(path, format, self.session_id()).await
    }

    /// Replaces a folder with the content of an archive. If the stream fails, the folder stays as it was.
    pub async fn write_folder<E>(
        &self,
        path: &str,
        archive: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    ) -> Result<FolderWritten, ClientError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        self.client().put_folder(path, self.session_id(), archive).await
    }
}
