//! Adopts the executions of an earlier engine, and cleans up after a killed supervisor.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use rustix::fs::{AtFlags, Dir, statat};

use super::Inner;
use super::error::OpenError;
use super::life_cycle::{Tracked, lost_end};
use super::link::{LinkError, SupervisorLink, lock};
use super::recover::{LiveSupervisor, ProbeResult};
use super::session::{Place, SessionState};
use crate::end::End;
use crate::id::SessionId;
use crate::journal::{JournalSlot, JournalSummary, Position, Slot};
use crate::layout::{SUPERVISORS, ScreenFile, SnapshotFile, log_failure, socket_name};
use crate::protocol::{Refusal, Request, Response, Role, Stage, StreamLengths, SupervisedExecution, VERSION};
use crate::record::{Record, SessionRecord};
use crate::supervisor::zygote::{continue_stopped, supervisors_of};
use crate::wire;

/// Time after which a supervisor without a reply may have been stopped by a command.
const REPLY_TIME: Duration = Duration::from_secs(1);
/// Maximum time that an opening engine waits for the replies of all supervisors. Supervisors without a reply are
/// recovered in the background.
const ALL_REPLIES_TIMEOUT: Duration = Duration::from_secs(5);

/// The generation of supervisors of another engine. It is never the current one, so they are not kept ready with
/// another engine's settings.
pub(super) const ADOPTED: u64 = u64::MAX;

/// The supervisors of an earlier engine.
#[derive(Default)]
struct Supervisors {
    living: Vec<LiveSupervisor>,
    /// Those that may be alive and have not replied.
    unknown: HashSet<u64>,
}

