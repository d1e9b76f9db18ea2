//! [`Outgoing`]: counts the unsent data of all connections.
//!
//! Bodies are produced in pieces, and a piece is counted from its creation until the connection has written it. Below
//! the limit, pieces are large. Above it they are small, and streams keep only their cursor between two of them. So
//! clients that never read occupy little memory, and clients that read still make progress.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::Body as _;
use serde::Serialize;

use crate::error::ApiError;

/// Size of a piece below the limit.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// Size of a piece above the limit.
pub(crate) const SCARCE_PIECE_BYTES: usize = 16 << 10;

/// Maximum memory of a journal reader while it reads ahead.
const READ_AHEAD_BYTES: usize = 256 << 10;

/// Counts unsent data. A handle.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    held: Arc<AtomicUsize>,
    limit: usize,
}

impl Outgoing {
    pub(crate) fn new(limit: usize) -> Self {
        Self { held: Arc::default(), limit }
    }

    /// Whether the limit is reached.
    pub(crate) fn is_scarce(&self) -> bool {
        self.held.load(Ordering::Relaxed) >= self.limit
    }

    /// Size of the next piece.
    pub(crate) fn piece_bytes(&self) -> usize {
        if self.is_scarce() { SCARCE_PIECE_BYTES } else { PIECE_BYTES }
    }

    /// Counts a piece until its bytes are dropped.
    pub(crate) fn count(&self, piece: Vec<u8>) -> Bytes {
        Bytes::from_owner(Piece { _held: self.hold(piece.capacity()), bytes: piece })
    }

    /// Takes a counted buffer of this size, preferably the spare one.
    pub(crate) fn buffer(&self, spare: &SpareBuffer, size: usize) -> Buffer {
        let piece = spare.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let piece = piece.filter(|piece| piece.bytes.len() >= size && piece.bytes.len() / 2 <= size);
        let piece = piece.unwrap_or_else(|| Piece { _held: self.hold(size), bytes: vec![0; size] });
        Buffer { piece: Some(piece), size, spare: spare.clone(), outgoing: self.clone() }
    }

    /// Counts a body that is complete in memory (its exact size is known), until its bytes are dropped.
    pub(crate) async fn count_whole(&self, response: &mut Response) {
        if response.body().size_hint().exact().is_none_or(|size| size == 0) {
            return;
        }
        let body = std::mem::take(response.body_mut());
        // Neither waits nor fails nor copies: it is one available piece.
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
        *response.body_mut() = Bytes::from_owner(Piece { _held: self.hold(bytes.len()), bytes }).into();
    }

    /// Counts this many bytes until the guard is dropped.
    pub(crate) fn hold(&self, bytes: usize) -> UnsentBytes {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        UnsentBytes { held: Arc::clone(&self.held), bytes }
    }

    /// Decides whether a body may read ahead until its next piece, and counts its memory.
    pub(crate) fn read_ahead(&self, held: &mut Option<UnsentBytes>) -> bool {
        match held {
            Some(_) if self.is_scarce() => *held = None,
            None if !self.is_scarce() => *held = Some(self.hold(READ_AHEAD_BYTES)),
            _ => {}
        }
        held.is_some()
    }

    /// A response that is produced whole. A large one is refused when the limit is reached, because it would wait
    /// too.
    pub(crate) fn json(&self, answer: &impl Serialize) -> Result<Response, ApiError> {
        self.json_bytes(serde_json::to_vec(answer).map_err(ApiError::internal)?)
    }

    /// The same for a response that has been serialized elsewhere, because that takes long.
    pub(crate) fn json_bytes(&self, json: Vec<u8>) -> Result<Response, ApiError> {
        self.check_whole(json.len())?;
        let kind = HeaderValue::from_static("application/json");
        // The outermost layer counts it.
        Ok(([(header::CONTENT_TYPE, kind)], json).into_response())
    }

