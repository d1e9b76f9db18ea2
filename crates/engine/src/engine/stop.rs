//! Ends all executions and sessions, for a shutdown.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Inner;
use super::execution::Execution;
use super::link::{SupervisorLink, lock};
use crate::end::KillReceipt;
use crate::id::ExecutionId;
use crate::protocol::{Request, Response};

/// Maximum time until an execution without processes has its end.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which executions are looked at that no supervisor has yet.
const UNSENT_INTERVAL: Duration = Duration::from_millis(5);

/// Result of [`Engine::stop_all`](crate::Engine::stop_all).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StopSummary {
    /// Number of ended executions.
    pub ended: usize,
    /// Number of processes that still run: of another user, or stuck in the kernel.
    pub survivors: usize,
}

impl Inner {
    pub(super) async fn stop_all(self: &Arc<Self>, signal: i32, grace: Duration) -> StopSummary {
        let mut stopped = HashMap::new();
        let deadline = Instant::now() + END_TIMEOUT;
        loop {
            let unfinished = self.unfinished();
            kill(&unfinished, signal, grace).await;
            let is_unsent = |execution: &Execution| lock(&execution.tracked.link).is_none();
            let wait = unfinished.iter().any(is_unsent) && Instant::now() < deadline;
            stopped.extend(by_id(unfinished));
            if !wait {
                break;
            }
            sleep(UNSENT_INTERVAL).await;
        }
        // Leftovers may have become executions too.
        stopped.extend(by_id(self.unfinished()));
        let mut survivors = self.delete_sessions().await;
        survivors += self.quit_runs().await;
        let mut waits = JoinSet::new();
        for execution in stopped.into_values() {
            waits.spawn(async move { matches!(timeout(END_TIMEOUT, execution.wait()).await, Ok(Ok(_))) });
        }
        let ended = waits.join_all().await.into_iter().filter(|ended| *ended).count();
        StopSummary { ended, survivors }
    }

    /// Deletes every session. Returns the number of processes that are left.
    async fn delete_sessions(self: &Arc<Self>) -> usize {
        let sessions: Vec<_> = lock(&self.registry).sessions.values().cloned().collect();
        let mut deletions = JoinSet::new();
        for session in sessions {
            let engine = Arc::clone(self);
            deletions.spawn(async move { engine.delete_session(&session).await });
        }
        // A session that another task deletes is counted there.
        let receipts = deletions.join_all().await.into_iter().flatten();
        receipts.map(|receipt| receipt.survivors.len()).sum()
    }

    /// Ends every supervisor of a run with leftovers. Returns the number of processes that are left.
    async fn quit_runs(self: &Arc<Self>) -> usize {
        let open = self.find(|tracked| !tracked.is_closed() || tracked.has_leftovers());
        let links: HashMap<u64, Arc<SupervisorLink>> = open
            .iter()
            .filter_map(|execution| lock(&execution.tracked.link).clone())
            .map(|link| (link.nonce, link))
            .collect();
        let receipts = call_all(links.into_values().map(|link| (link, Request::Quit))).await;
        receipts.iter().map(|receipt| receipt.survivors.len()).sum()
    }
}

fn by_id(executions: Vec<Execution>) -> impl Iterator<Item = (ExecutionId, Execution)> {
    executions.into_iter().map(|execution| (execution.id().clone(), execution))
}

/// Ends executions concurrently, the youngest first: queued commands of a session must not start.
async fn kill(executions: &[Execution], signal: i32, grace: Duration) {
    let requests = executions.iter().rev().filter_map(|execution| {
        let link = lock(&execution.tracked.link).clone()?;
        // An interactive shell ignores SIGTERM.
        let is_terminal = execution.tracked.fixed.terminal.is_some();
        let signal = if is_terminal && signal == libc::SIGTERM { libc::SIGHUP } else { signal };
        Some((link, Request::Kill { slot: execution.tracked.slot(), signal, grace }))
    });
    call_all(requests).await;
}

/// Sends all requests before it waits for the first reply. A dead supervisor has nothing left.
async fn call_all(requests: impl Iterator<Item = (Arc<SupervisorLink>, Request)>) -> Vec<KillReceipt> {
    let mut answers = JoinSet::new();
    for (link, request) in requests {
        if let Ok(mut answer) = link.request(&request) {
            answers.spawn(async move { link.answer(&mut answer).await });
        }
    }
    let answers = answers.join_all().await.into_iter();
    answers
        .filter_map(|answer| match answer {
            Ok(Response::Receipt(receipt)) => Some(receipt),
            _ => None,
        })
        .collect()
}
