//! A supervisor whose connection is over: is it alive?
//!
//! The rule is that work is never declared lost while its supervisor may still write to its journal. So a supervisor is
//! reconnected to if it answers, and is dead only by proof: its socket refuses connections, which it does when the kernel
//! has closed the supervisor's descriptors. One that is silent for too long is killed first, through a pidfd. An error of
//! this process (no descriptor, no memory) proves nothing, and is tried again.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tokio::time::{sleep, timeout};

use super::Inner;
use super::adopt::ADOPTED;
use super::life_cycle::Tracked;
use super::link::{Link, lock};
use super::session::SessionState;
use super::tasks::blocking;
use crate::process_tree::Nonce;
use crate::protocol::{Answer, Held, OLDEST, Request, Role, Stage, VERSION};
use crate::supervisor::zygote::{continue_stopped, end_listeners, supervisors_of};

/// How long a supervisor that is connected to again may take to answer before the next try.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// How long a supervisor may be silent before it is killed.
pub(super) const SILENCE_LIMIT: Duration = Duration::from_secs(10);
/// The first and the longest time between two tries.
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// A supervisor that is alive, and what it holds.
#[derive(Debug, Clone)]
pub(super) struct Living {
    pub(super) link: Arc<Link>,
    pub(super) role: Role,
    pub(super) held: Arc<[Held]>,
}

/// What became of a supervisor.
#[derive(Debug, Clone)]
pub(super) enum Fate {
    /// It answers, on this connection.
    Alive(Living),
    /// It is gone, and so is everything that it had started.
    Dead,
}

/// What one try to reach a supervisor brought.
#[derive(Debug)]
pub(super) enum Reached {
    Living(Living),
    /// No process listens on its socket.
    Dead,
    /// It is there, and does not answer.
    Silent,
    /// This process could not try.
    Unable,
}

/// What became of supervisors: found out by one task for each, while others wait for what it finds. One that was
/// found alive stays here as long as its connection does, so that there is never a second.
#[derive(Debug, Default)]
pub(super) struct Recoveries(Mutex<HashMap<u64, Arc<Recovery>>>);

type Recovery = tokio::sync::Mutex<Option<Fate>>;

impl Recoveries {
    fn of(&self, nonce: u64) -> Arc<Recovery> {
        Arc::clone(lock(&self.0).entry(nonce).or_default())
    }

    /// Forgets a supervisor, unless tasks wait to learn what became of it, or it has a new connection already.
    fn forget(&self, nonce: u64) {
        let mut all = lock(&self.0);
        let is_connected = |own: &Recovery| {
            let known = own.try_lock();
            known.is_ok_and(|fate| matches!(&*fate, Some(Fate::Alive(living)) if !living.link.is_over()))
        };
        if all.get(&nonce).is_some_and(|own| Arc::strong_count(own) == 1 && !is_connected(own)) {
            all.remove(&nonce);
        }
    }
}

/// What an error of connecting says.
fn reached_by(error: &io::Error) -> Reached {
    match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED | Errno::NOENT) => Reached::Dead,
        // Connections wait that it does not take.
        Some(Errno::AGAIN) => Reached::Silent,
        _ => Reached::Unable,
    }
}

impl Inner {
    /// Connects to a supervisor that is not known to be alive.
    pub(super) fn connect_to(self: &Arc<Self>, nonce: u64) -> Result<Arc<Link>, Reached> {
        let folder = &self.state.folders.supervisors;
        let connect = |socket| {
            Link::connect(socket, folder, nonce, ADOPTED, Arc::clone(&self.patience), self.state.key.as_ref())
        };
        let link = Link::socket().and_then(connect).map_err(|e| reached_by(&e))?;
        self.tasks.spawn(Arc::clone(&link).run(Arc::downgrade(self)));
        Ok(link)
    }

    /// Takes a supervisor's answer to its greeting.
    pub(super) fn welcomed(link: Arc<Link>, answer: Answer) -> Option<Living> {
        let Answer::Welcome { version, pid, role, held } = answer else { return None };
        if version < OLDEST {
            return None;
        }
        link.is_process(pid);
        link.is_version(version);
        link.serve();
        Some(Living { link, role, held: held.into() })
    }

    async fn reach(self: &Arc<Self>, nonce: u64) -> Reached {
        let link = match self.connect_to(nonce) {
            Ok(link) => link,
            Err(reached) => return reached,
        };
        match timeout(ANSWER_TIME, link.ask(&Request::Hello(VERSION, None))).await {
            Ok(Ok(answer)) => Self::welcomed(link, answer).map_or(Reached::Silent, Reached::Living),
            // It may have died of it; the next try tells.
            Ok(Err(_)) | Err(_) => {
                link.close();
                Reached::Silent
            }
        }
    }

    /// Finds out what became of a supervisor. If it is gone, everything that it had started is ended first. `None` if
    /// the engine is closed meanwhile, which this does not delay for longer than one try.
    pub(super) async fn fate_of(engine: &Weak<Self>, nonce: u64) -> Option<Fate> {
        let recovery = engine.upgrade()?.recoveries.of(nonce);
        let mut known = recovery.lock().await;
        let fate = match &*known {
            Some(Fate::Alive(living)) if !living.link.is_over() => Fate::Alive(living.clone()),
            Some(Fate::Dead) => Fate::Dead,
            _ => Self::find_fate_of(engine, nonce).await?,
        };
        *known = Some(fate.clone());
        drop(known);
        drop(recovery);
        if matches!(fate, Fate::Dead) {
            engine.upgrade()?.recoveries.forget(nonce);
        }
        Some(fate)
    }