    /// Refuses a large body that is complete in memory when the limit is reached.
    pub(crate) fn check_whole(&self, bytes: usize) -> Result<(), ApiError> {
        if bytes > PIECE_BYTES && self.is_scarce() {
            return Err(ApiError::too_many(
                "responses are waiting for clients that do not read; retry later",
            ));
        }
        Ok(())
    }

    /// Number of unsent bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// Bytes that are counted until this is dropped.
#[derive(Debug)]
pub(crate) struct UnsentBytes {
    held: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for UnsentBytes {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A buffer that is used again when the bytes in it have been sent. It is counted meanwhile, and freed instead when
/// memory is scarce.
#[derive(Debug, Clone, Default)]
pub(crate) struct SpareBuffer(Arc<Mutex<Option<Piece<Vec<u8>>>>>);

/// A counted buffer to be filled. It becomes the spare one when it is dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// `None` only while it is dropped.
    piece: Option<Piece<Vec<u8>>>,
    /// The used length of the piece.
    size: usize,
    spare: SpareBuffer,
    outgoing: Outgoing,
}

impl Buffer {
    /// The first bytes of it.
    pub(crate) fn into_bytes(mut self, count: usize) -> Bytes {
        self.size = self.size.min(count);
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.piece.as_ref().map_or(&[], |piece| &piece.bytes[..self.size])
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_ref()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.piece.as_mut().map_or(&mut [], |piece| &mut piece.bytes[..self.size])
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if !self.outgoing.is_scarce() {
            *self.spare.0.lock().unwrap_or_else(PoisonError::into_inner) = self.piece.take();
        }
    }
}

/// A piece and its count.
#[derive(Debug)]
struct Piece<B> {
    bytes: B,
    _held: UnsentBytes,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Piece<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_counted_until_they_are_dropped() {
        let outgoing = Outgoing::new(100);
        assert_eq!(outgoing.piece_bytes(), PIECE_BYTES);
        let piece = outgoing.count(vec![1; 100]);
        let part = piece.slice(10..20);
        drop(piece);
        assert_eq!((outgoing.held_bytes(), outgoing.piece_bytes()), (100, SCARCE_PIECE_BYTES));
        drop(part);
        assert_eq!((outgoing.held_bytes(), outgoing.is_scarce()), (0, false));
    }

    #[test]
    fn sent_buffers_are_used_again_unless_memory_is_scarce() {
        let (outgoing, spare) = (Outgoing::new(150), SpareBuffer::default());
        let mut buffer = outgoing.buffer(&spare, 100);
        buffer[..4].copy_from_slice(b"text");
        assert_eq!(buffer.len(), 100);
        let address = buffer.as_ptr();
        let bytes = buffer.into_bytes(4);
        assert_eq!((bytes.as_ref(), outgoing.held_bytes()), (&b"text"[..], 100));
        drop(bytes);
        let again = outgoing.buffer(&spare, 60);
        assert_eq!((again.as_ptr(), again.len(), outgoing.held_bytes()), (address, 60, 100));
        let other = outgoing.buffer(&spare, 60);
        assert!(outgoing.is_scarce());
        drop(again);
        assert_eq!(outgoing.held_bytes(), 60);
        drop(other);
        assert_eq!(outgoing.held_bytes(), 60);
        drop(spare);
        assert_eq!(outgoing.held_bytes(), 0);
    }

    #[tokio::test]
    async fn whole_bodies_are_counted_once() {
        let outgoing = Outgoing::new(100);
        let mut answer = outgoing.json(&"x".repeat(98)).unwrap();
        for (mut response, bytes) in [("x".repeat(7).into_response(), 7), (().into_response(), 0)] {
            outgoing.count_whole(&mut response).await;
            assert_eq!(outgoing.held_bytes(), bytes);
        }
        outgoing.count_whole(&mut answer).await;
        assert_eq!((outgoing.held_bytes(), answer.body().size_hint().exact()), (100, Some(100)));
        let bytes = axum::body::to_bytes(answer.into_body(), 100).await.unwrap();
        assert_eq!((outgoing.held_bytes(), bytes.len()), (100, 100));
        drop(bytes);
        assert_eq!(outgoing.held_bytes(), 0);
    }
}
