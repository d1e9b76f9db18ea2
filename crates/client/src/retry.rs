//! [`Retry`]: how long and how often something is tried again.

use std::time::Duration;

use tokio::time::Instant;

use crate::ClientError;

/// How long a server may be gone before a stream gives up. A server that crashed is back within seconds.
pub const RESUME_WINDOW: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Trying again, with growing pauses, until [`RESUME_WINDOW`] has passed. It keeps its place when the future that waits
/// for it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Retry(Option<Failing>);

#[derive(Debug)]
struct Failing {
    give_up_at: Instant,
    next_at: Instant,
    pause: Duration,
}

impl Retry {
    /// Notes a failure; hands it back if it is not worth another try.
    pub(crate) fn failed(&mut self, error: ClientError) -> Result<(), ClientError> {
        if !error.is_passing() {
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

    /// Notes that it works.
    pub(crate) fn works(&mut self) {
        self.0 = None;
    }

    /// Waits until it is time for the next try.
    pub(crate) async fn pause(&self) {
        if let Some(failing) = &self.0 {
            tokio::time::sleep_until(failing.next_at).await;
        }
    }
}
