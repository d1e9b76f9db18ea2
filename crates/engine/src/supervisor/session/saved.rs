//! The saved state of a session: which one it is, and when to save it again.
//!
//! A shell that ends hands on its state, so a saved one is only for deaths without warning, and for forks and processes
//! that start from the session. It is saved a moment after something may have changed it, or before the next command if that
//! comes first, and not more often than every few seconds.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::layout::SnapshotFile;
use crate::shell::Snapshot;

/// How long after the first change that was not saved the state is saved: a burst of commands is one change...
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// ...and how long after the last time. So no change is unsaved for longer than this while commands are short.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);

/// A shell's state, as text that brings it back.
#[derive(Debug)]
struct State {
    snapshot: Snapshot,
    taken: Instant,
    /// The change it is the state after.
    generation: u64,
}

/// A snapshot on its way.
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
    /// The last state that was to be on disk is there.
    is_on_disk: bool,
    /// Counts commands and whatever else may have changed the shell's state.
    generation: u64,
    /// The first change that is neither saved nor on its way.
    unsaved_since: Option<Instant>,
    saved_last: Option<Instant>,
    pending: Option<Pending>,
    /// The shell's last answer has come, so what it calls unchanged is what we have.
    is_answered: bool,
    /// When the session was opened: without a saved state it starts over as it was then.
    opened: Instant,
}

impl Saved {
    /// With a state to begin with, and when that is of.
    pub(super) fn new(file: SnapshotFile, state: Option<Snapshot>, taken: Instant) -> Self {
        let state = state.map(|snapshot| State { snapshot, taken, generation: 0 });
        Self {
            state,
            file,
            is_on_disk: false,
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

    /// When the shell was as it is brought back.
    pub(super) fn taken(&self) -> Instant {
        self.state.as_ref().map_or(self.opened, |state| state.taken)
    }

    /// Whether nothing has happened since the state was taken.
    pub(super) fn is_current(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.generation == self.generation)
    }

    /// Whether the shell may say that nothing has changed, instead of giving its state: it means, since its last answer.
    pub(super) fn may_be_unchanged(&self) -> bool {
        self.is_answered && (self.is_on_disk || self.state.is_none())
    }

    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether the snapshot on its way is of the present state.
    pub(super) fn is_present_pending(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.generation == self.generation)
    }

    pub(super) fn asked(&self) -> Option<Instant> {
        self.pending.as_ref().map(|pending| pending.asked)
    }

    /// Something was done in the shell that may have changed its state.
    pub(super) fn changed(&mut self, now: Instant) {
        self.generation += 1;
        self.unsaved_since.get_or_insert(now);
    }

    /// When the state is to be saved. At once where a shell cannot be caught on its way out.
    pub(super) fn due(&self, is_caught: bool) -> Option<Instant> {
        let since = self.unsaved_since.filter(|_| self.pending.is_none())?;
        if !is_caught {
            return Some(since);
        }
        let next = self.saved_last.map(|last| last + SAVE_INTERVAL);
        Some(next.map_or(since + SETTLE_TIME, |next| next.max(since + SETTLE_TIME)))
    }

    /// Whether the state is to be saved before the next command, which may come before it is due.
    pub(super) fn is_due_before_command(&self, is_caught: bool, now: Instant) -> bool {
        let is_unsaved = self.unsaved_since.is_some() && self.pending.is_none();
        is_unsaved && (!is_caught || self.saved_last.is_none_or(|last| last + SAVE_INTERVAL <= now))
    }

    /// A snapshot was asked for; one that was asked for before is given up.
    pub(super) fn begin(&mut self, now: Instant) {
        self.pending = Some(Pending { asked: now, generation: self.generation });
        self.is_answered = false;
        self.saved_last = Some(now);
        self.unsaved_since = None;
    }

    /// The snapshot that was asked for, if it could be had; the next attempt is after the next change: a shell of the portable
    /// driver that cannot give its state is busy with each attempt.
    pub(super) fn arrived(&mut self, folder: &OwnedFd, snapshot: Option<Snapshot>, now: Instant) {
        let Some(Pending { asked, generation }) = self.pending.take() else {
            return;
        };
        if let Some(snapshot) = snapshot {
            self.is_answered = true;
            self.keep(folder, State { snapshot, taken: asked, generation }, now);
        }
    }

    /// The shell has said that its state is the saved one, or the one it had when the session was opened.
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

    /// The state that a shell has handed on when it ended.
    pub(super) fn replace(&mut self, folder: &OwnedFd, snapshot: Snapshot, now: Instant) {
        self.pending = None;
        self.keep(folder, State { snapshot, taken: now, generation: self.generation }, now);
    }

    fn keep(&mut self, folder: &OwnedFd, state: State, now: Instant) {
        // In memory it serves this supervisor; on disk, the engine should we be killed.
        let is_same = self.state.as_ref().is_some_and(|old| old.snapshot == state.snapshot);
        let age = now.saturating_duration_since(state.taken);
        if !is_same || !self.is_on_disk {
            self.is_on_disk = self.file.write(folder, state.snapshot.as_bytes(), age).is_ok();
        }
        self.state = Some(state);
    }

    /// A shell is brought to the saved state, or starts over.
    pub(super) fn restart(&mut self) {
        self.generation = self.state.as_ref().map_or(0, |state| state.generation);
        self.unsaved_since = None;
        self.pending = None;
    }

    pub(super) fn give_up_pending(&mut self) {
        self.pending = None;
    }

    /// A state that cannot be brought back must not keep the session from coming back.
    pub(super) fn drop_state(&mut self) {
        self.state = None;
    }

    /// Forgets the state, here and on disk.
    pub(super) fn clear(&mut self, folder: &OwnedFd) {
        self.state = None;
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
        // A change while it is on its way is not in it.
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
        // One that could not be had is tried again after the next change.
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
        // A new shell's state is never saved; its age counts from the last time that it was said to be the same.
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
        // The shell has given a state that did not arrive: what it calls unchanged is not what we have.
        saved.changed(at(22));
        saved.begin(at(23));
        saved.arrived(&folder, None, at(24));
        saved.changed(at(25));
        assert!(!saved.may_be_unchanged());
    }

    #[test]
    fn an_unchanged_state_whose_write_failed_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = openat(CWD, dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        let now = Instant::now();
        let mut saved = Saved::new(SnapshotFile::new(1, None), None, now);
        let read = || SnapshotFile::read(&folder, 1, None, SystemTime::UNIX_EPOCH).map(|(text, _)| text);
        saved.replace(&folder, snapshot("a"), now);
        // In the place of the file of the next turn.
        std::fs::create_dir(dir.path().join("000001.a")).unwrap();
        saved.replace(&folder, snapshot("b"), now);
        saved.replace(&folder, snapshot("b"), now);
        assert_eq!(read().unwrap(), snapshot("a").as_bytes(), "the last whole state was destroyed");
        std::fs::remove_dir(dir.path().join("000001.a")).unwrap();
        saved.replace(&folder, snapshot("b"), now);
        assert_eq!(read().unwrap(), snapshot("b").as_bytes());
    }
}
