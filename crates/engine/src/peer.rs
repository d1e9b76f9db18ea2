//! [`PeerSilence`]: whether the peer of a TCP connection is still alive.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Time since the last packet of a TCP peer, and the number of unanswered packets since.
///
/// The kernel sends window probes to a peer that does not read, and the kernel of a live peer answers. So the number
/// of unanswered packets distinguishes a vanished peer from one that does not read. `TCP_USER_TIMEOUT` does not: it
/// closes the connection in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSilence {
    /// Time since its last acknowledgement.
    pub time: Duration,
    /// Number of consecutive unanswered packets: retransmissions or window probes.
    pub unanswered: u32,
}

impl PeerSilence {
    /// Queries a connection; `None` if it is not a TCP connection.
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

    /// The kernel sends the first probe after 0.2 s, and doubles the interval each time.
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
            // One may be in transit.
            assert!(silence.unanswered <= 1, "{silence:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(PeerSilence::of(&socket).unwrap().time < Duration::from_secs(3));
        drop(idle);
        let (socket, _other) = UnixStream::pair().unwrap();
        assert_eq!(PeerSilence::of(&socket), None);
    }
}
