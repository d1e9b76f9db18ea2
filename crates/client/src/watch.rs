//! Watches of directories.

use reqwest::Method;
use sandcrab_api::watch::{WatchCheckRequest, WatchCheckResponse, WatchEvent, WatchRequest};

use crate::{Client, ClientError, Events};

impl Client {
    /// Watches a directory. The first event says that changes are reported from then on. A second one, after a lost
    /// connection, and [`WatchEvent::Resync`] with the reason `reconnected` tell that changes may be missing.
    pub async fn watch(&self, request: &WatchRequest) -> Result<Events<WatchEvent>, ClientError> {
        let post = self.request(Method::POST, &["api", "watch"])?.json(request);
        Events::open(self.clone(), post, None).await
    }

    /// Returns whether a directory has changed since a version.
    pub async fn check_watch(&self, request: &WatchCheckRequest) -> Result<WatchCheckResponse, ClientError> {
        self.post_read(&["api", "watch", "check"], request).await
    }
}
