//! [`Liveness`]: whether a client is alive, and makes progress with its messages.

use std::time::Duration;

use tokio::time::Instant;

use super::received::Received;
use crate::config::ServerLimits;

/// Multiple of [`ServerLimits::socket_ping_after`] after which a silent client counts as dead.
const DEAD_AFTER_PINGS: u32 = 3;

/// The time of the last data from a client. Bytes count as they arrive: one message may take long to send.
#[derive(Debug)]
pub(crate) struct Liveness {
    ping_after: Duration,
    message_timeout: Duration,
    heard: Instant,
    is_pinged: bool,
    /// Total number of bytes at the last check.
    total: u64,
    /// For the message that was incomplete at the last check: its bytes, and the time since which there were no more.
    unfinished: usize,
    since: Instant,
}

/// Result of a check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LivenessCheck {
    Alive,
    /// It is silent and must be pinged.
    Ping,
    /// It has not answered.
    Dead,
    /// It has begun a message, and sent no more of it for this long.
    Stalled(Duration),
}

impl Liveness {
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        let now = Instant::now();
        Self {
            ping_after: limits.socket_ping_after,
            message_timeout: limits.body_timeout,
            heard: now,
            is_pinged: false,
            total: 0,
            unfinished: 0,
            since: now,
        }
    }

    /// The client has sent something.
    pub(crate) fn heard(&mut self) {
        (self.heard, self.is_pinged) = (Instant::now(), false);
    }

    /// Time of the next check.
    pub(crate) fn deadline(&self) -> Instant {
        let silent = self.silent_until();
        if self.unfinished > 0 { silent.min(self.since + self.message_timeout) } else { silent }
    }

    fn silent_until(&self) -> Instant {
        self.heard + self.ping_after * if self.is_pinged { DEAD_AFTER_PINGS } else { 1 }
    }

    /// Checks the received data.
    pub(crate) fn check(&mut self, received: &Received, is_reading: bool) -> LivenessCheck {
        let now = Instant::now();
        if received.total() != self.total {
            self.total = received.total();
            self.heard();
        }
        // A message that is not read cannot grow.
        if received.unfinished() != self.unfinished || !is_reading {
            (self.unfinished, self.since) = (received.unfinished(), now);
        }
        if self.unfinished > 0 && self.since + self.message_timeout <= now {
            return LivenessCheck::Stalled(self.message_timeout);
        }
        if self.silent_until() > now {
            return LivenessCheck::Alive;
        }
        if self.is_pinged {
            return LivenessCheck::Dead;
        }
        self.is_pinged = true;
        LivenessCheck::Ping
    }
}
