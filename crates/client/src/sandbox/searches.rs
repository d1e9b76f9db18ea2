//! Search, replace and watch.

use sandcrab_api::search::{
    FindRequest, FindResponse, ReplaceRequest, ReplaceResponse, SearchEvent, SearchRequest, SearchResponse,
};
use sandcrab_api::watch::{WatchCheckRequest, WatchCheckResponse, WatchEvent, WatchRequest};

use super::scope::{Scope, bound};
use crate::{ClientError, Events};

/// Without a path, a request is about the workspace, or about the directory of the session.
fn default_path(path: &mut Option<String>, encoded: Option<&String>) {
    if path.is_none() && encoded.is_none() {
        *path = Some(".".to_owned());
    }
}

impl Scope {
    /// Searches files for a text or a regular expression. The matches are sorted by path and line.
    pub async fn search(&self, request: impl Into<SearchRequest>) -> Result<SearchResponse, ClientError> {
        let mut request = bound!(self, request => SearchRequest);
        default_path(&mut request.path, request.path_base64.as_ref());
        self.client().search(&request).await
    }

    /// The same with the matches as they are found.
    pub async fn search_stream(
        &self,
        request: impl Into<SearchRequest>,
    ) -> Result<Events<SearchEvent>, ClientError> {
        let mut request = bound!(self, request => SearchRequest);
        default_path(&mut request.path, request.path_base64.as_ref());
        self.client().search_stream(&request).await
    }

    /// Replaces text in files.
    pub async fn replace(&self, request: ReplaceRequest) -> Result<ReplaceResponse, ClientError> {
        let mut request = bound!(self, request => ReplaceRequest);
        default_path(&mut request.path, request.path_base64.as_ref());
        self.client().replace(&request).await
    }

    /// Finds files and directories. A text is the directory to search.
    pub async fn find(&self, request: impl Into<FindRequest>) -> Result<FindResponse, ClientError> {
        let mut request = bound!(self, request => FindRequest);
        default_path(&mut request.path, request.path_base64.as_ref());
        self.client().find(&request).await
    }

    /// Watches a directory. The first event says that changes are reported from then on. A second one, after a lost
    /// connection, means that changes may be missing.
    pub async fn watch(&self, request: impl Into<WatchRequest>) -> Result<Events<WatchEvent>, ClientError> {
        let request = bound!(self, request => WatchRequest);
        self.client().watch(&request).await
    }

    /// Returns whether a directory has changed since a version.
    pub async fn check_changes(
        &self,
        request: impl Into<WatchCheckRequest>,
    ) -> Result<WatchCheckResponse, ClientError> {
        let request = bound!(self, request => WatchCheckRequest);
        self.client().check_watch(&request).await
    }
}
