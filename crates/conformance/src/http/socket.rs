//! [`Socket`]: the multiplexed WebSocket.

use std::collections::HashMap;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::observed::observed;
use super::target::{Target, with_timeout};

/// A WebSocket on which requests share one connection.
#[derive(Debug)]
pub struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// What each request asks for, by its id.
    titles: HashMap<String, String>,
}

impl Socket {
    pub(super) async fn open(target: &Target) -> Self {
        let token = target.token().map(|token| ("authorization", format!("Bearer {token}")));
        match Self::try_open(target, token).await {
            Ok((socket, _)) => socket,
            Err(e) => panic!("the WebSocket was refused: {e}"),
        }
    }

    /// Opens a socket with an additional header. Returns the selected subprotocol, or the status of the error
    /// response.
    pub async fn try_open(
        target: &Target,
        header: Option<(&'static str, String)>,
    ) -> Result<(Self, Option<String>), String> {
        let url = format!("ws://{}/ws", target.authority());
        let mut request = url.into_client_request().map_err(|e| e.to_string())?;
        if let Some((name, value)) = header {
            let value = HeaderValue::from_str(&value).map_err(|e| e.to_string())?;
            request.headers_mut().insert(name, value);
        }
        match connect_async(request).await {
            Ok((stream, answer)) => {
                let agreed = answer.headers().get("sec-websocket-protocol");
                let agreed = agreed.and_then(|value| value.to_str().ok()).map(str::to_owned);
                observed("GET /ws", 101, None);
                Ok((Self { stream, titles: HashMap::new() }, agreed))
            }
            Err(Error::Http(answer)) => {
                observed("GET /ws", answer.status().as_u16(), None);
                Err(answer.status().as_str().to_owned())
            }
            Err(other) => Err(other.to_string()),
        }
    }

    /// Sends text.
    pub async fn send_text(&mut self, text: &str) {
        with_timeout("sending a frame", self.stream.send(Message::text(text)))
            .await
            .expect("the socket is closed");
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: &Value) {
        if let (Some(id), Some(method), Some(path)) =
            (frame["id"].as_str(), frame["method"].as_str(), frame["path"].as_str())
        {
            self.titles.insert(id.to_owned(), format!("{method} {path}"));
        }
        self.send_text(&frame.to_string()).await;
    }

    /// Sends a request.
    pub async fn request(&mut self, id: &str, method: &str, path: &str, body: Value) {
        let mut frame = json!({"type": "request", "id": id, "method": method, "path": path});
        if !body.is_null() {
            frame["body"] = body;
        }
        self.send(&frame).await;
    }

    /// Returns the next frame, or `None` when the server has closed the socket.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            match with_timeout("a frame", self.stream.next()).await? {
                Ok(Message::Text(text)) => {
                    let frame = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:?}"));
                    self.observe(&frame);
                    return Some(frame);
                }
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    fn observe(&self, frame: &Value) {
        let title = frame["id"].as_str().and_then(|id| self.titles.get(id));
        let status = frame["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        if let (Some(title), Some(status)) = (title, status) {
            match frame["code"].as_str() {
                // An error frame is not a response of the operation: the request was not sent to it, or cancelled.
                Some(code) if frame["type"] == "error" => observed("FRAME", status, Some(code)),
                _ => observed(title, status, frame["body"]["code"].as_str()),
            }
        }
    }

    /// Sends bytes as a text message, valid or not. Returns `false` if the socket failed before all was sent.
    pub async fn send_bytes(&mut self, bytes: Vec<u8>) -> bool {
        let frame = Frame::message(bytes, OpCode::Data(Data::Text), true);
        with_timeout("sending a frame", self.stream.send(Message::Frame(frame))).await.is_ok()
    }

    /// Sends the header of a text message of this size, in one frame or in the first of several, and nothing
    /// more.
    pub async fn begin_message(&mut self, size: u64, is_last: bool) {
        // A mask of zeros does not change the payload.
        let mut head = vec![if is_last { 0x81 } else { 0x01 }, 0x80 | 127];
        head.extend(size.to_be_bytes());
        head.extend([0; 4]);
        self.send_raw(&head).await.expect("the socket is closed");
    }

    /// Sends raw bytes: more of a message that was begun.
    pub async fn send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let stream = self.stream.get_mut();
        with_timeout("sending bytes", async {
            stream.write_all(bytes).await?;
            stream.flush().await
        })
        .await
    }

    /// Returns code and reason of the close frame, which must follow, skipping other frames.
    pub async fn closed(&mut self) -> (u16, String) {
        loop {
            match with_timeout("a close frame", self.stream.next()).await {
                Some(Ok(Message::Close(Some(frame)))) => {
                    return (frame.code.into(), frame.reason.to_string());
                }
                Some(Ok(_)) => {}
                other => panic!("the socket ended without a close frame that says why: {other:?}"),
            }
        }
    }

    /// Returns the next frame that is not a heartbeat. Panics if there is none.
    pub async fn frame(&mut self) -> Value {
        loop {
            let frame = self.next().await.expect("the server has closed the socket");
            if frame["type"] != "stream" || frame["data"] != "" {
                return frame;
            }
        }
    }

    /// Returns the next response to this request, skipping frames of others.
    pub async fn response(&mut self, id: &str) -> Value {
        loop {
            let frame = self.frame().await;
            if frame["id"] == id && frame["type"] != "stream" {
                return frame;
            }
        }
    }

    /// Returns all events of a stream, and the frame that ends it.
    pub async fn events(&mut self, id: &str) -> (Vec<Value>, Value) {
        let mut events = Vec::new();
        loop {
            let frame = self.frame().await;
            if frame["id"] != id {
                continue;
            }
            if frame["type"] != "stream" {
                return (events, frame);
            }
            let text = frame["data"].as_str().expect("the data of a stream frame is a string");
            events.push(serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text:?}")));
        }
    }
}
