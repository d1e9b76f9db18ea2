//! [`Received`]: counts the incoming data of a socket.
//!
//! A message is passed on when it is complete. Until then its bytes are in memory, so they are counted where they are
//! read ([`CountingReader`]), together with the bodies of all other requests.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader, ReadBuf};

use super::READ_BUFFER_BYTES;
use crate::app::{App, BodyBytes};

/// The incoming data of a socket. A handle.
#[derive(Debug, Clone)]
pub(crate) struct Received(Arc<Mutex<Counts>>);

#[derive(Debug)]
struct Counts {
    /// The bytes of the incomplete message.
    unfinished: BodyBytes,
    /// Total number of bytes.
    total: u64,
}

impl Received {
    pub(crate) fn new(app: &App) -> Self {
        Self(Arc::new(Mutex::new(Counts { unfinished: app.hold(), total: 0 })))
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Total number of bytes.
    pub(crate) fn total(&self) -> u64 {
        self.counts().total
    }

    /// Number of bytes of the incomplete message.
    pub(crate) fn unfinished(&self) -> usize {
        self.counts().unfinished.bytes()
    }

    /// A message is complete: the caller counts its bytes from now on.
    pub(crate) fn finish_message(&self) -> BodyBytes {
        self.counts().unfinished.take()
    }

    /// Counts bytes. Fails when all clients together have sent more than the limit, unless this client's part is
    /// small.
    fn count(&self, bytes: usize, is_message: bool) -> io::Result<()> {
        let Counts { unfinished, total } = &mut *self.counts();
        *total += bytes as u64;
        if is_message {
            unfinished.count(bytes);
        }
        if unfinished.bytes() > READ_BUFFER_BYTES && unfinished.exceeds_limit() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(())
    }
}

/// Maximum size of the head of a frame.
const MAX_HEAD_BYTES: usize = 14;

/// The boundaries of frames in a stream.
#[derive(Debug, Default)]
struct Frames {
    head: [u8; MAX_HEAD_BYTES],
    /// Number of bytes of the head so far.
    have: usize,
    /// Number of missing bytes of the payload.
    payload_left: u64,
    is_control: bool,
}

impl Frames {
    /// The size of the head, as far as known.
    fn head_bytes(&self) -> usize {
        let [_, second, ..] = self.head;
        if self.have < 2 {
            return 2;
        }
        let length = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + length + if second & 0x80 == 0 { 0 } else { 4 }
    }

    /// Size of the rest of the head, or of the payload.
    fn wanted(&self) -> usize {
        if self.payload_left > 0 {
            return usize::try_from(self.payload_left).unwrap_or(usize::MAX);
        }
        self.head_bytes() - self.have
    }

    /// Skips bytes, at most those that are [wanted](Self::wanted). Returns whether they are part of a message.
    fn pass(&mut self, bytes: &[u8]) -> bool {
        if self.payload_left > 0 {
            self.payload_left -= bytes.len() as u64;
            return !self.is_control;
        }
        self.head[self.have..self.have + bytes.len()].copy_from_slice(bytes);
        self.have += bytes.len();
        if self.have >= 2 && self.have == self.head_bytes() {
            let long =
                |from: usize| self.head[2..from].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
            self.payload_left = match self.head[1] & 0x7f {
                126 => long(4),
                127 => long(10),
                short => short.into(),
            };
            self.is_control = self.head[0] & 0x08 != 0;
            self.have = 0;
        }
        false
    }
}

/// A stream whose incoming bytes are counted. Reading fails with [`io::ErrorKind::OutOfMemory`] above the limit.
///
/// A read ends at the end of a head or a payload, so that a message is alone in its buffer, which is freed with it.
#[derive(Debug)]
pub(crate) struct CountingReader<S> {
    stream: BufReader<S>,
    frames: Frames,
    received: Received,
}

impl<S: AsyncRead> CountingReader<S> {
    pub(crate) fn new(stream: S, received: Received) -> Self {
        let stream = BufReader::with_capacity(READ_BUFFER_BYTES, stream);
        Self { stream, frames: Frames::default(), received }
    }

    /// The stream, to be read without counting.
    pub(crate) fn into_inner(self) -> S {
        self.stream.into_inner()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountingReader<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, frames, received } = &mut *self;
        let bytes = ready!(Pin::new(&mut *stream).poll_fill_buf(cx))?;
        let size = bytes.len().min(frames.wanted()).min(buffer.remaining());
        let bytes = &bytes[..size];
        buffer.put_slice(bytes);
        let is_message = frames.pass(bytes);
        Pin::new(stream).consume(size);
        Poll::Ready(received.count(size, is_message))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for CountingReader<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn frame_boundaries(
            frames in proptest::collection::vec((any::<bool>(), any::<bool>(), 0usize..70_000), 1..6),
            cut in 1usize..40_000,
        ) {
            let mut bytes = Vec::new();
            let mut expected = 0;
            for (is_control, is_masked, size) in frames {
                let size = if is_control { size % 126 } else { size };
                bytes.push(if is_control { 0x89 } else { 0x81 });
                let mask = if is_masked { 0x80 } else { 0 };
                match size {
                    0..126 => bytes.push(mask | u8::try_from(size).unwrap()),
                    126..65_536 => {
                        bytes.push(mask | 126);
                        bytes.extend(u16::try_from(size).unwrap().to_be_bytes());
                    }
                    _ => {
                        bytes.push(mask | 127);
                        bytes.extend((size as u64).to_be_bytes());
                    }
                }
                bytes.resize(bytes.len() + if is_masked { 4 } else { 0 } + size, b'x');
                expected += if is_control { 0 } else { size };
            }
            let (mut frames, mut counted, mut rest) = (Frames::default(), 0, &bytes[..]);
            while !rest.is_empty() {
                let (next, after) = rest.split_at(frames.wanted().min(cut).min(rest.len()));
                counted += if frames.pass(next) { next.len() } else { 0 };
                rest = after;
            }
            prop_assert_eq!((counted, frames.wanted(), frames.have), (expected, 2, 0));
        }
    }
}
