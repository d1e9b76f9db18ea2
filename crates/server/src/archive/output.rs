//! The body of a response that a thread writes.

use std::io::{self, Write};
use std::time::Duration;

use axum::body::Body;
use futures_util::stream;
use sandcrab_workspace::{ArchiveError, Packed};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::ArchivePermit;
use crate::app::App;
use crate::files::Place;
use crate::origin::Origin;

/// Size of a piece, and number of pieces between the thread and the connection.
const PIECE_BYTES: usize = 256 << 10;
const PIECES: usize = 2;

/// Maximum time for which a client may take nothing. Then the body breaks off, because others wait for the permit.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

/// What the thread sends. Without an end, the body breaks off.
enum Message {
    Piece(Vec<u8>),
    End,
}

/// Collects pieces, and waits until the client reads, at most for [`CLIENT_TIMEOUT`].
pub(crate) struct PieceWriter {
    sender: mpsc::Sender<Message>,
    runtime: Handle,
    piece: Vec<u8>,
}

impl PieceWriter {
    fn new(sender: mpsc::Sender<Message>) -> Self {
        Self { sender, runtime: Handle::current(), piece: Vec::with_capacity(PIECE_BYTES) }
    }

    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.runtime.block_on(self.sender.send_timeout(Message::Piece(piece), CLIENT_TIMEOUT)).map_err(gone)
    }
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() { Ok(()) } else { self.send() }
    }
}

/// A body that `pack` writes, with the permissions of the user of the commands. If the client disconnects, or
/// does not read, writing fails.
pub(crate) fn body<F>(app: &App, place: Place, permit: ArchivePermit, origin: Origin, pack: F) -> Body
where
    F: FnOnce(PieceWriter) -> Result<Packed<PieceWriter>, ArchiveError> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(PIECES);
    let writer = PieceWriter::new(sender.clone());
    app.tasks.spawn(async move {
        let is_gone =
            |e: &ArchiveError| matches!(e, ArchiveError::Output(e) if e.kind() == io::ErrorKind::BrokenPipe);
        let packed = place.run_permitted(permit, move || match pack(writer) {
            Err(e) if is_gone(&e) => Ok(None),
            packed => packed.map(|_| Some(())),
        });
        match packed.await {
            Ok(Some(())) => drop(sender.send_timeout(Message::End, CLIENT_TIMEOUT).await),
            // The client has disconnected, or does not read.
            Ok(None) => {}
            Err(error) => {
                origin.log("an archive", &error);
                origin.log_broken_off(&error.message());
            }
        }
    });
    let outgoing = app.outgoing.clone();
    Body::from_stream(stream::unfold(Some(receiver), move |receiver| {
        let outgoing = outgoing.clone();
        async move {
            let mut receiver = receiver?;
            match receiver.recv().await {
                Some(Message::Piece(piece)) => Some((Ok(outgoing.count(piece)), Some(receiver))),
                Some(Message::End) => None,
                None => Some((Err(io::Error::other("the archive broke off")), None)),
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock advances by itself while all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_does_not_block_for_ever() {
        let (sender, mut receiver) = mpsc::channel(PIECES);
        let mut writer = PieceWriter::new(sender);
        let started = tokio::time::Instant::now();
        let (done, written) = tokio::sync::oneshot::channel();
        let write = move || {
            let pieces = (0..=PIECES).map(|_| writer.write_all(&[0; PIECE_BYTES]).map_err(|e| e.kind()));
            done.send(pieces.collect::<Vec<_>>()).unwrap();
        };
        let thread = std::thread::spawn(write);
        let written = written.await.unwrap();
        assert_eq!(written, [Ok(()), Ok(()), Err(io::ErrorKind::BrokenPipe)]);
        assert!(started.elapsed() >= CLIENT_TIMEOUT);
        thread.join().unwrap();
        // What was written before can be read, and then the body breaks off.
        for _ in 0..PIECES {
            assert!(matches!(receiver.recv().await, Some(Message::Piece(_))));
        }
        assert!(receiver.recv().await.is_none());
    }
}
