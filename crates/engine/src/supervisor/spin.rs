//! Looking again and again for a short while before going to sleep.
//!
//! Waking a process that sleeps on another core takes about as long as bash takes for `true`. So the supervisor of a
//! session whose commands are short and come one right after the other stays awake for as long as the shell, or the
//! engine, usually takes, and gives way to whoever needs this very core. Each time is a bet: where one is lost (the command
//! takes longer, or no other comes), the next few are not made.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rustix::thread::sched_getaffinity;

/// How long it stays awake at most for its shell: what a small command takes, with the time to wake bash.
pub(super) const FOR_SHELL: Duration = Duration::from_micros(100);
/// The same for the engine: what a client of a server takes to send the next command.
pub(super) const FOR_ENGINE: Duration = Duration::from_micros(300);
/// After a lost bet this many are not made; twice as many after the next, up to the limit.
const FEWEST_SKIPPED: u32 = 4;
const MOST_SKIPPED: u32 = 256;

/// How long to stay awake at most. Where there is only one core, whoever is waited for needs it.
pub(super) fn awake_for(longest: Duration) -> Duration {
    let is_only_one = sched_getaffinity(None).is_ok_and(|cores| cores.count() == 1);
    if is_only_one { Duration::ZERO } else { longest }
}

/// Whether and until when to stay awake for something.
#[derive(Debug)]
pub(super) struct Spin {
    longest: Duration,
    until: Cell<Option<Instant>>,
    /// How many bets are not made yet.
    skip: Cell<u32>,
    /// How many were not made after the last lost one.
    skipped: Cell<u32>,
}

impl Spin {
    /// Stays awake for so long at most.
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, until: Cell::new(None), skip: Cell::new(0), skipped: Cell::new(FEWEST_SKIPPED / 2) }
    }

    /// It may come in a moment.
    pub(super) fn begin(&self) {
        match self.skip.get() {
            0 => self.until.set(Some(Instant::now() + self.longest)),
            skip => self.skip.set(skip - 1),
        }
    }

    /// Whether to look once more instead of sleeping.
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

    /// It has come; if it was waited for awake, the bet is won.
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
