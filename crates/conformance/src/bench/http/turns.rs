//! [`take_turns`]: measures figures and their floors in turns, so that a disturbance affects both.

use std::thread;
use std::time::{Duration, Instant};

use crate::bench::{FigureError, Stats};

/// Number of samples that are discarded at the start of a turn, while idle processes wake up.
const WARM_UP: usize = 2;

/// An operation to measure.
pub(crate) struct Part<'a> {
    samples: usize,
    every: Duration,
    once: Box<dyn FnMut() -> Result<Duration, FigureError> + 'a>,
}

impl<'a> Part<'a> {
    /// Measures a number of samples per turn, without pauses.
    pub(crate) fn new(samples: usize, once: impl FnMut() -> Result<Duration, FigureError> + 'a) -> Self {
        Self { samples, every: Duration::ZERO, once: Box::new(once) }
    }

    /// Measures at a steady rate instead, counted from start to start.
    pub(crate) fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    fn turn(&mut self, times: &mut Vec<Duration>) -> Result<(), FigureError> {
        let mut next = Instant::now();
        for number in 0..self.samples + WARM_UP {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            next += self.every;
            let time = (self.once)()?;
            if number >= WARM_UP {
                times.push(time);
            }
        }
        Ok(())
    }
}

/// Measures each part in turn, round by round.
pub(crate) fn take_turns<const N: usize>(
    rounds: usize,
    mut parts: [Part<'_>; N],
) -> Result<[Stats; N], FigureError> {
    let mut times = [const { Vec::new() }; N];
    for _ in 0..rounds {
        for (part, times) in parts.iter_mut().zip(&mut times) {
            part.turn(times)?;
        }
    }
    Ok(times.map(Stats::of))
}

/// Measures one operation.
pub(crate) fn timed<T, E: Into<FigureError>>(
    once: impl FnOnce() -> Result<T, E>,
) -> Result<Duration, FigureError> {
    let start = Instant::now();
    once().map_err(Into::into)?;
    Ok(start.elapsed())
}
