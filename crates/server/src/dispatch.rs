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

use crate::socket::Inside;

/// The route of the multiplexed WebSocket.
const SOCKET_PATH: &str = "/ws";

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
    pub(crate) async fn answer(mut self, mut request: Request<Incoming>) -> Result<Response, Infallible> {
        if request.uri().path() == SOCKET_PATH {
            // Requests over the WebSocket use the same routes.
            request.extensions_mut().insert(Inside(self.api.clone()));
        }
        // A router is always ready.
        self.api.call(request).await
    }
}
