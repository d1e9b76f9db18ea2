//! Selects the finished journals to remove.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use super::store::JournalSlot;

/// Limits of finished journals. Journals beyond any of the three are removed, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retention {
    /// Maximum time since the end.
    pub(crate) max_age: Duration,
    /// Maximum number of finished journals.
    pub(crate) max_count: usize,
    /// Maximum size of finished journals on disk, in bytes.
    pub(crate) max_total_bytes: u64,
}

/// Data of a finished execution for retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinishedRecord {
    /// Time of its end.
    pub(crate) ended_at: SystemTime,
    /// Size of its journal on disk.
    pub(crate) bytes: u64,
    /// Whether it is exempt. It does not count for `max_count`, but its bytes count.
    pub(crate) keep: bool,
}

/// Finished journals in the order of their removal, so that checking the limits is cheap.
#[derive(Debug)]
pub(crate) struct Finished<T> {
    records: HashMap<JournalSlot, FinishedRecord>,
    /// Those that may be removed, the oldest first.
    expiring: BTreeMap<(SystemTime, JournalSlot), T>,
    bytes: u64,
}

impl<T> Default for Finished<T> {
    fn default() -> Self {
        Self { records: HashMap::new(), expiring: BTreeMap::new(), bytes: 0 }
    }
}

impl<T> Finished<T> {
    /// Adds a journal.
    pub(crate) fn insert(&mut self, journal: JournalSlot, record: FinishedRecord, value: T) {
        self.remove(journal);
        self.bytes = self.bytes.saturating_add(record.bytes);
        if !record.keep {
            self.expiring.insert((record.ended_at, journal), value);
        }
        self.records.insert(journal, record);
    }

    /// Removes a journal, if present.
    pub(crate) fn remove(&mut self, journal: JournalSlot) -> Option<T> {
        let record = self.records.remove(&journal)?;
        self.bytes = self.bytes.saturating_sub(record.bytes);
        self.expiring.remove(&(record.ended_at, journal))
    }

    /// Total size of all on disk.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of journals that may be removed.
    pub(crate) fn expiring(&self) -> usize {
        self.expiring.len()
    }

    /// Time of the end of the first journal to be removed.
    pub(crate) fn oldest(&self) -> Option<SystemTime> {
        self.expiring.first_key_value().map(|((ended_at, _), _)| *ended_at)
    }

    /// Whether a limit is exceeded, with some tolerance of the count, so that not every end causes a clean-up.
    pub(crate) fn is_over(&self, policy: &Retention) -> bool {
        self.expiring.len() > policy.max_count + policy.max_count / 16 || self.bytes > policy.max_total_bytes
    }

    /// Removes at most so many journals beyond the limits, the oldest first, as far as `decide` allows.
    ///
    /// A journal that alone exceeds the total size is removed itself; its bytes do not cause the removal of others,
    /// since that would not help.
    pub(crate) fn take_expired(
        &mut self,
        policy: &Retention,
        now: SystemTime,
        most: usize,
        mut decide: impl FnMut(&T, Excess) -> Decision,
    ) -> Expired<T> {
        let is_oversized = |record: &FinishedRecord| record.bytes > policy.max_total_bytes;
        let (mut bytes, mut total) = (self.bytes, self.bytes);
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
            if !is_over && oversized == 0 || going.len() == most {
                break;
            }
            let Some(record) = self.records.get(journal) else { continue };
            if !is_over && !is_oversized(record) {
                continue;
            }
            oversized -= usize::from(is_oversized(record));
            let excess = Excess {
                count: count.saturating_sub(policy.max_count),
                bytes: total.saturating_sub(policy.max_total_bytes),
            };
            match decide(value, excess) {
                Decision::Remove => {
                    count -= 1;
                    total -= record.bytes;
                    bytes -= if is_oversized(record) { 0 } else { record.bytes };
                    going.push(*journal);
                }
                Decision::Keep => expired.passed_over = true,
                Decision::KeepRest => {
                    expired.passed_over = true;
                    break;
                }
            }
        }
        expired.gone.extend(going.into_iter().filter_map(|journal| self.remove(journal)));
        expired
    }
}

/// The excess of finished journals over the limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Excess {
    /// Number of journals beyond the limit.
    pub(crate) count: usize,
    /// Bytes beyond the limit, with those of journals that alone exceed it.
    pub(crate) bytes: u64,
}

