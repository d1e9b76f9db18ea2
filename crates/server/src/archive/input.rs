//! [`ArchiveSender`]: the bytes of an archive, from a connection to the thread that unpacks it.

use std::io::Read;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use sandcrab_workspace::PieceReader;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::app::App;
use crate::error::ApiError;

/// Number of pieces between the connection and the thread.
const PIECES: usize = 4;

/// Minimum number of bytes that a client sends within the timeout of a body, unless the archive ends. A slower one would hold
/// its permit for any time.
const MIN_BYTES: usize = 64 << 10;

/// Takes the bytes of an archive. If it is dropped before [`ArchiveSender::end`], the archive is incomplete.
#[derive(Debug)]
pub(crate) struct ArchiveSender(mpsc::Sender<Option<Bytes>>);

/// Connects to a thread that unpacks an archive.
pub(crate) fn archive_channel() -> (ArchiveSender, impl Read + Send + 'static) {
    let (sender, mut pieces) = mpsc::channel(PIECES);
    (ArchiveSender(sender), PieceReader::new(move || pieces.blocking_recv()))
}

impl ArchiveSender {
    /// Sends bytes. Returns false if the thread needs no more.
    pub(crate) async fn send(&self, bytes: Bytes) -> bool {
        self.0.send(Some(bytes)).await.is_ok()
    }

    /// Ends the archive.
    pub(crate) async fn end(self) {
        drop(self.0.send(None).await);
    }
}

/// Sends a body to its end.
pub(crate) async fn send_body(app: &App, mut body: Body, archive: ArchiveSender) -> Result<(), ApiError> {
    let pause = app.limits.body_timeout;
    let stalled = |_| {
        let why = format!("less than {MIN_BYTES} bytes within {pause:?}; send it again");
        ApiError::invalid("body", why)
    };
    let (mut received, mut deadline) = (0, Instant::now() + pause);
    while let Some(frame) = tokio::time::timeout_at(deadline, body.frame()).await.map_err(stalled)? {
        let frame = frame.map_err(|e| ApiError::invalid("body", format!("incomplete: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        received += data.len();
        let waiting = Instant::now();
        if !archive.send(data).await {
            return Ok(());
        }
        if received >= MIN_BYTES {
            (received, deadline) = (0, Instant::now() + pause);
        } else {
            // The client is not slow while the thread is.
            deadline += waiting.elapsed();
        }
    }
    archive.end().await;
    Ok(())
}
