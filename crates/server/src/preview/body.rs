//! [`PreviewBody`]: the body of a response of a program.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::admission::PreviewRequest;

/// The permits of one request. Dropped at the end of its response.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) _all: OwnedSemaphorePermit,
    pub(super) _of_port: OwnedSemaphorePermit,
    pub(super) _visit: Option<PreviewRequest>,
}

/// A body that breaks off when the port is no longer exposed.
#[derive(Debug)]
pub(super) struct PreviewBody {
    body: Incoming,
    revoked: CancellationToken,
    /// Created when the body waits for the first time.
    revocation: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    _slot: Slot,
}

impl PreviewBody {
    pub(super) fn new(body: Incoming, revoked: CancellationToken, slot: Slot) -> Self {
        Self { body, revoked, revocation: None, _slot: slot }
    }
}

impl Body for PreviewBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let is_revoked = match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(frame) if !this.revoked.is_cancelled() => {
                return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
            }
            Poll::Ready(_) => true,
            Poll::Pending => {
                let wait = || Box::pin(this.revoked.clone().cancelled_owned());
                this.revocation.get_or_insert_with(wait).as_mut().poll(cx).is_ready()
            }
        };
        if is_revoked {
            return Poll::Ready(Some(Err(axum::Error::new("the port is no longer exposed"))));
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
