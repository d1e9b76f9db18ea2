//! Dispatches what a supervisor sends: replies to their callers, events to the engine.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::super::Inner;
use super::{SupervisorLink, lock};
use crate::end::EndReason;
use crate::protocol::{Answer, FrameBuffer, FrameError, Request};

impl SupervisorLink {
    pub(super) fn dispatch(
        self: &Arc<Self>,
        frames: &mut FrameBuffer,
        engine: &Weak<Inner>,
    ) -> io::Result<()> {
        loop {
            match frames.next::<Answer>() {
                Ok(Some(envelope)) if envelope.request == 0 => self.event(envelope.body, engine),
                Ok(Some(envelope)) => {
                    if let Some(sender) = lock(&self.pending).remove(&envelope.request) {
                        // The caller may have stopped waiting.
                        drop(sender.send(envelope.body));
                    }
                }
                Ok(None) => {
                    if !lock(&self.executions).is_empty()
                        && let Some(engine) = engine.upgrade()
                    {
                        engine.run_continues(self);
                    }
                    return Ok(());
                }
                // An event of a newer supervisor; its relevant content is also in the journal.
                Err(FrameError::Unknown(_)) => {}
                Err(e) => return Err(io::Error::other(e)),
            }
        }
    }

    fn event(self: &Arc<Self>, event: Answer, engine: &Weak<Inner>) {
        let find = |slot: u32| lock(&self.executions).get(&slot).cloned();
        match event {
            Answer::Ready => {
                self.ready.store(true, Ordering::Release);
                self.became_ready.notify_waiters();
            }
            Answer::Renewed => {
                if let Some(engine) = engine.upgrade() {
                    engine.renewed(self);
                }
            }
            Answer::Started { slot, pid } => {
                if let (Some(execution), Some(engine)) = (find(slot), engine.upgrade()) {
                    engine.execution_started(&execution, pid);
                }
            }
            Answer::NotStarted { slot, why } => {
                if let (Some(execution), Some(engine)) = (find(slot), engine.upgrade()) {
                    self.untrack(slot);
                    engine.execution_refused(&execution, why);
                }
            }
            Answer::Ended { slot, end, position, unrecorded, stderr_bytes } => {
                if let (Some(execution), Some(engine)) = (find(slot), engine.upgrade()) {
                    execution.set_stderr_bytes(stderr_bytes.unwrap_or(0));
                    if let Some(lengths) = unrecorded
                        && engine.record_end(self.nonce, &execution, &end, lengths)
                    {
                        // If this is lost, the supervisor reports the end again to the next engine.
                        let _ = self.tell(&Request::EndRecorded(slot));
                    }
                    engine.execution_ended(&execution, end, position);
                }
            }
            Answer::Closed { slot, position } => {
                if let (Some(execution), Some(engine)) = (find(slot), engine.upgrade()) {
                    if !execution.has_leftovers() {
                        self.untrack(slot);
                    }
                    engine.execution_closed_at(&execution, position);
                    // A supervisor exits after a run that it ended itself.
                    let is_reusable = execution.end().is_some_and(|end| {
                        end.leftover_count == 0
                            && matches!(end.reason, EndReason::Exited | EndReason::Signaled)
                    });
                    if is_reusable && execution.fixed.session.is_none() && execution.fixed.terminal.is_none()
                    {
                        engine.renewing(self);
                    } else {
                        engine.run_was_last(self);
                    }
                }
            }
            Answer::Gone { slot } => {
                if let (Some(execution), Some(engine)) = (find(slot), engine.upgrade()) {
                    self.untrack(slot);
                    engine.execution_leftovers_gone(&execution);
                }
            }
            Answer::Restarted(_) => {
                if let Some(engine) = engine.upgrade() {
                    engine.session_restarted(self);
                }
            }
            Answer::Grew { slot, position, unrecorded } => {
                if let Some(execution) = find(slot) {
                    execution.reported(position, unrecorded);
                }
            }
            _ => {}
        }
    }
}
