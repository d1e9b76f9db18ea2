//! Bodies that are made as the client takes them.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;

use crate::outgoing::Outgoing;

/// What a body is made of, piece by piece. Making a piece must not wait for anything but a disk.
pub(crate) trait PieceSource: Send + Unpin + 'static {
    /// Why a body breaks off.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The next piece, of about this many bytes; empty after the last.
    fn next_piece(&mut self, about: usize) -> Result<Vec<u8>, Self::Error>;
}

/// A body of pieces. The client sees an error as a body that breaks off.
pub(crate) fn body(source: impl PieceSource, outgoing: Outgoing) -> Body {
    Body::new(Pieces { source: Some(source), outgoing })
}

struct Pieces<S> {
    /// `None` after the end, so that what the source holds is freed with its last piece.
    source: Option<S>,
    outgoing: Outgoing,
}

impl<S: PieceSource> hyper::body::Body for Pieces<S> {
    type Data = Bytes;
    type Error = S::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, S::Error>>> {
        let Self { source, outgoing } = &mut *self;
        let Some(from) = source else { return Poll::Ready(None) };
        Poll::Ready(match from.next_piece(outgoing.piece_bytes()) {
            Ok(piece) if piece.is_empty() => {
                *source = None;
                None
            }
            Ok(piece) => Some(Ok(Frame::data(outgoing.count(piece)))),
            Err(error) => {
                *source = None;
                Some(Err(error))
            }
        })
    }
}
