//! [`Target`]: the server under test.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use serde_json::Value;

use super::body::Body;
use super::connection::Connection;
use super::event::EventStream;
use super::request::Request;
use super::response::{Head, Response};
use super::socket::Socket;

/// Timeout for operations that are immediate on an idle machine.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The error for an invalid server address.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a base URL; give one like http://127.0.0.1:7070")]
pub struct TargetError(String);

/// A server under test.
#[derive(Clone)]
pub struct Target {
    authority: String,
    token: Option<String>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.authority)
    }
}

impl Target {
    /// Creates a target from a base URL and a token.
    pub fn new(url: &str, token: Option<String>) -> Result<Self, TargetError> {
        let authority = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        match authority {
            Some(authority) if !authority.is_empty() && !authority.contains('/') => {
                let port = if authority.rsplit(']').next().is_some_and(|end| end.contains(':')) {
                    ""
                } else {
                    ":80"
                };
                Ok(Self { authority: format!("{authority}{port}"), token })
            }
            _ => Err(TargetError(url.to_owned())),
        }
    }

    /// Returns host and port.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the token, if there is one.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Returns the same server with this token, or without one.
    #[must_use]
    pub fn with_token(&self, token: Option<&str>) -> Self {
        Self { token: token.map(str::to_owned), ..self.clone() }
    }

    /// Returns the headers of every request.
    pub(super) fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![("host", self.authority.clone())];
        headers.extend(self.token.as_ref().map(|token| ("authorization", format!("Bearer {token}"))));
        headers
    }

    /// Connects.
    pub async fn connect(&self) -> Connection {
        let connection = with_timeout("a connection", Connection::open(self)).await;
        connection.unwrap_or_else(|e| panic!("could not connect to {}: {e}", self.authority))
    }

    /// Sends a request on a new connection and reads the response.
    pub async fn send(&self, request: Request) -> Response {
        let title = request.title();
        let asked = async { Connection::open(self).await?.ask(&request).await };
        with_timeout(&title, asked).await.unwrap_or_else(|e| panic!("{title}: {e}"))
    }

    /// Sends a request. The response body is then read in pieces.
    pub async fn open(&self, request: Request) -> (Head, Body) {
        let title = request.title();
        let asked = async {
            let mut connection = Connection::open(self).await?;
            connection.send(&request).await?;
            connection.into_body().await
        };
        with_timeout(&title, asked).await.unwrap_or_else(|e| panic!("{title}: {e}"))
    }

    /// Sends a request whose response is an event stream.
    pub async fn stream(&self, request: Request) -> EventStream {
        let title = request.title();
        let (head, body) = self.open(request).await;
        assert_eq!(head.status, 200, "{title}: {head:?}");
        let kind = head.header("content-type").unwrap_or_default();
        assert!(kind.starts_with("text/event-stream"), "{title} is of type {kind:?}");
        EventStream::new(head, body)
    }

    /// Sends a `GET` request.
    pub async fn get(&self, path: impl Into<String>) -> Response {
        self.send(Request::get(path)).await
    }

    /// Sends a `POST` request with JSON.
    pub async fn post(&self, path: impl Into<String>, body: Value) -> Response {
        self.send(Request::post(path, &body)).await
    }

    /// Sends a `DELETE` request.
    pub async fn delete(&self, path: impl Into<String>) -> Response {
        self.send(Request::new("DELETE", path)).await
    }

    /// Opens the multiplexed WebSocket.
    pub async fn socket(&self) -> Socket {
        with_timeout("the WebSocket", Socket::open(self)).await
    }
}

/// Waits for a future, with [`TEST_TIMEOUT`].
pub(super) async fn with_timeout<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TEST_TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("not within {TEST_TIMEOUT:?}: {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls() {
        assert_eq!(Target::new("http://localhost/", None).unwrap().authority(), "localhost:80");
        assert_eq!(Target::new("http://[::1]:7070", None).unwrap().authority(), "[::1]:7070");
        for bad in ["", "127.0.0.1:1", "https://x", "http://", "http://x/api"] {
            assert!(Target::new(bad, None).is_err(), "{bad:?}");
        }
    }
}
