//! [`Viewer`]: a WebSocket client that views a terminal, with as little of a client as will do.

use std::net::{SocketAddr, TcpStream};

use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use crate::bench::FigureError;

/// A viewer of a terminal, or of a bare WebSocket server.
pub(super) struct Viewer {
    socket: WebSocket<TcpStream>,
}

impl Viewer {
    /// Opens the WebSocket of a terminal.
    pub(super) fn attach(
        server: SocketAddr,
        id: &str,
        (cols, rows): (u16, u16),
    ) -> Result<Self, FigureError> {
        Self::open(server, &format!("/ws/terminal?terminalId={id}&cols={cols}&rows={rows}"))
    }

    /// Opens the WebSocket at a path.
    pub(super) fn open(server: SocketAddr, path: &str) -> Result<Self, FigureError> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        let (socket, _) = tungstenite::client(format!("ws://{server}{path}"), stream)?;
        Ok(Self { socket })
    }

    /// Sends bytes as one message.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), FigureError> {
        Ok(self.socket.send(Message::binary(bytes.to_vec()))?)
    }

    /// The bytes of the next message that has some.
    pub(super) fn read(&mut self) -> Result<bytes::Bytes, FigureError> {
        loop {
            match self.socket.read()? {
                Message::Binary(bytes) => return Ok(bytes),
                Message::Close(_) => return Err("the server closed a WebSocket".into()),
                _ => {}
            }
        }
    }

    /// Reads until these bytes were output; how many bytes came. A repaint may contain them anywhere.
    pub(super) fn read_until(&mut self, text: &[u8]) -> Result<usize, FigureError> {
        let (mut total, mut unseen) = (0, Vec::new());
        loop {
            let bytes = self.read()?;
            total += bytes.len();
            unseen.extend_from_slice(&bytes);
            if unseen.windows(text.len()).any(|part| part == text) {
                return Ok(total);
            }
            unseen.drain(..(unseen.len() + 1).saturating_sub(text.len()));
        }
    }

    /// Reads until the server says that the screen is repainted; how many bytes came.
    pub(super) fn read_until_ready(&mut self) -> Result<usize, FigureError> {
        let mut total = 0;
        loop {
            match self.socket.read()? {
                Message::Binary(bytes) => total += bytes.len(),
                Message::Text(text) if text.contains(r#""ready""#) => return Ok(total),
                Message::Close(_) => return Err("the server closed a WebSocket".into()),
                _ => {}
            }
        }
    }
}
