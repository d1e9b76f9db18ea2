//! [`Connection`]: a minimal HTTP/1.1 client with one persistent connection.
//!
//! Requests are prepared in advance, and bodies are passed on as they arrive. So mostly the server and the
//! kernel are measured.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Read size, and maximum size of a response head.
const BUFFER_BYTES: usize = 256 << 10;

/// Returns a request without a body.
pub(crate) fn request(method: &str, path: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

/// Returns a request with a JSON body.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
    format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
}

/// Length of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

/// The head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    status: u16,
    framing: Framing,
    /// Size of the head.
    bytes: usize,
}

impl Head {
    /// Parses the head at the start of these bytes. Returns `None` if it is incomplete.
    fn parse(bytes: &[u8]) -> io::Result<Option<Self>> {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            return Ok(None);
        };
        let text = str::from_utf8(&bytes[..end]).map_err(io::Error::other)?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("an answer without a status"))?;
        let mut framing = Framing::Length(0);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                framing = Framing::Length(value.trim().parse().map_err(io::Error::other)?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                framing = Framing::Chunked;
            }
        }
        Ok(Some(Self { status, framing, bytes: end + 4 }))
    }

    /// Returns the end of the response at the start of these bytes, if it is complete and has a length.
    pub(crate) fn whole(bytes: &[u8]) -> io::Result<Option<usize>> {
        let Some(head) = Self::parse(bytes)? else {
            return Ok(None);
        };
        head.expect_success()?;
        match head.framing {
            Framing::Length(length) => Ok(Some(head.bytes + length).filter(|whole| *whole <= bytes.len())),
            Framing::Chunked => Err(io::Error::other("an answer in chunks was not expected")),
        }
    }

    fn expect_success(self) -> io::Result<()> {
        match self.status {
            200 => Ok(()),
            status => Err(io::Error::other(format!("a request was answered with status {status}"))),
        }
    }
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Start and end of the unread bytes.
    start: usize,
    end: usize,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0 })
    }

    /// Sends a request and passes on the response body in pieces. A status other than 200 is an error.
    pub(crate) fn ask(&mut self, request: &[u8], mut take: impl FnMut(&[u8])) -> io::Result<()> {
        self.stream.write_all(request)?;
        let head = loop {
            match Head::parse(&self.buffer[self.start..self.end])? {
                Some(head) => break head,
                None => self.fill()?,
            }
        };
        self.start += head.bytes;
        match head.framing {
            Framing::Length(length) => self.body(length, &mut take)?,
            Framing::Chunked => loop {
                let size = self.chunk_size()?;
                self.body(size, &mut take)?;
                self.body(2, &mut |_| {})?;
                if size == 0 {
                    break;
                }
            },
        }
        head.expect_success()
    }

    /// Like [`ask`](Self::ask), but returns the whole body.
    pub(crate) fn ask_whole(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        self.ask(request, |piece| body.extend_from_slice(piece))?;
        Ok(body)
    }

    /// Like [`ask`](Self::ask), but returns the size of the body.
    pub(crate) fn ask_size(&mut self, request: &[u8]) -> io::Result<usize> {
        let mut size = 0;
        self.ask(request, |piece| size += piece.len())?;
        Ok(size)
    }

    fn body(&mut self, length: usize, take: &mut impl FnMut(&[u8])) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            if self.start == self.end {
                self.fill()?;
            }
            let piece = left.min(self.end - self.start);
            take(&self.buffer[self.start..self.start + piece]);
            self.start += piece;
            left -= piece;
        }
        Ok(())
    }

    fn chunk_size(&mut self) -> io::Result<usize> {
        let length = loop {
            let unread = &self.buffer[self.start..self.end];
            match unread.windows(2).position(|window| window == b"\r\n") {
                Some(length) => break length,
                None => self.fill()?,
            }
        };
        let line = &self.buffer[self.start..self.start + length];
        let size = str::from_utf8(line).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        self.start += length + 2;
        size.ok_or_else(|| io::Error::other("a chunk without a size"))
    }

    /// Reads more after the unread bytes.
    fn fill(&mut self) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        match self.stream.read(&mut self.buffer[self.end..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.end += count;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Returns what a client receives from a server that sends these pieces.
    fn answered(pieces: &'static [&'static str]) -> io::Result<Vec<u8>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 64];
            assert!(stream.read(&mut request).unwrap() > 0);
            for piece in pieces {
                stream.write_all(piece.as_bytes()).unwrap();
            }
        });
        let body = Connection::open(address).unwrap().ask_whole(&request("GET", "/"));
        server.join().unwrap();
        body
    }

    #[test]
    fn bodies_come_whole_however_they_are_sent() {
        let length = &["HTTP/1.1 200 OK\r\nContent-Le", "ngth: 5\r\n\r\nhel", "lo"];
        assert_eq!(answered(length).unwrap(), b"hello");
        let chunks = &[
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r",
            "\n2\r\nlo\r\n0\r\n\r",
            "\n",
        ];
        assert_eq!(answered(chunks).unwrap(), b"hello");
    }

    #[test]
    fn refusals_and_broken_answers_are_errors() {
        assert!(answered(&["HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"]).is_err());
        assert!(answered(&["HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello"]).is_err());
    }
}
