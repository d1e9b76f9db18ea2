//! The saved state of a session, and when to save it again.
//!
//! A shell that exits hands over its state. So a saved state is needed only after SIGKILL and crashes, and for forks
//! and processes that start from the session. It is saved shortly after a change, or before the next command if that
//! comes first, and at most every few seconds.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::layout::SnapshotFile;
use crate::shell::Snapshot;

/// Delay between the first unsaved change and saving: a burst of commands is saved once.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// Minimum interval between two saves. No change is unsaved for longer than this while commands are short.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);

/// A shell's state, as text that restores it.
#[derive(Debug)]
struct State {
    snapshot: Snapshot,
    taken: Instant,
    /// The change after which it was taken.
    generation: u64,
}

/// A pending snapshot.
#[derive(Debug)]
struct Pending {
    asked: Instant,
    generation: u64,
}

/// The saved state of a session.
#[derive(Debug)]
pub(super) struct Saved {
    state: Option<State>,
    file: SnapshotFile,
    /// Whether the last state to be saved is on disk.
    is_on_disk: bool,
    /// Time of the next attempt to write it, if the last one failed.
    write_again_at: Option<Instant>,
    /// Counts commands and other possible changes of the shell's state.
    generation: u64,
    /// Time of the first change that is neither saved nor pending.
    unsaved_since: Option<Instant>,
    saved_last: Option<Instant>,
    pending: Option<Pending>,
    /// Whether the shell's last reply has arrived, so that "unchanged" refers to the state that we have.
    is_answered: bool,
    /// Time at which the session was opened, whose state is restored without a saved one.
    opened: Instant,
}

