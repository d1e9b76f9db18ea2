//! The start of an execution. Its id is reserved and its journal claimed before anything runs, so after any crash it
//! has one record and runs at most once.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::sync::oneshot;

use super::execution::Execution;
use super::life_cycle::Tracked;
use super::link::{LinkError, SupervisorLink, lock};
use super::tasks::blocking;
use super::{Inner, SessionError, StartError, validate};
use crate::command::CommandSpec;
use crate::end::Leftover;
use crate::id::SessionId;
use crate::journal::{JournalSlot, NewJournal, Opening};
use crate::protocol::{Bytes, Command, Refusal, Request, Response, TerminalOptions, WireProgram, variables};
use crate::record::{Record, TerminalRecord};
use crate::shell::quoted;
use crate::wire;

/// The circumstances of a start, besides the command.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StartContext<'a> {
    /// The session to which it belongs.
    pub(super) session: Option<&'a SessionId>,
    /// The state of that session, if it starts from it.
    pub(super) prelude: Option<&'a [u8]>,
    /// Set if it is a terminal.
    pub(super) terminal: Option<&'a TerminalRecord>,
}

/// Reserves the id of a session during its creation.
#[derive(Debug)]
pub(super) struct Reserved {
    engine: Arc<Inner>,
    id: SessionId,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        lock(&self.engine.registry).creating.remove(&self.id);
    }
}

/// A start that was sent and has no reply yet. If the caller stops waiting, a refusal still releases the reservation.
struct PendingStart {
    engine: Weak<Inner>,
    link: Arc<SupervisorLink>,
    tracked: Arc<Tracked>,
    answer: Option<oneshot::Receiver<Response>>,
}

impl PendingStart {
    async fn hear(&mut self) -> Result<Response, LinkError> {
        match &mut self.answer {
            Some(answer) => self.link.answer(answer).await,
            None => Err(LinkError::Gone),
        }
    }
}

impl Drop for PendingStart {
    fn drop(&mut self) {
        let (Some(answer), Some(engine)) = (self.answer.take(), self.engine.upgrade()) else {
            return;
        };
        let (link, tracked) = (Arc::clone(&self.link), Arc::clone(&self.tracked));
        let weak = Weak::clone(&self.engine);
        engine.tasks.spawn(async move {
            if let Ok(Response::Refused(why)) = answer.await
                && let Some(engine) = weak.upgrade()
            {
                link.untrack(tracked.slot());
                engine.execution_refused(&tracked, why);
            }
        });
    }
}

impl Inner {
    /// Reserves the id of a session. If a session with this id is being deleted, waits until it is gone: the deletion
    /// must not end processes of the new session.
    pub(super) async fn reserve_session(self: &Arc<Self>, id: &SessionId) -> Result<Reserved, SessionError> {
        loop {
            let before = lock(&self.registry).sessions.get(id).cloned();
            match before.filter(|session| session.deleted.load(Ordering::Acquire)) {
                // The deleting task holds this lock until the session is gone.
                Some(leaving) => drop(leaving.reviving.lock().await),
                None => return self.try_reserve_session(id),
            }
        }
    }

    fn try_reserve_session(self: &Arc<Self>, id: &SessionId) -> Result<Reserved, SessionError> {
        let mut registry = lock(&self.registry);
        if registry.sessions.contains_key(id) || !registry.creating.insert(id.clone()) {
            return Err(SessionError::AlreadyExists(id.clone()));
        }
        let count = registry.sessions.len() + registry.creating.len();
        if count > self.config.max_sessions {
            registry.creating.remove(id);
            return Err(SessionError::TooMany(self.config.max_sessions));
        }
        Ok(Reserved { engine: Arc::clone(self), id: id.clone() })
    }

    /// The execution of an earlier identical request, if it exists.
    pub(super) fn find_same(self: &Arc<Self>, spec: &CommandSpec) -> Result<Option<Execution>, StartError> {
        let same = lock(&self.executions).check_id(spec)?.cloned();
        Ok(same.map(|tracked| Execution { tracked, engine: Arc::clone(self) }))
    }

    /// Claims a journal for a record.
    pub(super) fn claim(
        self: &Arc<Self>,
        record: &Record,
        bound: Option<u64>,
    ) -> Result<(JournalSlot, NewJournal), StartError> {
        let bound = bound.unwrap_or(self.config.journal_bytes);
        let record = wire::to_bytes(record);
        let mut store = lock(&self.store);
        let claimed = store.claim(&record, bound).map_err(StartError::claim)?;
        let opening = store.begin_opening();
        drop(store);
        if let Some(opening) = opening {
            self.open_slots(opening);
        }
        Ok(claimed)
    }

    /// Opens a few slots for later executions on a thread.
    fn open_slots(self: &Arc<Self>, opening: Opening) {
        let engine = Arc::downgrade(self);
        self.tasks.spawn(async move {
            blocking(move || {
                let opened = opening.work();
                if let Some(engine) = engine.upgrade() {
                    lock(&engine.store).end_opening(opened);
                }
            })
            .await;
        });
    }

    /// Starts a command on its own supervisor. Returns when it runs.
    pub(super) async fn start_alone(
        self: &Arc<Self>,
        spec: &CommandSpec,
        context: StartContext<'_>,
    ) -> Result<Execution, StartError> {
        let mut given_up = 0;
        loop {
            let taken = self.supervisor_for_run().await?;
            let started = match self.start_on(&taken.link, spec, context).await {
                Ok(execution) => execution.wait_started().await.map(|()| execution),
                Err(e) => Err(e),
            };
            match started {
                Err(e) if self.goes_to_another(&taken.link, &e, &mut given_up) => {}
                started => return started,
            }
        }
    }

