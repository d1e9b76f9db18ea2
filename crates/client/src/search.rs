//! Search in files, and names of files.

use sandcrab_api::search::{
    FindRequest, FindResponse, ReplaceRequest, ReplaceResponse, SearchRequest, SearchResponse,
};

use crate::{Client, ClientError};

impl Client {
    /// Searches files. The matches are sorted by path and line.
    pub async fn search(&self, request: &SearchRequest) -> Result<SearchResponse, ClientError> {
        self.post(&["api", "search"], request).await
    }

    /// Replaces text in files.
    pub async fn replace(&self, request: &ReplaceRequest) -> Result<ReplaceResponse, ClientError> {
        self.post(&["api", "replace"], request).await
    }

    /// Finds files and directories.
    pub async fn find(&self, request: &FindRequest) -> Result<FindResponse, ClientError> {
        self.post(&["api", "find"], request).await
    }
}
