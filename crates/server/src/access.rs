//! Access control: the token, the `Host` header and the origin of web pages.
//!
//! A web page in a browser can reach a server on the loopback address. Two checks prevent this even if no
//! token is required. `Host` must be an address, or a name that cannot be resolved to this machine by a
//! foreign DNS server (DNS rebinding). `Origin` and `Sec-Fetch-Site` must not name another site.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use sandcrab_api::ErrorCode;
use subtle::ConstantTimeEq;

use crate::admission::Admission;
use crate::config::{Access, Listen};
use crate::error::ApiError;

/// Prefix of the WebSocket subprotocol that contains the token.
const TOKEN_PROTOCOL: &str = "bearer.";
/// The same with the token as base64url without padding: a token may have characters that a subprotocol cannot have.
const ENCODED_TOKEN_PROTOCOL: &str = "bearer64.";

/// The routes that open a WebSocket.
pub(crate) const SOCKET_PATHS: [&str; 3] = ["/ws", "/ws/terminal", "/ws/pty"];

/// Decides which requests are allowed.
pub(crate) struct AccessPolicy {
    token: Option<Vec<u8>>,
    hosts: Vec<String>,
    origins: Vec<String>,
    /// True for a unix socket: browsers cannot use it, so `Host` is not checked.
    is_unix: bool,
}

impl std::fmt::Debug for AccessPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessPolicy")
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .finish_non_exhaustive()
    }
}

impl AccessPolicy {
    pub(crate) fn new(access: &Access, listen: &Listen) -> Self {
        Self {
            token: access.token.clone().map(String::into_bytes),
            hosts: access.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            origins: access.allowed_origins.iter().map(|origin| origin.to_ascii_lowercase()).collect(),
            is_unix: matches!(listen, Listen::Unix(_)),
        }
    }

    /// Checks host and origin. Applies to every route.
    pub(crate) fn check_page(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = self.check_host(uri, headers)?;
        self.check_origin(host.as_deref(), headers)
    }

    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<Option<String>, ApiError> {
        let host = match uri.authority() {
            Some(authority) => Some(authority.as_str()),
            None => headers.get(header::HOST).and_then(|value| value.to_str().ok()),
        };
        let host = host.map(str::to_ascii_lowercase);
        if self.is_unix {
            return Ok(host);
        }
        let Some(host) = host else {
            return Err(denied("the request has no Host header; add one"));
        };
        let Some(name) = without_port(&host) else {
            return Err(denied("the Host header is not a valid host"));
        };
        let is_address = name.parse::<std::net::IpAddr>().is_ok();
        let is_local = name == "localhost" || name.ends_with(".localhost");
        let is_allowed =
            self.hosts.iter().any(|allowed| allowed == "*" || allowed == name || *allowed == host);
        if is_address || is_local || is_allowed {
            return Ok(Some(host));
        }
        let hint = format!("start the server with --allow-host {name}");
        Err(denied("host not allowed").with("host", name).suggest(hint))
    }

    fn check_origin(&self, host: Option<&str>, headers: &HeaderMap) -> Result<(), ApiError> {
        if let Some(origin) = headers.get(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or("null").to_ascii_lowercase();
            if self.is_allowed_origin(&origin) {
                return Ok(());
            }
            let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            if own.is_some() && own == host {
                return Ok(());
            }
            let hint = format!("start the server with --allow-origin {origin}");
            return Err(denied("origin not allowed").with("origin", origin).suggest(hint));
        }
        // For an image or a link a browser sends no `Origin`, but it sends `Sec-Fetch-Site`.
        let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
        let is_foreign =
            |site: &str| !["none", "same-origin"].iter().any(|own| site.eq_ignore_ascii_case(own));
        if site.is_some_and(is_foreign) && !self.is_allowed_origin("*") {
            return Err(denied("cross-site requests are not allowed"));
        }
        Ok(())
    }

