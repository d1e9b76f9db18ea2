//! Bodies that are produced as the client reads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;
use tokio::time::{Instant, Sleep};

use crate::error::ApiError;
use crate::origin::Origin;
use crate::outgoing::{Outgoing, UnsentBytes};
use crate::summary::{READ_RETRY_INTERVAL, READ_RETRY_TIMEOUT};

/// The source of a body, piece by piece. Producing a piece must not wait for anything except a disk.
pub(crate) trait PieceSource: Send + Unpin + 'static {
    /// Why a body breaks off.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The next piece, of about this many bytes; empty after the last.
    fn next_piece(&mut self, about: usize) -> Result<Vec<u8>, Self::Error>;

    /// Frees read-ahead data when memory is scarce.
    fn release(&mut self);

    /// Whether an error is temporary, so that the piece is requested again after a while.
    fn is_temporary(error: &Self::Error) -> bool;
}

/// A body of pieces. The client sees an error as a body that breaks off.
pub(crate) fn body(source: impl PieceSource, outgoing: Outgoing, origin: Origin) -> Body {
    Body::new(Pieces {
        source: Some(source),
        outgoing,
        read_ahead: None,
        origin,
        pause: None,
        retry_until: None,
    })
}

struct Pieces<S> {
    /// `None` after the end, so that the memory of the source is freed with its last piece.
    source: Option<S>,
    outgoing: Outgoing,
    read_ahead: Option<UnsentBytes>,
    origin: Origin,
    /// Delay before the next piece is requested again.
    pause: Option<Pin<Box<Sleep>>>,
    /// Deadline of retries, while the machine lacks resources.
    retry_until: Option<Instant>,
}

impl<S: PieceSource> hyper::body::Body for Pieces<S> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { source, outgoing, read_ahead, origin, pause, retry_until } = &mut *self;
        let Some(from) = source else { return Poll::Ready(None) };
        let piece = loop {
            if let Some(pausing) = pause {
                ready!(pausing.as_mut().poll(cx));
                *pause = None;
            }
            // It is not called again after a panic, so an inconsistent state is not visible.
            let piece = catch_unwind(AssertUnwindSafe(|| from.next_piece(outgoing.piece_bytes())));
            let now = Instant::now();
            match &piece {
                Ok(Err(e))
                    if S::is_temporary(e) && now < *retry_until.get_or_insert(now + READ_RETRY_TIMEOUT) =>
                {
                    *pause = Some(Box::pin(tokio::time::sleep(READ_RETRY_INTERVAL)));
                }
                _ => break piece,
            }
        };
        *retry_until = None;
        let piece = match piece {
            Ok(piece) => piece.map_err(|error| {
                origin.log_broken_off(&error);
                BoxError::from(error)
            }),
            Err(panic) => {
                let error = ApiError::panic(panic.as_ref());
                origin.log("a body", &error);
                Err(error.message().into())
            }
        };
        if !outgoing.read_ahead(read_ahead) {
            from.release();
        }
        Poll::Ready(match piece {
            Ok(piece) if piece.is_empty() => {
                (*source, *read_ahead) = (None, None);
                None
            }
            Ok(piece) => Some(Ok(Frame::data(outgoing.count(piece)))),
            Err(error) => {
                (*source, *read_ahead) = (None, None);
                Some(Err(error))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::origin::tests::{Log, origin};

    type Fail = fn() -> Result<Vec<u8>, std::fmt::Error>;

    /// Fails in its own way, and must not be called again.
    struct Broken(Option<Fail>);

    impl PieceSource for Broken {
        type Error = std::fmt::Error;

        fn next_piece(&mut self, _: usize) -> Result<Vec<u8>, Self::Error> {
            self.0.take().map_or_else(|| panic!("asked again"), |fail| fail())
        }

        fn release(&mut self) {}

        fn is_temporary(_: &Self::Error) -> bool {
            false
        }
    }

    /// Fails this many times, then has one piece.
    struct FailsAtFirst(u32);

    impl PieceSource for FailsAtFirst {
        type Error = std::fmt::Error;

        fn next_piece(&mut self, _: usize) -> Result<Vec<u8>, Self::Error> {
            self.0 = self.0.checked_sub(1).unwrap_or(u32::MAX);
            match self.0 {
                0 => Ok(b"piece".to_vec()),
                u32::MAX => Ok(Vec::new()),
                _ => Err(std::fmt::Error),
            }
        }

        fn release(&mut self) {}

        fn is_temporary(_: &Self::Error) -> bool {
            true
        }
    }

    #[tokio::test(start_paused = true)]
    async fn temporary_errors_are_retried() {
        let of = |failures| body(FailsAtFirst(failures), Outgoing::new(100), origin()).collect();
        assert_eq!(of(100).await.unwrap().to_bytes(), "piece");
        assert!(of(100_000).await.is_err());
    }

    #[tokio::test]
    async fn incomplete_body_is_logged_with_its_ids() {
        let failures: [Fail; 2] = [|| Err(std::fmt::Error), || panic!("broken")];
        for fail in failures {
            let (log, _guard) = Log::capture();
            let body = body(Broken(Some(fail)), Outgoing::new(100), origin());
            assert!(body.collect().await.is_err());
            log.assert_named();
        }
    }
}