/// Whether a journal beyond the limits is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It is removed.
    Remove,
    /// It is kept for now.
    Keep,
    /// It is kept for now, and so are all that ended later.
    KeepRest,
}

/// Result of a clean-up.
#[derive(Debug)]
pub(crate) struct Expired<T> {
    /// The removed journals, the oldest first.
    pub(crate) gone: Vec<T>,
    /// Whether others exceed the limits and may not be removed yet.
    pub(crate) passed_over: bool,
}

#[cfg(test)]
mod tests {
    use super::super::format::{Salt, Slot};
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn journal(slot: u32) -> JournalSlot {
        JournalSlot { slot: Slot(slot), salt: Salt([0; 16]) }
    }

    fn record(ended: u64, bytes: u64) -> FinishedRecord {
        FinishedRecord { ended_at: at(ended), bytes, keep: false }
    }

    /// The indices of removed journals, the oldest first.
    fn expired(policy: Retention, records: &[FinishedRecord], now: SystemTime) -> Vec<u32> {
        let mut finished = Finished::default();
        for (index, record) in (0..).zip(records) {
            finished.insert(journal(index), *record, index);
        }
        let gone: Vec<u32> = finished.take_expired(&policy, now, usize::MAX, |_, _| Decision::Remove).gone;
        let left: u64 = (0..).zip(records).filter(|(i, _)| !gone.contains(i)).map(|(_, r)| r.bytes).sum();
        assert_eq!(finished.bytes(), left);
        gone
    }

    const ALL: Retention =
        Retention { max_age: Duration::from_secs(1000), max_count: 100, max_total_bytes: 1000 };

    #[test]
    fn nothing_is_removed_within_the_limits() {
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
    fn forgotten_records_are_not_counted() {
        let mut finished = Finished::default();
        finished.insert(journal(1), record(10, 600), "one");
        finished.insert(journal(2), record(10, 600), "two");
        assert_eq!((finished.bytes(), finished.oldest()), (1200, Some(at(10))));
        assert_eq!(finished.remove(journal(1)), Some("one"));
        assert_eq!(finished.remove(journal(1)), None);
        assert_eq!(finished.bytes(), 600);
        assert!(finished.take_expired(&ALL, at(20), usize::MAX, |_, _| Decision::Remove).gone.is_empty());
        assert_eq!(finished.take_expired(&ALL, at(5000), usize::MAX, |_, _| Decision::Remove).gone, ["two"]);
        assert_eq!((finished.bytes(), finished.oldest()), (0, None));
    }

    #[test]
    fn records_in_use_are_skipped() {
        let mut finished = Finished::default();
        for (slot, bytes) in [(0, 600), (1, 600), (2, 600), (3, 300)] {
            finished.insert(journal(slot), record(10 + u64::from(slot), bytes), slot);
        }
        let but_first = |slot: &u32, _| if *slot == 0 { Decision::Keep } else { Decision::Remove };
        let expired = finished.take_expired(&ALL, at(50), usize::MAX, but_first);
        assert_eq!((expired.gone, expired.passed_over), (vec![1, 2], true));
        let expired = finished.take_expired(&ALL, at(50), usize::MAX, |_, _| Decision::Remove);
        assert_eq!((expired.gone, expired.passed_over), (vec![], false));
    }

    #[test]
    fn records_after_one_that_keeps_the_rest_are_not_looked_at() {
        let mut finished = Finished::default();
        for slot in 0..5 {
            finished.insert(journal(slot), record(10 + u64::from(slot), 1), slot);
        }
        let policy = Retention { max_count: 0, max_total_bytes: 2, ..ALL };
        let mut asked = Vec::new();
        let expired = finished.take_expired(&policy, at(50), usize::MAX, |slot, excess| {
            asked.push((*slot, excess.count, excess.bytes));
            if *slot == 2 { Decision::KeepRest } else { Decision::Remove }
        });
        assert_eq!((expired.gone, expired.passed_over), (vec![0, 1], true));
        assert_eq!(asked, [(0, 5, 3), (1, 4, 2), (2, 3, 1)]);
    }

    #[test]
    fn record_larger_than_the_limit_is_removed_alone() {
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
