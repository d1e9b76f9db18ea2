//! Cleans up after a killed supervisor.

use std::collections::HashSet;
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
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum time to remove its cgroups.
const CGROUPS_LIMIT: Duration = Duration::from_secs(1);

impl Inner {
    /// Removes the cgroups and sockets of supervisors of an earlier boot or container. Their processes ended with it,
    /// and their process ids are those of others by now. Cgroups outlive a container.
    pub(super) async fn sweep_earlier(&self, nonces: Vec<u64>) {
        if nonces.is_empty() {
            return;
        }
        let (folders, cgroups) = (Arc::clone(&self.state.folders), self.config.cgroups.into());
        blocking(move || {
            remove_cgroups(cgroups, &nonces.iter().filter_map(|nonce| Nonce::from_value(*nonce)).collect());
            for nonce in nonces {
                let _ = unlinkat(&folders.supervisors, socket_name(nonce), AtFlags::empty());
            }
        })
        .await;
    }

    /// Ends every process of a dead supervisor.
    pub(super) async fn sweep(&self, nonce: Nonce) {
        sweep(Arc::clone(&self.state.folders), self.config.cgroups.into(), nonce).await;
        // Processes without a tag are ended by the zygote, the supervisor's parent.
        let path = self.state.path.clone();
        blocking(move || wait_for_orphans(&path)).await;
    }
}

/// Removes the cgroups of dead supervisors whose processes have ended.
fn remove_cgroups(choice: CgroupChoice, dead: &HashSet<Nonce>) {
    let (cgroups, begun) = (Cgroups::detect(choice), Instant::now());
    // A cgroup may be busy for a moment after its last process has ended.
    while cgroups.sweep(dead) > 0 && begun.elapsed() < CGROUPS_LIMIT {
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Ends every process of a dead supervisor, and removes its cgroups and its socket.
pub(super) async fn sweep(folders: Arc<Folders>, cgroups: CgroupChoice, nonce: Nonce) {
    blocking(move || {
        let mut ending = Ending::new(Scope::Nonce(nonce), Signal::KILL, Duration::ZERO, None);
        while let Step::Wait { until } = ending.step(Instant::now()) {
            std::thread::sleep(until.saturating_duration_since(Instant::now()).min(POLL_INTERVAL));
        }
        remove_cgroups(cgroups, &HashSet::from([nonce]));
        let _ = unlinkat(&folders.supervisors, socket_name(nonce.value()), AtFlags::empty());
    })
    .await;
}
