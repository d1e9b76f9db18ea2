//! [`Dispatch`]: selects the application for a request by its host.
//!
//! It is above the router, because a router only handles paths. There is one application today, the API; another one
//! that is selected by its host name, such as the preview of a port, is a branch in [`Dispatch::answer`].

use std::convert::Infallible;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use tower::Service;

/// Every application of a server. Cloned for each request.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    api: Router,
}

impl Dispatch {
    pub(crate) fn new(api: Router) -> Self {
        Self { api }
    }

    /// Answers one request.
    pub(crate) async fn answer(mut self, request: Request<Incoming>) -> Result<Response, Infallible> {
        // A router is always ready.
        self.api.call(request).await
    }
}