    async fn find_fate_of(engine: &Weak<Self>, nonce: u64) -> Option<Fate> {
        let mut silent_since = None;
        let mut retry = FIRST_RETRY;
        loop {
            let engine = engine.upgrade()?;
            match engine.reach(nonce).await {
                Reached::Living(living) => return Some(Fate::Alive(living)),
                Reached::Dead => break,
                Reached::Silent => {
                    let since = *silent_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= SILENCE_LIMIT && engine.end_supervisor(nonce).await {
                        break;
                    }
                    let path = engine.state.path.clone();
                    blocking(move || continue_stopped(&supervisors_of(&path))).await;
                }
                Reached::Unable => {}
            }
            drop(engine);
            sleep(retry).await;
            retry = (retry * 2).min(LONGEST_RETRY);
        }
        engine.upgrade()?.bury(nonce).await;
        Some(Fate::Dead)
    }

    /// Ends everything that a supervisor had started that is gone.
    pub(super) async fn bury(self: &Arc<Self>, nonce: u64) {
        // Its socket may have been removed while it was there.
        let path = self.state.path.clone();
        blocking(move || end_listeners(&path, nonce)).await;
        if let Some(nonce) = Nonce::from_value(nonce) {
            self.sweep(nonce).await;
        }
    }

    /// Kills a supervisor that does not answer; whether no process listens on its socket any more.
    async fn end_supervisor(self: &Arc<Self>, nonce: u64) -> bool {
        let path = self.state.path.clone();
        blocking(move || end_listeners(&path, nonce)).await;
        matches!(self.connect_to(nonce), Err(Reached::Dead))
    }

    /// Called when a connection is over. What its supervisor held goes on under a new one, or is lost, unless
    /// its journal says that it ended.
    pub(super) fn link_over(self: &Arc<Self>, link: &Arc<Link>) {
        self.not_renewing(link);
        let tracked = link.tracked();
        let mut unfinished: Vec<_> =
            tracked.into_iter().filter(|tracked| link.untrack(tracked.slot())).collect();
        let has_left = self.has_left(link.nonce);
        // A supervisor that is alive may still write to the journal of what has ended and is not closed, and what was left
        // may still be there; a supervisor of version 3 or older does not report that. It is found out, unless all is gone.
        let may_go_on = |tracked: &Tracked| !has_left && (!tracked.is_closed() || tracked.has_leftovers());
        unfinished.retain(|tracked| may_go_on(tracked) || !self.ended_by_itself(tracked));
        self.recoveries.forget(link.nonce);
        if !(unfinished.is_empty() && has_left) {
            self.recover(link.nonce, unfinished);
        }
    }

    /// Whether an execution that no supervisor is known to hold has its end; then nothing more will come of it.
    pub(super) fn ended_by_itself(self: &Arc<Self>, tracked: &Arc<Tracked>) -> bool {
        let ended = tracked.end().is_some() || self.reread_end(tracked);
        if ended {
            self.execution_closed(tracked, 0);
            self.execution_leftovers_gone(tracked);
        }
        ended
    }

    /// Finds out what became of a supervisor and of these executions of it, in the background.
    pub(super) fn recover(self: &Arc<Self>, nonce: u64, unfinished: Vec<Arc<Tracked>>) {
        let weak = Arc::downgrade(self);
        self.tasks.spawn(async move {
            let fate = Self::fate_of(&weak, nonce).await;
            let (Some(fate), Some(engine)) = (fate, weak.upgrade()) else {
                return;
            };
            match fate {
                Fate::Alive(living) => engine.take_back(&living, unfinished).await,
                Fate::Dead => {
                    let lost = unfinished.into_iter().filter(|tracked| !engine.ended_by_itself(tracked));
                    let lost: Vec<_> = lost.collect();
                    engine.incidents.supervisor_lost(nonce, lost.len());
                    engine.end_as_lost(lost);
                }
            }
        });
    }

    /// Goes on with a supervisor under a new connection.
    async fn take_back(self: &Arc<Self>, living: &Living, unfinished: Vec<Arc<Tracked>>) {
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
        // Only of these: of a command that is being sent just now it knows nothing yet.
        self.catch_up(vec![(Arc::clone(&living.link), unfinished)]).await;
        let holds_other = |held: &Held| held.stage != Stage::Ended && !slots.contains(&held.slot);
        if !living.held.iter().any(holds_other) {
            self.quit_idle(std::slice::from_ref(living));
        }
    }

    /// The supervisor of a session whose connection is over or was never made, if it is alive.
    pub(super) async fn living_supervisor_of(self: &Arc<Self>, session: &SessionState) -> Option<Arc<Link>> {
        let place = lock(&session.place).clone();
        // Of another boot, it has none.
        if place.link.is_none() && !self.state.same_instance {
            return None;
        }
        let nonce = session.supervisor_of(&place);
        match Self::fate_of(&Arc::downgrade(self), nonce).await? {
            Fate::Alive(living) => {
                self.session_taken_back(&living);
                let place = lock(&session.place);
                place.link.clone().filter(|link| Arc::ptr_eq(link, &living.link))
            }
            Fate::Dead => None,
        }
    }

    /// A session has its supervisor again, if it has no other by now. The slot alone does not tell: it may have been
    /// another session's before.
    fn session_taken_back(&self, living: &Living) {
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
        let reached = |errno: Errno| reached_by(&errno.into());
        assert!(matches!(reached(Errno::CONNREFUSED), Reached::Dead));
        assert!(matches!(reached(Errno::NOENT), Reached::Dead));
        assert!(matches!(reached(Errno::AGAIN), Reached::Silent));
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::INTR, Errno::ACCESS] {
            assert!(matches!(reached(errno), Reached::Unable), "{errno}");
        }
    }
}
