//! [`Crashes`]: when a server that crashed is started again.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Crashes that are older do not count.
const WINDOW: Duration = Duration::from_secs(60);
/// So many within the window are too many.
pub(super) const TOO_MANY: usize = 8;
/// The pause after the second crash; it doubles with each. After the first there is none.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause: with the start itself, a server is back within two seconds.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(1_500);

/// The crashes of the last minute.
#[derive(Debug, Default)]
pub(super) struct Crashes(VecDeque<Instant>);

impl Crashes {
    /// Counts a crash. Returns how long to wait, or `None` if it is no use.
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
        let (mut crashes, now) = (Crashes::default(), Instant::now());
        let pauses: Vec<_> = (0..TOO_MANY).map(|_| crashes.count(now)).collect();
        let millis: Vec<_> = pauses.iter().map(|pause| pause.map(|pause| pause.as_millis())).collect();
        assert_eq!(
            millis,
            [Some(0), Some(100), Some(200), Some(400), Some(800), Some(1_500), Some(1_500), None]
        );
    }

    #[test]
    fn a_crash_now_and_then_is_always_forgiven() {
        let (mut crashes, start) = (Crashes::default(), Instant::now());
        for minute in 0..100 {
            assert_eq!(crashes.count(start + minute * WINDOW), Some(Duration::ZERO));
        }
    }
}