    /// Starts a command on a supervisor. Returns when the supervisor has accepted it.
    pub(super) async fn start_on(
        self: &Arc<Self>,
        link: &Arc<SupervisorLink>,
        spec: &CommandSpec,
        context: StartContext<'_>,
    ) -> Result<Execution, StartError> {
        let StartContext { session, prelude, terminal } = context;
        validate::command(spec)?;
        let (tracked, new) = self.claim_execution(link.nonce, spec, session, terminal)?;
        let execution = Execution { tracked: Arc::clone(&tracked), engine: Arc::clone(self) };
        let Some(journal) = new else { return Ok(execution) };
        let mut command = Command::new(tracked.slot(), spec);
        if let Some(user) = spec.user.as_ref().filter(|user| Some(*user) != self.config.run_as.as_ref()) {
            // A session's state already contains these.
            if prelude.is_none() {
                let env = user.env().map(|(name, value)| (name, Some(value)));
                command.env.splice(0..0, variables(&env));
            }
            command.user = Some(user.clone());
        }
        command.terminal = terminal.map(|terminal| TerminalOptions {
            size: terminal.size,
            interactive_shell: terminal.interactive_shell,
        });
        command.prelude = prelude.map(|text| Bytes(text.to_vec()));
        if let (Some(_), None, WireProgram::Argv(argv)) = (prelude, terminal, &command.program) {
            // The shell that has the state must start it.
            command.program = WireProgram::Shell(Bytes(quoted(argv.iter().map(|word| &word.0))));
        }
        command.is_urgent = (session.is_none() && self.is_short_of_supervisors()).then_some(true);
        let sent = tracked.send_start(link, || {
            link.track(Arc::clone(&tracked));
            link.start(command, journal)
        });
        // From here on, only a reply of the supervisor may undo the start.
        let answer = match sent {
            Ok(answer) => {
                // The supervisor did not have the execution when earlier positions were reported.
                tracked.report_readers_again();
                let (engine, link, tracked) = (Arc::downgrade(self), Arc::clone(link), Arc::clone(&tracked));
                let mut unheard = PendingStart { engine, link, tracked, answer: Some(answer) };
                let heard = unheard.hear().await;
                unheard.answer = None;
                heard
            }
            Err(e) => Err(e),
        };
        match answer {
            Ok(Response::Accepted) => Ok(execution),
            Ok(Response::Refused(why)) => {
                link.untrack(tracked.slot());
                self.execution_refused(&tracked, why.clone());
                Err(tracked.fixed.refused(why))
            }
            Err(LinkError::Busy) => {
                link.untrack(tracked.slot());
                self.execution_refused(&tracked, Refusal::QueueFull);
                Err(StartError::QueueFull)
            }
            // The supervisor may have it nevertheless, so it is recovered. A link that has already ended has not seen
            // it.
            Ok(_) | Err(LinkError::Gone) => {
                if link.is_over() {
                    self.link_over(link);
                }
                match execution.wait_started().await {
                    Ok(()) if execution.is_lost() => Err(StartError::Lost),
                    Ok(()) => Ok(execution),
                    Err(e) => Err(e),
                }
            }
        }
    }

    /// The background processes and terminals of a session that have not ended.
    pub(super) fn processes_of(self: &Arc<Self>, session: &SessionId) -> Vec<Execution> {
        self.find(|tracked| {
            tracked.fixed.session.as_ref() == Some(session)
                && (tracked.fixed.background || tracked.fixed.terminal.is_some())
                && tracked.end().is_none()
        })
    }

    /// Turns the leftovers of a command into executions.
    pub(super) fn adopt_leftovers(self: &Arc<Self>, parent: &Arc<Tracked>, leftovers: Vec<Leftover>) {
        let Some(link) = lock(&parent.link).clone() else {
            return;
        };
        let engine = Arc::downgrade(self);
        let parent = Arc::clone(parent);
        self.tasks.spawn(async move {
            for Leftover { pid, command } in leftovers {
                let Some(engine) = engine.upgrade() else {
                    return;
                };
                let mut spec = CommandSpec::argv([command]).background();
                spec.on_session_end = parent.fixed.on_session_end;
                let reserved = engine.claim_execution(link.nonce, &spec, parent.fixed.session.as_ref(), None);
                let Ok((tracked, _)) = reserved else { continue };
                *lock(&tracked.link) = Some(Arc::clone(&link));
                tracked.adopting.store(true, Ordering::Release);
                link.track(Arc::clone(&tracked));
                let request = Request::Adopt { slot: tracked.slot(), pid };
                match link.call(&request).await {
                    Ok(Response::Done) => {
                        tracked.adopting.store(false, Ordering::Release);
                        engine.execution_started(&tracked, pid);
                    }
                    // It has ended meanwhile, or nothing was sent.
                    Ok(Response::Refused(_)) | Err(LinkError::Busy) => {
                        link.untrack(tracked.slot());
                        engine.execution_refused(&tracked, Refusal::NoSuchExecution);
                    }
                    // The supervisor may write to the slot nevertheless, so the slot is not released and the
                    // supervisor is recovered.
                    Ok(_) | Err(LinkError::Gone) => {
                        if link.is_over() {
                            engine.link_over(&link);
                        }
                        return;
                    }
                }
            }
        });
    }
}
