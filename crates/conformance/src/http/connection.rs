//! [`Connection`]: one connection for consecutive requests.

use std::io::{self, ErrorKind};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::body::{Body, Framing};
use super::observed::observed;
use super::request::Request;
use super::response::{Head, Response};
use super::target::Target;

/// Maximum size of a response head.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// A connection to the server.
#[derive(Debug)]
pub struct Connection {
    pub(super) stream: BufReader<TcpStream>,
    target: Target,
    title: String,
    without_body: bool,
}

impl Connection {
    /// Connects.
    pub async fn open(target: &Target) -> io::Result<Self> {
        let stream = TcpStream::connect(target.authority()).await?;
        stream.set_nodelay(true)?;
        let target = target.clone();
        Ok(Self { stream: BufReader::new(stream), target, title: String::new(), without_body: false })
    }

    /// Sends a request.
    pub async fn send(&mut self, request: &Request) -> io::Result<()> {
        self.title = request.title();
        self.without_body = request.method == "HEAD";
        self.send_bytes(&request.encode(&self.target.headers())).await
    }

    /// Sends raw bytes.
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Closes the sending side.
    pub async fn finish_sending(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    async fn line(&mut self, left: &mut usize) -> io::Result<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).await?;
        *left = left.checked_sub(line.len()).ok_or_else(|| invalid("the head of an answer is too long"))?;
        if line.last() != Some(&b'\n') {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8(line).map_err(|_| invalid("a header is not text"))?;
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Reads the head of the next response, skipping interim ones.
    pub async fn head(&mut self) -> io::Result<(Head, Framing)> {
        loop {
            let head = self.any_head().await?;
            if head.status >= 200 || head.status == 101 {
                // Refusals are observed with their code.
                if head.status < 400 {
                    observed(&head.title, head.status, None);
                }
                let framing = self.framing(&head)?;
                return Ok((head, framing));
            }
        }
    }

    /// Reads the head of the next response, including interim ones.
    pub async fn any_head(&mut self) -> io::Result<Head> {
        let mut left = MAX_HEAD_BYTES;
        let line = self.line(&mut left).await?;
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| invalid("the answer does not begin with a status"))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line(&mut left).await?;
            if line.is_empty() {
                return Ok(Head { status, headers, title: self.title.clone() });
            }
            let (name, value) = line.split_once(':').ok_or_else(|| invalid("a header has no colon"))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn framing(&self, head: &Head) -> io::Result<Framing> {
        if self.without_body || matches!(head.status, 101 | 204 | 304) {
            return Ok(Framing::Length(0));
        }
        if head.header("transfer-encoding").is_some_and(|value| value.ends_with("chunked")) {
            return Ok(Framing::Chunked { left: 0 });
        }
        match head.header("content-length").map(str::parse) {
            Some(Ok(length)) => Ok(Framing::Length(length)),
            Some(Err(_)) => Err(invalid("the content length is no number")),
            None => Ok(Framing::UntilClosed),
        }
    }

    /// Reads the next response with its body.
    pub async fn answer(&mut self) -> io::Result<Response> {
        let (head, mut framing) = self.head().await?;
        let mut body = Vec::new();
        while let Some(piece) = framing.next(&mut self.stream).await? {
            body.extend(piece);
        }
        let response = Response { head, body };
        if response.status() >= 400 {
            let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
            observed(&response.head.title, response.status(), body["code"].as_str());
        }
        Ok(response)
    }

    /// Reads the head of the next response. The body is then read in pieces.
    pub async fn into_body(mut self) -> io::Result<(Head, Body)> {
        let (head, framing) = self.head().await?;
        Ok((head, Body::new(self, framing)))
    }

    /// Sends a request and reads its response.
    pub async fn ask(&mut self, request: &Request) -> io::Result<Response> {
        self.send(request).await?;
        self.answer().await
    }
}

pub(super) fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
