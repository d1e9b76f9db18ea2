//! [`Progress`]: progress notifications of a call.

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::limits::PROGRESS_INTERVAL;

/// Sends progress notifications for a call whose client has asked for them.
#[derive(Debug)]
pub(crate) struct Progress {
    recipient: Option<(Peer<RoleServer>, ProgressToken)>,
    started: Instant,
    interval: Interval,
    last_seconds: f64,
}

impl Progress {
    pub(crate) fn new(recipient: Option<(Peer<RoleServer>, ProgressToken)>) -> Self {
        let mut interval = interval(PROGRESS_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        interval.reset();
        Self { recipient, started: Instant::now(), interval, last_seconds: -1.0 }
    }

    /// Waits until the next notification is due; forever if there is no recipient. Cancel safe.
    pub(crate) async fn due(&mut self) {
        if self.recipient.is_none() {
            std::future::pending::<()>().await;
        }
        self.interval.tick().await;
    }

    /// Sends a notification.
    pub(crate) async fn send(&mut self, message: Option<String>) {
        let Some((peer, token)) = &self.recipient else { return };
        let elapsed = self.started.elapsed().as_secs_f64();
        // The protocol requires that it increases.
        let seconds = if elapsed > self.last_seconds { elapsed } else { self.last_seconds + 0.001 };
        self.last_seconds = seconds;
        let mut progress = ProgressNotificationParam::new(token.clone(), seconds);
        progress.message = message;
        // A client that is gone needs no progress.
        drop(peer.notify_progress(progress).await);
    }
}
