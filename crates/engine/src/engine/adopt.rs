//! Taking over what an earlier engine left, and cleaning up after a supervisor that was killed.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use rustix::fs::{AtFlags, Dir, statat, unlinkat};

use super::Inner;
use super::life_cycle::{Tracked, lost_end};
use super::link::{Link, lock};
use super::session::{Place, SessionState};
use crate::id::SessionId;
use crate::journal::{Claimed, Found};
use crate::layout::{SnapshotFile, socket_name};
use crate::process_tree::Nonce;
use crate::protocol::{Answer, Held, OLDEST, Refusal, Request, Role, Stage, VERSION};
use crate::record::{Record, SessionRecord};
use crate::supervisor::zygote::{continue_stopped, supervisors_of};
use crate::wire;

/// How long a greeting may take before supervisors may have been stopped, and how long it may take at all: what
/// does not answer (anybody can listen in the folder of supervisors) must not keep an engine from opening.
const GREETING_TIME: Duration = Duration::from_secs(1);
const GREETING_PATIENCE: Duration = Duration::from_secs(10);

/// The generation of supervisors that another engine made: never the current one, so that none of them is kept
/// ready with another engine's settings.
const ADOPTED: u64 = u64::MAX;

/// A supervisor that is alive, and what it said it holds.
struct Living {
    link: Arc<Link>,
    role: Role,
    held: Vec<Held>,
}

impl Inner {
    /// Finds everything that is in the state directory, and connects to whatever lives.
    pub(super) async fn adopt(self: &Arc<Self>, found: Vec<Found>) {
        let (living, silent) = self.connect_all().await;
        let held: HashMap<u32, (&Arc<Link>, &Held)> = living
            .iter()
            .flat_map(|living| living.held.iter().map(move |held| (held.slot, (&living.link, held))))
            .collect();
        let mut dead = HashSet::new();
        let mut lost = Vec::new();
        for journal in found {
            let claimed = Claimed { slot: journal.slot, salt: journal.salt };
            match minicbor::decode::<Record>(&journal.spec) {
                Ok(Record::Execution(record)) => {
                    let nonce = record.nonce;
                    let held = held.get(&claimed.slot.0);
                    let Some(tracked) = self.restore_execution(record, &journal, held.is_some()) else {
                        self.retire(claimed);
                        continue;
                    };
                    match held {
                        Some((link, held)) => self.adopt_held(&tracked, link, held),
                        None if tracked.end().is_some() => {}
                        // It may have ended since the journals were read.
                        None if self.reread_end(&tracked) => self.execution_closed(&tracked, 0),
                        None => {
                            dead.insert(nonce);
                            lost.push((nonce, tracked));
                        }
                    }
                }
                Ok(Record::Session(record)) => {
                    let link = living.iter().find(|l| l.role == Role::Session(claimed.slot.0));
                    self.adopt_session(record, &journal, link.map(|l| Arc::clone(&l.link)));
                }
                // Of a version that wrote something else: not ours to touch.
                Err(_) => {}
            }
        }
        // A session that lives may have a command it never heard of; that is no reason to end the session.
        dead.retain(|nonce| living.iter().all(|living| living.link.nonce != *nonce));
        self.catch_up(&living).await;
        self.quit_idle(&living);
        // Whoever asked for one that nobody ever had, and asks again, shall have it run.
        lost.retain(|(nonce, tracked)| {
            let asks_again = tracked.fixed.digest.is_some();
            // One that does not answer may still take it.
            let never_taken = asks_again && !silent.contains(nonce) && !self.was_taken(tracked);
            if never_taken {
                self.execution_refused(tracked, Refusal::NoSuchExecution);
            }
            !never_taken
        });
        let lost = lost.into_iter().map(|(_, tracked)| tracked).collect();
        self.clean_up(dead, lost, self.state.same_instance).await;
    }

