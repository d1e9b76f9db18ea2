//! Bodies with the bytes of an open file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use tokio::task::JoinHandle;

use crate::error::ApiError;
use crate::file_threads::{DropOnThread, FileThreads, STEP_TIMEOUT};
use crate::origin::Origin;
use crate::outgoing::Outgoing;

/// Size of a piece in relation to other bodies. Raw bytes are only copied, so fewer and larger pieces are faster.
const PIECES: usize = 8;

/// A body with a range of a file. One piece is read ahead, unless memory is scarce. If the file shrinks meanwhile, the body
/// breaks off.
pub(crate) fn body(
    file: DropOnThread<File>,
    range: Range<u64>,
    threads: FileThreads,
    outgoing: Outgoing,
    origin: Origin,
) -> Body {
    let reader = Reader { file: Arc::new(file), range, threads, outgoing, origin, ahead: None };
    Body::from_stream(stream::unfold(Some(reader), |reader| async move { reader?.next().await }))
}

type Piece = Result<Bytes, ApiError>;

struct Reader {
    file: Arc<DropOnThread<File>>,
    /// What has not been requested yet.
    range: Range<u64>,
    threads: FileThreads,
    outgoing: Outgoing,
    origin: Origin,
    /// The next piece.
    ahead: Option<JoinHandle<Piece>>,
}

impl Reader {
    /// Begins to read the next piece. `None` at the end.
    fn request(&mut self) -> Option<JoinHandle<Piece>> {
        let about = (self.outgoing.piece_bytes() * PIECES) as u64;
        let end = self.range.end.min(self.range.start.saturating_add(about));
        let piece = self.range.start..end;
        if piece.is_empty() {
            return None;
        }
        self.range.start = end;
        let (file, outgoing) = (Arc::clone(&self.file), self.outgoing.clone());
        let threads = self.threads.clone();
        Some(tokio::spawn(async move {
            let read = threads.run(STEP_TIMEOUT, move || {
                let file = file.get().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
                read_exact(file, piece).map(|piece| outgoing.count(piece))
            });
            read.await?.map_err(|e| ApiError::internal(e.to_string()))
        }))
    }

    async fn next(mut self) -> Option<(io::Result<Bytes>, Option<Self>)> {
        let current = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.request()?,
        };
        if !self.outgoing.is_scarce() {
            self.ahead = self.request();
        }
        match current.await.map_err(ApiError::internal).and_then(|piece| piece) {
            Ok(piece) => Some((Ok(piece), Some(self))),
            Err(error) => {
                let why = error.internal_message().unwrap_or(error.message());
                self.origin.log_broken_off(&why);
                Some((Err(io::Error::other(why.to_owned())), None))
            }
        }
    }
}

/// Reads a range. The head of the response has the old size, so a file that has become shorter is an error.
fn read_exact(file: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
    let mut piece = vec![0; usize::try_from(range.end - range.start).map_err(io::Error::other)?];
    file.read_exact_at(&mut piece, range.start).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("the file has become shorter while it was sent"),
        _ => e,
    })?;
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::origin::tests::{Log, origin};
    use crate::outgoing::PIECE_BYTES;

    fn of(file: File, range: Range<u64>, outgoing: &Outgoing) -> Body {
        body(DropOnThread::new(file), range, FileThreads::default(), outgoing.clone(), origin())
    }

    #[tokio::test]
    async fn ranges_are_sent_whole() {
        let content: Vec<u8> = (0..3_000_000).map(|number| b"0123456789a"[number % 11]).collect();
        for outgoing in [Outgoing::new(1 << 30), Outgoing::new(0)] {
            for range in [0..3_000_000, 7..8, 5..5, 1_000_000..2_999_999_usize] {
                let file = tempfile::tempfile().unwrap();
                file.write_all_at(&content, 0).unwrap();
                let part = &content[range.clone()];
                let range = range.start as u64..range.end as u64;
                assert!(of(file, range, &outgoing).collect().await.unwrap().to_bytes() == part);
                assert_eq!(outgoing.held_bytes(), 0);
            }
        }
    }

    #[tokio::test]
    async fn a_file_that_shrinks_breaks_off() {
        let (log, _guard) = Log::capture();
        let size = (PIECE_BYTES * PIECES * 3) as u64;
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        let other = file.try_clone().unwrap();
        // Without read-ahead.
        let mut body = of(file, 0..size, &Outgoing::new(0));
        assert!(body.frame().await.unwrap().is_ok());
        other.set_len(6).unwrap();
        assert!(body.frame().await.unwrap().is_err() && body.frame().await.is_none());
        log.assert_named();
    }
}
