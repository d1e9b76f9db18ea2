//! Recovery of a supervisor whose connection ended.
//!
//! An execution is never declared lost while its supervisor may still write to its journal. So the engine reconnects
//! to a supervisor that replies, and requires proof of death: its socket refuses connections, which happens when the
//! kernel has closed the supervisor's descriptors. A supervisor that does not reply for too long is killed first,
//! through a pidfd. An error of this process (no descriptor, no memory) proves nothing and is retried.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tokio::time::{sleep, timeout};

use super::Inner;
use super::adopt::ADOPTED;
use super::life_cycle::Tracked;
use super::link::{SupervisorLink, lock};
use super::session::SessionState;
use super::tasks::blocking;
use crate::process_tree::Nonce;
use crate::protocol::{OLDEST, Request, Response, Role, Stage, SupervisedExecution, VERSION};
use crate::supervisor::zygote::{continue_stopped, end_listeners, supervisors_of};

/// Maximum time for a reply before the next attempt.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// Time without a reply after which a supervisor is killed.
pub(super) const SILENCE_LIMIT: Duration = Duration::from_secs(10);
/// The first and the longest delay between two attempts.
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// A live supervisor and its executions.
#[derive(Debug, Clone)]
pub(super) struct LiveSupervisor {
    pub(super) link: Arc<SupervisorLink>,
    pub(super) role: Role,
    pub(super) held: Arc<[SupervisedExecution]>,
}

/// The outcome of a recovery.
#[derive(Debug, Clone)]
pub(super) enum Liveness {
    /// It replies on this connection.
    Alive(LiveSupervisor),
    /// It is dead, and all its processes have ended.
    Dead,
}

/// Result of one attempt to reach a supervisor.
#[derive(Debug)]
pub(super) enum ProbeResult {
    Alive(LiveSupervisor),
    /// No process listens on its socket.
    Dead,
    /// It listens but does not reply.
    Silent,
    /// This process could not try.
    Unable,
}

/// Recoveries in progress: one task per supervisor; other callers wait for its result. The entry of a live supervisor
/// stays as long as its connection, so that there is never a second one.
#[derive(Debug, Default)]
pub(super) struct Recoveries(Mutex<HashMap<u64, Arc<Recovery>>>);

type Recovery = tokio::sync::Mutex<Option<Liveness>>;

impl Recoveries {
    fn of(&self, nonce: u64) -> Arc<Recovery> {
        Arc::clone(lock(&self.0).entry(nonce).or_default())
    }

    /// Removes the entry of a supervisor, unless tasks wait for its result, or it has a new connection.
    fn forget(&self, nonce: u64) {
        let mut all = lock(&self.0);
        let is_connected = |own: &Recovery| {
            let known = own.try_lock();
            known.is_ok_and(|fate| matches!(&*fate, Some(Liveness::Alive(living)) if !living.link.is_over()))
        };
        if all.get(&nonce).is_some_and(|own| Arc::strong_count(own) == 1 && !is_connected(own)) {
            all.remove(&nonce);
        }
    }
}

/// Interprets an error of `connect`.
fn probe_result_of(error: &io::Error) -> ProbeResult {
    match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED | Errno::NOENT) => ProbeResult::Dead,
        // Its backlog of connections is full.
        Some(Errno::AGAIN) => ProbeResult::Silent,
        _ => ProbeResult::Unable,
    }
}

impl Inner {
    /// Connects to a supervisor that may be dead.
    pub(super) fn connect_to(self: &Arc<Self>, nonce: u64) -> Result<Arc<SupervisorLink>, ProbeResult> {
        let folder = &self.state.folders.supervisors;
        let connect = |socket| {
            SupervisorLink::connect(
                socket,
                folder,
                nonce,
                ADOPTED,
                Arc::clone(&self.slow_replies),
                self.state.key.as_ref(),
            )
        };
        let link = SupervisorLink::socket().and_then(connect).map_err(|e| probe_result_of(&e))?;
        self.tasks.spawn(Arc::clone(&link).run(Arc::downgrade(self)));
        Ok(link)
    }

    /// Handles the reply to `Hello`.
    pub(super) fn welcomed(link: Arc<SupervisorLink>, answer: Response) -> Option<LiveSupervisor> {
        let Response::Welcome { version, pid, role, held } = answer else { return None };
        if version < OLDEST {
            return None;
        }
        link.is_process(pid);
        link.is_version(version);
        link.serve();
        Some(LiveSupervisor { link, role, held: held.into() })
    }

