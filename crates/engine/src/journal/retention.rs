//! Which finished journals go.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use super::store::Claimed;

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

/// What has finished, in the order in which it goes: looking for what is over costs nothing when nothing is.
#[derive(Debug)]
pub(crate) struct Finished<T> {
    records: HashMap<Claimed, FinishedRecord>,
    /// Those that may go, the oldest first.
    expiring: BTreeMap<(SystemTime, Claimed), T>,
    bytes: u64,
}

impl<T> Default for Finished<T> {
    fn default() -> Self {
        Self { records: HashMap::new(), expiring: BTreeMap::new(), bytes: 0 }
    }
}

impl<T> Finished<T> {
    /// Adds one.
    pub(crate) fn insert(&mut self, journal: Claimed, record: FinishedRecord, value: T) {
        self.remove(journal);
        self.bytes = self.bytes.saturating_add(record.bytes);
        if !record.keep {
            self.expiring.insert((record.ended_at, journal), value);
        }
        self.records.insert(journal, record);
    }

    /// Forgets one, if it is there.
    pub(crate) fn remove(&mut self, journal: Claimed) -> Option<T> {
        let record = self.records.remove(&journal)?;
        self.bytes = self.bytes.saturating_sub(record.bytes);
        self.expiring.remove(&(record.ended_at, journal))
    }

    /// What all of them have on disk together.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many of them may go.
    pub(crate) fn expiring(&self) -> usize {
        self.expiring.len()
    }

    /// When the one that goes first has ended.
    pub(crate) fn oldest(&self) -> Option<SystemTime> {
        self.expiring.first_key_value().map(|((ended_at, _), _)| *ended_at)
    }

    /// Whether something is over a policy, with a little more than its count allowed, so that not every end is
    /// followed by a clean-up.
    pub(crate) fn is_over(&self, policy: &Retention) -> bool {
        self.expiring.len() > policy.max_count + policy.max_count / 16 || self.bytes > policy.max_total_bytes
    }

    /// Takes out what goes, the oldest first. `may_go` is asked for each; one that may not is passed over.
    ///
    /// A record that alone has more bytes than all may have goes for itself: its bytes do not make others go, since that
    /// would not help.
    pub(crate) fn take_expired(
        &mut self,
        policy: &Retention,
        now: SystemTime,
        mut may_go: impl FnMut(&T, Excess) -> bool,
    ) -> Expired<T> {
        let is_oversized = |record: &FinishedRecord| record.bytes > policy.max_total_bytes;
        let mut bytes = self.bytes;
        let mut oversized = 0;
        if bytes > policy.max_total_bytes {
            for record in self.records.values().filter(|record| is_oversized(record)) {
                bytes -= record.bytes;
                oversized += usize::from(!record.keep);
            }
        }
        let mut count = self.expiring.len();
        let mut expired = Expired { gone: Vec::new(), passed_over: false };
        let mut going = Vec::new();
        for ((ended_at, journal), value) in &self.expiring {
            // An end in the future (the clock was set back) has no age.
            let is_old = now.duration_since(*ended_at).unwrap_or_default() > policy.max_age;
            let is_over = is_old || count > policy.max_count || bytes > policy.max_total_bytes;
            if !is_over && oversized == 0 {
                break;
            }
            let Some(record) = self.records.get(journal) else { continue };
            if !is_over && !is_oversized(record) {
                continue;
            }
            oversized -= usize::from(is_oversized(record));
            if may_go(value, Excess { count: count.saturating_sub(policy.max_count) }) {
                count -= 1;
                bytes -= if is_oversized(record) { 0 } else { record.bytes };
                going.push(*journal);
            } else {
                expired.passed_over = true;
            }
        }
        expired.gone.extend(going.into_iter().filter_map(|journal| self.remove(journal)));
        expired
    }
}

/// How far the finished journals are over a policy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Excess {
    /// How many more there are than may be.
    pub(crate) count: usize,
}

/// What a clean-up has found.
#[derive(Debug)]
pub(crate) struct Expired<T> {
    /// What is to go, the oldest first.
    pub(crate) gone: Vec<T>,
    /// Something else is over the policy and may not go yet.
    pub(crate) passed_over: bool,
}

#[cfg(test)]
mod tests {
    use super::super::format::{Salt, Slot};
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn journal(slot: u32) -> Claimed {
        Claimed { slot: Slot(slot), salt: Salt([0; 16]) }
    }

