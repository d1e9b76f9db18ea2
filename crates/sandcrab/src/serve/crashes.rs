//! [`CrashWindow`]: the delay before a crashed server is restarted.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The window in which crashes are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// The number of crashes within the window after which the parent gives up.
pub(super) const TOO_MANY: usize = 8;
/// The delay after the second crash; it doubles with each crash. There is none after the first.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest delay: together with the start, a server is back within two seconds.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(1_500);

/// The crashes within the window.
#[derive(Debug, Default)]
pub(super) struct CrashWindow(VecDeque<Instant>);

impl CrashWindow {
    /// Counts a crash. Returns the delay before the restart, or `None` to give up.
    pub(super) fn count(&mut self, now: Instant) -> Option<Duration> {
        self.0.retain(|crash| now.duration_since(*crash) < WINDOW);
        self.0.push_back(now);
        match self.0.len() {
            0 | 1 => Some(Duration::ZERO),
            TOO_MANY.. => None,
            many => {
                let doublings = u32::try_from(many - 2).unwrap_or(u32::MAX);
                let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(doublings));
                Some(pause.min(LONGEST_PAUSE))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_then_it_is_enough() {
        let (mut crashes, now) = (CrashWindow::default(), Instant::now());
        let pauses: Vec<_> = (0..TOO_MANY).map(|_| crashes.count(now)).collect();
        let millis: Vec<_> = pauses.iter().map(|pause| pause.map(|pause| pause.as_millis())).collect();
        assert_eq!(
            millis,
            [Some(0), Some(100), Some(200), Some(400), Some(800), Some(1_500), Some(1_500), None]
        );
    }

    #[test]
    fn rare_crashes_reset_the_count() {
        let (mut crashes, start) = (CrashWindow::default(), Instant::now());
        for minute in 0..100 {
            assert_eq!(crashes.count(start + minute * WINDOW), Some(Duration::ZERO));
        }
    }
}
