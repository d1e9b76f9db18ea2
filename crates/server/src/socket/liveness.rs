//! [`Liveness`]: whether a client is still there, and gets on with what it sends.

use std::time::Duration;

use tokio::time::Instant;

use super::received::Received;
use crate::config::ServerLimits;

/// After how many times [`ServerLimits::socket_ping_after`] a silent client is taken for dead.
const DEAD_AFTER_PINGS: u32 = 3;

/// When a client was heard last. Bytes count as they come: one message may take long to send.
#[derive(Debug)]
pub(super) struct Liveness {
    ping_after: Duration,
    message_patience: Duration,
    heard: Instant,
    is_pinged: bool,
    /// Every byte there was at the last look.
    total: u64,
    /// Of the message that was not complete at the last look: its bytes, and since when there were no more.
    unfinished: usize,
    since: Instant,
}

/// What a look at a client says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    Alive,
    /// It is silent: it has to be sent a ping.
    Ping,
    /// It has not answered.
    Dead,
    /// It has begun a message, and sent nothing more of it for this long.
    Stalled(Duration),
}

impl Liveness {
    pub(super) fn new(limits: &ServerLimits) -> Self {
        let now = Instant::now();
        Self {
            ping_after: limits.socket_ping_after,
            message_patience: limits.body_patience,
            heard: now,
            is_pinged: false,
            total: 0,
            unfinished: 0,
            since: now,
        }
    }

    /// The client is there.
    pub(super) fn heard(&mut self) {
        (self.heard, self.is_pinged) = (Instant::now(), false);
    }

    /// When to look next.
    pub(super) fn deadline(&self) -> Instant {
        let silent = self.silent_until();
        if self.unfinished > 0 { silent.min(self.since + self.message_patience) } else { silent }
    }

    fn silent_until(&self) -> Instant {
        self.heard + self.ping_after * if self.is_pinged { DEAD_AFTER_PINGS } else { 1 }
    }

    /// Looks at what has come.
    pub(super) fn look(&mut self, received: &Received, is_reading: bool) -> Look {
        let now = Instant::now();
        if received.total() != self.total {
            self.total = received.total();
            self.heard();
        }
        // Of a message that is not read nothing can come.
        if received.unfinished() != self.unfinished || !is_reading {
            (self.unfinished, self.since) = (received.unfinished(), now);
        }
        if self.unfinished > 0 && self.since + self.message_patience <= now {
            return Look::Stalled(self.message_patience);
        }
        if self.silent_until() > now {
            return Look::Alive;
        }
        if self.is_pinged {
            return Look::Dead;
        }
        self.is_pinged = true;
        Look::Ping
    }
}
