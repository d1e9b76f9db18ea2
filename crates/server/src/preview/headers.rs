//! Headers of proxied messages.

use std::net::IpAddr;

use axum::http::header;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Version};

use super::settings::PreviewScheme;
use crate::access::AccessPolicy;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const FORWARDED: HeaderName = HeaderName::from_static("forwarded");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");

/// Headers that apply to one connection only. `Transfer-Encoding` is written again for the next connection.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Headers that `Connection` must not name: they describe the message, not the connection.
const END_TO_END: [HeaderName; 4] =
    [header::HOST, header::CONTENT_LENGTH, header::CONTENT_TYPE, header::COOKIE];

/// What the forwarding headers of a request say.
#[derive(Debug, Clone, Copy)]
pub(super) struct ForwardedRequest<'a> {
    /// The host as the client sent it.
    pub(super) host: &'a HeaderValue,
    pub(super) client: Option<IpAddr>,
    pub(super) scheme: PreviewScheme,
    pub(super) version: Version,
    /// The entry of this server process in `Via`.
    pub(super) via: &'a str,
}

/// The protocol of a request to upgrade. `None` for `h2c`, which is a property of one connection.
pub(super) fn upgrade(headers: &HeaderMap, version: Version) -> Option<HeaderValue> {
    let protocol = headers.get(header::UPGRADE)?;
    let names_upgrade =
        tokens(headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"));
    let is_http2 = protocol.to_str().is_ok_and(|protocol| {
        protocol.split(',').any(|part| part.trim().to_ascii_lowercase().starts_with("h2"))
    });
    (version == Version::HTTP_11 && names_upgrade && !is_http2).then(|| protocol.clone())
}

/// Whether a request has passed this server before.
pub(super) fn has_passed(headers: &HeaderMap, via: &str) -> bool {
    headers
        .get_all(header::VIA)
        .iter()
        .any(|entry| memchr::memmem::find(entry.as_bytes(), via.as_bytes()).is_some())
}

/// Changes the headers of a request for the program.
pub(super) fn to_program(headers: &mut HeaderMap, forwarded: ForwardedRequest<'_>, access: &AccessPolicy) {
    let takes_trailers = tokens(headers, &header::TE).any(|token| token.eq_ignore_ascii_case("trailers"));
    remove_hop_by_hop(headers);
    if takes_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
    }
    // The server asks for the body itself.
    headers.remove(header::EXPECT);
    remove_api_token(headers, access);
    join_cookies(headers);
    headers.insert(header::HOST, forwarded.host.clone());
    headers.insert(FORWARDED_HOST, forwarded.host.clone());
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(forwarded.scheme.as_str()));
    let host = forwarded.host.to_str().unwrap_or_default();
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    headers.insert(FORWARDED_PORT, port.unwrap_or(forwarded.scheme.default_port()).into());
    if let Some(client) = forwarded.client {
        append(headers, FORWARDED_FOR, &client.to_canonical().to_string());
    }
    let client = match forwarded.client.map(|client| client.to_canonical()) {
        Some(IpAddr::V4(client)) => client.to_string(),
        Some(IpAddr::V6(client)) => format!("\"[{client}]\""),
        None => "unknown".into(),
    };
    if !is_complete(headers, &FORWARDED, false) {
        headers.remove(FORWARDED);
    }
    append(headers, FORWARDED, &format!("for={client};host=\"{host}\";proto={}", forwarded.scheme.as_str()));
    let version = match forwarded.version {
        Version::HTTP_09 | Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2.0",
        _ => "1.1",
    };
    if !is_complete(headers, &header::VIA, true) {
        headers.remove(header::VIA);
    }
    append(headers, header::VIA, &format!("{version} {}", forwarded.via));
}

/// Removes headers of the connection to the program from its response.
pub(super) fn to_client(headers: &mut HeaderMap) {
    // The body ends where `Transfer-Encoding` says. With another length, a part of it would look complete.
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    remove_hop_by_hop(headers);
}

/// Adds the headers that change the protocol of a connection.
pub(super) fn set_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<_> = tokens(headers, &header::CONNECTION)
            .filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok())
            .filter(|name| !END_TO_END.contains(name))
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Removes the token of the API: a client that sends it by mistake must not give it to a program.
fn remove_api_token(headers: &mut HeaderMap, access: &AccessPolicy) {
    if headers.get_all(header::AUTHORIZATION).iter().any(|value| access.mentions_token(value)) {
        retain(headers, &header::AUTHORIZATION, |value| !access.mentions_token(value));
    }
    let name = header::SEC_WEBSOCKET_PROTOCOL;
    let offered =
        || headers.get_all(&name).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let is_token = |protocol: &&[u8]| access.is_token_protocol(protocol.trim_ascii());
    if !offered().any(|protocol| is_token(&protocol)) {
        return;
    }
    let kept: Vec<_> = offered().filter(|protocol| !is_token(protocol)).map(<[u8]>::trim_ascii).collect();
    let kept = kept.join(&b", "[..]);
    headers.remove(&name);
    if let Ok(kept) = HeaderValue::from_bytes(&kept)
        && !kept.is_empty()
    {
        headers.insert(name, kept);
    }
}

