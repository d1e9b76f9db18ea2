//! [`DecoderThread`]: decodes an archive on a thread of its own, while its content is written.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::codec::{ArchiveFormat, Decoder, Trailer};
use super::error::ArchiveError;

/// Size of a piece, and number of pieces between the threads.
const PIECE_BYTES: usize = 256 << 10;
const PIECES: usize = 8;

/// The content of an archive, which another thread decodes. Dropping it ends the thread with its next piece.
#[derive(Debug)]
pub(super) struct DecoderThread {
    pieces: Receiver<io::Result<Vec<u8>>>,
    used: SyncSender<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
    thread: JoinHandle<Result<Option<Trailer>, ArchiveError>>,
}

impl DecoderThread {
    /// Starts to decode.
    pub(super) fn start(
        input: impl Read + Send + 'static,
        format: Option<ArchiveFormat>,
    ) -> io::Result<Self> {
        let (sender, pieces) = sync_channel(PIECES);
        let (used, free) = sync_channel::<Vec<u8>>(PIECES + 1);
        let run = move || decode(input, format, &sender, &free);
        let thread = std::thread::Builder::new().name("sandcrab-decode".into()).spawn(run)?;
        Ok(Self { pieces, used, piece: Vec::new(), at: 0, thread })
    }

    /// Verifies the archive after its end was read.
    pub(super) fn finish(self) -> Result<Option<Trailer>, ArchiveError> {
        drop(self.pieces);
        let panicked = |_| ArchiveError::Invalid("the decoder failed".into());
        self.thread.join().map_err(panicked)?
    }
}

fn decode(
    input: impl Read,
    format: Option<ArchiveFormat>,
    pieces: &SyncSender<io::Result<Vec<u8>>>,
    free: &Receiver<Vec<u8>>,
) -> Result<Option<Trailer>, ArchiveError> {
    // After an error the reader sees the end of the stream, and asks for the result.
    let mut decoder = Decoder::new(input, format)?;
    loop {
        let mut piece = free.try_recv().unwrap_or_default();
        piece.resize(PIECE_BYTES, 0);
        let mut filled = 0;
        let read = loop {
            match decoder.read(&mut piece[filled..]) {
                Ok(0) => break Ok(()),
                Ok(count) => filled += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break Err(e),
            }
            if filled == piece.len() {
                break Ok(());
            }
        };
        let is_end = filled < piece.len();
        piece.truncate(filled);
        if filled > 0 && pieces.send(Ok(piece)).is_err() {
            return Ok(None);
        }
        if let Err(e) = read {
            drop(pieces.send(Err(e)));
            return Ok(None);
        }
        if is_end {
            return decoder.verify();
        }
    }
}

impl Read for DecoderThread {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for DecoderThread {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.piece.len() {
            let empty = std::mem::take(&mut self.piece);
            if empty.capacity() > 0 {
                drop(self.used.try_send(empty));
            }
            self.at = 0;
            // The other thread has ended if there is no piece.
            if let Ok(piece) = self.pieces.recv() {
                self.piece = piece?;
            }
        }
        Ok(&self.piece[self.at..])
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }
}