    async fn probe(self: &Arc<Self>, nonce: u64) -> ProbeResult {
        let link = match self.connect_to(nonce) {
            Ok(link) => link,
            Err(result) => return result,
        };
        match timeout(ANSWER_TIME, link.call(&Request::Hello(VERSION, None))).await {
            Ok(Ok(answer)) => Self::welcomed(link, answer).map_or(ProbeResult::Silent, ProbeResult::Alive),
            // It may have died meanwhile; the next attempt shows it.
            Ok(Err(_)) | Err(_) => {
                link.close();
                ProbeResult::Silent
            }
        }
    }

    /// Determines whether a supervisor is alive. If it is dead, ends all its processes first. `None` if the engine
    /// closes meanwhile; this delays closing by at most one attempt.
    pub(super) async fn liveness_of(engine: &Weak<Self>, nonce: u64) -> Option<Liveness> {
        let recovery = engine.upgrade()?.recoveries.of(nonce);
        let mut known = recovery.lock().await;
        let fate = match &*known {
            Some(Liveness::Alive(living)) if !living.link.is_over() => Liveness::Alive(living.clone()),
            Some(Liveness::Dead) => Liveness::Dead,
            _ => Self::find_fate_of(engine, nonce).await?,
        };
        *known = Some(fate.clone());
        drop(known);
        drop(recovery);
        if matches!(fate, Liveness::Dead) {
            engine.upgrade()?.recoveries.forget(nonce);
        }
        Some(fate)
    }

    async fn find_fate_of(engine: &Weak<Self>, nonce: u64) -> Option<Liveness> {
        let mut silent_since = None;
        let mut retry = FIRST_RETRY;
        loop {
            let engine = engine.upgrade()?;
            match engine.probe(nonce).await {
                ProbeResult::Alive(living) => return Some(Liveness::Alive(living)),
                ProbeResult::Dead => break,
                ProbeResult::Silent => {
                    let since = *silent_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= SILENCE_LIMIT && engine.end_supervisor(nonce).await {
                        break;
                    }
                    let path = engine.state.path.clone();
                    blocking(move || continue_stopped(&supervisors_of(&path))).await;
                }
                ProbeResult::Unable => {}
            }
            drop(engine);
            sleep(retry).await;
            retry = (retry * 2).min(LONGEST_RETRY);
        }
        engine.upgrade()?.end_orphans_of(nonce).await;
        Some(Liveness::Dead)
    }

    /// Ends all processes of a dead supervisor.
    pub(super) async fn end_orphans_of(self: &Arc<Self>, nonce: u64) {
        // Its socket may have been removed while it was alive.
        let path = self.state.path.clone();
        blocking(move || end_listeners(&path, nonce)).await;
        if let Some(nonce) = Nonce::from_value(nonce) {
            self.sweep(nonce).await;
        }
    }

    /// Kills a supervisor that does not reply. Returns whether its socket has no listener any more.
    async fn end_supervisor(self: &Arc<Self>, nonce: u64) -> bool {
        let path = self.state.path.clone();
        blocking(move || end_listeners(&path, nonce)).await;
        matches!(self.connect_to(nonce), Err(ProbeResult::Dead))
    }

    /// Called when a connection has ended. The executions of its supervisor continue under a new one, or are lost,
    /// unless their journal contains an end.
    pub(super) fn link_over(self: &Arc<Self>, link: &Arc<SupervisorLink>) {
        self.not_renewing(link);
        let tracked = link.tracked();
        let mut unfinished: Vec<_> =
            tracked.into_iter().filter(|tracked| link.untrack(tracked.slot())).collect();
        unfinished.iter().for_each(|tracked| tracked.link_lost());
        let has_left = self.has_left(link.nonce);
        // A live supervisor may still write to the journal of an execution that has ended and is not closed, and
        // leftovers may still run; a supervisor of version 3 or older does not report that. So it is recovered,
        // unless nothing is left.
        let may_go_on = |tracked: &Tracked| !has_left && (!tracked.is_closed() || tracked.has_leftovers());
        unfinished.retain(|tracked| may_go_on(tracked) || !self.ended_by_itself(tracked));
        self.recoveries.forget(link.nonce);
        if !(unfinished.is_empty() && has_left) {
            self.recover(link.nonce, unfinished);
        }
    }

