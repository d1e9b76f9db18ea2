//! Resource usage of live processes: of an execution, and of all executions.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::Pid;

use super::link::lock;
use super::tasks::blocking;
use super::{Engine, Execution};
use crate::process_tree::Tag;
use crate::procfs::{self, ProcessMetrics};

/// Resource usage of processes at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeMetrics {
    /// Number of processes.
    pub processes: u64,
    /// Number of threads of these processes.
    pub threads: u64,
    /// Number of their open descriptors.
    pub open_files: u64,
    /// Their CPU time in user mode, with that of children they have waited for.
    pub user: Duration,
    /// Their CPU time in the kernel, with that of children they have waited for.
    pub system: Duration,
    /// Sum of their resident set sizes. Shared pages count once for each process.
    pub resident_bytes: u64,
    /// Number of bytes that they have read from disks.
    pub read_bytes: u64,
    /// Number of bytes that they have written to disks.
    pub written_bytes: u64,
    /// Number of processes whose I/O and descriptors the kernel does not show to this user.
    pub unreadable: u64,
}

impl TreeMetrics {
    fn of(pids: impl IntoIterator<Item = Pid>) -> Self {
        let mut total = Self::default();
        // A process that has ended meanwhile does not count.
        for found in pids.into_iter().filter_map(ProcessMetrics::of) {
            total.processes += 1;
            total.threads += found.threads;
            total.user += found.usage.user;
            total.system += found.usage.system;
            total.resident_bytes += found.usage.resident_bytes;
            match (found.io, found.open_files) {
                (Some((read, written)), Some(open_files)) => {
                    total.read_bytes += read;
                    total.written_bytes += written;
                    total.open_files += open_files;
                }
                _ => total.unreadable += 1,
            }
        }
        total
    }
}

/// Measures on a thread.
async fn measure(pids: impl FnOnce() -> Vec<Pid> + Send + 'static) -> TreeMetrics {
    let (send, measured) = tokio::sync::oneshot::channel();
    blocking(move || {
        // The receiver waits below.
        let _ = send.send(TreeMetrics::of(pids()));
    })
    .await;
    measured.await.unwrap_or_default()
}

impl Execution {
    /// Measures its processes: the whole tree, daemons and leftovers included.
    pub async fn metrics(&self) -> TreeMetrics {
        let pids = self.pids().await;
        let pids = pids.into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).collect();
        measure(move || pids).await
    }
}

impl Engine {
    /// Measures the processes of all executions. Reads the tag of every process of the machine.
    pub async fn total_metrics(&self) -> TreeMetrics {
        let may_run =
            |execution: &Execution| execution.tracked.end().is_none() || execution.tracked.has_leftovers();
        let nonce = |execution: &Execution| lock(&execution.tracked.link).as_ref().map(|link| link.nonce);
        let supervisors: HashSet<_> =
            self.executions().iter().filter(|e| may_run(e)).filter_map(nonce).collect();
        if supervisors.is_empty() {
            return TreeMetrics::default();
        }
        measure(move || {
            let is_own =
                |pid: &Pid| Tag::of(*pid).is_some_and(|tag| supervisors.contains(&tag.nonce().value()));
            procfs::ids_in("/proc").into_iter().filter(is_own).collect()
        })
        .await
    }
}
