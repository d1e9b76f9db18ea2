//! [`Display`]: writes the output of a program to the local terminal, on a thread of its own.
//!
//! A terminal that takes no output blocks the thread only. Signals and the detach keys still work, and the connection is not
//! read meanwhile, so that the server repaints instead of sending output that cannot be shown.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::local::ScreenWriter;

/// Pieces of output that wait for the terminal.
const QUEUED_PIECES: usize = 4;
/// How long the terminal may take for the rest at the end.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// The writer to the local terminal.
#[derive(Debug)]
pub(super) struct Display {
    pieces: mpsc::Sender<Piece>,
    ended: oneshot::Receiver<io::Result<()>>,
}

#[derive(Debug)]
enum Piece {
    Output(Bytes),
    /// Everything before it has been written when this is used.
    Mark(oneshot::Sender<()>),
}

/// Permission to write one piece.
#[derive(Debug)]
pub(super) struct DisplayPermit<'a> {
    permit: mpsc::Permit<'a, Piece>,
    pieces: &'a mpsc::Sender<Piece>,
}

impl DisplayPermit<'_> {
    pub(super) fn write(self, bytes: Bytes) {
        self.permit.send(Piece::Output(bytes));
    }

    /// Waits until the terminal fails. Then there is no more room. Cancel safe.
    pub(super) async fn lost(&self) {
        self.pieces.closed().await;
    }
}

impl Display {
    pub(super) fn start(screen: ScreenWriter) -> io::Result<Self> {
        let (pieces, mut queued) = mpsc::channel(QUEUED_PIECES);
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name("display".to_owned()).spawn(move || {
            let mut written = Ok(());
            while written.is_ok()
                && let Some(piece) = queued.blocking_recv()
            {
                match piece {
                    Piece::Output(bytes) => written = screen.write(&bytes),
                    // The other side may have given up.
                    Piece::Mark(mark) => drop(mark.send(())),
                }
            }
            drop(end.send(written));
        })?;
        Ok(Self { pieces, ended })
    }

    /// Waits until there is room for a piece. Cancel safe. The error is that of the terminal.
    pub(super) async fn room(&mut self) -> io::Result<DisplayPermit<'_>> {
        if self.pieces.is_closed() {
            return Err(self.error().await);
        }
        match self.pieces.reserve().await {
            Ok(permit) => Ok(DisplayPermit { permit, pieces: &self.pieces }),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    async fn error(&mut self) -> io::Error {
        match (&mut self.ended).await {
            Ok(Err(error)) => error,
            _ => io::ErrorKind::BrokenPipe.into(),
        }
    }

    /// Waits until everything is written, but not forever.
    pub(super) async fn flush(&self) {
        let (mark, written) = oneshot::channel();
        let flushed = async {
            if self.pieces.send(Piece::Mark(mark)).await.is_ok() {
                // A failed write is reported by the next one.
                drop(written.await);
            }
        };
        drop(tokio::time::timeout(LAST_OUTPUT_TIMEOUT, flushed).await);
    }
}
