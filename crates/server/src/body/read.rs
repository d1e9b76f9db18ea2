//! Reads a whole body, within the limits.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Frame;
use sandcrab_api::ErrorCode;

use crate::app::{App, BodyBytes};
use crate::error::ApiError;

/// Reads a whole body, within the limits. One that came over a WebSocket is counted there (`is_counted`).
pub(crate) async fn read_body(
    app: &App,
    mut body: Body,
    is_counted: bool,
) -> Result<(Bytes, BodyBytes), ApiError> {
    let limit = app.limits.body_bytes;
    let too_large = || {
        let message = format!(
            "the body is too large, at most {limit} bytes are allowed; send large input through stdin, and large files with PUT /api/file"
        );
        ApiError::new(ErrorCode::BodyTooLarge, message).with("limit", limit)
    };
    let expected = hyper::body::Body::size_hint(&body);
    if expected.lower() > limit as u64 {
        return Err(too_large());
    }
    let mut held = app.hold();
    let mut first: Option<Bytes> = None;
    let mut all = BytesMut::new();
    let pause = app.limits.body_timeout;
    let stalled = |_| ApiError::invalid("body", format!("no data for {pause:?}; send it again"));
    while let Some(frame) = next_frame(&mut body, pause).await.map_err(stalled)? {
        let frame = frame.map_err(|e| ApiError::invalid("body", format!("incomplete: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if !is_counted {
            held.grow(data.len())?;
        }
        let size = all.len() + first.as_ref().map_or(0, Bytes::len);
        if size + data.len() > limit {
            return Err(too_large());
        }
        match first.take() {
            // Nearly every body has one piece, which need not be copied.
            None if all.is_empty() => first = Some(data),
            Some(before) => {
                let exact = expected.exact().and_then(|n| usize::try_from(n).ok());
                all.reserve(exact.unwrap_or(before.len() + data.len()));
                all.extend_from_slice(&before);
                all.extend_from_slice(&data);
            }
            None => all.extend_from_slice(&data),
        }
    }
    Ok((first.unwrap_or_else(|| all.freeze()), held))
}

/// Waits for a piece of a body, at most for this time. Most bodies arrive with their head, and hyper passes them on when
/// it is polled again. Only for others a timer is set.
async fn next_frame(
    body: &mut Body,
    pause: Duration,
) -> Result<Option<Result<Frame<Bytes>, axum::Error>>, tokio::time::error::Elapsed> {
    let mut frame = pin!(body.frame());
    let mut is_first = true;
    let at_once = poll_fn(|context| match frame.as_mut().poll(context) {
        Poll::Ready(frame) => Poll::Ready(Some(frame)),
        Poll::Pending if is_first => {
            is_first = false;
            context.waker().wake_by_ref();
            Poll::Pending
        }
        Poll::Pending => Poll::Ready(None),
    });
    match at_once.await {
        Some(frame) => Ok(frame),
        None => tokio::time::timeout(pause, frame).await,
    }
}
