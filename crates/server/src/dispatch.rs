//! [`Dispatch`]: selects the application for a request by its host.
//!
//! It is above the router, because a router only handles paths. There is one application today, the API; another one
//! that is selected by its host name, such as the preview of a port, is a branch in [`Dispatch::answer`].

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use hyper::body::Incoming;
use tower::Service;

use crate::app::App;
use crate::routes::execute::{self, EXECUTE_PATH};
use crate::socket::Inside;

/// The route of the multiplexed WebSocket.
const SOCKET_PATH: &str = "/ws";

/// Every application of a server. Cloned for each request.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    api: Router,
    /// Set if commands are run without the router.
    direct: Option<App>,
}

impl Dispatch {
    /// Creates one that uses only the router.
    #[cfg(test)]
    pub(crate) fn new(api: Router) -> Self {
        Self { api, direct: None }
    }

    /// The applications of a server.
    pub(crate) fn of(app: &App) -> Self {
        // A compatible server has a route of its own.
        let direct = app.compat.is_none().then(|| App::clone(app));
        Self { api: crate::router::router(app), direct }
    }

    /// Answers one request.
    pub(crate) async fn answer(mut self, mut request: Request<Incoming>) -> Result<Response, Infallible> {
        if let Some(app) = self.direct.take()
            && request.method() == Method::POST
            && request.uri().path() == EXECUTE_PATH
        {
            return Ok(execute::answer(app, request.map(Body::new)).await);
        }
        if request.uri().path() == SOCKET_PATH {
            // Requests over the WebSocket use the same routes.
            request.extensions_mut().insert(Inside(self.api.clone()));
        }
        // A router is always ready.
        self.api.call(request).await
    }
}
