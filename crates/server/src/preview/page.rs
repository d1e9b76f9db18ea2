//! Responses of previews that do not come from a program: HTML for browsers, JSON for others.

use std::fmt::Write;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use sandcrab_api::{ErrorBody, ErrorCode, REQUEST_ID_HEADER};

use crate::error::ApiError;
use crate::layer::RequestId;

/// Returns the response of an error.
pub(crate) fn refuse(error: ApiError, headers: &HeaderMap) -> Response {
    let id = RequestId::of(headers);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = error.status();
    let body = error.body(id.as_str(), None);
    let code = body.code;
    let (text, kind) = if accepts_html(headers) {
        (html(&body).into_bytes(), "text/html; charset=utf-8")
    } else {
        (serde_json::to_vec(&body).unwrap_or_default(), "application/json")
    };
    *response.body_mut() = Body::from(text);
    let mut put = |name, value| response.headers_mut().insert(name, value);
    put(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    put(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    put(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if matches!(code, ErrorCode::LimitExceeded | ErrorCode::ServiceNotResponding) {
        put(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if code == ErrorCode::ValidationFailed {
        // The start of the next request may be ambiguous.
        put(header::CONNECTION, HeaderValue::from_static("close"));
    }
    put(axum::http::HeaderName::from_static(REQUEST_ID_HEADER), id.0);
    response
}

fn accepts_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|kind| kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/html")))
}

fn html(body: &ErrorBody) -> String {
    let mut page = String::from(
        "<!doctype html><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>",
    );
    let (message, advice) = (escape(&body.message), body.suggestion.as_deref().map(escape));
    // Writing to a String cannot fail.
    let _ = write!(page, "{} {}</title>", body.http_status, body.code);
    page.push_str("<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:4em auto;padding:0 1em}small{color:#666}</style>");
    let _ = write!(page, "<h1>{message}</h1>");
    if let Some(advice) = advice {
        let _ = write!(page, "<p>{advice}</p>");
    }
    let _ = writeln!(
        page,
        "<p><small>{} {} · {}</small></p>",
        body.http_status,
        body.code,
        escape(&body.request_id)
    );
    page
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn browsers_get_a_page_and_programs_get_json() {
        let error =
            || ApiError::new(ErrorCode::ServiceNotResponding, "nothing <listens>").suggest("start & wait");
        for (accept, kind, part) in [
            ("text/html,application/xhtml+xml;q=0.9", "text/html; charset=utf-8", "nothing &lt;listens&gt;"),
            ("*/*", "application/json", "\"code\":\"SERVICE_NOT_RESPONDING\""),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            let response = refuse(error(), &headers);
            assert_eq!(
                (response.status().as_u16(), &response.headers()["content-type"]),
                (502, &kind.parse().unwrap())
            );
            let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
            assert!(String::from_utf8_lossy(&body).contains(part), "{body:?}");
        }
    }
}
