//! Files of the sandbox.

use bytes::Bytes;
use futures_util::Stream;
use reqwest::{Body, Method};
use sandcrab_api::file::{
    ChmodRequest, CopyRequest, DeleteRequest, Exists, FileContent, FileDone, FileList, FileStat, ListRequest,
    MkdirRequest, Moved, PathRequest, ReadRequest, TransferRequest, WriteRequest, Written,
};

use crate::{Client, ClientError, RawOutput};

/// How to write a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PutOptions {
    /// Session whose working directory relative paths are relative to.
    pub session_id: Option<String>,
    /// Permission bits in octal.
    pub mode: Option<String>,
    /// The entity tag that the file must have.
    pub if_match: Option<String>,
}

impl Client {
    /// The content of a file, at most 32 MiB.
    pub async fn read_file(&self, request: &ReadRequest) -> Result<FileContent, ClientError> {
        self.post(&["api", "read"], request).await
    }

    /// The bytes of a file, of any size.
    pub async fn get_file(&self, path: &str, session_id: Option<&str>) -> Result<RawOutput, ClientError> {
        let query = [("path", Some(path.to_owned())), ("session", session_id.map(str::to_owned))];
        let request = self.query(Method::GET, &["api", "file"], &query)?;
        Ok(RawOutput::new(self.clone(), self.send(request).await?))
    }

    /// Replaces a file with the bytes of a stream, of any size. If the stream fails, the file stays as it was.
    pub async fn put_file<E>(
        &self,
        path: &str,
        options: &PutOptions,
        content: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    ) -> Result<Written, ClientError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        let PutOptions { session_id, mode, if_match } = options;
        let query =
            [("path", Some(path.to_owned())), ("session", session_id.clone()), ("mode", mode.clone())];
        let mut request = self.query(Method::PUT, &["api", "file"], &query)?;
        if let Some(etag) = if_match {
            request = request.header(reqwest::header::IF_MATCH, etag);
        }
        self.ask(request.body(Body::wrap_stream(content))).await
    }

    /// Writes a file, or to its end.
    pub async fn write_file(&self, request: &WriteRequest) -> Result<Written, ClientError> {
        self.post(&["api", "write"], request).await
    }

    /// Lists a directory.
    pub async fn list_files(&self, request: &ListRequest) -> Result<FileList, ClientError> {
        self.post(&["api", "list-files"], request).await
    }

    /// The metadata of a file.
    pub async fn stat_file(&self, request: &PathRequest) -> Result<FileStat, ClientError> {
        self.post(&["api", "stat"], request).await
    }

    /// Whether a file exists.
    pub async fn file_exists(&self, request: &PathRequest) -> Result<Exists, ClientError> {
        self.post(&["api", "exists"], request).await
    }

    /// Deletes a file, or a directory with its content.
    pub async fn delete_file(&self, request: &DeleteRequest) -> Result<FileDone, ClientError> {
        self.post(&["api", "delete"], request).await
    }

    /// Moves a file or directory.
    pub async fn move_file(&self, request: &TransferRequest) -> Result<Moved, ClientError> {
        self.post(&["api", "move"], request).await
    }

    /// Copies a file or directory within the sandbox.
    pub async fn copy_file(&self, request: &CopyRequest) -> Result<Moved, ClientError> {
        self.post(&["api", "copy"], request).await
    }

    /// Creates a directory.
    pub async fn make_directory(&self, request: &MkdirRequest) -> Result<FileDone, ClientError> {
        self.post(&["api", "mkdir"], request).await
    }

    /// Changes the permission bits of a file.
    pub async fn change_mode(&self, request: &ChmodRequest) -> Result<FileDone, ClientError> {
        self.post(&["api", "chmod"], request).await
    }
}
