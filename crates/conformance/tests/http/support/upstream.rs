//! [`Upstream`]: a program behind a preview.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{HeaderMap, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

type Body = BoxBody<Bytes, Infallible>;

/// Size of `/large`, and of its pieces.
pub(crate) const LARGE_BYTES: usize = 10 << 20;
const PIECE_BYTES: usize = 64 << 10;

/// An HTTP/1.1 server of the test.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) port: u16,
    /// Lets `/events` send its second event, and `/broken` end.
    pub(crate) go: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Upstream {
    pub(crate) async fn start() -> Self {
        Self::listen("127.0.0.1:0").await.unwrap()
    }

    /// Listens on this address, which the machine may not have.
    pub(crate) async fn listen(address: &str) -> Option<Self> {
        let listener = TcpListener::bind(address).await.ok()?;
        let port = listener.local_addr().unwrap().port();
        let go = Arc::new(Notify::new());
        let gate = Arc::clone(&go);
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let gate = Arc::clone(&gate);
                let service = hyper::service::service_fn(move |request| answer(request, Arc::clone(&gate)));
                tokio::spawn(async move {
                    let connection = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .with_upgrades();
                    // The test checks what arrives.
                    drop(connection.await);
                });
            }
        });
        Some(Self { port, go, task })
    }
}

async fn answer(mut request: Request<Incoming>, go: Arc<Notify>) -> Result<Response<Body>, Infallible> {
    let response = Response::builder();
    Ok(match request.uri().path() {
        "/redirect" => response
            .status(302)
            .header("location", "http://localhost:1/there?a=b")
            .header("set-cookie", "a=1; Path=/")
            .header("set-cookie", "b=2")
            .header("connection", "x-hop")
            .header("x-hop", "1")
            .body(full("moved"))
            .unwrap(),
        "/cookies" => {
            let cookies = (0..500).map(|number| format!("name{number}=value"));
            cookies.fold(response, |response, one| response.header("set-cookie", one)).body(full("")).unwrap()
        }
        "/events" => {
            let events = stream::unfold(0, move |count| {
                let go = Arc::clone(&go);
                async move {
                    match count {
                        0 => {}
                        1 => go.notified().await,
                        _ => return None,
                    }
                    Some((Ok(Frame::data(Bytes::from(format!("data: {count}\n\n")))), count + 1))
                }
            });
            let body = BodyExt::boxed(StreamBody::new(sync(events)));
            response.header("content-type", "text/event-stream").body(body).unwrap()
        }
        "/large" => {
            let piece = Bytes::from(vec![b'x'; PIECE_BYTES]);
            let pieces = (0..LARGE_BYTES / PIECE_BYTES).map(move |_| Ok(Frame::data(piece.clone())));
            let body = BodyExt::boxed(StreamBody::new(stream::iter(pieces)));
            response.header("content-length", LARGE_BYTES).body(body).unwrap()
        }
        "/trailers" => {
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", "42".parse().unwrap());
            let frames = [Frame::data(Bytes::from("body")), Frame::trailers(trailers)].map(Ok);
            let body = BodyExt::boxed(StreamBody::new(stream::iter(frames)));
            response.header("trailer", "x-sum").body(body).unwrap()
        }
        "/broken" => {
            // It promises more than it sends, so that hyper closes the connection.
            let frames = stream::unfold(false, move |is_sent| {
                let go = Arc::clone(&go);
                async move {
                    if is_sent {
                        go.notified().await;
                        return None;
                    }
                    Some((Ok(Frame::data(Bytes::from("part"))), true))
                }
            });
            let body = BodyExt::boxed(StreamBody::new(sync(frames)));
            response.header("content-length", 1000).body(body).unwrap()
        }
        "/socket" => {
            let key = request.headers().get("sec-websocket-key").map(|key| derive_accept_key(key.as_bytes()));
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let Ok(upgraded) = upgrade.await else { return };
                let mut socket =
                    WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
                while let Some(Ok(message)) = socket.next().await {
                    if message.is_close() || socket.send(message).await.is_err() {
                        break;
                    }
                }
            });
            response
                .status(StatusCode::SWITCHING_PROTOCOLS)
                .header(header::CONNECTION, "upgrade")
                .header(header::UPGRADE, "websocket")
                .header("sec-websocket-accept", key.unwrap_or_default())
                .body(full(""))
                .unwrap()
        }
        _ => {
            let about = describe(&request);
            let mut bytes = 0;
            let mut body = request.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                bytes += frame.data_ref().map_or(0, Bytes::len);
            }
            let mut about = about;
            about["bytes"] = bytes.into();
            response.header("content-type", "application/json").body(full(&about.to_string())).unwrap()
        }
    })
}

/// The stream as one that threads may share: hyper polls it from one.
fn sync<S>(stream: S) -> impl futures_util::Stream<Item = S::Item> + Send + Sync
where
    S: futures_util::Stream + Send + 'static,
    S::Item: Send + 'static,
{
    let (send, receive) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        let mut stream = std::pin::pin!(stream);
        while let Some(item) = stream.next().await {
            if send.send(item).await.is_err() {
                return;
            }
        }
    });
    stream::unfold(receive, |mut receive| async move { receive.recv().await.map(|item| (item, receive)) })
}

fn full(text: &str) -> Body {
    BodyExt::boxed(Full::new(Bytes::from(text.to_owned())))
}

fn describe(request: &Request<Incoming>) -> Value {
    let mut headers = serde_json::Map::new();
    for name in request.headers().keys() {
        let values =
            request.headers().get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        headers.insert(name.to_string(), values.collect::<Vec<_>>().join("|").into());
    }
    let uri = request.uri();
    json!({"method": request.method().as_str(), "target": uri.to_string(), "headers": headers})
}
