//! A request to a preview.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Version, header};
use axum::response::Response;
use hyper::body::Incoming;
use sandcrab_api::ErrorCode;

use super::body::{PreviewBody, Slot};
use super::exposures::{Exposed, PreviewHost};
use super::headers::{self, ForwardedRequest};
use super::page::refuse;
use super::tunnel;
use super::upstream::{self, ConnectError, UpstreamError};
use crate::admission::{Admission, PreviewRequest};
use crate::app::App;
use crate::error::ApiError;
use crate::framing;

/// The name of the route of previews in metrics.
const ROUTE: &str = "preview";

/// Answers a request to a preview.
pub(crate) async fn answer(
    app: App,
    host: PreviewHost,
    request: Request<Incoming>,
    client: Option<IpAddr>,
) -> Response {
    let begun = Instant::now();
    let method = request.method().clone();
    // Only the headers from which the form of an error depends.
    let mut asked = HeaderMap::new();
    for name in [header::ACCEPT, axum::http::HeaderName::from_static(sandcrab_api::REQUEST_ID_HEADER)] {
        if let Some(value) = request.headers().get(&name) {
            asked.insert(name, value.clone());
        }
    }
    let answered = forward(&app, host, request, client).await;
    let response = answered.unwrap_or_else(|error| {
        if let Some(why) = error.internal_message() {
            tracing::error!(why, "a preview failed");
        }
        refuse(error, &asked)
    });
    app.metrics.request(&method, ROUTE, response.status(), begun.elapsed());
    response
}

/// Sends the request to the program, and returns its response.
async fn forward(
    app: &App,
    host: PreviewHost,
    mut request: Request<Incoming>,
    client: Option<IpAddr>,
) -> Result<Response, ApiError> {
    let PreviewHost { given, exposed } = host;
    framing::check_forwarded(&request)?;
    let previews = &app.previews;
    refuse_loop(app, request.headers())?;
    let exposed = exposed.ok_or_else(unknown)?;
    let visit = match request.extensions().get::<Arc<Admission>>() {
        Some(admission) => Some(admission.visit().ok_or_else(ApiError::connection_limit)?),
        None => None,
    };
    let slot = slot(app, &exposed, visit)?;
    if request.method() == Method::CONNECT {
        return Err(ApiError::new(ErrorCode::MethodNotAllowed, "previews do not support CONNECT"));
    }
    let path = request.uri().path_and_query().filter(|path| path.as_str().starts_with('/')).cloned();
    let path = path.ok_or_else(|| ApiError::invalid("target", "expected a path that begins with \"/\""))?;
    let host = HeaderValue::from_str(&given).map_err(|_| ApiError::invalid("host", "not a valid host"))?;
    let protocol = headers::upgrade(request.headers(), request.version());
    let from_client = protocol.as_ref().map(|_| hyper::upgrade::on(&mut request));
    let forwarded = ForwardedRequest {
        host: &host,
        client,
        scheme: previews.settings().scheme(),
        version: request.version(),
        via: previews.via(),
    };
    headers::to_program(request.headers_mut(), forwarded, &app.access);
    if let Some(protocol) = protocol {
        headers::set_upgrade(request.headers_mut(), protocol);
    }
    let (mut parts, body) = request.into_parts();
    parts.uri = upstream::target(exposed.port(), path).map_err(ApiError::internal)?;
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
    let sent = previews.upstream.send(Request::from_parts(parts, body));
    let mut response = tokio::select! {
        answered = sent => answered.map_err(|error| failed(&exposed, &error))?,
        () = exposed.revoked.cancelled() => return Err(unknown()),
    };
    let is_switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let accepted = response.headers().get(header::UPGRADE).cloned();
    let from_program = is_switching.then(|| hyper::upgrade::on(&mut response));
    headers::to_client(response.headers_mut());
    if is_switching {
        let (Some(client), Some(program), Some(protocol)) = (from_client, from_program, accepted) else {
            return Err(failed(&exposed, &UpstreamError::Broken));
        };
        headers::set_upgrade(response.headers_mut(), protocol);
        tunnel::start(app, exposed, client, program, slot);
        return Ok(response.map(|_| Body::empty()));
    }
    *response.version_mut() = Version::HTTP_11;
    Ok(response.map(|body| Body::new(PreviewBody::new(body, exposed.revoked.clone(), slot))))
}

/// Refuses a request that has passed a preview of this server.
pub(crate) fn refuse_loop(app: &App, headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.contains_key(header::VIA) && headers::has_passed(headers, app.previews.via()) {
        let why = "the request has passed a preview of this server and came back to it";
        return Err(ApiError::new(ErrorCode::PreviewLoop, why)
            .suggest("the program behind the preview forwards to the server; expose another port"));
    }
    Ok(())
}

/// Takes the permits of a request.
fn slot(app: &App, exposed: &Exposed, visit: Option<PreviewRequest>) -> Result<Slot, ApiError> {
    let take = |of: &Arc<tokio::sync::Semaphore>, what: &str| {
        Arc::clone(of).try_acquire_owned().map_err(|_| ApiError::too_many(what))
    };
    let of_port =
        take(&exposed.requests, "requests to this preview at the same time; retry when some have ended")?;
    let all =
        take(&app.previews.requests, "requests to previews at the same time; retry when some have ended")?;
    Ok(Slot { _all: all, _of_port: of_port, _visit: visit })
}

/// The same for a port that is not exposed and for a wrong token, so that a client cannot tell them apart.
fn unknown() -> ApiError {
    ApiError::new(ErrorCode::PortNotExposed, "preview not found")
        .suggest("check the address: `sandcrab expose list` shows those of this server")
}

fn failed(exposed: &Exposed, error: &UpstreamError) -> ApiError {
    let port = exposed.port();
    if matches!(error, UpstreamError::Body) {
        return ApiError::invalid("body", "the body of the request is not valid HTTP, or incomplete");
    }
    let (why, advice) = match error {
        UpstreamError::Connect(ConnectError::Refused) => (
            format!("no program listens on port {port}"),
            "start the program, or wait until it listens on 127.0.0.1 or ::1, and reload".to_owned(),
        ),
        UpstreamError::Connect(ConnectError::OwnPort) => (
            format!("port {port} is the port of this server, which previews cannot show"),
            format!("remove the preview: `sandcrab expose remove {port}`"),
        ),
        UpstreamError::Connect(other) => (
            format!("failed to connect to port {port}: {other}"),
            "look at the output of the program: `sandcrab ports` shows its process".to_owned(),
        ),
        UpstreamError::Body | UpstreamError::Broken => (
            format!("the program on port {port} closed the connection without a valid HTTP response"),
            "look at the output of the program, and check that it speaks HTTP/1.1 without TLS".to_owned(),
        ),
    };
    ApiError::new(ErrorCode::ServiceNotResponding, why).with("port", port).suggest(advice)
}
