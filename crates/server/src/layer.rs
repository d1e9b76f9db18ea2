//! The outermost layer: assigns request ids, counts and logs requests, writes error bodies, and encodes event
//! streams.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use sandcrab_api::{ErrorCode, REQUEST_ID_HEADER};
use tracing::Instrument;
use tracing::field::Empty;

use crate::access::Multiplexed;
use crate::app::App;
use crate::error::ApiError;
use crate::events::{EventStream, sse};
use crate::framing;
use crate::socket;

/// Maximum length of a client's request id.
const MAX_REQUEST_ID_BYTES: usize = 128;

/// The id of a request, stored in its extensions.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) HeaderValue);

impl RequestId {
    /// Returns the client's request id if it is safe to log, otherwise a new one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let own = headers.get(REQUEST_ID_HEADER).filter(|value| {
            let fit = |byte: &u8| byte.is_ascii_graphic();
            !value.is_empty() && value.len() <= MAX_REQUEST_ID_BYTES && value.as_bytes().iter().all(fit)
        });
        own.cloned().map_or_else(Self::new, Self)
    }

    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        static START: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
        // Unique within this process, and unlikely to equal an id of another one.
        let start = *START.get_or_init(|| {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_micros()).unwrap_or(0)
        });
        let id = format!("r-{start:x}-{:x}", COUNT.fetch_add(1, Ordering::Relaxed));
        Self(HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("r-0")))
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or("r-0")
    }
}

impl FromRequestParts<App> for RequestId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        // The outermost layer has added it.
        Ok(parts.extensions.get().cloned().unwrap_or_else(Self::new))
    }
}

/// The state of the outermost layer.
#[derive(Debug, Clone)]
pub(crate) struct OuterLayer {
    pub(crate) app: App,
    /// Whether its routes require a token.
    pub(crate) requires_token: bool,
}

/// The outermost layer.
pub(crate) async fn outermost(
    State(OuterLayer { app, requires_token }): State<OuterLayer>,
    request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("", MatchedPath::as_str);
    answer(&app, requires_token, route, request, |request| next.run(request)).await
}

/// Checks a request, runs its handler, and completes the response.
pub(crate) async fn answer<F>(
    app: &App,
    requires_token: bool,
    route: &str,
    mut request: Request,
    handler: impl FnOnce(Request) -> F,
) -> Response
where
    F: Future<Output = Response>,
{
    let begun = Instant::now();
    let id = RequestId::of(request.headers());
    let cross_origin = app.access.cross_origin_headers(request.headers());
    let method = request.method().clone();
    // A WebSocket was checked when it was opened, and encodes events itself.
    let is_multiplexed = request.extensions().get::<Multiplexed>().is_some();
    let mut response = if let Some(headers) = app.access.preflight(&method, request.headers()) {
        (StatusCode::NO_CONTENT, headers).into_response()
    } else {
        match check(app, &request, requires_token, is_multiplexed) {
            Ok(()) => {
                request.extensions_mut().insert(id.clone());
                // The others are recorded when they are known.
                let span =
                    tracing::debug_span!("request", id = id.as_str(), execution = Empty, session = Empty);
                catch_panic(handler(request)).instrument(span).await
            }
            Err(refusal) => refusal,
        }
    };
    if is_multiplexed {
        response = socket::limited(response, &method, route);
    } else if let Some(items) = EventStream::take(&mut response) {
        sse::respond(&mut response, items, app.outgoing.clone());
    }
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        log(&error, &id, method.as_str(), route);
        let operation = (!route.is_empty()).then(|| format!("{method} {route}"));
        write_error(&mut response, error, &id, operation);
    }
    app.outgoing.count_whole(&mut response).await;
    if let Some(headers) = cross_origin {
        response.headers_mut().extend(headers);
    }
    app.metrics.request(&method, route, response.status(), begun.elapsed());
    tracing::debug!(request = id.as_str(), %method, route, status = response.status().as_u16(), "answered");
    response.headers_mut().insert(REQUEST_ID_HEADER, id.0);
    response
}

/// Checks that apply to every request.
#[expect(clippy::result_large_err, reason = "the refusal is the response")]
fn check(app: &App, request: &Request, requires_token: bool, is_multiplexed: bool) -> Result<(), Response> {
    if is_multiplexed {
        return framing::check_single(request.headers()).map_err(ApiError::into_response);
    }
    framing::check(request).map_err(|refusal| {
        let mut response = refusal.into_response();
        // The start of the next request is ambiguous too, so the connection is closed.
        if request.version() <= Version::HTTP_11 {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    })?;
    let page = app.access.check_page(request.uri(), request.headers());
    let checked = page.and_then(|()| if requires_token { app.access.admit(request) } else { Ok(()) });
    checked.map_err(ApiError::into_response)
}

/// Runs the handler. A panic becomes a 500 response.
async fn catch_panic(handler: impl Future<Output = Response>) -> Response {
    match AssertUnwindSafe(handler).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => ApiError::panic(panic.as_ref()).into_response(),
    }
}

fn log(error: &ApiError, id: &RequestId, method: &str, route: &str) {
    if let Some(why) = error.internal_message() {
        tracing::error!(request = id.as_str(), method, route, why, "failed");
    }
}

fn write_error(response: &mut Response, error: ApiError, id: &RequestId, operation: Option<String>) {
    let code = error.code();
    let body = error.body(id.as_str(), operation);
    let size = body.context.get("size").map(ToString::to_string).unwrap_or_default();
    let json = serde_json::to_vec(&body).unwrap_or_default();
    *response.body_mut() = Body::from(json);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.remove(header::CONTENT_LENGTH);
    match code {
        ErrorCode::Unauthorized => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        ErrorCode::LimitExceeded | ErrorCode::ShuttingDown => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        ErrorCode::RangeNotSatisfiable => {
            if let Ok(range) = HeaderValue::from_str(&format!("bytes */{size}")) {
                headers.insert(header::CONTENT_RANGE, range);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_becomes_500() {
        for broken in [
            catch_panic(async { panic!("broken {}", 1) }).await,
            catch_panic(async { panic!("broken") }).await,
        ] {
            let mut response = broken;
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            let error = response.extensions_mut().remove::<ApiError>().unwrap();
            assert!(error.internal_message().unwrap().contains("broken"));
            write_error(&mut response, error, &RequestId::new(), None);
            let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
            let body: sandcrab_api::ErrorBody = serde_json::from_slice(&body).unwrap();
            assert_eq!(body.code, ErrorCode::InternalError);
            assert!(body.request_id.starts_with("r-") && !body.message.contains("broken"));
        }
    }
}
