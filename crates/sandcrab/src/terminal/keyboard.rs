//! [`Keyboard`]: what is typed.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc;

/// The most bytes of one read.
const PIECE_BYTES: usize = 4 << 10;
/// Reads that wait to be handled.
const QUEUED_PIECES: usize = 4;

/// Reads a terminal on a thread of its own, without making it non-blocking, which other programs that use it would notice.
/// After it is dropped, no more keys are read.
#[derive(Debug)]
pub(super) struct Keyboard {
    pieces: mpsc::Receiver<io::Result<Vec<u8>>>,
    /// The thread ends when this is closed.
    _stop: UnixStream,
}

impl Keyboard {
    pub(super) fn start(terminal: OwnedFd) -> io::Result<Self> {
        let (stop, end) = UnixStream::pair()?;
        let (sender, pieces) = mpsc::channel(QUEUED_PIECES);
        std::thread::Builder::new().name("keyboard".to_owned()).spawn(move || {
            while let Some(piece) = read(&terminal, &end).transpose() {
                if sender.blocking_send(piece).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { pieces, _stop: stop })
    }

    /// The next keys; empty when the terminal was closed. Cancel safe.
    pub(super) async fn read(&mut self) -> io::Result<Vec<u8>> {
        self.pieces.recv().await.unwrap_or(Ok(Vec::new()))
    }
}

/// The next keys; `None` when the terminal or the stop socket was closed.
fn read(terminal: &OwnedFd, stop: &UnixStream) -> io::Result<Option<Vec<u8>>> {
    loop {
        let mut polled = [PollFd::new(terminal, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) => (),
            Err(Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        }
        if !polled[1].revents().is_empty() {
            return Ok(None);
        }
        let mut bytes = vec![0; PIECE_BYTES];
        match rustix::io::read(terminal, &mut bytes) {
            // Closed.
            Ok(0) | Err(Errno::IO) => return Ok(None),
            Ok(length) => {
                bytes.truncate(length);
                return Ok(Some(bytes));
            }
            Err(Errno::INTR | Errno::AGAIN) => (),
            Err(e) => return Err(e.into()),
        }
    }
}
