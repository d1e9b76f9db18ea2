//! Search in files, and names of files.

use reqwest::Method;
use reqwest::header::ACCEPT;
use sandcrab_api::search::{
    FindRequest, FindResponse, ReplaceRequest, ReplaceResponse, SearchEvent, SearchRequest, SearchResponse,
};

use crate::{Client, ClientError, Events};

impl Client {
    /// Searches files. The matches are sorted by path and line.
    pub async fn search(&self, request: &SearchRequest) -> Result<SearchResponse, ClientError> {
        self.post_read(&["api", "search"], request).await
    }

    /// Searches files, and returns the matches as they are found. A lost connection is an error.
    pub async fn search_stream(&self, request: &SearchRequest) -> Result<Events<SearchEvent>, ClientError> {
        let post = self.request(Method::POST, &["api", "search"])?.json(request);
        Events::open(self.clone(), post.header(ACCEPT, "text/event-stream"), None).await
    }

    /// Replaces text in files.
    pub async fn replace(&self, request: &ReplaceRequest) -> Result<ReplaceResponse, ClientError> {
        self.post(&["api", "replace"], request).await
    }

    /// Finds files and directories.
    pub async fn find(&self, request: &FindRequest) -> Result<FindResponse, ClientError> {
        self.post_read(&["api", "find"], request).await
    }
}
