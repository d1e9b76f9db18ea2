//! Files of the sandbox.

use bytes::Bytes;
use futures_util::Stream;
use reqwest::{Body, Method, RequestBuilder};
use sandcrab_api::file::{
    ChmodRequest, CopyRequest, DeleteRequest, Exists, FileContent, FileDone, FileEvent, FileList, FileStat,
    ListRequest, MkdirRequest, Moved, PathRequest, ReadRequest, RenameRequest, TransferRequest, WriteRequest,
    Written,
};

use crate::{Client, ClientError, Events, RawOutput};

/// How to write a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PutOptions {
    /// Resolve relative paths against the working directory of this session.
    pub session_id: Option<String>,
    /// Permission bits in octal.
    pub mode: Option<String>,
    /// The entity tag that the file must have.
    pub if_match: Option<String>,
}

impl Client {
    /// The content of a file, at most 32 MiB.
    pub async fn read_file(&self, request: &ReadRequest) -> Result<FileContent, ClientError> {
        self.post_read(&["api", "read"], request).await
    }

    /// The content of a file in pieces, of any size. A lost connection is an error.
    pub async fn stream_file(&self, request: &ReadRequest) -> Result<Events<FileEvent>, ClientError> {
        let post = self.request(Method::POST, &["api", "read", "stream"])?.json(request);
        Events::open(self.clone(), post, None).await
    }

    /// The bytes of a file, of any size.
    pub async fn get_file(&self, path: &str, session_id: Option<&str>) -> Result<RawOutput, ClientError> {
        self.get_file_from(path, session_id, 0).await
    }

    /// The bytes of a file from an offset on. An offset after the last byte is
    /// [`sandcrab_api::ErrorCode::RangeNotSatisfiable`].
    pub async fn get_file_from(
        &self,
        path: &str,
        session_id: Option<&str>,
        from: u64,
    ) -> Result<RawOutput, ClientError> {
        let query = [("path", Some(path.to_owned())), ("session", session_id.map(str::to_owned))];
        let mut request = self.query(Method::GET, &["api", "file"], &query)?;
        if from > 0 {
            request = request.header(reqwest::header::RANGE, format!("bytes={from}-"));
        }
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
        self.call(self.put_request(path, options)?.body(Body::wrap_stream(content))).await
    }

    /// The same for a file that must not exist.
    pub async fn create_file<E>(
        &self,
        path: &str,
        options: &PutOptions,
        content: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    ) -> Result<Written, ClientError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        let request = self.put_request(path, options)?.header(reqwest::header::IF_NONE_MATCH, "*");
        self.call(request.body(Body::wrap_stream(content))).await
    }

    fn put_request(&self, path: &str, options: &PutOptions) -> Result<RequestBuilder, ClientError> {
        let PutOptions { session_id, mode, if_match } = options;
        let query =
            [("path", Some(path.to_owned())), ("session", session_id.clone()), ("mode", mode.clone())];
        let mut request = self.body_query(Method::PUT, &["api", "file"], &query)?;
        if let Some(etag) = if_match {
            request = request.header(reqwest::header::IF_MATCH, etag);
        }
        Ok(request)
    }

    /// Writes a file, or to its end.
    pub async fn write_file(&self, request: &WriteRequest) -> Result<Written, ClientError> {
        self.post(&["api", "write"], request).await
    }

    /// Lists a directory.
    pub async fn list_files(&self, request: &ListRequest) -> Result<FileList, ClientError> {
        self.post_read(&["api", "list-files"], request).await
    }

    /// The metadata of a file.
    pub async fn stat_file(&self, request: &PathRequest) -> Result<FileStat, ClientError> {
        self.post_read(&["api", "stat"], request).await
    }

    /// Whether a file exists.
    pub async fn file_exists(&self, request: &PathRequest) -> Result<Exists, ClientError> {
        self.post_read(&["api", "exists"], request).await
    }

    /// Deletes a file, or a directory with its content.
    pub async fn delete_file(&self, request: &DeleteRequest) -> Result<FileDone, ClientError> {
        self.post(&["api", "delete"], request).await
    }

    /// Renames a file or directory.
    pub async fn rename_file(&self, request: &RenameRequest) -> Result<Moved, ClientError> {
        self.post(&["api", "rename"], request).await
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
