//! [`Stats`]: what a set of times comes down to.

use std::time::Duration;

/// The middle, the tail and the mean of a set of times. All are zero if there were none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Half of the samples took at most this long.
    pub p50: Duration,
    /// 99 of 100 samples took at most this long.
    pub p99: Duration,
    /// The sum over the number of samples.
    pub mean: Duration,
    /// How many samples there were.
    pub samples: usize,
}

impl Stats {
    /// The statistics of these times, in any order. Percentiles are the nearest rank.
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let rank = |percent: usize| {
            let index = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(index).copied().unwrap_or_default()
        };
        let total: Duration = times.iter().sum();
        let count = u32::try_from(times.len()).unwrap_or(u32::MAX).max(1);
        Self { p50: rank(50), p99: rank(99), mean: total / count, samples: times.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let times = (1..=100).rev().map(Duration::from_micros).collect();
        let stats = Stats::of(times);
        assert_eq!(stats.p50, Duration::from_micros(50));
        assert_eq!(stats.p99, Duration::from_micros(99));
        assert_eq!(stats.mean, Duration::from_nanos(50_500));
        assert_eq!(stats.samples, 100);
    }

    #[test]
    fn one_sample_is_all_of_them_and_none_is_zero() {
        let one = Stats::of(vec![Duration::from_micros(7)]);
        assert_eq!((one.p50, one.p99), (Duration::from_micros(7), Duration::from_micros(7)));
        assert_eq!(Stats::of(Vec::new()), Stats::default());
    }
}
