//! [`Client`]: a connection pool to one server, and how requests are sent.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::BytesMut;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{ClientBuilder, Method, RequestBuilder, Response, StatusCode, Url};
use sandcrab_api::{ErrorBody, ErrorCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::connections::{ConnectionLimit, MAX_CONNECTIONS, ResponseGuard, Urgency};
use crate::error::{Cause, GatewayError, innermost};
use crate::retry::{RESUME_WINDOW, Retry};
use crate::{Address, ClientError};

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response that is read into memory. Larger ones are streamed.
const MAX_RESPONSE_BYTES: usize = 1 << 30;
/// What a proxy answers in place of a server that is away or slow.
const GATEWAY_STATUSES: [StatusCode; 3] =
    [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
/// How much of an invalid response an error message shows.
const SHOWN_CHARS: usize = 120;

/// A client of one server. A handle: clones share its connections.
///
/// ```no_run
/// use sandcrab_client::Client;
/// use sandcrab_client::api::execute::CommandRequest;
///
/// # async fn example() -> Result<(), sandcrab_client::ClientError> {
/// let client = Client::connect("http://127.0.0.1:7070", Some("the token"))?;
/// let request = CommandRequest { command: "echo hello".into(), ..CommandRequest::default() };
/// let result = client.execute(&request).await?;
/// assert_eq!(result.exit_code, 0);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    repeats_reads: bool,
    reconnect_timeout: Duration,
}

struct Inner {
    http: reqwest::Client,
    /// For WebSockets, created for the first one.
    http1: OnceLock<reqwest::Client>,
    /// For bodies that a server may take slowly, created for the first one.
    bodies: OnceLock<reqwest::Client>,
    headers: HeaderMap,
    base: Url,
    address: Address,
    connections: ConnectionLimit,
    /// Whether the server has answered once. If not, the address may be wrong.
    was_reached: AtomicBool,
}

impl Client {
    /// A client of the server at a URL (`http://HOST:PORT`) or a socket (`unix:PATH`). Does not
    /// connect yet: the first call does.
    pub fn connect(address: &str, token: Option<&str>) -> Result<Self, ClientError> {
        Self::connect_to(address.parse()?, token)
    }

    /// The same for a parsed address.
    pub fn connect_to(address: Address, token: Option<&str>) -> Result<Self, ClientError> {
        Self::with_max_connections(address, token, MAX_CONNECTIONS)
    }

    /// The same with another bound than [`MAX_CONNECTIONS`]. WebSockets are not counted.
    pub fn with_max_connections(
        address: Address,
        token: Option<&str>,
        max_connections: usize,
    ) -> Result<Self, ClientError> {
        let mut headers = HeaderMap::new();
        // Without the line break of the file that it comes from.
        if let Some(token) = token.map(str::trim).filter(|token| !token.is_empty()) {
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(ClientError::Token);
            }
            let mut value =
                HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| ClientError::Token)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let pool = builder(&address, &headers).pool_max_idle_per_host(max_connections);
        let http = build(pool, &address)?;
        let base = address.base();
        let connections = ConnectionLimit::new(max_connections);
        let was_reached = AtomicBool::new(false);
        let (http1, bodies) = (OnceLock::new(), OnceLock::new());
        let inner = Inner { http, http1, bodies, headers, base, address, connections, was_reached };
        Ok(Self { inner: Arc::new(inner), repeats_reads: false, reconnect_timeout: RESUME_WINDOW })
    }

    /// The same client, whose calls and streams give up when the server is unreachable for so long, instead of
    /// [`RESUME_WINDOW`]. With zero nothing is sent again.
    #[must_use]
    pub fn with_reconnect_timeout(self, timeout: Duration) -> Self {
        Self { reconnect_timeout: timeout, ..self }
    }

    /// The same client, which sends requests that change nothing again after a lost connection, and after a refusal because
    /// of a limit (`LIMIT_EXCEEDED`), for [`RESUME_WINDOW`]. A [`crate::Sandbox`] does so.
    #[must_use]
    pub fn repeating_reads(self) -> Self {
        Self { repeats_reads: true, ..self }
    }

    /// The address of the server.
    pub fn address(&self) -> &Address {
        &self.inner.address
    }

    /// A request to a path, given as its segments.
    pub(crate) fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, ClientError> {
        self.query(method, path, &[])
    }

    /// The same with a query; `None` values are left out.
    pub(crate) fn query(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, Option<String>)],
    ) -> Result<RequestBuilder, ClientError> {
        Ok(self.inner.http.request(method, self.url(path, query)?))
    }

    /// The same over HTTP/1.1 only, which a WebSocket needs.
    pub(crate) fn http1_query(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, Option<String>)],
    ) -> Result<RequestBuilder, ClientError> {
        let url = self.url(path, query)?;
        if let Some(http1) = self.inner.http1.get() {
            return Ok(http1.request(method, url));
        }
        let address = &self.inner.address;
        let http1 = build(builder(address, &self.inner.headers).http1_only(), address)?;
        Ok(self.inner.http1.get_or_init(|| http1).request(method, url))
    }

    /// The same for a body that the server may take slowly: a process does not read its input, a disk is busy. By default the
    /// kernel ends a connection on which data waits for 30 s, although the server answers that it has no space.
    pub(crate) fn body_query(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, Option<String>)],
    ) -> Result<RequestBuilder, ClientError> {
        let url = self.url(path, query)?;
        if let Some(bodies) = self.inner.bodies.get() {
            return Ok(bodies.request(method, url));
        }
        let address = &self.inner.address;
        let patient = builder(address, &self.inner.headers);
        #[cfg(target_os = "linux")]
        let patient = patient.tcp_user_timeout(None);
        let bodies = build(patient, address)?;
        Ok(self.inner.bodies.get_or_init(|| bodies).request(method, url))
    }

    fn url(&self, path: &[&str], query: &[(&str, Option<String>)]) -> Result<Url, ClientError> {
        let mut url = self.inner.base.clone();
        // URL normalisation would remove such a segment, and the request would go to another route.
        if let Some(wrong) = path.iter().find(|segment| matches!(**segment, "" | "." | "..")) {
            return Err(ClientError::Id((*wrong).to_owned()));
        }
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        for (name, value) in query {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        Ok(url)
    }

    /// Sends a request without a body, which changes nothing.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, ClientError> {
        self.call_read(self.request(Method::GET, path)?).await
    }

    /// Sends a request with a JSON body, which changes nothing.
    pub(crate) async fn post_read<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T, ClientError> {
        self.call_read(self.request(Method::POST, path)?.json(body)).await
    }

    /// Sends a request that changes nothing, and reads the response.
    pub(crate) async fn call_read<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, ClientError> {
        if !self.repeats_reads {
            return self.call(request).await;
        }
        let mut retry = self.retry();
        loop {
            match self.call(self.repeated(&request)?).await {
                // However long the attempt took: a read does not wait for anything.
                Err(error) if self.may_repeat_read(&error) => retry.failed(error)?,
                result => return result,
            }
            retry.pause().await;
        }
    }

    /// Sends a start, which has the same effect twice, again after a lost connection. The answer may come when a command has
    /// ended.
    pub(crate) async fn call_until_answered<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, ClientError> {
        let mut retry = self.retry();
        loop {
            let begun = Instant::now();
            match self.call(self.repeated(&request)?).await {
                Err(error) if self.may_repeat(&error) => self.wait_again(&mut retry, begun, error).await?,
                result => return result,
            }
        }
    }

    /// A copy of a request.
    pub(crate) fn repeated(&self, request: &RequestBuilder) -> Result<RequestBuilder, ClientError> {
        request.try_clone().ok_or_else(|| self.invalid_response("the request cannot be repeated"))
    }

    /// Whether the same request may succeed a moment later, because the server is restarting.
    pub(crate) fn may_repeat(&self, error: &ClientError) -> bool {
        match error {
            ClientError::Unreachable { .. } => self.inner.was_reached.load(Ordering::Relaxed),
            ClientError::ConnectionLost { .. } => true,
            error => error.code() == Some(ErrorCode::ShuttingDown),
        }
    }

    /// The same for a request that changes nothing. It also outlasts a limit of the server. A start does not, because its
    /// caller may have something to end. A person at a command line is told at once.
    pub(crate) fn may_repeat_read(&self, error: &ClientError) -> bool {
        let is_limit = error.code() == Some(ErrorCode::LimitExceeded);
        (is_limit && self.repeats_reads) || self.may_repeat(error)
    }

    /// Pauses a wait after a failed attempt, or returns its failure. It also outlasts a limit of the server, because it is
    /// not urgent.
    pub(crate) async fn wait_again(
        &self,
        retry: &mut Retry,
        begun: Instant,
        error: ClientError,
    ) -> Result<(), ClientError> {
        if matches!(error, ClientError::Unreachable { .. }) && !self.may_repeat(&error) {
            return Err(error);
        }
        // A proxy gives the same answer for a server that is away as for one that has nothing to answer yet.
        let is_cut = error.is_of_gateway() && retry.is_long(begun) && self.is_reachable().await;
        if is_cut {
            retry.works();
        }
        retry.attempt_failed(begun, error)?;
        retry.pause().await;
        if is_cut {
            retry.works();
        }
        Ok(())
    }

    /// Sends the request of a wait, which depends on the time left, until the server has answered. After `timeout` no
    /// attempt follows a failed one. A time that the clock cannot express is no limit.
    pub(crate) async fn wait_until<T: DeserializeOwned>(
        &self,
        what: &str,
        timeout: Option<Duration>,
        request: impl Fn(Option<Duration>) -> Result<RequestBuilder, ClientError>,
    ) -> Result<T, ClientError> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut retry = self.retry();
        loop {
            let begun = Instant::now();
            let left = deadline.map(|at| at.saturating_duration_since(begun));
            let error = match self.call(request(left)?).await {
                Err(error) => error,
                answer => return answer,
            };
            let again = self.wait_again(&mut retry, begun, error);
            match (deadline, timeout) {
                (Some(deadline), Some(timeout)) => timeout_at(deadline, again)
                    .await
                    .unwrap_or_else(|_| Err(ClientError::too_late(what, timeout)))?,
                _ => again.await?,
            }
        }
    }

    async fn is_reachable(&self) -> bool {
        let Ok(request) = self.request(Method::GET, &["api", "ping"]) else { return false };
        let answer = self.call_urgent::<serde::de::IgnoredAny>(request.timeout(CONNECT_TIMEOUT));
        answer.await.is_ok()
    }

    #[cfg(test)]
    pub(crate) fn was_reached(&self) {
        self.inner.was_reached.store(true, Ordering::Relaxed);
    }

    /// Retries for the time that the server may be unreachable.
    pub(crate) fn retry(&self) -> Retry {
        Retry::new(self.reconnect_timeout)
    }

    /// Sends a request with a JSON body.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T, ClientError> {
        self.call(self.request(Method::POST, path)?.json(body)).await
    }

    /// The same for a request that must not wait behind streams.
    pub(crate) async fn post_urgent<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T, ClientError> {
        self.call_urgent(self.request(Method::POST, path)?.json(body)).await
    }

    /// Sends a request and reads the response.
    pub(crate) async fn call<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let mut answer = self.send(request).await?;
        self.parsed(&self.read(&mut answer).await?)
    }

    /// The same for a request that must not wait behind streams.
    pub(crate) async fn call_urgent<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, ClientError> {
        let mut answer = self.send_as(request, Urgency::Urgent).await?;
        self.parsed(&self.read(&mut answer).await?)
    }

    /// The same for input, which may wait for its process, and must not keep requests that end it waiting.
    pub(crate) async fn call_input<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, ClientError> {
        let mut answer = self.send_as(request, Urgency::Input).await?;
        self.parsed(&self.read(&mut answer).await?)
    }

    /// Sends a request and reads the response as text.
    pub(crate) async fn call_text(&self, request: RequestBuilder) -> Result<String, ClientError> {
        let mut answer = self.send(request).await?;
        let body = self.read(&mut answer).await?;
        String::from_utf8(body.into()).map_err(|e| self.invalid_response(e))
    }

    fn parsed<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(body).map_err(|e| self.invalid_response(e))
    }

    /// Sends a request when a connection is free; an error status is an error.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<ResponseGuard, ClientError> {
        self.send_as(request, Urgency::Normal).await
    }

    async fn send_as(&self, request: RequestBuilder, urgency: Urgency) -> Result<ResponseGuard, ClientError> {
        let permit = self.inner.connections.acquire(urgency).await;
        let response = request.send().await.map_err(|e| self.failed(&e))?;
        self.inner.was_reached.store(true, Ordering::Relaxed);
        Ok(ResponseGuard::new(self.checked(response).await?, permit))
    }

    /// A response; an error status is an error.
    pub(crate) async fn checked(&self, mut response: Response) -> Result<Response, ClientError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.read(&mut response).await?;
        Err(match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(body) => ClientError::Api(Box::new(body)),
            // A proxy in front of the server has no connection to it, or no answer in time.
            Err(_) if GATEWAY_STATUSES.contains(&status) => self.lost(GatewayError(status)),
            Err(_) => {
                let text: String = String::from_utf8_lossy(&body).chars().take(SHOWN_CHARS).collect();
                self.invalid_response(format!("status {status}, {text:?}"))
            }
        })
    }

    async fn read(&self, response: &mut Response) -> Result<BytesMut, ClientError> {
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.failed(&e))? {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                return Err(self.invalid_response(format!("more than {MAX_RESPONSE_BYTES} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// An error of the connection.
    pub(crate) fn failed(&self, error: &reqwest::Error) -> ClientError {
        let address = self.inner.address.to_string();
        if error.is_connect() {
            ClientError::Unreachable { address, source: innermost(error) }
        } else {
            // The request may have arrived.
            self.inner.was_reached.store(true, Ordering::Relaxed);
            ClientError::ConnectionLost { address, source: innermost(error) }
        }
    }

    /// A response that is not one of a Sandcrab server.
    pub(crate) fn invalid_response(&self, why: impl fmt::Display) -> ClientError {
        ClientError::InvalidResponse { address: self.inner.address.to_string(), why: why.to_string() }
    }

    /// A connection that ended before the response was complete.
    pub(crate) fn connection_lost(&self, why: &str) -> ClientError {
        self.lost(why)
    }

    fn lost(&self, source: impl Into<Cause>) -> ClientError {
        ClientError::ConnectionLost { address: self.inner.address.to_string(), source: source.into() }
    }
}

fn builder(address: &Address, headers: &HeaderMap) -> ClientBuilder {
    let builder = reqwest::Client::builder()
        .default_headers(headers.clone())
        .connect_timeout(CONNECT_TIMEOUT)
        // A Sandcrab server does not redirect, and the token must not go to another address.
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy();
    match address.socket() {
        Some(socket) => builder.unix_socket(socket),
        None => builder,
    }
}

fn build(builder: ClientBuilder, address: &Address) -> Result<reqwest::Client, ClientError> {
    builder.build().map_err(|e| ClientError::InvalidResponse {
        address: address.to_string(),
        why: format!("failed to create the client: {e}"),
    })
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the headers: they hold the token.
        f.debug_struct("Client").field("address", &self.inner.address).finish_non_exhaustive()
    }
}
