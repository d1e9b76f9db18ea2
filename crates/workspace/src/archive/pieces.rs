//! [`PieceReader`]: an archive that arrives in pieces.

use std::io::{self, Read};

use bytes::{Buf, Bytes};

/// Reads the pieces of an archive, for the thread that unpacks it.
///
/// `next` waits for a piece. It returns `Some(None)` at the end of the archive, and `None` if the sender has given up: then
/// the archive is incomplete.
#[derive(Debug)]
pub struct PieceReader<F> {
    next: F,
    piece: Bytes,
    is_complete: bool,
}

impl<F: FnMut() -> Option<Option<Bytes>>> PieceReader<F> {
    /// A reader at the beginning of the archive.
    pub fn new(next: F) -> Self {
        Self { next, piece: Bytes::new(), is_complete: false }
    }
}

impl<F: FnMut() -> Option<Option<Bytes>>> Read for PieceReader<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !self.is_complete {
            match (self.next)() {
                Some(Some(piece)) => self.piece = piece,
                Some(None) => self.is_complete = true,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let count = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_without_an_end_are_incomplete() {
        let mut pieces =
            [Some(Bytes::from("ab")), Some(Bytes::new()), Some(Bytes::from("c")), None].into_iter();
        let mut text = String::new();
        PieceReader::new(|| pieces.next()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "abc");
        let mut cut = [Some(Bytes::from("ab"))].into_iter();
        let error = PieceReader::new(|| cut.next()).read_to_string(&mut text).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
