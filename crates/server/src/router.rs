//! The routes and the OpenAPI document, generated from one list.

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::{Method, Uri};
use sandcrab_api::ErrorCode;
use sandcrab_api::frame::{ClientFrame, ServerFrame};
use sandcrab_api::terminal::{TerminalClientFrame, TerminalFrame};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::compat::Compat;
use crate::error::ApiError;
use crate::layer::{self, OuterLayer};
use crate::routes::{
    backup, environment, events, execute, exposure, file, find, git, logs, output, port, process, recording,
    replace, screen, search, server, service, session, socket, stdin, terminal, terminal_input,
    terminal_socket, watch,
};
use crate::{document, operations};

/// Maximum number of characters of a path in a message.
const MAX_SHOWN_PATH_CHARS: usize = 200;

/// The routes and schemas of the OpenAPI document.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Sandcrab",
        description = "Runs commands, background processes and persistent shell sessions, and records their output.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(ClientFrame, ServerFrame, TerminalClientFrame, TerminalFrame))
)]
struct Api;

fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(execute::execute))
        .routes(routes!(execute::execute_stream))
        .routes(routes!(process::start))
        .routes(routes!(process::list))
        .routes(routes!(process::kill_all))
        .routes(routes!(process::cleanup))
        .routes(routes!(process::get, process::kill))
        .routes(routes!(process::send_signal))
        .routes(routes!(process::wait))
        .routes(routes!(stdin::write))
        .routes(routes!(logs::logs))
        .routes(routes!(logs::stream))
        .routes(routes!(output::output))
        .routes(routes!(recording::of_process))
        .routes(routes!(terminal::create))
        .routes(routes!(terminal::list))
        .routes(routes!(terminal::get, terminal::delete))
        .routes(routes!(terminal_input::resize))
        .routes(routes!(terminal_input::input))
        .routes(routes!(screen::screen))
        .routes(routes!(screen::wait))
        .routes(routes!(recording::of_terminal))
        .routes(routes!(git::checkout))
        .routes(routes!(git::status))
        .routes(routes!(git::diff))
        .routes(routes!(git::log))
        .routes(routes!(git::branches))
        .routes(routes!(git::add))
        .routes(routes!(git::commit))
        .routes(routes!(git::pull))
        .routes(routes!(git::push))
        .routes(routes!(port::list))
        .routes(routes!(port::watch))
        .routes(routes!(exposure::expose))
        .routes(routes!(exposure::unexpose))
        .routes(routes!(exposure::list))
        .routes(routes!(service::start))
        .routes(routes!(service::list))
        .routes(routes!(service::get, service::delete))
        .routes(routes!(service::health))
        .routes(routes!(service::stop))
        .routes(routes!(service::restart))
        .routes(routes!(service::logs))
        .routes(routes!(service::stream))
        .routes(routes!(session::create))
        .routes(routes!(session::list))
        .routes(routes!(session::delete))
        .routes(routes!(session::get))
        .routes(routes!(session::interrupt))
        .routes(routes!(session::fork))
        .routes(routes!(session::reset))
        .routes(routes!(session::set_env))
        .routes(routes!(search::search))
        .routes(routes!(find::find))
        .routes(routes!(replace::replace))
        .routes(routes!(watch::watch))
        .routes(routes!(watch::check))
        .routes(routes!(environment::set))
        .routes(routes!(backup::create))
        .routes(routes!(backup::restore))
        .routes(routes!(backup::upload_parts))
        .routes(routes!(backup::list))
        .routes(routes!(backup::delete))
        .merge(file::routes())
        .routes(routes!(server::ping))
        .routes(routes!(server::version))
        .routes(routes!(server::health))
        .routes(routes!(server::metrics))
        .routes(routes!(server::openapi))
        .routes(routes!(events::events))
        .routes(routes!(socket::socket))
        .routes(routes!(terminal_socket::open))
        .routes(routes!(terminal_socket::open_pty))
}

/// Returns the OpenAPI document.
pub(crate) fn openapi() -> serde_json::Value {
    let (_, document) = routes().split_for_parts();
    let mut document = serde_json::to_value(document).unwrap_or_default();
    document::complete(&mut document);
    document
}

/// Returns the OpenAPI document as it is served and committed.
pub(crate) fn openapi_json() -> String {
    format!("{:#}\n", openapi())
}

/// The routes of a server.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) router: Router,
    /// Whether they are those of the native API.
    pub(crate) is_native: bool,
}

/// Builds the router of all routes. This is the only code that depends on the mode: others must not depend on it.
pub(crate) fn router(app: &App, compat: Option<&Compat>) -> Routes {
    let (routes, _) = routes().split_for_parts();
    let routes = routes
        // Refuses query parameters that the document does not declare.
        .route_layer(axum::middleware::from_fn(operations::check))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed);
    let router = match compat {
        Some(compat) => compat.router(routes, |routes| layered(routes, app)),
        None => layered(routes, app),
    };
    Routes { router, is_native: compat.is_none() }
}

/// Adds what all routes share, as one layer: the router allocates and clones each layer, and all layers inside it,
/// several times for each request. Bodies have their own limits, and no extractor that has a default limit is used.
fn layered(routes: Router<App>, app: &App) -> Router {
    // All these routes require a token; public ones are to be added with another value.
    let outermost = OuterLayer { app: app.clone(), requires_token: true };
    routes.layer(axum::middleware::from_fn_with_state(outermost, layer::outermost)).with_state(app.clone())
}

async fn not_found(method: Method, uri: Uri) -> ApiError {
    // Its request names a host, and no path.
    if method == Method::CONNECT {
        return ApiError::new(
            ErrorCode::MethodNotAllowed,
            "CONNECT is for proxies, which this server is not",
        )
        .suggest("GET /openapi.json lists the routes");
    }
    let path: String = uri.path().chars().take(MAX_SHOWN_PATH_CHARS).collect();
    ApiError::new(ErrorCode::RouteNotFound, format!("route {path} not found"))
        .suggest("GET /openapi.json lists the routes")
}

pub(crate) async fn method_not_allowed(request: Request) -> ApiError {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let allowed = operations::methods(route);
    let path: String = request.uri().path().chars().take(MAX_SHOWN_PATH_CHARS).collect();
    let message = format!("{path} does not support {}; use {}", request.method(), allowed.join(" or "));
    ApiError::new(ErrorCode::MethodNotAllowed, message)
        .with("allowed", allowed)
        .suggest("GET /openapi.json lists the routes")
}
