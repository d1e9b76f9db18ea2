//! Busy-waiting for a short time before sleeping.
//!
//! Waking a process that sleeps on another core takes about as long as bash takes for `true`. So while a session gets
//! short commands in quick succession, its supervisor busy-waits for as long as the shell or the engine usually
//! takes, and yields its core to other processes. If the event does not come in time, the next few waits sleep at
//! once.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rustix::thread::sched_getaffinity;

/// Maximum busy-wait for the shell: the time of a small command, including waking bash.
pub(super) const FOR_SHELL: Duration = Duration::from_micros(100);
/// Maximum busy-wait for the engine: the time in which a client sends the next command.
pub(super) const FOR_ENGINE: Duration = Duration::from_micros(300);
/// Number of waits that sleep at once after a busy-wait in vain; doubled each time, up to the limit.
const FEWEST_SKIPPED: u32 = 4;
const MOST_SKIPPED: u32 = 256;

/// Maximum busy-wait. Zero on a machine with one core, which the awaited process needs.
pub(super) fn awake_for(longest: Duration) -> Duration {
    let is_only_one = sched_getaffinity(None).is_ok_and(|cores| cores.count() == 1);
    if is_only_one { Duration::ZERO } else { longest }
}

/// Whether and how long to busy-wait for an event.
#[derive(Debug)]
pub(super) struct Spin {
    longest: Duration,
    until: Cell<Option<Instant>>,
    /// Number of waits that still sleep at once.
    skip: Cell<u32>,
    /// Number of waits that slept after the last busy-wait in vain.
    skipped: Cell<u32>,
}

impl Spin {
    /// Creates one with this maximum.
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, until: Cell::new(None), skip: Cell::new(0), skipped: Cell::new(FEWEST_SKIPPED / 2) }
    }

    /// The event may come soon.
    pub(super) fn begin(&self) {
        match self.skip.get() {
            0 => self.until.set(Some(Instant::now() + self.longest)),
            skip => self.skip.set(skip - 1),
        }
    }

    /// Whether to poll again instead of sleeping.
    pub(super) fn goes_on(&self) -> bool {
        let Some(until) = self.until.get() else { return false };
        if Instant::now() < until {
            return true;
        }
        self.until.set(None);
        self.skipped.set((self.skipped.get() * 2).min(MOST_SKIPPED));
        self.skip.set(self.skipped.get());
        false
    }

    /// The event has come; a busy-wait for it was successful.
    pub(super) fn end(&self) {
        if self.until.take().is_some() {
            self.skipped.set(FEWEST_SKIPPED / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lose(spin: &Spin) {
        while spin.goes_on() {}
    }

    #[test]
    fn lost_bets_become_rare_and_won_ones_do_not() {
        let spin = Spin::new(FOR_SHELL);
        for skipped in [4, 8, 16, 32, 64, 128, 256, 256] {
            spin.begin();
            assert!(spin.goes_on());
            lose(&spin);
            for _ in 0..skipped {
                spin.begin();
                assert!(!spin.goes_on());
                spin.end();
            }
        }
        for _ in 0..10 {
            spin.begin();
            assert!(spin.goes_on());
            spin.end();
            assert!(!spin.goes_on());
        }
        spin.begin();
        lose(&spin);
        spin.end();
        assert_eq!(spin.skip.get(), FEWEST_SKIPPED);
    }
}
