//! Encoding of messages as frames.

use minicbor::{Decode, Encode};

use super::MAX_FRAME;

/// One frame: a request number (0 for events) and a body.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Envelope<T> {
    #[n(0)]
    pub(crate) request: u64,
    #[n(1)]
    pub(crate) body: T,
}

/// The readable part of an envelope whose body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct EnvelopeHead {
    #[n(0)]
    request: u64,
}

/// A frame that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame of {0} bytes exceeds the limit of the protocol")]
    TooLong(usize),
    /// The body is of a kind that this side does not support; the request number could be read.
    #[error("a frame contains a message that this version does not support")]
    Unknown(u64),
    #[error("invalid frame")]
    Malformed,
}

/// The bytes of a frame.
pub(crate) fn frame<T: Encode<()>>(request: u64, body: &T) -> Vec<u8> {
    #[derive(Encode)]
    struct Borrowed<'a, T>(#[n(0)] u64, #[n(1)] &'a T);
    let mut bytes = vec![0; 4];
    // never fails: writing to a Vec cannot, and our types encode unconditionally.
    drop(minicbor::encode(Borrowed(request, body), &mut bytes));
    let length = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Collects bytes from a socket and returns complete frames.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
    taken: usize,
}

impl FrameBuffer {
    /// Appends received bytes.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        if self.taken > 0 && (self.taken == self.bytes.len() || self.taken > 64 << 10) {
            self.bytes.drain(..self.taken);
            self.taken = 0;
            if self.bytes.is_empty() && self.bytes.capacity() > 1 << 20 {
                self.bytes = Vec::new();
            }
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete frame, if available.
    pub(crate) fn next<T>(&mut self) -> Result<Option<Envelope<T>>, FrameError>
    where
        T: for<'b> Decode<'b, ()>,
    {
        let rest = &self.bytes[self.taken..];
        let Some((head, body)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*head) as usize;
        if length > MAX_FRAME {
            return Err(FrameError::TooLong(length));
        }
        let Some(body) = body.get(..length) else {
            return Ok(None);
        };
        self.taken += 4 + length;
        minicbor::decode::<Envelope<T>>(body).map(Some).map_err(|_| {
            match minicbor::decode::<EnvelopeHead>(body) {
                Ok(head) => FrameError::Unknown(head.request),
                Err(_) => FrameError::Malformed,
            }
        })
    }
}