impl Saved {
    /// Creates it with an initial state and its time.
    pub(super) fn new(file: SnapshotFile, state: Option<Snapshot>, taken: Instant) -> Self {
        let state = state.map(|snapshot| State { snapshot, taken, generation: 0 });
        Self {
            state,
            file,
            is_on_disk: false,
            write_again_at: None,
            generation: 0,
            unsaved_since: None,
            saved_last: None,
            pending: None,
            is_answered: true,
            opened: taken,
        }
    }

    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        self.state.as_ref().map(|state| &state.snapshot)
    }

    /// Time of the state that would be restored.
    pub(super) fn taken(&self) -> Instant {
        self.state.as_ref().map_or(self.opened, |state| state.taken)
    }

    /// Whether nothing has happened since the state was taken.
    pub(super) fn is_current(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.generation == self.generation)
    }

    /// Whether the shell may reply "unchanged" (since its last reply) instead of sending its state.
    pub(super) fn may_be_unchanged(&self) -> bool {
        self.is_answered && (self.is_on_disk || self.state.is_none())
    }

    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether the pending snapshot is of the current state.
    pub(super) fn is_present_pending(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.generation == self.generation)
    }

    pub(super) fn asked(&self) -> Option<Instant> {
        self.pending.as_ref().map(|pending| pending.asked)
    }

    /// The shell's state may have changed.
    pub(super) fn changed(&mut self, now: Instant) {
        self.generation += 1;
        self.unsaved_since.get_or_insert(now);
    }

    /// Time at which the state must be saved. At once if the shell's exit cannot be intercepted.
    pub(super) fn due(&self, is_caught: bool) -> Option<Instant> {
        let since = self.unsaved_since.filter(|_| self.pending.is_none())?;
        if !is_caught {
            return Some(since);
        }
        let next = self.saved_last.map(|last| last + SAVE_INTERVAL);
        Some(next.map_or(since + SETTLE_TIME, |next| next.max(since + SETTLE_TIME)))
    }

    /// Whether the state must be saved before the next command, which may come before it is due.
    pub(super) fn is_due_before_command(&self, is_caught: bool, now: Instant) -> bool {
        let is_unsaved = self.unsaved_since.is_some() && self.pending.is_none();
        is_unsaved && (!is_caught || self.saved_last.is_none_or(|last| last + SAVE_INTERVAL <= now))
    }

    /// A snapshot was requested; an earlier pending one is abandoned.
    pub(super) fn begin(&mut self, now: Instant) {
        self.pending = Some(Pending { asked: now, generation: self.generation });
        self.is_answered = false;
        self.saved_last = Some(now);
        self.unsaved_since = None;
    }

    /// The requested snapshot, if successful. The next attempt follows the next change: with the portable driver, a
    /// shell that cannot provide its state is busy during each attempt.
    pub(super) fn arrived(&mut self, folder: &OwnedFd, snapshot: Option<Snapshot>, now: Instant) {
        let Some(Pending { asked, generation }) = self.pending.take() else {
            return;
        };
        if let Some(snapshot) = snapshot {
            self.is_answered = true;
            self.keep(folder, State { snapshot, taken: asked, generation }, now);
        }
    }

    /// The shell has replied that its state is the saved one, or the initial one.
    pub(super) fn unchanged(&mut self) {
        let Some(Pending { asked, generation }) = self.pending.take() else {
            return;
        };
        self.is_answered = true;
        match &mut self.state {
            Some(state) => (state.taken, state.generation) = (asked, generation),
            None => self.opened = asked,
        }
    }

    /// The state that a shell has handed over on exit.
    pub(super) fn replace(&mut self, folder: &OwnedFd, snapshot: Snapshot, now: Instant) {
        self.pending = None;
        self.keep(folder, State { snapshot, taken: now, generation: self.generation }, now);
    }

    fn keep(&mut self, folder: &OwnedFd, state: State, now: Instant) {
        // The copy in memory is for this supervisor; the one on disk for the engine, if we are killed.
        let is_same = self.state.as_ref().is_some_and(|old| old.snapshot == state.snapshot);
        self.state = Some(state);
        if !is_same || !self.is_on_disk {
            self.write(folder, now);
        }
    }

    fn write(&mut self, folder: &OwnedFd, now: Instant) {
        let Some(state) = &self.state else { return };
        let age = now.saturating_duration_since(state.taken);
        self.is_on_disk = self.file.write(folder, state.snapshot.as_bytes(), age).is_ok();
        self.write_again_at = (!self.is_on_disk).then_some(now + SAVE_INTERVAL);
    }

    /// Time of the next attempt to write the state, if the last one failed: the next change may be far away.
    pub(super) fn write_again_at(&self) -> Option<Instant> {
        self.write_again_at
    }

    /// Writes the state again, if it is time for that.
    pub(super) fn write_if_due(&mut self, folder: &OwnedFd, now: Instant) {
        if self.write_again_at.take_if(|at| *at <= now).is_some() {
            self.write(folder, now);
        }
    }

    /// A shell is restored to the saved state, or starts over.
    pub(super) fn restart(&mut self) {
        self.generation = self.state.as_ref().map_or(0, |state| state.generation);
        self.unsaved_since = None;
        self.pending = None;
    }

    pub(super) fn give_up_pending(&mut self) {
        self.pending = None;
    }

    /// Drops a state that cannot be restored, so that the session can start again.
    pub(super) fn drop_state(&mut self) {
        self.state = None;
        self.write_again_at = None;
    }

    /// Removes the state from memory and disk.
    pub(super) fn clear(&mut self, folder: &OwnedFd) {
        self.state = None;
        self.write_again_at = None;
        self.is_on_disk = false;
        self.file.clear(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    use rustix::fs::{CWD, Mode, OFlags, openat};

    fn snapshot(name: &str) -> Snapshot {
        Snapshot::from_bytes(format!("# status 0\n{name}\n# end\n").into_bytes()).unwrap()
    }

    #[test]
    fn a_state_is_saved_after_a_change_and_not_too_often() {
        let dir = tempfile::tempdir().unwrap();
        let folder = openat(CWD, dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut saved = Saved::new(SnapshotFile::new(1, None), None, begin);
        assert_eq!(saved.due(true), None);
        saved.changed(at(0));
        saved.changed(at(900));
        assert_eq!(saved.due(true), Some(at(1000)));
        assert_eq!(saved.due(false), Some(at(0)));
        assert!(saved.is_due_before_command(true, at(900)));
        saved.begin(at(1000));
        assert_eq!(saved.due(true), None);
        // A change while it is pending is not in it.
        saved.changed(at(1001));
        saved.arrived(&folder, Some(snapshot("a")), at(1002));
        assert!(!saved.is_current());
        assert_eq!(saved.due(true), Some(at(6000)));
        // Under steady use no change waits for longer than the interval.
        for ms in (1100..6000).step_by(100) {
            saved.changed(at(ms));
        }
        assert_eq!(saved.due(true), Some(at(6000)));
        assert!(!saved.is_due_before_command(true, at(5999)) && saved.is_due_before_command(true, at(6000)));
        saved.begin(at(6000));
        saved.arrived(&folder, Some(snapshot("b")), at(6001));
        assert!(saved.is_current());
        assert_eq!((saved.due(true), saved.taken()), (None, at(6000)));
        // After a failure the next attempt follows the next change.
        saved.changed(at(20_000));
        saved.begin(at(21_000));
        saved.arrived(&folder, None, at(21_001));
        assert!(!saved.is_current());
        assert_eq!((saved.due(true), saved.taken()), (None, at(6000)));
    }

    #[test]
    fn a_state_is_unchanged_since_the_shells_last_answer() {
        let dir = tempfile::tempdir().unwrap();
        let folder = openat(CWD, dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        let begin = Instant::now();
        let at = |s: u64| begin + Duration::from_secs(s);
        let mut saved = Saved::new(SnapshotFile::new(1, None), None, begin);
        // The state of a new shell is never saved; its age counts from the last reply "unchanged".
        saved.changed(at(1));
        assert!(saved.may_be_unchanged());
        saved.begin(at(2));
        saved.unchanged();
        assert_eq!((saved.taken(), saved.due(true), saved.is_current()), (at(2), None, false));
        saved.changed(at(8));
        saved.begin(at(9));
        saved.arrived(&folder, Some(snapshot("a")), at(9));
        saved.changed(at(15));
        assert!(saved.may_be_unchanged());
        saved.begin(at(16));
        saved.unchanged();
        assert_eq!((saved.taken(), saved.is_current()), (at(16), true));
        // The shell has sent a state that did not arrive: "unchanged" does not refer to the state that we have.
        saved.changed(at(22));
        saved.begin(at(23));
        saved.arrived(&folder, None, at(24));
        saved.changed(at(25));
        assert!(!saved.may_be_unchanged());
    }

    #[test]
    fn a_state_whose_write_failed_is_written_without_another_change() {
        let dir = tempfile::tempdir().unwrap();
        let folder = openat(CWD, dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        let now = Instant::now();
        let mut saved = Saved::new(SnapshotFile::new(1, None), None, now);
        // In place of the file of the first write.
        std::fs::create_dir(dir.path().join("000001.b")).unwrap();
        saved.replace(&folder, snapshot("a"), now);
        let again = saved.write_again_at().unwrap();
        saved.write_if_due(&folder, again);
        let later = saved.write_again_at().unwrap();
        assert!(later > again, "it has failed again");
        std::fs::remove_dir(dir.path().join("000001.b")).unwrap();
        saved.write_if_due(&folder, again);
        assert_eq!(saved.write_again_at(), Some(later), "it is not due");
        saved.write_if_due(&folder, later);
        assert_eq!(saved.write_again_at(), None);
        let read = SnapshotFile::read(&folder, 1, None, SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(read.unwrap().0, snapshot("a").as_bytes());
    }

    #[test]
    fn an_unchanged_state_whose_write_failed_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = openat(CWD, dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        let now = Instant::now();
        let mut saved = Saved::new(SnapshotFile::new(1, None), None, now);
        let read = || {
            let read = SnapshotFile::read(&folder, 1, None, SystemTime::UNIX_EPOCH).unwrap();
            read.map(|(text, _)| text)
        };
        saved.replace(&folder, snapshot("a"), now);
        // In place of the file of the next write.
        rustix::fs::mkfifoat(&folder, "000001.a", Mode::RUSR | Mode::WUSR).unwrap();
        saved.replace(&folder, snapshot("b"), now);
        saved.replace(&folder, snapshot("b"), now);
        assert_eq!(read().unwrap(), snapshot("a").as_bytes(), "the last whole state was destroyed");
        std::fs::remove_file(dir.path().join("000001.a")).unwrap();
        saved.replace(&folder, snapshot("b"), now);
        assert_eq!(read().unwrap(), snapshot("b").as_bytes());
    }
}
