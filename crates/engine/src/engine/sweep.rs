//! Cleans up after a killed supervisor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, unlinkat};
use rustix::process::Signal;

use super::Inner;
use super::tasks::blocking;
use crate::layout::{Folders, socket_name};
use crate::process_tree::{CgroupChoice, Cgroups, Ending, Nonce, Scope, Step};
use crate::supervisor::zygote::wait_for_orphans;

/// Interval between two scans for killed processes.
const AGAIN: Duration = Duration::from_millis(2);
/// Maximum time to remove its cgroups.
const CGROUPS_LIMIT: Duration = Duration::from_secs(1);

impl Inner {
    /// Ends every process of a dead supervisor.
    pub(super) async fn sweep(&self, nonce: Nonce) {
        sweep(Arc::clone(&self.state.folders), self.config.cgroups.into(), nonce).await;
        // Processes without a tag are ended by the zygote, the supervisor's parent.
        let path = self.state.path.clone();
        blocking(move || wait_for_orphans(&path)).await;
    }
}

/// Ends every process of a dead supervisor, and removes its cgroups and its socket.
pub(super) async fn sweep(folders: Arc<Folders>, cgroups: CgroupChoice, nonce: Nonce) {
    blocking(move || {
        let mut ending = Ending::new(Scope::Nonce(nonce), Signal::KILL, Duration::ZERO, None);
        while let Step::Wait { until } = ending.step(Instant::now()) {
            std::thread::sleep(until.saturating_duration_since(Instant::now()).min(AGAIN));
        }
        // A cgroup may be busy for a moment after its last process has ended.
        let (cgroups, begun) = (Cgroups::detect(cgroups), Instant::now());
        while cgroups.sweep(nonce) > 0 && begun.elapsed() < CGROUPS_LIMIT {
            std::thread::sleep(AGAIN);
        }
        let _ = unlinkat(&folders.supervisors, socket_name(nonce.value()), AtFlags::empty());
    })
    .await;
}
