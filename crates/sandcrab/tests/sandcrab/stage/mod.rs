//! What the tests share: servers that can be killed, and programs that are waited for with a deadline.

mod host;
mod program;

use std::time::{Duration, Instant};

pub(crate) use host::Scene;
pub(crate) use program::{Finished, Program, sandcrab};

/// How long a condition may take that is met at once on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(2);

/// Waits until a condition is met; fails the test if it takes too long.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(AGAIN);
    }
}

/// Whether a process is there; one that has ended and was not reaped yet is not.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with(['Z', 'X']));
    state == Some(false)
}