    /// Connects to every supervisor that has a socket; removes the sockets of those that are gone.
    /// Also returns the nonces of those that are there and do not answer.
    async fn connect_all(self: &Arc<Self>) -> (Vec<Living>, HashSet<u64>) {
        let folder = &self.state.folders.supervisors;
        let mut nonces = Vec::new();
        if let Ok(entries) = Dir::read_from(folder) {
            for entry in entries.flatten() {
                let name = entry.file_name().to_string_lossy();
                nonces.extend(u64::from_str_radix(&name, 16).ok());
            }
        }
        let mut links = Vec::new();
        for nonce in nonces {
            let connect =
                || Link::connect(Link::socket()?, folder, nonce, ADOPTED, Arc::clone(&self.patience));
            let link = if self.state.same_instance { connect().ok() } else { None };
            match link {
                Some(link) => {
                    self.tasks.spawn(Arc::clone(&link).run(Arc::downgrade(self)));
                    links.push(link);
                }
                None => {
                    let _ = unlinkat(folder, socket_name(nonce), AtFlags::empty());
                    if self.state.same_instance
                        && let Some(nonce) = Nonce::from_value(nonce)
                    {
                        self.sweep(nonce).await;
                    }
                }
            }
        }
        let (mut living, mut silent) = (Vec::new(), HashSet::new());
        // All are greeted before the first is waited for.
        let greetings: Vec<_> = links.iter().map(|link| link.request(&Request::Hello(VERSION))).collect();
        let started = Instant::now();
        let mut woken = false;
        for (link, greeting) in links.into_iter().zip(greetings) {
            silent.insert(link.nonce);
            let Ok(mut greeting) = greeting else { continue };
            let mut answer = timeout(GREETING_TIME.saturating_sub(started.elapsed()), &mut greeting).await;
            if answer.is_err() {
                if !std::mem::replace(&mut woken, true) {
                    continue_stopped(&supervisors_of(&self.state.path));
                }
                answer = timeout(GREETING_PATIENCE.saturating_sub(started.elapsed()), greeting).await;
            }
            if let Ok(Ok(Answer::Welcome { version, pid, role, held })) = answer
                && version >= OLDEST
            {
                link.is_process(pid);
                link.is_version(version);
                silent.remove(&link.nonce);
                living.push(Living { link, role, held });
            }
        }
        (living, silent)
    }

    fn adopt_held(self: &Arc<Self>, tracked: &Arc<Tracked>, link: &Arc<Link>, held: &Held) {
        *lock(&tracked.link) = Some(Arc::clone(link));
        link.track(Arc::clone(tracked));
        if let (Stage::Running, Some(pid)) = (held.stage, held.pid) {
            self.execution_started(tracked, pid);
        }
        if held.stage == Stage::Ended && tracked.end().is_none() {
            self.reread_end(tracked);
        }
        // It may have ended, or been let go of, between its word and this.
        if link.is_over() {
            self.link_over(link);
        }
    }

    /// What a supervisor said between its greeting and now was heard by nobody, so it is asked once more.
    async fn catch_up(self: &Arc<Self>, living: &[Living]) {
        let asked: Vec<_> =
            living.iter().map(|living| living.link.request(&Request::Hello(VERSION))).collect();
        for (Living { link, .. }, answer) in living.iter().zip(asked) {
            let Ok(mut answer) = answer else { continue };
            let Ok(Answer::Welcome { held, .. }) = link.answer(&mut answer).await else {
                continue;
            };
            for tracked in link.tracked() {
                let stage = held.iter().find(|held| held.slot == tracked.slot()).map(|held| held.stage);
                let ended = !matches!(stage, Some(Stage::Queued | Stage::Running));
                if ended && tracked.end().is_none() {
                    self.reread_end(&tracked);
                }
                if stage.is_none() && link.untrack(tracked.slot()) {
                    self.execution_closed(&tracked, 0);
                }
            }
        }
    }

    /// Whether a supervisor has had it, which the first thing in its journal says that the engine has not written.
    fn was_taken(&self, tracked: &Tracked) -> bool {
        let Ok(mut reader) = self.reader(tracked.journal) else {
            return true;
        };
        let own = matches!(reader.next(), Ok(Some(_)));
        !(own && matches!(reader.next(), Ok(None)))
    }

    /// Looks for an end in the journal; says whether there is one.
    pub(super) fn reread_end(self: &Arc<Self>, tracked: &Arc<Tracked>) -> bool {
        let Ok(mut reader) = self.reader(tracked.journal) else {
            return false;
        };
        let mut found = None;
        while let Ok(Some(entry)) = reader.next() {
            if let crate::journal::Item::Event { kind: crate::journal::kind::ENDED, payload } = entry.item {
                found = minicbor::decode(payload).ok();
                break;
            }
        }
        match found {
            Some(end) => {
                let position = reader.totals().map_or(0, |totals| totals.total());
                self.execution_ended(tracked, end, position);
                true
            }
            None => false,
        }
    }

    fn adopt_session(&self, record: SessionRecord, journal: &Found, link: Option<Arc<Link>>) {
        let claimed = Claimed { slot: journal.slot, salt: journal.salt };
        let Ok(id) = record.id.parse::<SessionId>() else {
            self.retire(claimed);
            return;
        };
        if !self.state.same_instance {
            // After a restart there is no shell to go back to; its state may be, in a new one.
            drop(link);
            self.insert_session(id, record, journal, claimed, None);
            return;
        }
        self.insert_session(id, record, journal, claimed, link);
    }

