//! [`Stats`]: statistics of durations.

use std::time::Duration;

/// Median, 99th percentile and mean of durations. All are zero without samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The mean.
    pub mean: Duration,
    /// Number of samples.
    pub samples: usize,
}

impl Stats {
    /// Computes the statistics of durations in any order. Percentiles are nearest ranks.
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
