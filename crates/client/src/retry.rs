//! [`Retry`]: retries with exponential backoff.

use std::time::Duration;

use tokio::time::Instant;

use crate::ClientError;

/// How long a server may be unreachable before a stream fails. A crashed server is back within seconds.
pub const RESUME_WINDOW: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Exponential backoff until [`RESUME_WINDOW`] has passed. Keeps its state when a waiting future is dropped.
#[derive(Debug, Default)]
pub(crate) struct Retry(Option<Failing>);

#[derive(Debug)]
struct Failing {
    give_up_at: Instant,
    next_at: Instant,
    pause: Duration,
}

impl Retry {
    /// Records a failure. Returns it if it is not temporary, or if the window has passed.
    pub(crate) fn failed(&mut self, error: ClientError) -> Result<(), ClientError> {
        if !error.is_temporary() {
            return Err(error);
        }
        let now = Instant::now();
        let failing = self.0.get_or_insert(Failing {
            give_up_at: now + RESUME_WINDOW,
            next_at: now,
            pause: FIRST_PAUSE,
        });
        if now >= failing.give_up_at {
            return Err(error);
        }
        failing.next_at = now + failing.pause;
        failing.pause = (failing.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }

    /// Records a success.
    pub(crate) fn works(&mut self) {
        self.0 = None;
    }

    /// Waits until the next attempt.
    pub(crate) async fn pause(&self) {
        if let Some(failing) = &self.0 {
            tokio::time::sleep_until(failing.next_at).await;
        }
    }
}