    /// Whether an execution without a known supervisor has ended.
    pub(super) fn ended_by_itself(self: &Arc<Self>, tracked: &Arc<Tracked>) -> bool {
        let ended = tracked.end().is_some() || self.reread_end(tracked);
        if ended {
            self.execution_closed(tracked, 0);
            self.execution_leftovers_gone(tracked);
        }
        ended
    }

    /// Recovers a supervisor and these executions in the background.
    pub(super) fn recover(self: &Arc<Self>, nonce: u64, unfinished: Vec<Arc<Tracked>>) {
        let weak = Arc::downgrade(self);
        self.tasks.spawn(async move {
            let fate = Self::liveness_of(&weak, nonce).await;
            let (Some(fate), Some(engine)) = (fate, weak.upgrade()) else {
                return;
            };
            match fate {
                Liveness::Alive(living) => engine.take_back(&living, unfinished).await,
                Liveness::Dead => {
                    let lost = unfinished.into_iter().filter(|tracked| !engine.ended_by_itself(tracked));
                    let lost: Vec<_> = lost.collect();
                    engine.incidents.supervisor_lost(nonce, lost.len());
                    engine.end_as_lost(lost);
                }
            }
        });
    }

    /// Continues with a supervisor on a new connection.
    async fn take_back(self: &Arc<Self>, living: &LiveSupervisor, unfinished: Vec<Arc<Tracked>>) {
        let slots: HashSet<u32> = unfinished.iter().map(|tracked| tracked.slot()).collect();
        for tracked in &unfinished {
            match living.held.iter().find(|held| held.slot == tracked.slot()) {
                Some(held) => self.adopt_held(tracked, &living.link, held),
                None if self.ended_by_itself(tracked) => {}
                // It was sent over the old connection and never arrived.
                None => self.end_as_lost(vec![Arc::clone(tracked)]),
            }
        }
        self.session_taken_back(living);
        // Only these: a command that is being sent right now is not known to it yet.
        self.catch_up(vec![(Arc::clone(&living.link), unfinished)]).await;
        let holds_other =
            |held: &SupervisedExecution| held.stage != Stage::Ended && !slots.contains(&held.slot);
        if !living.held.iter().any(holds_other) {
            self.quit_idle(std::slice::from_ref(living));
        }
    }

    /// The live supervisor of a session whose connection has ended or was never made.
    pub(super) async fn live_supervisor_of(
        self: &Arc<Self>,
        session: &SessionState,
    ) -> Option<Arc<SupervisorLink>> {
        let place = lock(&session.place).clone();
        // After a reboot it has none.
        if place.link.is_none() && !self.state.same_instance {
            return None;
        }
        let nonce = session.supervisor_of(&place);
        match Self::liveness_of(&Arc::downgrade(self), nonce).await? {
            Liveness::Alive(living) => {
                self.session_taken_back(&living);
                let place = lock(&session.place);
                place.link.clone().filter(|link| Arc::ptr_eq(link, &living.link))
            }
            Liveness::Dead => None,
        }
    }

    /// Assigns a supervisor to its session again, if that has no other by now. The slot alone is not sufficient: it
    /// may have belonged to another session before.
    fn session_taken_back(&self, living: &LiveSupervisor) {
        let Role::Session(slot) = living.role else { return };
        for session in lock(&self.registry).sessions.values() {
            let mut place = lock(&session.place);
            let is_same = place.record.slot.0 == slot && session.supervisor_of(&place) == living.link.nonce;
            if is_same && place.link.as_ref().is_none_or(|link| link.is_over()) {
                place.link = Some(Arc::clone(&living.link));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_proves_that_a_supervisor_is_dead() {
        let probe_result = |errno: Errno| probe_result_of(&errno.into());
        assert!(matches!(probe_result(Errno::CONNREFUSED), ProbeResult::Dead));
        assert!(matches!(probe_result(Errno::NOENT), ProbeResult::Dead));
        assert!(matches!(probe_result(Errno::AGAIN), ProbeResult::Silent));
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::INTR, Errno::ACCESS] {
            assert!(matches!(probe_result(errno), ProbeResult::Unable), "{errno}");
        }
    }
}
