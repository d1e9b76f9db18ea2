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
    pub(crate) fn remove(&mut self, journal: Claimed) {
        if let Some(record) = self.records.remove(&journal) {
            self.bytes = self.bytes.saturating_sub(record.bytes);
            self.expiring.remove(&(record.ended_at, journal));
        }
    }

    /// How many of them may go.
    pub(crate) fn expiring(&self) -> usize {
        self.expiring.len()
    }

    /// What all of them have on disk together.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the one that goes first has ended.
    pub(crate) fn oldest(&self) -> Option<SystemTime> {
        self.expiring.first_key_value().map(|((ended_at, _), _)| *ended_at)
    }

    /// Takes out the next one that goes.
    pub(crate) fn pop_expired(&mut self, policy: &Retention, now: SystemTime) -> Option<T> {
        // An end in the future (the clock was set back) has no age.
        let age = now.duration_since(self.oldest()?).unwrap_or_default();
        if age <= policy.max_age
            && self.expiring.len() <= policy.max_count
            && self.bytes <= policy.max_total_bytes
        {
            return None;
        }
        let ((_, journal), value) = self.expiring.pop_first()?;
        self.remove(journal);
        Some(value)
    }
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
        let gone: Vec<u32> = std::iter::from_fn(|| finished.pop_expired(&policy, now)).collect();
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
        assert_eq!((finished.expiring(), finished.bytes(), finished.oldest()), (2, 1200, Some(at(10))));
        finished.remove(journal(1));
        finished.remove(journal(1));
        assert_eq!((finished.expiring(), finished.bytes()), (1, 600));
        assert_eq!(finished.pop_expired(&ALL, at(20)), None);
        assert_eq!(finished.pop_expired(&ALL, at(5000)), Some("two"));
        assert_eq!((finished.expiring(), finished.bytes(), finished.oldest()), (0, 0, None));
    }

    #[test]
    fn a_clock_that_was_set_back_removes_nothing() {
        assert!(expired(ALL, &[record(9000, 1)], at(50)).is_empty());
    }
}
