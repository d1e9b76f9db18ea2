//! Ends the program of a service.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use sandcrab_api::ErrorCode;
use sandcrab_api::Timestamp;
use sandcrab_api::event::ServerEvent;
use sandcrab_api::service::ServiceRemovedEvent;
use sandcrab_engine::{DEFAULT_GRACE, Execution, KillReceipt};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::policy::Outcome;
use super::record::{self, Phase};
use super::task::{Cause, Command, Task};
use crate::error::ApiError;
use crate::signal;

/// Time for the end of an execution to be recorded after its processes were ended.
const RECORD_TIME: Duration = Duration::from_secs(5);
/// Time before a kill that failed is repeated.
const REPEAT_AFTER: Duration = Duration::from_secs(1);
const SIGKILL: i32 = 9;

/// What follows the end of the current execution, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AfterEnd {
    /// The policy decides: it was unhealthy.
    Judge,
    /// The next execution starts at once.
    Restart,
    /// The service is stopped.
    Stop,
    /// The service is deleted.
    Remove,
}

/// The reply to a request to end the current execution.
pub(super) type EndReply = oneshot::Sender<Result<KillReceipt, ApiError>>;

/// A request that was accepted.
#[derive(Debug)]
pub(super) struct PendingEnd {
    pub(super) then: AfterEnd,
    pub(super) signal: i32,
    pub(super) grace: Duration,
    pub(super) reply: Option<EndReply>,
}

impl Task {
    /// Accepts a request of a client. It is on the disk when this returns, so it is not undone by a crash.
    pub(super) async fn accept(&mut self, command: Command) {
        match command {
            Command::Replace { reply, put_back } => {
                if let Some(execution) = self.live_execution() {
                    drop(execution.kill(SIGKILL, Duration::ZERO).await);
                }
                drop(reply.send(Ok(KillReceipt::default())));
                let Ok(done) = put_back.await else {
                    self.is_over = true;
                    return;
                };
                if let Err(error) = self.save().await {
                    tracing::warn!(service = self.record.id, %error, "the record of a service cannot be written");
                    // It is that of the replacement, which the next server must not start.
                    drop(self.remove_record().await);
                }
                // The new task has ended.
                let _ = done.send(());
            }
            Command::End { then: asked, signal, grace, reply } => {
                let before = self.record.phase;
                // A stronger request is not weakened by a later one.
                let then = match before {
                    Phase::Ending { then: earlier } => earlier.max(asked),
                    _ => asked,
                };
                let idle_before = match before {
                    Phase::Stopped | Phase::Failed => Some(before),
                    Phase::Ending { .. } => self.idle_before,
                    Phase::Starting | Phase::Running { .. } | Phase::Waiting { .. } => None,
                };
                self.record.phase = Phase::Ending { then };
                if let Err(error) = self.save().await {
                    // A stop must be possible on a full disk. Without a record, the next server starts nothing.
                    let is_accepted = then >= AfterEnd::Stop && self.remove_record().await.is_ok();
                    if !is_accepted {
                        self.record.phase = before;
                        drop(reply.send(Err(record::failed(&error))));
                        return;
                    }
                }
                self.idle_before = idle_before;
                self.pending.push(PendingEnd { then: asked, signal, grace, reply: Some(reply) });
            }
        }
    }

    /// Ends the current execution, if it runs, and does what follows.
    pub(super) async fn end(&mut self) {
        self.publish();
        let execution = self.live_execution();
        let mut kills = FuturesUnordered::new();
        let mut ended = Vec::new();
        let mut has_failed = false;
        if self.pending.is_empty() {
            let (signal, grace) = (signal::TERM, DEFAULT_GRACE);
            self.pending.push(PendingEnd { then: AfterEnd::Judge, signal, grace, reply: None });
        }
        loop {
            kills.extend(self.pending.drain(..).map(|pending| kill(execution.clone(), pending)));
            if kills.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                Some((pending, receipt)) = kills.next() => {
                    has_failed |= receipt.is_err();
                    ended.push((pending, receipt));
                }
                Some(command) = self.commands.recv() => self.accept(command).await,
                () = self.app.stopping.cut_off() => self.is_over = true,
            }
            if self.is_over {
                return;
            }
        }
        if let Some(execution) = &execution {
            let is_recorded = tokio::time::timeout(RECORD_TIME, execution.wait()).await.is_ok();
            if has_failed && !is_recorded {
                reply_all(ended, |_| Ok(()));
                // The phase has not changed, so this is tried again.
                return tokio::time::sleep(REPEAT_AFTER).await;
            }
        }
        let Phase::Ending { then } = self.record.phase else { return };
        self.note_end().await;
        self.follow(then, ended).await;
    }

    async fn follow(&mut self, then: AfterEnd, ended: Vec<(PendingEnd, Result<KillReceipt, ApiError>)>) {
        match then {
            AfterEnd::Judge => self.judge(Outcome::Failure).await,
            AfterEnd::Restart => {
                self.record.in_a_row = 0;
                // Errors of the start are those of the request.
                self.restarting.extend(
                    ended
                        .into_iter()
                        .filter_map(|(pending, receipt)| Some((pending.reply?, receipt.unwrap_or_default()))),
                );
                return self.begin_next(Cause::Request).await;
            }
            AfterEnd::Stop => {
                self.record.set_error(None);
                self.set_phase(Phase::Stopped).await;
            }
            AfterEnd::Remove => self.remove().await,
        }
        let superseded = || {
            let message = "the service was stopped or deleted by another request";
            ApiError::new(ErrorCode::ExecutionConflict, message)
        };
        if then >= AfterEnd::Stop {
            // They wait for a start that was interrupted.
            if let Some(reply) = self.begun.take() {
                self.former = None;
                drop(reply.send(Err(superseded())));
                self.publish();
            }
            for (reply, _) in self.restarting.drain(..) {
                drop(reply.send(Err(superseded())));
            }
        }
        reply_all(ended, |pending| match pending.then {
            AfterEnd::Restart => Err(superseded()),
            _ => Ok(()),
        });
    }

    /// Removes the service.
    pub(super) async fn remove(&mut self) {
        if let Err(error) = self.remove_record().await {
            // It says that the service is to be removed, so the next server tries again.
            tracing::warn!(service = self.record.id, %error, "the record of a service cannot be removed");
        }
        self.is_over = true;
        self.is_removed = true;
        self.app.services.forget(&self.record.id, &self.handle);
        self.publish();
        let event = ServiceRemovedEvent { service_id: self.record.id.clone(), timestamp: Timestamp::now() };
        // Without a watcher.
        drop(self.app.services.changes.send(Arc::new(ServerEvent::ServiceRemoved(event))));
    }
}

async fn kill(
    execution: Option<Execution>,
    pending: PendingEnd,
) -> (PendingEnd, Result<KillReceipt, ApiError>) {
    let receipt = match execution {
        Some(execution) => execution.kill(pending.signal, pending.grace).await.map_err(ApiError::from),
        None => Ok(KillReceipt::default()),
    };
    (pending, receipt)
}

/// Replies to all requests: with the receipt, or with an error.
fn reply_all(
    ended: Vec<(PendingEnd, Result<KillReceipt, ApiError>)>,
    check: impl Fn(&PendingEnd) -> Result<(), ApiError>,
) {
    for (pending, receipt) in ended {
        let receipt = check(&pending).and(receipt);
        if let Some(reply) = pending.reply {
            // The client may have left.
            drop(reply.send(receipt));
        }
    }
}
