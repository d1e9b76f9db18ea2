//! Which finished journals go.

use std::time::{Duration, SystemTime};

/// How much of what has finished is kept. Whatever is over any of the three goes, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retention {
    /// The longest time since the end.
    pub(crate) max_age: Duration,
    /// The most finished journals.
    pub(crate) max_count: usize,
    /// The most bytes that finished journals have on disk together.
    pub(crate) max_total_bytes: u64,
}

/// What retention needs to know of a finished execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinishedRecord {
    /// When it ended.
    pub(crate) ended_at: SystemTime,
    /// What its journal has on disk.
    pub(crate) bytes: u64,
    /// Never goes by itself. It does not count as one of `max_count`, but its bytes are bytes.
    pub(crate) keep: bool,
}

impl Retention {
    /// The indices of those that go, the oldest first.
    pub(crate) fn expired(&self, finished: &[FinishedRecord], now: SystemTime) -> Vec<usize> {
        let mut total = finished.iter().fold(0_u64, |sum, record| sum.saturating_add(record.bytes));
        let mut oldest_first: Vec<usize> = (0..finished.len()).filter(|i| !finished[*i].keep).collect();
        oldest_first.sort_by_key(|i| finished[*i].ended_at);
        let mut count = oldest_first.len();
        let goes = |i: &usize| {
            let record = &finished[*i];
            // An end in the future (the clock was set back) has no age.
            let age = now.duration_since(record.ended_at).unwrap_or_default();
            if age <= self.max_age && count <= self.max_count && total <= self.max_total_bytes {
                return false;
            }
            count -= 1;
            total = total.saturating_sub(record.bytes);
            true
        };
        // In this order, the first that may stay is followed only by those that may stay.
        let mut goes = goes;
        oldest_first.into_iter().take_while(|i| goes(i)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn record(ended: u64, bytes: u64) -> FinishedRecord {
        FinishedRecord { ended_at: at(ended), bytes, keep: false }
    }

    const ALL: Retention =
        Retention { max_age: Duration::from_secs(1000), max_count: 100, max_total_bytes: 1000 };

    #[test]
    fn nothing_goes_while_nothing_is_over() {
        assert!(ALL.expired(&[], at(5000)).is_empty());
        assert!(ALL.expired(&[record(4000, 500), record(4500, 500)], at(5000)).is_empty());
    }

    #[test]
    fn the_old_go_by_age() {
        let finished = [record(4500, 1), record(3999, 1), record(10, 1), record(4000, 1)];
        assert_eq!(ALL.expired(&finished, at(5000)), [2, 1]);
    }

    #[test]
    fn the_oldest_go_by_count_and_by_bytes() {
        let finished = [record(30, 300), record(10, 300), record(20, 300), record(40, 300)];
        assert_eq!(ALL.expired(&finished, at(50)), [1]);
        assert_eq!(Retention { max_count: 2, ..ALL }.expired(&finished, at(50)), [1, 2]);
        assert_eq!(Retention { max_count: 0, ..ALL }.expired(&finished, at(50)), [1, 2, 0, 3]);
    }

    #[test]
    fn the_kept_stay_but_their_bytes_count() {
        let mut finished = [record(10, 900), record(20, 90), record(30, 90)];
        finished[0].keep = true;
        assert_eq!(ALL.expired(&finished, at(5000)), [1, 2]);
        assert_eq!(ALL.expired(&finished, at(40)), [1]);
        assert!(
            Retention { max_count: 2, max_total_bytes: 2000, ..ALL }.expired(&finished, at(40)).is_empty()
        );
    }

    #[test]
    fn a_clock_that_was_set_back_removes_nothing() {
        assert!(ALL.expired(&[record(9000, 1)], at(50)).is_empty());
    }
}
