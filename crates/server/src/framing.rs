//! Whether a request can be understood in one way only.
//!
//! A proxy on the way may have read an ambiguous request in another way than this server does, and then one of them
//! answers a request that the other has not seen. Such requests are refused.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, Uri, header};

use crate::error::ApiError;

/// Headers of which a second one would mean something else.
const SINGLE: [HeaderName; 5] =
    [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONTENT_TYPE, header::ORIGIN];

/// Refuses a request that another program may read in another way.
pub(crate) fn check(request: &Request) -> Result<(), ApiError> {
    check_headers(request.uri(), request.headers())
}

fn check_headers(uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    for name in &SINGLE {
        if headers.get_all(name).iter().nth(1).is_some() {
            return Err(ApiError::invalid(name.as_str(), "the header is there twice; send it once"));
        }
    }
    if let Some(coding) = headers.get(header::TRANSFER_ENCODING) {
        if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
            return Err(ApiError::invalid(
                "transfer-encoding",
                "only \"chunked\" is supported; send the body as it is",
            ));
        }
        if headers.contains_key(header::CONTENT_LENGTH) {
            return Err(ApiError::invalid(
                "content-length",
                "it contradicts transfer-encoding; send one of them",
            ));
        }
    }
    // The target of a request, or `:authority` of HTTP/2, comes before Host.
    if let (Some(authority), Some(host)) = (uri.authority(), headers.get(header::HOST))
        && !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes())
    {
        return Err(ApiError::invalid("host", "it names another server than the target of the request"));
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
        check_headers(&Uri::from_static(uri), &map).err().map(|e| e.message().to_owned())
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        let length = (header::CONTENT_LENGTH, "1");
        for (uri, headers) in [
            ("/", &[(header::HOST, "a"), (header::HOST, "a")][..]),
            ("/", &[(header::TRANSFER_ENCODING, "gzip, chunked")]),
            ("/", &[(header::TRANSFER_ENCODING, "identity")]),
            ("/", &[(header::TRANSFER_ENCODING, "chunked, chunked")]),
            ("/", &[(header::TRANSFER_ENCODING, "chunked"), (header::TRANSFER_ENCODING, "chunked")]),
            ("/", &[length.clone(), (header::TRANSFER_ENCODING, "chunked")]),
            ("/", &[length.clone(), length.clone()]),
            ("http://localhost/", &[(header::HOST, "evil.example")]),
        ] {
            assert!(refused(uri, headers).is_some(), "{uri} {headers:?}");
        }
        for (uri, headers) in [
            ("/", &[(header::HOST, "a"), length][..]),
            ("/", &[(header::TRANSFER_ENCODING, "Chunked")]),
            ("http://LOCALHOST:1/", &[(header::HOST, "localhost:1")]),
            ("http://localhost/", &[]),
        ] {
            assert_eq!(refused(uri, headers), None, "{uri} {headers:?}");
        }
    }
}