    fn is_allowed_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| allowed == "*" || allowed == origin)
    }

    /// Whether this is the token of the API.
    pub(crate) fn is_token(&self, given: &[u8]) -> bool {
        !given.is_empty()
            && self.token.as_ref().is_some_and(|token| bool::from(given.ct_eq(token.as_slice())))
    }

    /// Whether a value of `Authorization` contains the token of the API.
    pub(crate) fn is_own_token(&self, authorization: &HeaderValue) -> bool {
        let Some((scheme, token)) = authorization.as_bytes().split_at_checked(6) else { return false };
        let is_bearer = scheme.eq_ignore_ascii_case(b"bearer") && token.starts_with(b" ");
        is_bearer && self.is_token(token.trim_ascii())
    }

    /// Whether a value of `Authorization` has the token of the API in any spelling, also one that the API does not accept.
    pub(crate) fn mentions_token(&self, authorization: &HeaderValue) -> bool {
        let given = authorization.as_bytes().trim_ascii();
        let is_separator = |byte: &u8| byte.is_ascii_whitespace() || b",;=\"'".contains(byte);
        let without_scheme = given.splitn(2, u8::is_ascii_whitespace).nth(1).unwrap_or_default();
        // The user name or the password of `Basic`.
        let mut is_encoded = given.split(is_separator).any(|word| {
            let text: Vec<u8> = word.iter().copied().filter(|byte| *byte != b'=').collect();
            let decoded =
                BASE64_STANDARD_NO_PAD.decode(&text).or_else(|_| BASE64_URL_SAFE_NO_PAD.decode(&text));
            decoded.is_ok_and(|pair| {
                let at = pair.iter().position(|byte| *byte == b':').unwrap_or(pair.len());
                [&pair[..at], pair.get(at + 1..).unwrap_or_default()].iter().any(|part| self.is_token(part))
            })
        });
        is_encoded |= given.split(is_separator).any(|word| self.is_token(word));
        is_encoded || self.is_token(given) || self.is_token(without_scheme.trim_ascii())
    }

    /// Whether a subprotocol is the token of the API in any spelling.
    pub(crate) fn is_token_protocol(&self, protocol: &[u8]) -> bool {
        let Some(dot) = protocol.iter().position(|byte| *byte == b'.') else { return false };
        let (prefix, rest) = (protocol[..=dot].to_ascii_lowercase(), &protocol[dot + 1..]);
        let unpadded = &rest[..rest.len() - rest.iter().rev().take_while(|byte| **byte == b'=').count()];
        token_in(&[&prefix, rest].concat()).is_some_and(|token| self.is_token(&token))
            || token_in(&[&prefix, unpadded].concat()).is_some_and(|token| self.is_token(&token))
    }

    fn check_token(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        if self.token.is_none() {
            return Ok(());
        }
        if let Some(given) = headers.get(header::AUTHORIZATION) {
            let checked = self.is_own_token(given).then_some(());
            return checked.ok_or_else(|| unauthorized("invalid token"));
        }
        // A browser can send the token of a WebSocket only as a subprotocol.
        let is_socket =
            method == Method::GET && SOCKET_PATHS.contains(&uri.path()) && is_websocket_upgrade(headers);
        if !is_socket {
            return Err(unauthorized("a token is required"));
        }
        if token_protocols(headers).any(|given| self.is_token(&given)) {
            return Ok(());
        }
        Err(unauthorized("a token is required"))
    }

    /// Refuses a request without the token, for routes that are not public.
    pub(crate) fn admit(&self, request: &Request) -> Result<(), ApiError> {
        self.check_token(request.method(), request.uri(), request.headers())?;
        let admission = request.extensions().get::<Arc<Admission>>();
        if admission.is_some_and(|admission| !admission.admit()) {
            // The connection was selected to be closed, so the response of a handler would be cut off.
            return Err(ApiError::connection_limit());
        }
        Ok(())
    }

    /// Returns the headers of the response if the request is a CORS preflight of an allowed origin.
    pub(crate) fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<HeaderMap> {
        if method != Method::OPTIONS || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
            return None;
        }
        let mut answer = self.cross_origin_headers(headers)?;
        let mut put = |name, value| answer.insert(name, HeaderValue::from_static(value));
        put(header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE");
        put(
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, idempotency-key, last-event-id, mcp-protocol-version, mcp-session-id, range, \
             x-request-id, x-session-id",
        );
        put(header::ACCESS_CONTROL_MAX_AGE, "600");
        Some(answer)
    }

    /// Returns the headers that allow a page of an allowed origin to read the response.
    pub(crate) fn cross_origin_headers(&self, headers: &HeaderMap) -> Option<HeaderMap> {
        let origin = headers.get(header::ORIGIN)?;
        if !self.is_allowed_origin(&origin.to_str().ok()?.to_ascii_lowercase()) {
            return None;
        }
        let mut answer = HeaderMap::new();
        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        answer.insert(header::VARY, HeaderValue::from_static("origin"));
        let exposed = HeaderValue::from_static("x-request-id, content-range, mcp-session-id, retry-after");
        answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        Some(answer)
    }
}

