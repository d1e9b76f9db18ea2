//! [`Dispatch`]: selects the application for a request by its host.
//!
//! It is above the router, because a router only handles paths. There are two applications: previews of ports, which
//! have host names of their own, and the API. An application that the program mounts has a path of its own beside the API.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use hyper::body::Incoming;
use tower::Service;

use crate::app::App;
use crate::layer;
use crate::preview;
use crate::router::Routes;
use crate::routes::execute::{self, EXECUTE_PATH};
use crate::socket::SocketRoutes;

/// The route of the multiplexed WebSocket.
const SOCKET_PATH: &str = "/ws";

/// Every application of a server. Cloned for each request.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    api: Router,
    /// Set if there are previews.
    app: Option<App>,
    /// Whether the routes are those of the native API. Then commands are run without the router.
    is_native: bool,
    /// An application of the program that runs the server, and its path.
    mounted: Option<(&'static str, Router)>,
}

impl Dispatch {
    /// Creates one that uses only the router.
    #[cfg(test)]
    pub(crate) fn new(api: Router) -> Self {
        Self { api, app: None, is_native: false, mounted: None }
    }

    /// The applications of a server.
    pub(crate) fn of(app: &App, Routes { router, is_native }: Routes) -> Self {
        Self { api: router, app: Some(App::clone(app)), is_native, mounted: None }
    }

    /// Adds an application of the native API at a path. It gets requests with a valid token only.
    pub(crate) fn mount(&mut self, path: &'static str, application: Router) {
        if self.is_native {
            self.mounted = Some((path, application));
        }
    }

    /// Answers one request of a client with this address.
    pub(crate) async fn answer(
        mut self,
        mut request: Request<Incoming>,
        client: Option<IpAddr>,
    ) -> Result<Response, Infallible> {
        if let Some(app) = self.app.take() {
            // First: a preview has all paths, those of the API included.
            if let Some(host) = app.previews.host_of(&request) {
                // On the heap, so that other requests do not reserve space for it.
                return Ok(Box::pin(preview::answer(app, host, request, client)).await);
            }
            if let Err(error) = preview::refuse_loop(&app, request.headers()) {
                return Ok(preview::refuse(error, request.headers()));
            }
            if self.is_native && request.method() == Method::POST && request.uri().path() == EXECUTE_PATH {
                return Ok(execute::answer(app, request.map(Body::new)).await);
            }
            if let Some((path, mut application)) = self.mounted.take()
                && request.uri().path() == path
            {
                let call = async move |request| match application.call(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                };
                return Ok(Box::pin(layer::answer(&app, true, path, request.map(Body::new), call)).await);
            }
        }
        if request.uri().path() == SOCKET_PATH {
            // Requests over the WebSocket use the same routes.
            request.extensions_mut().insert(SocketRoutes(self.api.clone()));
        }
        // A router is always ready.
        self.api.call(request).await
    }
}
