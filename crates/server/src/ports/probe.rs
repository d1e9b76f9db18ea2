//! Whether a port of this machine is ready.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Request, header};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Maximum time of one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The addresses that `localhost` means.
const ADDRESSES: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// What makes a port ready.
#[derive(Debug, Clone)]
pub(crate) enum Expected {
    /// A connection is accepted.
    Connection,
    /// A response to `GET` of this path with one of these statuses.
    Response { path: PathAndQuery, statuses: RangeInclusive<u16> },
}

/// A port that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready {
    /// Status of the response, if one was expected.
    pub(crate) status: Option<u16>,
}

/// Tries once.
pub(crate) async fn probe(port: u16, expected: &Expected) -> Option<Ready> {
    try_probe(port, expected, ATTEMPT_TIMEOUT).await.ok()
}

/// The same, with a timeout for each address. The error says why the port is not ready.
pub(crate) async fn try_probe(port: u16, expected: &Expected, within: Duration) -> Result<Ready, String> {
    let mut first = None;
    for address in ADDRESSES {
        let attempt = attempt(SocketAddr::new(address, port), expected);
        let failure = match timeout(within, attempt).await {
            Ok(Ok(ready)) => return Ok(ready),
            Ok(Err(why)) => why,
            Err(_) => Failure::Reached(format!("port {port} did not answer within {within:?}")),
        };
        // The reason at an address on which a program listens is the better one.
        first = match (first, failure) {
            (Some(Failure::Reached(why)), _) | (_, Failure::Reached(why)) => Some(Failure::Reached(why)),
            (_, Failure::Unreachable) => Some(Failure::Unreachable),
        };
    }
    match first {
        Some(Failure::Reached(why)) => Err(why),
        _ => Err(format!("port {port} accepts no connections")),
    }
}

/// Why an attempt failed.
enum Failure {
    /// The address accepts no connections.
    Unreachable,
    /// It does, but the response is not as expected.
    Reached(String),
}

async fn attempt(address: SocketAddr, expected: &Expected) -> Result<Ready, Failure> {
    let port = address.port();
    let stream = TcpStream::connect(address).await.map_err(|_| Failure::Unreachable)?;
    // A port of the ephemeral range can connect to itself while no program listens.
    if stream.local_addr().map_err(|_| Failure::Unreachable)? == address {
        return Err(Failure::Unreachable);
    }
    let Expected::Response { path, statuses } = expected else { return Ok(Ready { status: None }) };
    let failed = |e: hyper::Error| Failure::Reached(format!("port {port} gave no HTTP response: {e}"));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // Ends with this function.
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        // The failure of the connection is the failure of the request.
        drop(connection.await);
    });
    let mut request = Request::new(Empty::<bytes::Bytes>::new());
    *request.uri_mut() = path.clone().into();
    // Never fails: it consists of visible ASCII characters.
    if let Ok(host) = HeaderValue::from_str(&format!("localhost:{port}")) {
        request.headers_mut().insert(header::HOST, host);
    }
    let response = sender.send_request(request).await.map_err(failed)?;
    let status = response.status().as_u16();
    if statuses.contains(&status) {
        return Ok(Ready { status: Some(status) });
    }
    let (least, most) = (statuses.start(), statuses.end());
    Err(Failure::Reached(format!("port {port} answered with status {status}; expected {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    fn expects(statuses: RangeInclusive<u16>) -> Expected {
        Expected::Response { path: PathAndQuery::from_static("/health?a=b"), statuses }
    }

    #[tokio::test]
    async fn connections_and_responses() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host).await else { continue };
            let port = listener.local_addr().unwrap().port();
            let answer = async |status: &str| {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = vec![0; 1000];
                let count = stream.read(&mut head).await.unwrap();
                let text = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(text.as_bytes()).await.unwrap();
                String::from_utf8_lossy(&head[..count]).into_owned()
            };
            assert_eq!(probe(port, &Expected::Connection).await, Some(Ready { status: None }));
            drop(listener.accept().await.unwrap());
            let ok = expects(200..=399);
            let (ready, head) = tokio::join!(probe(port, &ok), answer("301"));
            assert_eq!(ready, Some(Ready { status: Some(301) }));
            assert!(head.starts_with("GET /health?a=b HTTP/1.1\r\n"), "{head}");
            let (ready, _) = tokio::join!(probe(port, &ok), answer("500"));
            assert_eq!(ready, None);
            drop(listener);
            assert_eq!(probe(port, &Expected::Connection).await, None);
        }
    }
}
