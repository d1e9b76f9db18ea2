//! Local folders that are copied to and from the sandbox, as archives.

use std::io::{self, Write};
use std::path::Path;
use std::pin::pin;

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt, stream};
use sandcrab_client::RawOutput;
use sandcrab_workspace::staging::Records;
use sandcrab_workspace::{ArchiveError, Compression, PackOptions, PieceReader, Target, Unpacked, pack};
use tokio::sync::{mpsc, oneshot};

use crate::end_signals::EndSignals;
use crate::failure::Failure;
use crate::progress::Progress;

/// Size of a piece, and number of pieces between the connection and the thread.
const PIECE_BYTES: usize = 256 << 10;
const PIECES: usize = 4;

fn failure(path: &Path, error: &ArchiveError) -> Failure {
    Failure::local_file("copy", path, &io::Error::other(error.to_string()))
}

/// Passes what is packed on to the connection.
struct PieceWriter {
    pieces: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        if piece.is_empty() {
            return Ok(());
        }
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.pieces.blocking_send(Ok(piece.into())).map_err(gone)
    }
}

/// A local folder as an archive, packed on a thread.
pub(crate) fn archive(
    folder: &Path,
) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + use<>, Failure> {
    let (sender, receiver) = mpsc::channel(PIECES);
    let path = folder.to_owned();
    let work = move || {
        let output = PieceWriter { pieces: sender.clone(), piece: Vec::new() };
        let options = PackOptions { compression: Some(Compression::default()), ..PackOptions::default() };
        if let Err(e) = pack(&path, &options, output) {
            // The body breaks off, and the folder in the sandbox stays.
            drop(sender.blocking_send(Err(io::Error::other(e.to_string()))));
        }
    };
    std::thread::Builder::new().spawn(work).map_err(|_| Failure::no_thread())?;
    Ok(stream::unfold(receiver, |mut receiver| async move {
        let piece = receiver.recv().await?;
        Some((piece, receiver))
    }))
}

/// Replaces a local folder by an archive. After an error it is as before. A sandbox is not trusted: also for root, the
/// files belong to the user of this program, and have no set-user-id bits or capabilities. A signal is an error.
pub(crate) async fn unpack(archive: RawOutput, to: &Path, progress: &Progress) -> Result<Unpacked, Failure> {
    let signals = EndSignals::listen()?;
    let pieces = stream::try_unfold((archive, signals), |(mut archive, mut signals)| async move {
        let piece = tokio::select! {
            piece = archive.chunk() => piece?,
            signal = signals.next() => return Err(Failure::interrupted(signal, "nothing was changed")),
        };
        Ok::<_, Failure>(piece.map(|piece| (piece, (archive, signals))))
    });
    unpack_pieces(pieces.inspect_ok(|piece| progress.advance(piece.len() as u64)), to).await
}

async fn unpack_pieces(
    archive: impl Stream<Item = Result<Bytes, Failure>>,
    to: &Path,
) -> Result<Unpacked, Failure> {
    let (sender, mut pieces) = mpsc::channel(PIECES);
    let (result, unpacked) = oneshot::channel();
    let target = std::path::absolute(to).map_err(|error| Failure::local_file("write", to, &error))?;
    let work = move || {
        let input = PieceReader::new(move || pieces.blocking_recv());
        let unpacked = Target::choose(&target, &[], &[])
            .map_err(ArchiveError::from)
            .and_then(|target| target.untrusted().unpack(input, None, false, &Records::none()));
        drop(result.send(unpacked));
    };
    std::thread::Builder::new().spawn(work).map_err(|_| Failure::no_thread())?;
    let fed = feed(archive, sender).await;
    // Also after an error: the thread then removes what it has unpacked.
    let unpacked = unpacked.await.map_err(|_| Failure::no_thread());
    fed?;
    unpacked?.map_err(|error| failure(to, &error))
}

/// Passes an archive on to the thread. Without an end, the thread fails.
async fn feed(
    archive: impl Stream<Item = Result<Bytes, Failure>>,
    sender: mpsc::Sender<Option<Bytes>>,
) -> Result<(), Failure> {
    let mut archive = pin!(archive);
    while let Some(bytes) = archive.try_next().await? {
        // The thread has failed if it takes no more.
        if sender.send(Some(bytes)).await.is_err() {
            return Ok(());
        }
    }
    drop(sender.send(None).await);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    /// A folder as the pieces of an archive.
    fn pieces(folder: &Path) -> Vec<Result<Bytes, Failure>> {
        let archive = pack(folder, &PackOptions::default(), Vec::new()).unwrap().output;
        archive.chunks(1000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// As root, the owner and capabilities too.
    #[tokio::test]
    async fn a_sandbox_gives_no_privileges() {
        let from = tempfile::tempdir().unwrap();
        let file = from.path().join("file");
        std::fs::write(&file, "x").unwrap();
        // Fails for other users than root.
        drop(std::os::unix::fs::chown(&file, Some(1234), Some(1234)));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o6755)).unwrap();
        let to = tempfile::tempdir().unwrap();
        let folder = to.path().join("folder");
        unpack_pieces(stream::iter(pieces(from.path())), &folder).await.unwrap();
        let copied = folder.join("file").metadata().unwrap();
        assert_eq!((copied.mode() & 0o7777, copied.uid()), (0o755, to.path().metadata().unwrap().uid()));
    }

    #[tokio::test]
    async fn a_broken_connection_leaves_nothing() {
        let from = tempfile::tempdir().unwrap();
        std::fs::write(from.path().join("file"), vec![b'x'; 100_000]).unwrap();
        let to = tempfile::tempdir().unwrap();
        let folder = to.path().join("folder");
        let mut broken = pieces(from.path());
        broken.truncate(50);
        broken.push(Err(Failure::no_thread()));
        assert!(unpack_pieces(stream::iter(broken), &folder).await.is_err());
        assert_eq!(names(to.path()), Vec::<String>::new());
        unpack_pieces(stream::iter(pieces(from.path())), &folder).await.unwrap();
        assert_eq!((names(to.path()), names(&folder)), (vec!["folder".into()], vec!["file".into()]));
    }
}
