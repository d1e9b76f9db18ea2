//! What the tests share: engines on state directories that are cleaned up, and processes as the
//! kernel shows them.

mod cgroups;
mod host;
mod not_run;
mod place;
mod processes;
mod scene;

use std::time::{Duration, Instant};

use sandcrab_engine::ExecutionId;

pub(crate) use host::Host;
pub(crate) use not_run::not_run;
pub(crate) use place::{Place, cgroups_of, pretend_reboot};
pub(crate) use processes::{
    Seen, Stranger, cpu_ticks, descendants, is_zombie, resident_bytes, running_in, with_argument, working_in,
};
pub(crate) use scene::{BOTH, Kind, Running, Scene, process_of, supervisor_of};

/// An id of an execution.
pub(crate) fn id(text: &str) -> ExecutionId {
    text.parse().unwrap()
}

/// How long a condition may take that is met at once on an idle machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest time that [`with_enough_time`] allows.
const LONGEST: Duration = Duration::from_secs(40);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Waits until a condition is met; fails the test if it takes too long.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {TEST_TIMEOUT:?}: {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Tries something that needs a command to get to a point within a time that the test chooses. A busy machine may need
/// longer: `None` says that the time was too short, and doubles it.
pub(crate) async fn with_enough_time<T>(
    first: Duration,
    mut attempt: impl AsyncFnMut(Duration) -> Option<T>,
) -> T {
    let mut allowed = first;
    loop {
        if let Some(value) = attempt(allowed).await {
            return value;
        }
        allowed *= 2;
        assert!(allowed < LONGEST, "not within {allowed:?}, which is long enough on every machine");
    }
}

/// The same for a condition that takes time to find out.
pub(crate) async fn eventually_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !condition().await {
        assert!(Instant::now() < deadline, "not within {TEST_TIMEOUT:?}: {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The same without letting the tasks of the engine run meanwhile.
#[track_caller]
pub(crate) fn eventually_blocking(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {TEST_TIMEOUT:?}: {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}
