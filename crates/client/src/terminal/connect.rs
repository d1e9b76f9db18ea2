//! Opens the WebSocket of a terminal, over the same transports as other requests.

use reqwest::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use reqwest::{Method, StatusCode, Upgraded};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::{Client, ClientError};

/// The largest message. A repaint is one message.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// A connected WebSocket.
pub(crate) type Socket = WebSocketStream<Upgraded>;

impl Client {
    /// Opens `/ws/terminal`.
    pub(super) async fn open_terminal(
        &self,
        query: &[(&str, Option<String>)],
    ) -> Result<Socket, ClientError> {
        self.open_web_socket(&["ws", "terminal"], query).await
    }

    /// Opens a WebSocket. An error status is an error with its code, as for every request.
    pub(crate) async fn open_web_socket(
        &self,
        path: &[&str],
        query: &[(&str, Option<String>)],
    ) -> Result<Socket, ClientError> {
        let key = generate_key();
        let request = self
            .http1_query(Method::GET, path, query)?
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        let response = request.send().await.map_err(|e| self.failed(&e))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = response.status();
            return Err(match self.checked(response).await {
                Err(error) => error,
                Ok(_) => self.invalid_response(format!("status {status} instead of a WebSocket")),
            });
        }
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accepted.is_none_or(|accept| accept.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes()) {
            return Err(self.invalid_response("the WebSocket handshake is not answered"));
        }
        let stream = response.upgrade().await.map_err(|e| self.failed(&e))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        Ok(WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await)
    }
}
