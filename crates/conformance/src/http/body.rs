//! [`Body`]: the body of a response, as it arrives.

use std::io::{self, ErrorKind};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;

use super::connection::{Connection, invalid};

/// Maximum size of a read.
const PIECE_BYTES: usize = 64 << 10;

/// How the end of a body is determined.
#[derive(Debug)]
pub enum Framing {
    /// By its length.
    Length(u64),
    /// By an empty chunk.
    Chunked {
        /// Remaining bytes of the current chunk.
        left: u64,
    },
    /// By the end of the connection.
    UntilClosed,
    /// The body has ended.
    Ended,
}

impl Framing {
    /// Returns the next piece, or `None` at the end. An incomplete body is an error.
    pub(super) async fn next(&mut self, stream: &mut BufReader<TcpStream>) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::Ended | Self::Length(0) => Ok(None),
            Self::UntilClosed => {
                let piece = some(stream, u64::MAX).await?;
                Ok((!piece.is_empty()).then_some(piece))
            }
            Self::Length(left) => {
                let piece = at_least_one(stream, *left).await?;
                *left -= piece.len() as u64;
                Ok(Some(piece))
            }
            Self::Chunked { left: 0 } => match chunk_size(stream).await? {
                0 => {
                    line(stream).await?;
                    *self = Self::Ended;
                    Ok(None)
                }
                size => {
                    *self = Self::Chunked { left: size };
                    Box::pin(self.next(stream)).await
                }
            },
            Self::Chunked { left } => {
                let piece = at_least_one(stream, *left).await?;
                *left -= piece.len() as u64;
                if *left == 0 {
                    line(stream).await?;
                }
                Ok(Some(piece))
            }
        }
    }
}

async fn some(stream: &mut BufReader<TcpStream>, most: u64) -> io::Result<Vec<u8>> {
    let most = usize::try_from(most).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
    let mut piece = vec![0; most];
    let read = stream.read(&mut piece).await?;
    piece.truncate(read);
    Ok(piece)
}

async fn at_least_one(stream: &mut BufReader<TcpStream>, most: u64) -> io::Result<Vec<u8>> {
    let piece = some(stream, most).await?;
    if piece.is_empty() { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(piece) }
}

async fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    if line.ends_with('\n') { Ok(line) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

async fn chunk_size(stream: &mut BufReader<TcpStream>) -> io::Result<u64> {
    let line = line(stream).await?;
    u64::from_str_radix(line.trim_end(), 16).map_err(|_| invalid("a chunk has no size"))
}

/// The body of a response. Dropping it closes the connection.
#[derive(Debug)]
pub struct Body {
    connection: Connection,
    framing: Framing,
}

impl Body {
    pub(super) fn new(connection: Connection, framing: Framing) -> Self {
        Self { connection, framing }
    }

    /// Returns the next piece, or `None` at the end. An incomplete body is an error.
    pub async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.framing.next(&mut self.connection.stream).await
    }
}
