//! [`Unrecorded`]: the output of a terminal while the disk is full.
//!
//! The terminal waits for space. After [`DISK_WAIT`] its output is left out of the journal and goes to the emulator of the
//! supervisor instead. The emulated screen is saved as soon as there is space, and covers what the journal does not have.

use std::time::{Duration, Instant};

use crate::journal::{JournalWriter, Stream};

/// Maximum time for which a program waits for space before its output is left out of the journal.
const DISK_WAIT: Duration = Duration::from_secs(2);
/// Interval between attempts to write while a program waits.
const HELD_RETRY: Duration = Duration::from_millis(100);
/// Interval between attempts to save the screen while no output waits.
const QUIET_RETRY: Duration = Duration::from_secs(1);

/// The output of a terminal for which there is no space.
#[derive(Debug, Default)]
pub(crate) struct Unrecorded {
    /// Output that is neither recorded nor emulated: one read, since the terminal is not read meanwhile.
    held: Vec<u8>,
    /// Whether a size that is not recorded comes before it, and not after it.
    is_size_first: bool,
    /// Time at which the output that waits must go on.
    until: Option<Instant>,
    /// Time of the next attempt.
    retry_at: Option<Instant>,
    /// Whether output was left out of the journal that no saved screen covers.
    is_skipping: bool,
    /// What the engine knows.
    told: bool,
}

impl Unrecorded {
    /// Whether output must not be written to the journal: it would come before this.
    pub(crate) fn is_active(&self) -> bool {
        self.is_skipping || !self.held.is_empty()
    }

    /// Whether the terminal must not be read.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether output was left out of the journal that no saved screen covers.
    pub(crate) fn is_skipping(&self) -> bool {
        self.is_skipping
    }

    /// The output that waits.
    pub(crate) fn held(&self) -> &[u8] {
        &self.held
    }

    /// Whether a size that is not recorded comes before the output that waits.
    pub(crate) fn is_size_first(&self) -> bool {
        self.is_size_first
    }

    /// Adds output, which may follow a size that is not recorded. It waits for the next attempt at least, so that
    /// output is recorded again when there is space.
    pub(crate) fn hold(&mut self, bytes: &[u8], has_size: bool, now: Instant) {
        if bytes.is_empty() {
            return;
        }
        if self.held.is_empty() {
            self.is_size_first = has_size;
            let wait = if self.is_skipping { HELD_RETRY } else { DISK_WAIT };
            (self.until, self.retry_at) = (Some(now + wait), Some(now + HELD_RETRY));
        }
        self.held.extend_from_slice(bytes);
    }

    /// Writes what waits, if nothing before it was left out. Returns whether nothing waits any more.
    pub(crate) fn write(&mut self, journal: &mut JournalWriter) -> bool {
        if self.is_skipping {
            return self.held.is_empty();
        }
        let written = journal.append_some(Stream::Stdout, &self.held);
        self.held.drain(..written);
        if self.held.is_empty() {
            *self = Self { told: self.told, ..Self::default() };
        }
        self.held.is_empty()
    }

    /// Leaves what waits out of the journal.
    pub(crate) fn skip(&mut self, journal: &mut JournalWriter) {
        journal.skip(Stream::Stdout, self.held.len());
        self.is_skipping |= !self.held.is_empty();
        (self.held, self.until) = (Vec::new(), None);
    }

    /// A saved screen covers everything that was left out.
    pub(crate) fn covered(&mut self) {
        self.is_skipping = false;
    }

    /// Whether an attempt is due; plans the next one.
    pub(crate) fn take_attempt(&mut self, now: Instant) -> bool {
        let is_due = self.retry_at.is_none_or(|at| at <= now);
        if is_due {
            self.retry_at = Some(now + if self.is_waiting() { HELD_RETRY } else { QUIET_RETRY });
        }
        is_due
    }

    /// Whether the output that waits must not wait any longer.
    pub(crate) fn has_waited(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Time of the next step.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        self.is_active().then_some(())?;
        self.retry_at.into_iter().chain(self.until).min()
    }

    /// Whether output is missing in the journal, if the engine must be told.
    pub(crate) fn take_report(&mut self) -> Option<bool> {
        (self.told != self.is_skipping).then(|| {
            self.told = self.is_skipping;
            self.is_skipping
        })
    }

    /// Another engine knows nothing.
    pub(crate) fn report_again(&mut self) {
        self.told = false;
    }
}
