//! [`Upstream`]: connections to the programs behind previews.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{Uri, uri};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::exposures::MAX_EXPOSED_PORTS;
use super::own_listener::OwnListener;

/// The addresses at which programs are looked for, in this order.
pub(super) const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
/// Maximum time until a program accepts a connection: its queue may be full.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time that an unused connection is kept. Shorter than the idle timeout of common servers (5 s), so that a
/// request rarely meets a connection that is being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of unread bytes of a response, and maximum size of its head.
const BUFFER_BYTES: usize = 64 << 10;

/// Maximum number of headers of a response.
const MAX_HEADERS: usize = 1_000;

/// Sends requests to programs, over pooled connections.
#[derive(Debug, Clone)]
pub(super) struct Upstream(Client<Connector, Incoming>);

impl Upstream {
    /// `requests` is the maximum number of requests at the same time.
    pub(super) fn new(own: OwnListener, requests: usize) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(idle_per_port(requests))
            .http1_max_buf_size(BUFFER_BYTES)
            .http1_max_headers(MAX_HEADERS)
            .set_host(false)
            .build(Connector(own));
        Self(client)
    }

    /// Sends a request, whose target is one of [`target`].
    pub(super) async fn send(&self, request: Request<Incoming>) -> Result<Response<Incoming>, UpstreamError> {
        self.0.request(request).await.map_err(|error| {
            let mut cause: Option<&dyn std::error::Error> = Some(&error);
            while let Some(error) = cause {
                if let Some(connect) = error.downcast_ref::<ConnectError>() {
                    return UpstreamError::Connect(connect.clone());
                }
                if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_user) {
                    return UpstreamError::Body;
                }
                cause = error.source();
            }
            UpstreamError::Broken
        })
    }
}

/// Maximum number of unused connections of one port. Those of all ports are not more than requests at the same time, for which
/// the server has descriptors.
fn idle_per_port(requests: usize) -> usize {
    requests / MAX_EXPOSED_PORTS
}

/// The target of a request to a port.
pub(super) fn target(port: u16, path: uri::PathAndQuery) -> Result<Uri, axum::http::Error> {
    Uri::builder().scheme("http").authority(format!("localhost:{port}")).path_and_query(path).build()
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum UpstreamError {
    /// There is no connection.
    Connect(ConnectError),
    /// The body of the request is invalid or incomplete.
    Body,
    /// The program closed the connection, or did not send a valid response.
    Broken,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ConnectError {
    /// No program listens.
    #[error("no program listens")]
    Refused,
    /// The program does not accept connections.
    #[error("the program does not accept connections")]
    TimedOut,
    /// The port is that of this server.
    #[error("it is the port of this server")]
    OwnPort,
    /// Another error of the system.
    #[error("{0}")]
    Failed(String),
}

/// Connects to a port of this machine.
#[derive(Debug, Clone, Copy)]
struct Connector(OwnListener);

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let own = self.0;
        Box::pin(async move {
            let port = target.port_u16().unwrap_or(0);
            let mut worst = ConnectError::Refused;
            for address in LOOPBACK {
                match connect(own, (address, port).into()).await {
                    Ok(stream) => return Ok(TokioIo::new(stream)),
                    Err(ConnectError::Refused) => {}
                    Err(other) => worst = other,
                }
            }
            Err(worst)
        })
    }
}

async fn connect(own: OwnListener, address: SocketAddr) -> Result<TcpStream, ConnectError> {
    // For each connection: a port that was exposed may have become that of a restarted server.
    if own.accepts(address) {
        return Err(ConnectError::OwnPort);
    }
    let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let stream = connected.map_err(|_| ConnectError::TimedOut)?.map_err(|error| match error.kind() {
        // The machine may have no IPv6.
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::Unsupported => ConnectError::Refused,
        _ => ConnectError::Failed(sandcrab_api::without_error_number(error.to_string())),
    })?;
    // A port of the ephemeral range can connect to itself while no program listens.
    if stream.local_addr().is_ok_and(|local| local == address) {
        return Err(ConnectError::Refused);
    }
    // Without it, a small piece would wait for more.
    drop(stream.set_nodelay(true));
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::Listen;

    #[test]
    fn unused_connections_of_all_ports_are_bounded() {
        for requests in [0, 1, 63, 64, 100, 1024, 5000] {
            assert!(idle_per_port(requests) * MAX_EXPOSED_PORTS <= requests, "{requests}");
        }
    }

    #[tokio::test]
    async fn each_loopback_address_is_tried_and_the_own_port_is_not() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host).await else { continue };
            let address = listener.local_addr().unwrap();
            let uri = target(address.port(), "/".parse().unwrap()).unwrap();
            let dial = |own: Listen| {
                let mut connector = Connector(OwnListener::new(&own));
                tower::Service::call(&mut connector, uri.clone())
            };
            dial(Listen::Unix("/s".into())).await.unwrap();
            let refused = dial(Listen::Tcp(address)).await.err();
            assert_eq!(refused, Some(ConnectError::OwnPort));
            drop(listener);
            assert_eq!(dial(Listen::Unix("/s".into())).await.err(), Some(ConnectError::Refused));
        }
    }
}
