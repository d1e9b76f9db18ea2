//! [`PeerSilence`]: whether the other side of a TCP connection is still there.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// How long the other side of a TCP connection has said nothing, and how often it was asked in vain since.
///
/// A peer that does not read is asked again and again whether it has room by now, and its kernel answers. So many questions
/// without an answer tell one that is gone from one that takes its time. `TCP_USER_TIMEOUT` does not: it ends the connection
/// to either of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSilence {
    /// How long ago it last acknowledged anything.
    pub time: Duration,
    /// How many packets in a row it has left unanswered: data that was sent again, or questions for room.
    pub unanswered: u32,
}

impl PeerSilence {
    /// Looks at a connection; `None` if it is not a TCP connection.
    pub fn of(socket: &impl AsFd) -> Option<Self> {
        Self::of_descriptor(socket.as_fd())
    }

    fn of_descriptor(socket: BorrowedFd<'_>) -> Option<Self> {
        let info = crate::sys::tcp_info(socket).ok()?;
        Some(Self {
            time: Duration::from_millis(info.tcpi_last_ack_recv.into()),
            unanswered: info.tcpi_retransmits.max(info.tcpi_probes).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    /// The kernel asks after 0.2 s for the first time, then after twice as long each time.
    #[test]
    fn a_peer_that_does_not_read_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let idle = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3) {
            match socket.write(&[0; 65_536]) {
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                Ok(_) => continue,
            }
            let silence = PeerSilence::of(&socket).unwrap();
            // One may be under way.
            assert!(silence.unanswered <= 1, "{silence:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(PeerSilence::of(&socket).unwrap().time < Duration::from_secs(3));
        drop(idle);
        let (socket, _other) = UnixStream::pair().unwrap();
        assert_eq!(PeerSilence::of(&socket), None);
    }
}