/// Extension of a request that came over a WebSocket, which was authorized when it was opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Multiplexed;

/// The tokens among the subprotocols that a WebSocket client offers.
pub(crate) fn token_protocols(headers: &HeaderMap) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let offered = offered.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    offered.filter_map(|protocol| token_in(protocol.trim_ascii()))
}

/// The token in a subprotocol; `None` if the subprotocol is not one for tokens.
pub(crate) fn token_in(protocol: &[u8]) -> Option<Cow<'_, [u8]>> {
    if let Some(encoded) = protocol.strip_prefix(ENCODED_TOKEN_PROTOCOL.as_bytes()) {
        // What cannot be decoded is a wrong token: no token is empty.
        return Some(BASE64_URL_SAFE_NO_PAD.decode(encoded).unwrap_or_default().into());
    }
    protocol.strip_prefix(TOKEN_PROTOCOL.as_bytes()).map(Into::into)
}

/// Returns whether a request asks for a WebSocket upgrade.
pub(crate) fn is_websocket_upgrade(headers: &HeaderMap) -> bool {
    let has = |name, wanted: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(wanted))
    };
    has(header::CONNECTION, "upgrade") && has(header::UPGRADE, "websocket")
}

/// Returns the host of `name`, `name:port`, `[::1]` or `[::1]:port`.
fn without_port(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.find(':').map_or((host, ""), |at| host.split_at(at)),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

fn denied(why: &str) -> ApiError {
    ApiError::new(ErrorCode::PermissionDenied, why)
}

fn unauthorized(why: &str) -> ApiError {
    ApiError::new(ErrorCode::Unauthorized, format!("{why}; send it as Authorization: Bearer <token>"))
        .suggest("the server prints the path of its token file when it starts")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(access: &Access) -> AccessPolicy {
        AccessPolicy::new(access, &Listen::Tcp(([127, 0, 0, 1], 7070).into()))
    }

    fn ask(policy: &AccessPolicy, headers: &[(&'static str, &str)]) -> Result<(), ErrorCode> {
        ask_route(policy, &Method::GET, "/ws", headers)
    }

    fn ask_route(
        policy: &AccessPolicy,
        method: &Method,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<(), ErrorCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let uri = path.parse().unwrap();
        let page = policy.check_page(&uri, &map);
        page.and_then(|()| policy.check_token(method, &uri, &map)).map_err(|e| e.code())
    }

    #[test]
    fn foreign_host_names_are_refused() {
        let policy = policy(&Access { allowed_hosts: vec!["box.example".into()], ..Access::default() });
        for host in ["127.0.0.1:7070", "localhost", "LOCALHOST:1", "[::1]:7070", "10.0.0.7", "box.example:80"]
        {
            assert_eq!(ask(&policy, &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:7070",
            "",
            "[",
            "[::1]evil.example",
            "127.0.0.1:evil.example",
            "::1",
            "notlocalhost",
        ] {
            assert_eq!(ask(&policy, &[("host", host)]), Err(ErrorCode::PermissionDenied), "{host}");
        }
        assert_eq!(ask(&policy, &[]), Err(ErrorCode::PermissionDenied));
    }

    #[test]
    fn foreign_origins_are_refused() {
        let policy =
            policy(&Access { allowed_origins: vec!["https://app.example".into()], ..Access::default() });
        let from = |origin| ask(&policy, &[("host", "127.0.0.1:7070"), ("origin", origin)]);
        assert_eq!(from("http://127.0.0.1:7070"), Ok(()));
        assert_eq!(from("https://app.example"), Ok(()));
        for origin in [
            "http://evil.example",
            "null",
            "http://127.0.0.1:8080",
            "http://localhost:7070",
            "https://app.example.evil",
        ] {
            assert_eq!(from(origin), Err(ErrorCode::PermissionDenied), "{origin}");
        }
        let image = [("host", "127.0.0.1:7070"), ("sec-fetch-site", "cross-site")];
        assert_eq!(ask(&policy, &image), Err(ErrorCode::PermissionDenied));
        assert_eq!(ask(&policy, &[("host", "127.0.0.1:7070"), ("sec-fetch-site", "none")]), Ok(()));
    }

    /// A page reads only the exposed headers.
    #[test]
    fn pages_can_read_when_to_ask_again() {
        let policy =
            policy(&Access { allowed_origins: vec!["https://app.example".into()], ..Access::default() });
        let headers =
            HeaderMap::from_iter([(header::ORIGIN, HeaderValue::from_static("https://app.example"))]);
        let answer = policy.cross_origin_headers(&headers).unwrap();
        let exposed = answer[header::ACCESS_CONTROL_EXPOSE_HEADERS].to_str().unwrap();
        assert!(exposed.split(", ").any(|name| name == "retry-after"), "{exposed}");
    }

    #[test]
    fn only_the_token_authorizes() {
        let policy = policy(&Access { token: Some("secret".into()), ..Access::default() });
        let with = |name, value| ask(&policy, &[("host", "localhost"), (name, value)]);
        assert_eq!(with("authorization", "Bearer secret"), Ok(()));
        assert_eq!(with("authorization", "bearer secret"), Ok(()));
        let offer_to = |method, path, protocol| {
            let upgrade =
                [("host", "localhost"), ("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")];
            ask_route(
                &policy,
                method,
                path,
                &[&upgrade[..], &[("sec-websocket-protocol", protocol)]].concat(),
            )
        };
        let offer = |protocol| offer_to(&Method::GET, "/ws", protocol);
        for (method, path) in
            [(&Method::POST, "/ws"), (&Method::GET, "/api/health"), (&Method::POST, "/api/execute")]
        {
            let asked = offer_to(method, path, "bearer.secret");
            assert_eq!(asked, Err(ErrorCode::Unauthorized), "{method} {path}");
        }
        assert_eq!(offer("chat, bearer.secret"), Ok(()));
        assert_eq!(offer("bearer.secreT"), Err(ErrorCode::Unauthorized));
        assert_eq!(offer("chat, bearer64.c2VjcmV0"), Ok(()));
        for wrong in ["bearer64.secret", "bearer64.c2VjcmVU", "bearer64.c2VjcmV0=", "bearer64.", "bearer64.!"]
        {
            assert_eq!(offer(wrong), Err(ErrorCode::Unauthorized), "{wrong}");
        }
        for (method, path) in [(&Method::POST, "/ws"), (&Method::GET, "/api/health")] {
            let asked = offer_to(method, path, "bearer64.c2VjcmV0");
            assert_eq!(asked, Err(ErrorCode::Unauthorized), "{method} {path}");
        }
        // On other routes a page could make a browser send this header.
        assert_eq!(with("sec-websocket-protocol", "bearer.secret"), Err(ErrorCode::Unauthorized));
        for wrong in ["Bearer secre", "Bearer secrets", "Bearer", "Bearer ", "Basic secret", "secret", ""] {
            assert_eq!(with("authorization", wrong), Err(ErrorCode::Unauthorized), "{wrong}");
        }
        assert_eq!(with("x", "y"), Err(ErrorCode::Unauthorized));
    }
}
