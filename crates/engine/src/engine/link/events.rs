//! Dispatches what a supervisor sends: replies to their callers, events to the engine.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::super::Inner;
use super::{Incoming, SupervisorLink, lock};
use crate::end::EndReason;
use crate::protocol::{Envelope, FrameError, Request, Response};

impl SupervisorLink {
    pub(super) fn dispatch(
        self: &Arc<Self>,
        incoming: &mut Incoming,
        engine: &Weak<Inner>,
    ) -> io::Result<()> {
        loop {
            match incoming.frames.next::<Response>() {
                Ok(Some(Envelope { body: Response::Shared { slot }, .. })) => {
                    if let Some(master) = incoming.files.pop_front().flatten() {
                        self.shared(slot, master);
                    }
                }
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

    /// The master of a terminal has come.
    fn shared(&self, slot: u32, master: OwnedFd) {
        let execution = lock(&self.executions).get(&slot).cloned();
        if let Some(terminal) = execution.as_ref().and_then(|execution| execution.fixed.terminal.as_ref()) {
            terminal.direct.set_master(master);
        }
    }

    fn event(self: &Arc<Self>, event: Response, engine: &Weak<Inner>) {
        let find = |slot: u32| lock(&self.executions).get(&slot).cloned();
        match event {
            Response::Ready => {
                self.ready.store(true, Ordering::Release);
                self.became_ready.notify_waiters();
            }
            Response::Renewed => {
                if let Some(engine) = engine.upgrade() {
                    engine.renewed(self);
                }
            }
            Response::Started { slot, pid } => {
                if let (Some(execution), Some(engine)) = (find(slot), engine.upgrade()) {
                    engine.execution_started(&execution, pid);
                }
            }
            Response::NotStarted { slot, why } => {
                if let (Some(execution), Some(engine)) = (find(slot), engine.upgrade()) {
                    self.untrack(slot);
                    engine.execution_refused(&execution, why);
                }
            }
            Response::Ended { slot, end, position, unrecorded, stderr_bytes } => {
                if let (Some(execution), Some(engine)) = (find(slot), engine.upgrade()) {
                    execution.set_stderr_bytes(stderr_bytes.unwrap_or(0));
                    if let Some(lengths) = unrecorded
                        && engine.record_end(self.nonce, &execution, &end, lengths)
                    {
                        // If this is lost, the supervisor reports the end again to the next engine.
                        let _ = self.notify(&Request::EndRecorded(slot));
                    }
                    engine.execution_ended(&execution, end, position);
                }
            }
            Response::Closed { slot, position } => {
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
            Response::Gone { slot } => {
                if let (Some(execution), Some(engine)) = (find(slot), engine.upgrade()) {
                    self.untrack(slot);
                    engine.execution_leftovers_gone(&execution);
                }
            }
            Response::Restarted(_) => {
                if let Some(engine) = engine.upgrade() {
                    engine.session_restarted(self);
                }
            }
            Response::Grew { slot, position, unrecorded } => {
                if let Some(execution) = find(slot) {
                    execution.reported(position, unrecorded);
                }
            }
            _ => {}
        }
    }
}
