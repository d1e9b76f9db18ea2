//! What the results of health checks mean. No clock: the caller passes durations.

use std::time::Duration;

use sandcrab_api::service::ServiceState;

/// Pause after the first check. It doubles up to the interval until a check succeeds.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The health of one execution.
#[derive(Debug, Clone)]
pub(super) struct HealthTracker {
    interval: Duration,
    retries: u32,
    start_period: Duration,
    /// Failures in a row that count.
    failures: u32,
    has_succeeded: bool,
    /// The pause after the next check, until one succeeds.
    pause: Duration,
    state: ServiceState,
}

impl HealthTracker {
    pub(super) fn new(interval: Duration, retries: u32, start_period: Duration) -> Self {
        Self {
            interval,
            retries,
            start_period,
            failures: 0,
            has_succeeded: false,
            pause: FIRST_PAUSE,
            state: ServiceState::Starting,
        }
    }

    /// The present state.
    pub(super) fn state(&self) -> ServiceState {
        self.state
    }

    /// Notes the result of a check, this long after the start of the execution. Returns the pause until the next one.
    pub(super) fn note(&mut self, is_success: bool, since_start: Duration) -> Duration {
        if is_success {
            (self.has_succeeded, self.failures, self.state) = (true, 0, ServiceState::Healthy);
        } else if self.has_succeeded || since_start >= self.start_period {
            self.failures = self.failures.saturating_add(1);
            if self.failures >= self.retries {
                self.state = ServiceState::Unhealthy;
            }
        }
        if self.has_succeeded {
            return self.interval;
        }
        let pause = self.pause.min(self.interval);
        self.pause = (pause * 2).min(self.interval);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ServiceState::{Healthy, Starting, Unhealthy};

    const INTERVAL: Duration = Duration::from_secs(5);

    #[test]
    fn failures_count_after_the_start_period() {
        let mut health = HealthTracker::new(INTERVAL, 2, Duration::from_secs(10));
        for second in 0..10 {
            health.note(false, Duration::from_secs(second));
            assert_eq!(health.state(), Starting);
        }
        health.note(false, Duration::from_secs(10));
        assert_eq!(health.state(), Starting);
        health.note(false, Duration::from_secs(11));
        assert_eq!(health.state(), Unhealthy);
        health.note(true, Duration::from_secs(12));
        assert_eq!(health.state(), Healthy);
    }

    #[test]
    fn the_first_success_ends_the_start_period() {
        let mut health = HealthTracker::new(INTERVAL, 3, Duration::from_secs(3600));
        let mut flip = |results: &[bool]| {
            for result in results {
                health.note(*result, Duration::ZERO);
            }
            health.state()
        };
        assert_eq!(flip(&[true]), Healthy);
        assert_eq!(flip(&[false, false]), Healthy);
        assert_eq!(flip(&[true, false, false]), Healthy);
        assert_eq!(flip(&[false]), Unhealthy);
        assert_eq!(flip(&[false]), Unhealthy);
        assert_eq!(flip(&[true]), Healthy);
    }

    #[test]
    fn checks_become_rare() {
        let mut health = HealthTracker::new(INTERVAL, 3, Duration::ZERO);
        let pauses: Vec<_> = (0..9).map(|_| health.note(false, Duration::ZERO).as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(health.note(true, Duration::ZERO), INTERVAL);
        assert_eq!(health.note(false, Duration::ZERO), INTERVAL);
    }
}