    fn insert_session(
        &self,
        id: SessionId,
        record: SessionRecord,
        journal: &Found,
        claimed: Claimed,
        link: Option<Arc<Link>>,
    ) {
        let state = SessionState {
            id: id.clone(),
            created_at: record.created_at(journal.claimed_at),
            record,
            place: Mutex::new(Place { record: claimed, link }),
            deleted: AtomicBool::new(false),
            reviving: tokio::sync::Mutex::new(()),
        };
        let mut registry = lock(&self.registry);
        // Two records of one session: it was being given a new supervisor. The living one counts.
        let living = |place: &Mutex<Place>| lock(place).link.is_some();
        match registry.sessions.get(&id) {
            Some(other) if living(&other.place) || !living(&state.place) => {
                drop(registry);
                SnapshotFile::remove(&self.state.folders.snapshots, claimed.slot.0);
                self.retire(claimed);
            }
            other => {
                let replaced = other.map(|other| lock(&other.place).record);
                registry.sessions.insert(id, Arc::new(state));
                drop(registry);
                if let Some(replaced) = replaced {
                    self.retire(replaced);
                }
            }
        }
    }

    /// Supervisors that hold nothing that is known here have nothing to do here.
    fn quit_idle(&self, living: &[Living]) {
        for Living { link, role, .. } in living {
            let idle = match role {
                Role::Ready => true,
                Role::Run => false,
                Role::Session(_) => {
                    let registry = lock(&self.registry);
                    let holds = |session: &Arc<SessionState>| {
                        lock(&session.place).link.as_ref().is_some_and(|own| Arc::ptr_eq(own, link))
                    };
                    !registry.sessions.values().any(holds)
                }
            };
            if idle {
                drop(link.request(&Request::Quit));
            }
        }
    }

    /// Called when a link is over. What its supervisor still held is lost, unless its journal says
    /// that it ended.
    pub(super) fn link_over(self: &Arc<Self>, link: &Arc<Link>) {
        self.not_renewing(link);
        let tracked = link.tracked();
        let unfinished: Vec<_> = tracked
            .into_iter()
            .filter(|tracked| link.untrack(tracked.slot()))
            .filter(|tracked| {
                let ended = tracked.end().is_some() || self.reread_end(tracked);
                if ended {
                    self.execution_closed(tracked, 0);
                }
                !ended
            })
            .collect();
        let nonce = link.nonce;
        if unfinished.is_empty() && self.has_left(nonce) {
            return;
        }
        let engine = Arc::downgrade(self);
        self.tasks.spawn(async move {
            let Some(engine) = engine.upgrade() else {
                return;
            };
            engine.end_estranged(nonce).await;
            let lost = unfinished.into_iter().filter(|tracked| {
                let ended = engine.reread_end(tracked);
                if ended {
                    engine.execution_closed(tracked, 0);
                }
                !ended
            });
            engine.clean_up(HashSet::from([nonce]), lost.collect(), true).await;
        });
    }

    /// A supervisor serves the newest connection, and anybody may have connected to it: if it lives although our link is
    /// over, it ends what it holds, and itself. Nobody else would ever end it.
    async fn end_estranged(self: &Arc<Self>, nonce: u64) {
        let folder = &self.state.folders.supervisors;
        let patience = Arc::clone(&self.patience);
        let connect = |socket| Link::connect(socket, folder, nonce, ADOPTED, patience);
        if let Ok(link) = Link::socket().and_then(connect) {
            self.tasks.spawn(Arc::clone(&link).run(Arc::downgrade(self)));
            drop(timeout(GREETING_PATIENCE, link.ask(&Request::Quit)).await);
        }
    }

    /// Whether a supervisor that is gone went by itself: the last it does is to remove its socket, when
    /// nothing is left of its tree. Looking for what one that was killed has left costs a look at every
    /// process there is.
    fn has_left(&self, nonce: u64) -> bool {
        let found = statat(&self.state.folders.supervisors, socket_name(nonce), AtFlags::empty());
        found.is_err_and(|e| e == rustix::io::Errno::NOENT)
    }

    /// Ends what dead supervisors left running (unless they are of another boot, when there is nothing
    /// of theirs), then gives their executions their end.
    async fn clean_up(self: &Arc<Self>, dead: HashSet<u64>, lost: Vec<Arc<Tracked>>, sweep: bool) {
        for nonce in dead.into_iter().filter_map(Nonce::from_value).filter(|_| sweep) {
            self.sweep(nonce).await;
        }
        for tracked in lost {
            let end = lost_end();
            // If the disk is full this is tried again by the next engine.
            drop(lock(&self.store).append_end_of_lost(tracked.journal, &wire::to_bytes(&end)));
            let position =
                self.reader(tracked.journal).and_then(|reader| Ok(reader.totals()?.total())).unwrap_or(0);
            self.execution_ended(&tracked, end, position);
            self.execution_closed(&tracked, position);
        }
    }
}