impl Inner {
    /// Finds all journals in the state directory, and connects to all live supervisors.
    pub(super) async fn adopt(self: &Arc<Self>, found: Vec<JournalSummary>) -> Result<(), OpenError> {
        let nonces = self.nonces().map_err(|source| {
            let path = self.state.path.join(SUPERVISORS);
            OpenError::StateDir { doing: "read", path, source: source.into() }
        })?;
        let Supervisors { living, unknown } = self.connect_all(nonces).await;
        let held: HashMap<u32, (&Arc<SupervisorLink>, &SupervisedExecution)> = living
            .iter()
            .flat_map(|living| living.held.iter().map(move |held| (held.slot, (&living.link, held))))
            .collect();
        let mut unresolved = HashMap::<u64, Vec<Arc<Tracked>>>::new();
        let mut lost = Vec::new();
        for journal in found {
            let claimed = JournalSlot { slot: journal.slot, salt: journal.salt };
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
                        None if unknown.contains(&nonce) => {
                            unresolved.entry(nonce).or_default().push(tracked);
                        }
                        None => lost.push((nonce, tracked)),
                    }
                }
                Ok(Record::Session(record)) => {
                    let link = living.iter().find(|l| l.role == Role::Session(claimed.slot.0));
                    let may_live = unknown.contains(&record.nonce);
                    if may_live {
                        unresolved.entry(record.nonce).or_default();
                    }
                    self.adopt_session(record, &journal, link.map(|l| Arc::clone(&l.link)), may_live);
                }
                // A journal of another version is not touched.
                Err(_) => {}
            }
        }
        self.remove_unknown_screens();
        self.catch_up(living.iter().map(|l| (Arc::clone(&l.link), l.link.tracked())).collect()).await;
        self.quit_idle(&living);
        for (nonce, executions) in unresolved {
            self.recover(nonce, executions);
        }
        // An execution that no supervisor took is forgotten, so that a repeated request runs it.
        lost.retain(|(_, tracked)| {
            let never_taken = tracked.fixed.digest.is_some() && !self.was_taken(tracked);
            if never_taken {
                self.execution_refused(tracked, Refusal::NoSuchExecution);
            }
            !never_taken
        });
        if self.state.same_instance {
            // A live session may have a queued command that never arrived; that does not end the session.
            let dead: HashSet<u64> = lost.iter().map(|(nonce, _)| *nonce).collect();
            for nonce in dead {
                if living.iter().all(|living| living.link.nonce != nonce) {
                    self.end_orphans_of(nonce).await;
                }
            }
        }
        self.end_as_lost(lost.into_iter().map(|(_, tracked)| tracked).collect());
        Ok(())
    }

    /// Removes the saved screens of terminals that have no record any more.
    fn remove_unknown_screens(&self) {
        let terminals: HashSet<u32> = {
            let table = lock(&self.executions);
            let is_terminal = |tracked: &&Arc<Tracked>| tracked.fixed.terminal.is_some();
            table.all().filter(is_terminal).map(|tracked| tracked.slot()).collect()
        };
        let is_unread = |slot| lock(&self.store).is_unread(Slot(slot));
        ScreenFile::remove_others(&self.state.folders.screens, |slot| {
            terminals.contains(&slot) || is_unread(slot)
        });
    }

    /// The supervisors that have a socket. An error is not the same as none: the executions of a supervisor that is not
    /// found are ended as lost.
    fn nonces(&self) -> rustix::io::Result<Vec<u64>> {
        let mut nonces = Vec::new();
        for entry in Dir::read_from(&self.state.folders.supervisors)? {
            nonces.extend(u64::from_str_radix(&entry?.file_name().to_string_lossy(), 16).ok());
        }
        Ok(nonces)
    }

    /// Connects to these supervisors; ends the processes of dead ones.
    async fn connect_all(self: &Arc<Self>, nonces: Vec<u64>) -> Supervisors {
        let mut found = Supervisors::default();
        if !self.state.same_instance {
            self.sweep_earlier(nonces).await;
            return found;
        }
        let mut links = Vec::new();
        for nonce in nonces {
            match self.connect_to(nonce) {
                Ok(link) => links.push(link),
                Err(ProbeResult::Dead) => self.end_orphans_of(nonce).await,
                Err(_) => drop(found.unknown.insert(nonce)),
            }
        }
        // All requests are sent before the first reply is awaited.
        let greetings: Vec<_> =
            links.iter().map(|link| link.request(&Request::Hello(VERSION, None))).collect();
        let started = Instant::now();
        let mut woken = false;
        for (link, greeting) in links.into_iter().zip(greetings) {
            let nonce = link.nonce;
            let mut living = None;
            if let Ok(mut greeting) = greeting {
                let mut answer = timeout(REPLY_TIME.saturating_sub(started.elapsed()), &mut greeting).await;
                if answer.is_err() {
                    if !std::mem::replace(&mut woken, true) {
                        continue_stopped(&supervisors_of(&self.state.path));
                    }
                    answer = timeout(ALL_REPLIES_TIMEOUT.saturating_sub(started.elapsed()), greeting).await;
                }
                if let Ok(Ok(answer)) = answer {
                    living = Self::welcomed(Arc::clone(&link), answer);
                }
            }
            match living {
                Some(living) => found.living.push(living),
                None => {
                    link.close();
                    found.unknown.insert(nonce);
                }
            }
        }
        found
    }

    pub(super) fn adopt_held(
        self: &Arc<Self>,
        tracked: &Arc<Tracked>,
        link: &Arc<SupervisorLink>,
        held: &SupervisedExecution,
    ) {
        // Before the connection is used: a later resize must not be replaced by the size that was reported before it.
        if let (Some(terminal), Some(size)) = (&tracked.fixed.terminal, held.size) {
            terminal.sizes.send_replace(size);
        }
        tracked.set_link(link);
        link.track(Arc::clone(tracked));
        if tracked.fixed.terminal.as_ref().is_some_and(|terminal| terminal.direct.is_wanted()) {
            link.request_master(tracked.slot());
        }
        if let (Stage::Running, Some(pid)) = (held.stage, held.pid) {
            self.execution_started(tracked, pid);
        }
        if matches!(held.stage, Stage::Ended | Stage::Left)
            && tracked.end().is_none()
            && !self.reread_end(tracked)
        {
            // If this fails, the link has ended, and its executions are recovered.
            let _ = link.notify(&Request::TellEnd(tracked.slot()));
        }
        if held.stage == Stage::Left || tracked.end().is_some_and(|end| end.leftover_count > 0) {
            self.execution_has_left(tracked);
        }
        if held.stage == Stage::Left {
            self.execution_closed(tracked, 0);
        }
        // It may have ended or been dropped since the supervisor reported it.
        if link.is_over() {
            self.link_over(link);
        }
    }

    /// Asks supervisors again about these executions, because events between their reply to `Hello` and now were not
    /// received.
    pub(super) async fn catch_up(self: &Arc<Self>, adopted: Vec<(Arc<SupervisorLink>, Vec<Arc<Tracked>>)>) {
        let replies: Vec<_> =
            adopted.iter().map(|(link, _)| link.request(&Request::Hello(VERSION, None))).collect();
        let started = Instant::now();
        for ((link, executions), answer) in adopted.into_iter().zip(replies) {
            let Ok(mut answer) = answer else { continue };
            let left = ALL_REPLIES_TIMEOUT.saturating_sub(started.elapsed());
            if let Ok(answer) = timeout(left, link.answer(&mut answer)).await {
                self.caught_up(&link, executions, answer);
                continue;
            }
            // Starts do not wait for a supervisor that does not reply. It may reply later.
            let engine = Arc::downgrade(self);
            self.tasks.spawn(async move {
                let answer = link.answer(&mut answer).await;
                if let Some(engine) = engine.upgrade() {
                    engine.caught_up(&link, executions, answer);
                }
            });
        }
    }

    /// Updates executions from the current state of their supervisor.
    fn caught_up(
        self: &Arc<Self>,
        link: &SupervisorLink,
        executions: Vec<Arc<Tracked>>,
        answer: Result<Response, LinkError>,
    ) {
        let Ok(Response::Welcome { held, .. }) = answer else { return };
        for tracked in executions {
            let stage = held.iter().find(|held| held.slot == tracked.slot()).map(|held| held.stage);
            let ended = !matches!(stage, Some(Stage::Queued | Stage::Running));
            if ended && tracked.end().is_none() {
                self.reread_end(&tracked);
            }
            if stage.is_none() && link.untrack(tracked.slot()) {
                self.execution_closed(&tracked, 0);
                self.execution_leftovers_gone(&tracked);
            }
        }
    }

    /// Whether a supervisor has taken it: the journal then contains a record that the engine did not write.
    fn was_taken(&self, tracked: &Tracked) -> bool {
        let Ok(mut reader) = self.reader(tracked.journal) else {
            return true;
        };
        let own = matches!(reader.next(), Ok(Some(_)));
        !(own && matches!(reader.next(), Ok(None)))
    }

    /// Looks for an end in the journal. Returns whether there is one.
    pub(super) fn reread_end(self: &Arc<Self>, tracked: &Arc<Tracked>) -> bool {
        let recorded = self.recorded_end(tracked);
        if let Some((end, position)) = &recorded {
            self.execution_ended(tracked, end.clone(), *position);
        }
        recorded.is_some()
    }

    /// The end of an execution that is on disk, and the position after its last byte.
    fn recorded_end(&self, tracked: &Tracked) -> Option<(End, u64)> {
        let mut reader = self.reader(tracked.journal).ok()?;
        while let Ok(Some(entry)) = reader.next() {
            if let crate::journal::Item::Event { kind: crate::journal::kind::ENDED, payload } = entry.item {
                let end = minicbor::decode(payload).ok()?;
                return Some((end, reader.totals().map_or(0, |totals| totals.total())));
            }
        }
        None
    }

    fn adopt_session(
        &self,
        record: SessionRecord,
        journal: &JournalSummary,
        link: Option<Arc<SupervisorLink>>,
        may_live: bool,
    ) {
        let claimed = JournalSlot { slot: journal.slot, salt: journal.salt };
        let Ok(id) = record.id.parse::<SessionId>() else {
            self.retire(claimed);
            return;
        };
        if !self.state.same_instance {
            // After a restart the shell is gone; a new one may get its state.
            drop(link);
            self.insert_session(id, record, journal, claimed, None, false);
            return;
        }
        self.insert_session(id, record, journal, claimed, link, may_live);
    }

    fn insert_session(
        &self,
        id: SessionId,
        record: SessionRecord,
        journal: &JournalSummary,
        claimed: JournalSlot,
        link: Option<Arc<SupervisorLink>>,
        may_live: bool,
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
        // A session has two records while it moves to a new supervisor. The live one counts; if none lives, the one
        // with the newer state.
        let living = |place: &Mutex<Place>| lock(place).link.is_some();
        let newest = |place: &Mutex<Place>| {
            let JournalSlot { slot, salt } = lock(place).record;
            SnapshotFile::newest(&self.state.folders.snapshots, slot.0, salt)
        };
        let is_kept = |other: &SessionState| {
            if living(&other.place) || may_live || living(&state.place) {
                return Ok(living(&other.place));
            }
            Ok::<_, std::io::Error>(newest(&other.place)? >= newest(&state.place)?)
        };
        let other = registry.sessions.get(&id);
        let retired = match other.map(|other| is_kept(other)).transpose() {
            Ok(Some(true)) => Some(claimed),
            Err(e) => {
                // It may be the newer state. Both stay on disk; the next engine compares them again.
                tracing::warn!(session = %id, error = %e, "could not read a saved state of the session");
                None
            }
            Ok(_) => {
                let replaced = other.map(|other| lock(&other.place).record);
                registry.sessions.insert(id, Arc::new(state));
                replaced
            }
        };
        drop(registry);
        if let Some(retired) = retired {
            self.retire_session(retired);
        }
    }

    /// Ends supervisors that hold nothing known to this engine.
    pub(super) fn quit_idle(&self, living: &[LiveSupervisor]) {
        for LiveSupervisor { link, role, .. } in living {
            let idle = match role {
                Role::Ready => true,
                Role::Run | Role::Terminal => false,
                // Its record may be readable for the next engine.
                Role::Session(slot) if lock(&self.store).is_unread(Slot(*slot)) => false,
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

    /// Whether a dead supervisor exited normally: it removes its socket last, when its tree is empty. This avoids a
    /// scan of all processes, which is needed only after a kill.
    pub(super) fn has_left(&self, nonce: u64) -> bool {
        let found = statat(&self.state.folders.supervisors, socket_name(nonce), AtFlags::empty());
        found.is_err_and(|e| e == rustix::io::Errno::NOENT)
    }

    /// Records an end that its supervisor could not record. Returns whether it is on disk. Unrecorded output is a gap
    /// up to the end. The supervisor repeats the end until this is confirmed.
    pub(super) fn record_end(
        &self,
        nonce: u64,
        tracked: &Tracked,
        end: &End,
        lengths: StreamLengths,
    ) -> bool {
        if self.recorded_end(tracked).is_some() {
            return true;
        }
        let StreamLengths { stdout, stderr } = lengths;
        let (end, position) = (wire::to_bytes(end), Position { stdout, stderr });
        let recorded = lock(&self.store).append_end(tracked.journal, &end, position);
        if let Err(e) = &recorded {
            tracing::warn!(execution = %tracked.fixed.id, "its end is not on disk: {e}");
        } else {
            self.limits_lowered(nonce);
        }
        recorded.is_ok()
    }

    /// Logs that a supervisor is given up because its limits were lowered. The supervisor may not be able to write
    /// this itself.
    pub(super) fn limits_lowered(&self, nonce: u64) {
        let reason =
            format!("{nonce:011x}: a command has lowered its resource limits (prlimit); it is given up");
        // If the disk is full, only the count remains.
        drop(log_failure(&self.state.folders.supervisors, &reason));
        self.incidents.supervisor_given_up(nonce);
    }

    /// Ends executions of dead supervisors as lost.
    pub(super) fn end_as_lost(self: &Arc<Self>, lost: Vec<Arc<Tracked>>) {
        for tracked in lost {
            if tracked.adopting.load(Ordering::Acquire) {
                // It was never an execution: a leftover that ended with its supervisor, or before it was adopted.
                self.execution_refused(&tracked, Refusal::NoSuchExecution);
                continue;
            }
            let end = lost_end();
            // If the disk is full, the next engine tries again.
            drop(lock(&self.store).append_end_of_lost(tracked.journal, &wire::to_bytes(&end)));
            let position =
                self.reader(tracked.journal).and_then(|reader| Ok(reader.totals()?.total())).unwrap_or(0);
            self.execution_ended(&tracked, end, position);
            self.execution_closed(&tracked, position);
        }
    }
}
