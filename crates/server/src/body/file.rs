//! Bodies with the bytes of an open file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use sandcrab_workspace::read_cached;
use tokio::task::JoinHandle;

use crate::error::ApiError;
use crate::file_threads::{DropOnThread, FileThreads, STEP_TIMEOUT};
use crate::origin::Origin;
use crate::outgoing::{Outgoing, SpareBuffer};

/// Size of a piece in relation to other bodies. Raw bytes are only copied, so fewer and larger pieces are faster.
const PIECES: usize = 8;

/// A body with a range of a file. What is in the page cache is read when the connection takes it. Anything else is read on a
/// thread, one piece ahead, unless memory is scarce. If the file shrinks meanwhile, the body breaks off.
pub(crate) fn body(
    file: DropOnThread<File>,
    range: Range<u64>,
    threads: FileThreads,
    outgoing: Outgoing,
    origin: Origin,
) -> Body {
    let (file, spare) = (Arc::new(file), SpareBuffer::default());
    let reader = Reader { file, range, threads, outgoing, spare, origin, ahead: None };
    Body::from_stream(stream::unfold(Some(reader), |reader| async move { reader?.next().await }))
}

type Piece = Result<Bytes, ApiError>;

/// A requested piece.
enum Requested {
    /// It was in the page cache.
    Read(Piece),
    /// A thread reads it.
    Reading(JoinHandle<Piece>),
}

struct Reader {
    file: Arc<DropOnThread<File>>,
    /// What has not been requested yet.
    range: Range<u64>,
    threads: FileThreads,
    outgoing: Outgoing,
    /// The buffer of a piece that was sent.
    spare: SpareBuffer,
    origin: Origin,
    /// The next piece.
    ahead: Option<Requested>,
}

impl Reader {
    /// Begins to read the next piece. `None` at the end.
    fn request(&mut self) -> Option<Requested> {
        let about = (self.outgoing.piece_bytes() * PIECES) as u64;
        let piece = self.range.start..self.range.end.min(self.range.start.saturating_add(about));
        let size = usize::try_from(piece.end - piece.start).ok().filter(|size| *size > 0)?;
        let mut buffer = self.outgoing.buffer(&self.spare, size);
        let cached = self.file.get().and_then(|file| read_cached(file, &mut buffer, piece.start).transpose());
        if let Some(cached) = cached {
            return Some(Requested::Read(match cached {
                Ok(count) => {
                    self.range.start += count as u64;
                    Ok(buffer.into_bytes(count))
                }
                Err(error) => Err(ApiError::internal(error.to_string())),
            }));
        }
        self.range.start = piece.end;
        let (file, threads) = (Arc::clone(&self.file), self.threads.clone());
        Some(Requested::Reading(tokio::spawn(async move {
            let read = threads.run(STEP_TIMEOUT, move || {
                let file = file.get().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
                read_exact(file, &mut buffer, piece.start).map(|()| buffer.into_bytes(size))
            });
            read.await?.map_err(|e| ApiError::internal(e.to_string()))
        })))
    }

    async fn next(mut self) -> Option<(io::Result<Bytes>, Option<Self>)> {
        let current = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.request()?,
        };
        let piece = match current {
            Requested::Read(piece) => piece,
            Requested::Reading(reading) => {
                if !self.outgoing.is_scarce() {
                    self.ahead = self.request();
                }
                reading.await.map_err(ApiError::internal).and_then(|piece| piece)
            }
        };
        match piece {
            Ok(piece) => Some((Ok(piece), Some(self))),
            Err(error) => {
                let why = error.internal_message().unwrap_or(error.message());
                self.origin.log_broken_off(&why);
                Some((Err(io::Error::other(why.to_owned())), None))
            }
        }
    }
}

/// Reads a piece. The head of the response has the old size, so a file that has become shorter is an error.
fn read_exact(file: &File, piece: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(piece, offset).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("the file has become shorter while it was sent"),
        _ => e,
    })
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
