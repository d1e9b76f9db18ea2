//! [`Socket`]: a raw WebSocket of the API.

use std::fmt;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::Message;

use super::scope::Scope;
use crate::terminal::RawSocket;
use crate::{Client, ClientError};

/// How to open a session's own terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PtyOptions {
    /// Columns of a new terminal.
    pub cols: Option<u16>,
    /// Rows of a new terminal.
    pub rows: Option<u16>,
    /// Program of a new terminal. Default: an interactive bash.
    pub shell: Option<String>,
}

impl Scope {
    /// The WebSocket that carries any number of requests. Its messages are the frames of [`crate::api::frame`]; the other calls
    /// do not need it.
    pub async fn open_socket(&self) -> Result<Socket, ClientError> {
        self.client().open_raw("/ws", &[]).await
    }

    /// The WebSocket of a session's own terminal, for programs that speak the protocol of the reference.
    /// [`Scope::terminal`] is the native way.
    pub async fn open_pty_socket(
        &self,
        session_id: &str,
        options: &PtyOptions,
    ) -> Result<Socket, ClientError> {
        let query = [
            ("sessionId", Some(session_id.to_owned())),
            ("cols", options.cols.map(|cols| cols.to_string())),
            ("rows", options.rows.map(|rows| rows.to_string())),
            ("shell", options.shell.clone()),
        ];
        self.client().open_raw("/ws/pty", &query).await
    }
}

impl Client {
    async fn open_raw(&self, path: &str, query: &[(&str, Option<String>)]) -> Result<Socket, ClientError> {
        let path: Vec<_> = path.split('/').skip(1).collect();
        Ok(Socket { client: self.clone(), socket: self.open_web_socket(&path, query).await? })
    }
}

/// A message of a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketMessage {
    /// Text, such as a frame in JSON.
    Text(String),
    /// Bytes, such as those of a terminal.
    Binary(Bytes),
}

/// A raw WebSocket of the API. It does not reconnect.
pub struct Socket {
    client: Client,
    socket: RawSocket,
}

impl Socket {
    /// Sends a message.
    pub async fn send(&mut self, message: SocketMessage) -> Result<(), ClientError> {
        let message = match message {
            SocketMessage::Text(text) => Message::text(text),
            SocketMessage::Binary(bytes) => Message::binary(bytes),
        };
        self.socket.send(message).await.map_err(|e| self.client.connection_lost(&e.to_string()))
    }

    /// The next message; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<SocketMessage>, ClientError> {
        while let Some(message) = self.socket.next().await {
            match message.map_err(|e| self.client.connection_lost(&e.to_string()))? {
                Message::Text(text) => return Ok(Some(SocketMessage::Text(text.as_str().to_owned()))),
                Message::Binary(bytes) => return Ok(Some(SocketMessage::Binary(bytes))),
                Message::Close(_) => return Ok(None),
                _ => (),
            }
        }
        Ok(None)
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("client", &self.client).finish_non_exhaustive()
    }
}
