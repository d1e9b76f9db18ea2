//! [`VanishedWatch`]: detects a client that has vanished while a response waits for it.
//!
//! The kernel's keep-alive does not: it probes only while no data waits to be sent, and waiting data is retransmitted
//! for 15 minutes and longer. Meanwhile a command that waits for its reader would block. A client that is alive and
//! does not read, such as a pager, is never disconnected: its kernel answers.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use sandcrab_engine::PeerSilence;
use tokio::time::Sleep;

/// Maximum time without an answer of a client for which a response waits.
const VANISHED_AFTER: Duration = Duration::from_secs(60);
/// Minimum number of unanswered packets: for a client that has not read for long, the kernel sends one in two
/// minutes.
const UNANSWERED_PACKETS: u32 = 2;
/// Interval at which a client with a waiting response is checked.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Checks a client while a write to it blocks.
#[derive(Debug, Default)]
pub(super) struct VanishedWatch {
    next_look: Option<Pin<Box<Sleep>>>,
}

impl VanishedWatch {
    /// Processes the result of a write: a blocked one becomes an error when the client has vanished.
    pub(super) fn watch<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        socket: &impl AsFd,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.next_look.is_some() {
                self.next_look = None;
            }
            return written;
        }
        let timer = || Box::pin(tokio::time::sleep(LOOK_INTERVAL));
        let mut next_look = self.next_look.take().unwrap_or_else(timer);
        while next_look.as_mut().poll(cx).is_ready() {
            if PeerSilence::of(socket).is_some_and(has_vanished) {
                let why = "the client does not respond";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)));
            }
            next_look = timer();
        }
        self.next_look = Some(next_look);
        Poll::Pending
    }
}

fn has_vanished(silence: PeerSilence) -> bool {
    silence.time >= VANISHED_AFTER && silence.unanswered >= UNANSWERED_PACKETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unanswered_probes_count() {
        let silence = |seconds, unanswered| PeerSilence { time: Duration::from_secs(seconds), unanswered };
        // A pager that was left overnight: the kernel probes it every two minutes.
        assert!(!has_vanished(silence(119, 0)) && !has_vanished(silence(120, 1)));
        // A short network outage.
        assert!(!has_vanished(silence(20, 6)));
        assert!(has_vanished(silence(60, 8)) && has_vanished(silence(240, 2)));
    }
}