/// Removes some values of a header.
fn retain(headers: &mut HeaderMap, name: &HeaderName, is_kept: impl Fn(&HeaderValue) -> bool) {
    let kept: Vec<_> = headers.get_all(name).iter().filter(|value| is_kept(value)).cloned().collect();
    headers.remove(name);
    for value in kept {
        headers.append(name.clone(), value);
    }
}

/// HTTP/2 clients may send cookies as several headers, HTTP/1 has one.
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(header::COOKIE).iter().nth(1).is_none() {
        return;
    }
    let all: Vec<_> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
        headers.insert(header::COOKIE, joined);
    }
}

/// Whether all quoted texts, and with `has_comments` all comments, of a list end in it. Otherwise an entry that is appended
/// would be a part of them.
fn is_complete(headers: &HeaderMap, name: &HeaderName, has_comments: bool) -> bool {
    let (mut is_quoted, mut depth, mut is_cut) = (false, 0_usize, false);
    for value in headers.get_all(name) {
        let mut bytes = value.as_bytes().iter();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\\' if is_quoted || depth > 0 => is_cut |= bytes.next().is_none(),
                b'"' if depth == 0 => is_quoted = !is_quoted,
                b'(' if has_comments && !is_quoted => depth += 1,
                b')' if has_comments && !is_quoted => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    !is_quoted && depth == 0 && !is_cut
}

/// Appends an entry to a list.
fn append(headers: &mut HeaderMap, name: HeaderName, entry: &str) {
    let before: Vec<_> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
    let all = if before.is_empty() {
        HeaderValue::from_str(entry)
    } else {
        HeaderValue::from_bytes(&[&before.join(&b", "[..]), entry.as_bytes()].join(&b", "[..]))
    };
    if let Ok(all) = all {
        headers.insert(name, all);
    }
}

/// The entries of a list.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Access, Listen};

    fn map(headers: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    fn access() -> AccessPolicy {
        let access = Access { token: Some("api-token".into()), ..Access::default() };
        AccessPolicy::new(&access, &Listen::Unix("/s".into()))
    }

    fn changed(headers: &[(&'static str, &str)], client: Option<&str>) -> HeaderMap {
        let mut headers = map(headers);
        let host = HeaderValue::from_static("8080-local-x.localhost:7070");
        let forwarded = ForwardedRequest {
            host: &host,
            client: client.map(|client| client.parse().unwrap()),
            scheme: PreviewScheme::Http,
            version: Version::HTTP_11,
            via: "sandcrab-1",
        };
        to_program(&mut headers, forwarded, &access());
        headers
    }

    #[test]
    fn headers_of_the_connection_are_removed() {
        let headers = changed(
            &[
                ("connection", "close, X-Own, te"),
                ("connection", "host, content-length, cookie"),
                ("x-own", "1"),
                ("keep-alive", "timeout=5"),
                ("proxy-connection", "close"),
                ("proxy-authorization", "Basic x"),
                ("te", "gzip, Trailers"),
                ("transfer-encoding", "chunked"),
                ("upgrade", "websocket"),
                ("expect", "100-continue"),
                ("content-length", "3"),
                ("cookie", "a=b"),
                ("cookie", "c=d"),
                ("x-other", "2"),
            ],
            None,
        );
        for gone in [
            "x-own",
            "keep-alive",
            "proxy-connection",
            "proxy-authorization",
            "transfer-encoding",
            "upgrade",
            "expect",
        ] {
            assert!(!headers.contains_key(gone), "{gone}");
        }
        assert_eq!(
            (&headers["te"], &headers["connection"]),
            (&"trailers".parse().unwrap(), &"te".parse().unwrap())
        );
        for (kept, value) in [("content-length", "3"), ("cookie", "a=b; c=d"), ("x-other", "2")] {
            assert_eq!(headers.get_all(kept).iter().collect::<Vec<_>>(), [value], "{kept}");
        }
    }

    #[test]
    fn forwarding_headers_are_set() {
        let headers = changed(
            &[
                ("host", "x"),
                ("x-forwarded-for", "1.2.3.4"),
                ("x-forwarded-proto", "gopher"),
                ("x-forwarded-host", "evil"),
                ("via", "1.1 a"),
            ],
            Some("::ffff:10.0.0.7"),
        );
        for (name, value) in [
            ("host", "8080-local-x.localhost:7070"),
            ("x-forwarded-host", "8080-local-x.localhost:7070"),
            ("x-forwarded-for", "1.2.3.4, 10.0.0.7"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-port", "7070"),
            ("forwarded", "for=10.0.0.7;host=\"8080-local-x.localhost:7070\";proto=http"),
            ("via", "1.1 a, 1.1 sandcrab-1"),
        ] {
            assert_eq!(headers.get_all(name).iter().collect::<Vec<_>>(), [value], "{name}");
        }
        assert!(has_passed(&headers, "sandcrab-1") && !has_passed(&headers, "sandcrab-2"));
    }

    /// The chunks are the body. A client that got the length would take a part of them for all of it.
    #[test]
    fn a_length_beside_chunks_is_removed_from_responses() {
        let mut both = map(&[("content-length", "3"), ("transfer-encoding", "chunked")]);
        to_client(&mut both);
        assert!(both.is_empty(), "{both:?}");
        let mut one = map(&[("content-length", "3")]);
        to_client(&mut one);
        assert_eq!(one["content-length"], "3");
    }

    #[test]
    fn only_the_token_of_the_api_is_removed() {
        for spelling in [
            "bearer api-token",
            "Bearer\tapi-token",
            "Bearer \t  api-token\t",
            "BEARER api-token, Basic x",
            "api-token",
            "Token api-token",
            "Bearer \"api-token\"",
            "Bearer token=\"api-token\"",
            // user:api-token, api-token: and api-token
            "Basic dXNlcjphcGktdG9rZW4=",
            "Basic YXBpLXRva2VuOg==",
            "Basic YXBpLXRva2Vu",
        ] {
            let headers = changed(&[("authorization", spelling), ("authorization", "Bearer other")], None);
            let kept: Vec<_> = headers.get_all("authorization").iter().collect();
            assert_eq!(kept, ["Bearer other"], "{spelling:?}");
        }
        for own in ["Bearer other", "Basic YTpi", "Bearer api-token-2", "Bearer not-api-token", "Bearer"] {
            assert_eq!(changed(&[("authorization", own)], None)["authorization"], own);
        }
        for own in
            ["bearer.api-token", "Bearer.api-token", "bearer64.YXBpLXRva2Vu", "BEARER64.YXBpLXRva2Vu=="]
        {
            let offered = format!("chat, {own}, bearer.x");
            let headers = changed(&[("sec-websocket-protocol", &offered)], None);
            assert_eq!(headers["sec-websocket-protocol"], "chat, bearer.x");
        }
        let headers = changed(&[("sec-websocket-protocol", "bearer.api-token")], None);
        assert!(!headers.contains_key("sec-websocket-protocol"));
        // Beside a name that is not text.
        let mut headers = map(&[]);
        let offered = HeaderValue::from_bytes(b"chat\xff, bearer.api-token").unwrap();
        headers.insert("sec-websocket-protocol", offered);
        remove_api_token(&mut headers, &access());
        assert_eq!(headers["sec-websocket-protocol"].as_bytes(), b"chat\xff");
    }

    /// An open quote or comment of the client ends after the entry that is appended.
    #[test]
    fn entries_of_clients_do_not_swallow_that_of_the_server() {
        let own = "for=10.0.0.7;host=\"8080-local-x.localhost:7070\";proto=http";
        for open in ["for=\"1.2.3.4", "for=\"a\\\"", "for=\"a\\"] {
            let headers = changed(&[("forwarded", "for=x"), ("forwarded", open)], Some("10.0.0.7"));
            assert_eq!(headers["forwarded"], own, "{open}");
        }
        for closed in ["for=\"1.2.3.4\"", "for=\"a\\\"b\"", "for=a(b"] {
            let headers = changed(&[("forwarded", closed)], Some("10.0.0.7"));
            assert_eq!(headers["forwarded"], format!("{closed}, {own}"));
        }
        for open in ["1.1 a (b", "1.1 a (b (c)", "1.1 a (b\\)"] {
            assert_eq!(changed(&[("via", open)], None)["via"], "1.1 sandcrab-1", "{open}");
        }
        assert_eq!(changed(&[("via", "1.1 a (b)")], None)["via"], "1.1 a (b), 1.1 sandcrab-1");
    }

    #[test]
    fn the_version_of_the_request_is_named() {
        let host = HeaderValue::from_static("x");
        for (version, named) in
            [(Version::HTTP_10, "1.0 s"), (Version::HTTP_11, "1.1 s"), (Version::HTTP_2, "2.0 s")]
        {
            let mut headers = HeaderMap::new();
            let forwarded = ForwardedRequest {
                host: &host,
                client: None,
                scheme: PreviewScheme::Http,
                version,
                via: "s",
            };
            to_program(&mut headers, forwarded, &access());
            assert_eq!(headers["via"], named);
        }
    }

    #[test]
    fn upgrades_are_recognized() {
        let wants = |connection, protocol, version| {
            upgrade(&map(&[("connection", connection), ("upgrade", protocol)]), version).is_some()
        };
        assert!(wants("keep-alive, Upgrade", "websocket", Version::HTTP_11));
        assert!(!wants("keep-alive", "websocket", Version::HTTP_11));
        assert!(!wants("upgrade", "h2c", Version::HTTP_11));
        assert!(!wants("upgrade", "websocket, H2C", Version::HTTP_11));
        assert!(!wants("upgrade", "websocket", Version::HTTP_10));
    }
}
