//! What the tests share: engines on state directories that are cleaned up, and processes as the
//! kernel shows them.

mod cgroups;
mod host;
mod place;
mod processes;
mod scene;

use std::time::{Duration, Instant};

use sandcrab_engine::ExecutionId;

pub(crate) use host::Host;
pub(crate) use place::{Place, cgroups_of};
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
const AGAIN: Duration = Duration::from_millis(2);

/// Waits until a condition is met; fails the test if it takes too long.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {TEST_TIMEOUT:?}: {what}");
        tokio::time::sleep(AGAIN).await;
    }
}

/// The same for a condition that takes time to find out.
pub(crate) async fn eventually_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !condition().await {
        assert!(Instant::now() < deadline, "not within {TEST_TIMEOUT:?}: {what}");
        tokio::time::sleep(AGAIN).await;
    }
}

/// The same without letting the tasks of the engine run meanwhile.
#[track_caller]
pub(crate) fn eventually_blocking(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {TEST_TIMEOUT:?}: {what}");
        std::thread::sleep(AGAIN);
    }
}