    fn record(ended: u64, bytes: u64) -> FinishedRecord {
        FinishedRecord { ended_at: at(ended), bytes, keep: false }
    }

    /// The indices of those that go, the oldest first.
    fn expired(policy: Retention, records: &[FinishedRecord], now: SystemTime) -> Vec<u32> {
        let mut finished = Finished::default();
        for (index, record) in (0..).zip(records) {
            finished.insert(journal(index), *record, index);
        }
        let gone: Vec<u32> = finished.take_expired(&policy, now, |_, _| true).gone;
        let left: u64 = (0..).zip(records).filter(|(i, _)| !gone.contains(i)).map(|(_, r)| r.bytes).sum();
        assert_eq!(finished.bytes(), left);
        gone
    }

    const ALL: Retention =
        Retention { max_age: Duration::from_secs(1000), max_count: 100, max_total_bytes: 1000 };

    #[test]
    fn nothing_goes_while_nothing_is_over() {
        assert!(expired(ALL, &[], at(5000)).is_empty());
        assert!(expired(ALL, &[record(4000, 500), record(4500, 500)], at(5000)).is_empty());
    }

    #[test]
    fn the_old_go_by_age() {
        let finished = [record(4500, 1), record(3999, 1), record(10, 1), record(4000, 1)];
        assert_eq!(expired(ALL, &finished, at(5000)), [2, 1]);
    }

    #[test]
    fn the_oldest_go_by_count_and_by_bytes() {
        let finished = [record(30, 300), record(10, 300), record(20, 300), record(40, 300)];
        assert_eq!(expired(ALL, &finished, at(50)), [1]);
        assert_eq!(expired(Retention { max_count: 2, ..ALL }, &finished, at(50)), [1, 2]);
        assert_eq!(expired(Retention { max_count: 0, ..ALL }, &finished, at(50)), [1, 2, 0, 3]);
    }

    #[test]
    fn the_kept_stay_but_their_bytes_count() {
        let mut finished = [record(10, 900), record(20, 90), record(30, 90)];
        finished[0].keep = true;
        assert_eq!(expired(ALL, &finished, at(5000)), [1, 2]);
        assert_eq!(expired(ALL, &finished, at(40)), [1]);
        assert!(
            expired(Retention { max_count: 2, max_total_bytes: 2000, ..ALL }, &finished, at(40)).is_empty()
        );
    }

    #[test]
    fn what_is_forgotten_counts_no_more() {
        let mut finished = Finished::default();
        finished.insert(journal(1), record(10, 600), "one");
        finished.insert(journal(2), record(10, 600), "two");
        assert_eq!((finished.bytes(), finished.oldest()), (1200, Some(at(10))));
        assert_eq!(finished.remove(journal(1)), Some("one"));
        assert_eq!(finished.remove(journal(1)), None);
        assert_eq!(finished.bytes(), 600);
        assert!(finished.take_expired(&ALL, at(20), |_, _| true).gone.is_empty());
        assert_eq!(finished.take_expired(&ALL, at(5000), |_, _| true).gone, ["two"]);
        assert_eq!((finished.bytes(), finished.oldest()), (0, None));
    }

    #[test]
    fn what_may_not_go_is_passed_over() {
        let mut finished = Finished::default();
        for (slot, bytes) in [(0, 600), (1, 600), (2, 600), (3, 300)] {
            finished.insert(journal(slot), record(10 + u64::from(slot), bytes), slot);
        }
        let expired = finished.take_expired(&ALL, at(50), |slot, _| *slot != 0);
        assert_eq!((expired.gone, expired.passed_over), (vec![1, 2], true));
        let expired = finished.take_expired(&ALL, at(50), |_, _| true);
        assert_eq!((expired.gone, expired.passed_over), (vec![], false));
    }

    #[test]
    fn one_that_is_larger_than_all_may_be_goes_alone() {
        let mut finished = [record(10, 400), record(20, 400), record(30, 5000), record(40, 100)];
        assert_eq!(expired(ALL, &finished, at(50)), [2]);
        // Removing the others would not make it fit.
        finished[2].keep = true;
        assert!(expired(ALL, &finished, at(50)).is_empty());
        finished[3].bytes = 300;
        assert_eq!(expired(ALL, &finished, at(50)), [0]);
    }

    #[test]
    fn a_clock_that_was_set_back_removes_nothing() {
        assert!(expired(ALL, &[record(9000, 1)], at(50)).is_empty());
    }
}
