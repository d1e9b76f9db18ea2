//! Refuses ambiguous requests.
//!
//! A proxy may interpret an ambiguous request differently than this server, and then one of them answers a request
//! that the other has not seen (request smuggling). Such requests are refused, and their connection is closed.
//!
//! hyper checks first: it refuses differing content lengths and a `Transfer-Encoding` that does not end in `chunked`.
//! With both headers the chunks are used, and the connection is closed after the response.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, Uri, header};
use sandcrab_api::{IDEMPOTENCY_HEADER, LAST_EVENT_ID_HEADER, REQUEST_ID_HEADER, SESSION_HEADER};

use crate::access::token_protocols;
use crate::error::ApiError;

/// The headers of which the server reads one value. A second one would be ambiguous.
const SINGLE: [HeaderName; 15] = [
    header::HOST,
    header::AUTHORIZATION,
    header::ORIGIN,
    HeaderName::from_static("sec-fetch-site"),
    header::ACCESS_CONTROL_REQUEST_METHOD,
    header::TRANSFER_ENCODING,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::RANGE,
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_VERSION,
    HeaderName::from_static(IDEMPOTENCY_HEADER),
    HeaderName::from_static(SESSION_HEADER),
    HeaderName::from_static(REQUEST_ID_HEADER),
    HeaderName::from_static(LAST_EVENT_ID_HEADER),
];

/// Refuses a request that another program may interpret differently.
pub(crate) fn check(request: &Request) -> Result<(), ApiError> {
    check_single(request.headers())?;
    check_credentials(request.headers())?;
    check_target(request.uri(), request.headers())
}

/// Refuses a request to a preview that the program could interpret differently. Other duplicates are its own affair.
pub(crate) fn check_forwarded<B>(request: &axum::http::Request<B>) -> Result<(), ApiError> {
    let headers = request.headers();
    for name in [header::HOST, header::TRANSFER_ENCODING, header::CONTENT_LENGTH] {
        if headers.get_all(&name).iter().nth(1).is_some() {
            return Err(ApiError::invalid(name.as_str(), "duplicate header; send it once"));
        }
    }
    check_target(request.uri(), headers)
}

/// Refuses a second header where one value is read.
pub(crate) fn check_single(headers: &HeaderMap) -> Result<(), ApiError> {
    // Nearly always every name occurs once.
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    for name in &SINGLE {
        if headers.get_all(name).iter().nth(1).is_some() {
            return Err(ApiError::invalid(name.as_str(), "duplicate header; send it once"));
        }
    }
    Ok(())
}

/// Refuses more than one token: another program may have checked the one that this server does not read.
fn check_credentials(headers: &HeaderMap) -> Result<(), ApiError> {
    let name = header::SEC_WEBSOCKET_PROTOCOL;
    if !headers.contains_key(&name) {
        return Ok(());
    }
    let count = token_protocols(headers).count() + usize::from(headers.contains_key(header::AUTHORIZATION));
    if token_protocols(headers).next().is_some() && count > 1 {
        let why = "the request has several tokens; send one, as Authorization or as a subprotocol";
        return Err(ApiError::invalid(name.as_str(), why));
    }
    Ok(())
}

fn check_target(uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    if let Some(coding) = headers.get(header::TRANSFER_ENCODING)
        && !coding.as_bytes().eq_ignore_ascii_case(b"chunked")
    {
        let why = "only \"chunked\" is supported; send the body as it is";
        return Err(ApiError::invalid("transfer-encoding", why));
    }
    // The target of a request, or `:authority` of HTTP/2, takes precedence over Host.
    if let (Some(authority), Some(host)) = (uri.authority(), headers.get(header::HOST))
        && !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes())
    {
        return Err(ApiError::invalid("host", "it differs from the target of the request"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(uri: &'static str, headers: &[(HeaderName, &str)]) -> Option<String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        let checked = check_single(&map).and_then(|()| check_credentials(&map));
        let checked = checked.and_then(|()| check_target(&Uri::from_static(uri), &map));
        checked.err().map(|e| e.message().to_owned())
    }

    #[test]
    fn ambiguous_requests_are_refused() {
        for (uri, headers) in [
            ("/", &[(header::TRANSFER_ENCODING, "gzip, chunked")][..]),
            ("/", &[(header::TRANSFER_ENCODING, "identity")]),
            ("/", &[(header::TRANSFER_ENCODING, "chunked, chunked")]),
            ("http://localhost/", &[(header::HOST, "evil.example")]),
            ("/", &[(header::SEC_WEBSOCKET_PROTOCOL, "bearer.a, bearer.a")]),
            ("/", &[(header::SEC_WEBSOCKET_PROTOCOL, "bearer.a, bearer64.YQ")]),
            (
                "/",
                &[
                    (header::SEC_WEBSOCKET_PROTOCOL, "bearer.a,x"),
                    (header::SEC_WEBSOCKET_PROTOCOL, "bearer.b"),
                ],
            ),
            ("/", &[(header::SEC_WEBSOCKET_PROTOCOL, "x, bearer.a"), (header::AUTHORIZATION, "Bearer a")]),
        ] {
            assert!(refused(uri, headers).is_some(), "{uri} {headers:?}");
        }
        for (uri, headers) in [
            ("/", &[(header::HOST, "a"), (header::CONTENT_LENGTH, "1")][..]),
            ("/", &[(header::TRANSFER_ENCODING, "Chunked")]),
            ("http://LOCALHOST:1/", &[(header::HOST, "localhost:1")]),
            ("http://localhost/", &[]),
            ("/", &[(header::SEC_WEBSOCKET_PROTOCOL, "x, bearer.a"), (header::SEC_WEBSOCKET_PROTOCOL, "y")]),
            ("/", &[(header::SEC_WEBSOCKET_PROTOCOL, "x, y"), (header::AUTHORIZATION, "Bearer a")]),
            ("/", &[(header::ACCEPT, "a"), (header::ACCEPT, "b"), (header::RANGE, "bytes=0-1")]),
        ] {
            assert_eq!(refused(uri, headers), None, "{uri} {headers:?}");
        }
    }

    #[test]
    fn duplicate_headers_are_refused() {
        for name in SINGLE {
            for second in ["a", "b", ""] {
                let message = refused("/", &[(name.clone(), "a"), (name.clone(), second)]);
                assert!(message.is_some_and(|message| message.starts_with(name.as_str())), "{name}");
            }
        }
    }
}
