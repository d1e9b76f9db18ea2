//! [`Retry`]: retries with exponential backoff.

use std::time::Duration;

use sandcrab_api::ErrorCode;
use tokio::time::Instant;

use crate::ClientError;

/// Default of how long a server may be unreachable before a call or a stream fails
/// ([`crate::Client::with_reconnect_timeout`]). A crashed server is back within seconds.
pub const RESUME_WINDOW: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Exponential backoff until a window has passed. Keeps its state when a waiting future is dropped.
#[derive(Debug)]
pub(crate) struct Retry {
    window: Duration,
    failing: Option<Failing>,
}

#[derive(Debug)]
struct Failing {
    /// `None`: never.
    give_up_at: Option<Instant>,
    next_at: Instant,
    pause: Duration,
}

impl Retry {
    pub(crate) fn new(window: Duration) -> Self {
        Self { window, failing: None }
    }

    /// Records a failure. Returns it if it is not temporary, or if the window has passed.
    pub(crate) fn failed(&mut self, error: ClientError) -> Result<(), ClientError> {
        if !error.is_temporary() {
            return Err(error);
        }
        let now = Instant::now();
        let failing = self.failing.get_or_insert_with(|| Failing {
            give_up_at: now.checked_add(self.window),
            next_at: now,
            pause: FIRST_PAUSE,
        });
        if failing.give_up_at.is_some_and(|at| now >= at) {
            return Err(error);
        }
        // The server asks for a second (`Retry-After`).
        let pause =
            if error.code() == Some(ErrorCode::LimitExceeded) { LONGEST_PAUSE } else { failing.pause };
        failing.next_at = now + pause;
        failing.pause = (failing.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }

    /// The same for an attempt that began at a time. If the server has kept it open for long, it was reachable until now: a
    /// proxy that cuts a wait every minute never makes it fail. A proxy that answers by itself may have had no connection to
    /// the server for all that time.
    pub(crate) fn attempt_failed(&mut self, begun: Instant, error: ClientError) -> Result<(), ClientError> {
        let was_connected = !matches!(error, ClientError::Unreachable { .. }) && !error.is_of_gateway();
        if was_connected && self.is_long(begun) {
            self.works();
        }
        self.failed(error)
    }

    /// Whether an attempt that began at a time took so long that it may have waited for the server.
    pub(crate) fn is_long(&self, begun: Instant) -> bool {
        begun.elapsed() >= self.window.min(RESUME_WINDOW)
    }

    /// Records a success.
    pub(crate) fn works(&mut self) {
        self.failing = None;
    }

    /// Waits until the next attempt.
    pub(crate) async fn pause(&self) {
        if let Some(failing) = &self.failing {
            tokio::time::sleep_until(failing.next_at).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::*;
    use crate::error::GatewayError;

    fn lost() -> ClientError {
        ClientError::ConnectionLost { address: String::new(), source: "cut".into() }
    }

    fn refused() -> ClientError {
        ClientError::Unreachable { address: String::new(), source: "refused".into() }
    }

    const WINDOW: Duration = Duration::from_millis(1);

    /// The beginning of an attempt that lasts for longer than the window.
    fn long_attempt() -> Instant {
        let begun = Instant::now();
        std::thread::sleep(WINDOW * 2);
        begun
    }

    /// A proxy cuts a silent connection again and again.
    #[test]
    fn attempts_that_were_held_do_not_count() {
        let mut retry = Retry::new(WINDOW);
        for _ in 0..3 {
            retry.attempt_failed(long_attempt(), lost()).unwrap();
        }
    }

    /// A connection attempt that times out was not held by a server, and neither was a request that a proxy answered.
    #[test]
    fn attempts_that_get_nowhere_count() {
        let answered = |status| ClientError::ConnectionLost {
            address: String::new(),
            source: GatewayError(status).into(),
        };
        let gateway = [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
        for error in gateway.map(answered).into_iter().chain([refused()]) {
            let mut retry = Retry::new(WINDOW);
            retry.failed(lost()).unwrap();
            assert!(retry.attempt_failed(long_attempt(), error).is_err());
        }
    }

    #[test]
    fn the_window_can_be_chosen() {
        assert!(Retry::new(Duration::ZERO).failed(lost()).is_err());
        assert!(Retry::new(Duration::MAX).failed(lost()).is_ok());
    }
}
