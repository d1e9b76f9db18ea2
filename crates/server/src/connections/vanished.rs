//! [`VanishedWatch`]: notices a client that has vanished without a word while an answer waits for it.
//!
//! The kernel's keep-alive does not: it asks only while nothing waits to be sent, and what waits is sent again for a
//! quarter of an hour and longer. Meanwhile a command that waits for its reader would stand still. A client that is there and
//! does not read, such as a pager, is left alone for as long as it likes: its kernel answers.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use sandcrab_engine::PeerSilence;
use tokio::time::Sleep;

/// How long a client may leave everything unanswered while an answer waits for it.
const VANISHED_AFTER: Duration = Duration::from_secs(60);
/// How many packets it has to leave unanswered: to a client that has not read for long, the kernel sends one in two minutes.
const UNANSWERED_PACKETS: u32 = 2;
/// How often a client that keeps an answer waiting is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Looks after a client while a write to it has to wait.
#[derive(Debug, Default)]
pub(super) struct VanishedWatch {
    next_look: Option<Pin<Box<Sleep>>>,
}

impl VanishedWatch {
    /// Goes over the result of a write: one that waits becomes an error when the client is gone.
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
                let why = "the client has vanished: it answers nothing any more";
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
    fn only_silence_in_spite_of_questions_counts() {
        let silence = |seconds, unanswered| PeerSilence { time: Duration::from_secs(seconds), unanswered };
        // A pager that was left for the night: the kernel asks it every two minutes.
        assert!(!has_vanished(silence(119, 0)) && !has_vanished(silence(120, 1)));
        // A network that is away for a moment.
        assert!(!has_vanished(silence(20, 6)));
        assert!(has_vanished(silence(60, 8)) && has_vanished(silence(240, 2)));
    }
}
