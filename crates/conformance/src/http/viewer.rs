//! [`Viewer`]: a WebSocket on a terminal.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, client_async, connect_async};

use super::observed::observed;
use super::target::{Target, with_timeout};

/// Size of the receive buffer of a narrow viewer.
const NARROW_BYTES: u32 = 16 << 10;

/// A message of the server.
#[derive(Debug, Clone, PartialEq)]
pub enum ViewerMessage {
    /// Bytes of the terminal.
    Bytes(Vec<u8>),
    /// A control frame.
    Frame(Value),
    /// The code and the reason of a close frame.
    Closed(u16, String),
    /// The connection ended without a close frame.
    Gone,
}

/// A WebSocket on a terminal.
#[derive(Debug)]
pub struct Viewer {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// Bytes of the terminal so far, repaints included.
    pub seen: Vec<u8>,
    /// Control frames so far.
    pub frames: Vec<Value>,
    /// The cursor after the received output.
    pub cursor: u64,
    /// Whether the next binary message is a repaint.
    is_repaint: bool,
    /// Number of repaints so far.
    pub repaints: usize,
}

impl Viewer {
    /// Attaches to a terminal and waits until it is ready. `query` begins with `&`, or is empty.
    pub async fn attach(target: &Target, id: &str, query: &str) -> Self {
        let mut viewer = Self::open(target, &format!("/ws/terminal?terminalId={id}{query}")).await;
        viewer.frame("ready").await;
        viewer
    }

    /// Opens a path, with the token.
    pub async fn open(target: &Target, path: &str) -> Self {
        let token = target.token().map(|token| ("authorization", format!("Bearer {token}")));
        let opened = with_timeout("a viewer", Self::try_open(target, path, token.as_slice())).await;
        opened.unwrap_or_else(|e| panic!("{path} was refused: {e}"))
    }

    /// Opens a path with these headers; the status of the refusal if there is one.
    pub async fn try_open(
        target: &Target,
        path: &str,
        headers: &[(&'static str, String)],
    ) -> Result<Self, String> {
        let url = format!("ws://{}{path}", target.authority());
        let mut request = url.into_client_request().map_err(|e| e.to_string())?;
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).map_err(|e| e.to_string())?;
            request.headers_mut().insert(*name, value);
        }
        let title = format!("GET {path}");
        match connect_async(request).await {
            Ok((stream, _)) => {
                observed(&title, 101, None);
                Ok(Self::of(stream))
            }
            Err(Error::Http(answer)) => {
                observed(&title, answer.status().as_u16(), None);
                Err(answer.status().as_str().to_owned())
            }
            Err(other) => Err(other.to_string()),
        }
    }

    fn of(stream: WebSocketStream<MaybeTlsStream<TcpStream>>) -> Self {
        Self { stream, seen: Vec::new(), frames: Vec::new(), cursor: 0, is_repaint: false, repaints: 0 }
    }

    /// Attaches to a terminal with a socket that receives little ahead, so that the server notices when this does not read.
    pub async fn open_narrow(target: &Target, id: &str) -> Self {
        let opened = async {
            let socket = TcpSocket::new_v4()?;
            socket.set_recv_buffer_size(NARROW_BYTES)?;
            let address = target.authority().parse().map_err(std::io::Error::other)?;
            let stream = MaybeTlsStream::Plain(socket.connect(address).await?);
            let url = format!("ws://{}/ws/terminal?terminalId={id}", target.authority());
            let mut request = url.into_client_request()?;
            let token = format!("Bearer {}", target.token().unwrap_or_default());
            request.headers_mut().insert("authorization", HeaderValue::from_str(&token)?);
            Ok::<_, Error>(client_async(request, stream).await?.0)
        };
        let stream = with_timeout("a narrow viewer", opened).await;
        Self::of(stream.unwrap_or_else(|e| panic!("{id} was refused: {e}")))
    }

    /// Sends input.
    pub async fn send(&mut self, bytes: impl Into<Vec<u8>>) {
        let message = Message::binary(bytes.into());
        with_timeout("sending input", self.stream.send(message)).await.expect("the socket is closed");
    }

    /// Sends a control frame as text.
    pub async fn send_text(&mut self, text: &str) {
        with_timeout("sending a frame", self.stream.send(Message::text(text)))
            .await
            .expect("the socket is closed");
    }

    /// Sends this frame many times, until the server has taken all of them, or none for a while. Returns whether it has taken
    /// all of them.
    pub async fn flood(&mut self, text: &str, count: usize, patience: Duration) -> bool {
        for _ in 0..count {
            match tokio::time::timeout(patience, self.stream.send(Message::text(text))).await {
                Ok(sent) => sent.expect("the socket is closed"),
                Err(_) => return false,
            }
        }
        true
    }

    /// Says that this client has this size.
    pub async fn resize(&mut self, cols: u16, rows: u16) {
        self.send_text(&json!({"type": "resize", "cols": cols, "rows": rows}).to_string()).await;
    }

    /// The next message.
    pub async fn next(&mut self) -> ViewerMessage {
        loop {
            match with_timeout("a message of a terminal", self.stream.next()).await {
                Some(Ok(Message::Binary(bytes))) => {
                    if std::mem::take(&mut self.is_repaint) {
                        self.repaints += 1;
                    } else {
                        self.cursor += bytes.len() as u64;
                    }
                    self.seen.extend_from_slice(&bytes);
                    return ViewerMessage::Bytes(bytes.to_vec());
                }
                Some(Ok(Message::Text(text))) => {
                    let frame: Value =
                        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:?}"));
                    if frame["type"] == "repaint" {
                        self.is_repaint = true;
                        self.cursor = frame["cursor"].as_u64().expect("a repaint has a cursor");
                    }
                    self.frames.push(frame.clone());
                    return ViewerMessage::Frame(frame);
                }
                Some(Ok(Message::Close(Some(frame)))) => {
                    return ViewerMessage::Closed(frame.code.into(), frame.reason.to_string());
                }
                Some(Ok(Message::Close(None)) | Err(_)) | None => return ViewerMessage::Gone,
                Some(Ok(_)) => {}
            }
        }
    }

    /// The next control frame of this type, past other messages.
    pub async fn frame(&mut self, kind: &str) -> Value {
        loop {
            match self.next().await {
                ViewerMessage::Frame(frame) if frame["type"] == kind => return frame,
                ViewerMessage::Closed(..) | ViewerMessage::Gone => {
                    panic!("the socket ended without a frame {kind:?}: {:?}", self.frames)
                }
                _ => {}
            }
        }
    }

    /// Waits until the bytes so far contain this text.
    pub async fn shows(&mut self, text: &str) {
        let mut from = 0;
        loop {
            let rest = &self.seen[from..];
            if rest.windows(text.len()).any(|part| part == text.as_bytes()) {
                return;
            }
            from = self.seen.len().saturating_sub(text.len());
            if let ended @ (ViewerMessage::Closed(..) | ViewerMessage::Gone) = self.next().await {
                let seen = String::from_utf8_lossy(&self.seen[self.seen.len().saturating_sub(500)..]);
                panic!("{ended:?} before {text:?}: {seen:?}");
            }
        }
    }

    /// The exit frame, and the close frame after it.
    pub async fn exit(&mut self) -> Value {
        let frame = self.frame("exit").await;
        let closed = self.next().await;
        assert!(matches!(closed, ViewerMessage::Closed(1000, _)), "{closed:?}");
        frame
    }

    /// Closes the socket.
    pub async fn close(mut self) {
        drop(with_timeout("closing", self.stream.close(None)).await);
    }
}
