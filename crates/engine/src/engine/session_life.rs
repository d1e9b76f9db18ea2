//! Creation, restore and deletion of sessions.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use super::error::{SessionError, StartError};
use super::events::EngineEvent;
use super::life_cycle::cause_of;
use super::link::{LinkError, SupervisorLink, lock};
use super::recover::Liveness;
use super::session::{Place, Session, SessionSpec, SessionState};
use super::{Inner, validate};
use crate::command::SessionEndPolicy;
use crate::end::KillReceipt;
use crate::id::SessionId;
use crate::journal::JournalSlot;
use crate::layout::SnapshotFile;
use crate::protocol::{Bytes, OpenSession, Request, Response};
use crate::record::{Record, SessionRecord};
use crate::user::User;

impl Inner {
    pub(super) async fn create_session(
        self: &Arc<Self>,
        mut spec: SessionSpec,
        snapshot: Option<Vec<u8>>,
    ) -> Result<Session, SessionError> {
        validate::session(&spec)?;
        match &spec.user {
            // A fork has the user of its session, which was checked when that was created.
            Some(user) if snapshot.is_none() => {
                self.check_user(user)?;
                spec.env.splice(0..0, user.env().map(|(name, value)| (name, Some(value))));
            }
            Some(_) => {}
            None => spec.user.clone_from(&self.config.run_as),
        }
        let id = spec.id.clone().unwrap_or_else(SessionId::random);
        tracing::Span::current().record("session", tracing::field::display(&id));
        let reserved = self.reserve_session(&id).await?;
        let engine = Arc::clone(self);
        // Runs to completion even if the caller stops waiting: a session is created completely or not at all.
        let made = self.complete(async move {
            let _reserved = reserved;
            let of = |link: &SupervisorLink| SessionRecord::new(id.to_string(), link.nonce, &spec);
            let (link, record, record_place) = engine.open_on_one(of, snapshot, None).await?;
            let state = Arc::new(SessionState {
                id: id.clone(),
                created_at: record.created_at(SystemTime::now()),
                record,
                place: Mutex::new(Place { record: record_place, link: Some(link) }),
                deleted: AtomicBool::new(false),
                reviving: tokio::sync::Mutex::new(()),
            });
            lock(&engine.registry).sessions.insert(id, Arc::clone(&state));
            engine.events.publish(|| EngineEvent::SessionCreated {
                id: state.id.clone(),
                name: state.record.name.clone(),
                created_at: state.created_at,
            });
            Ok(Session { state, engine: Arc::clone(&engine) })
        });
        let made = made.await.unwrap_or(Err(SessionError::Start(StartError::Lost)));
        made.map_err(|e| match e {
            SessionError::Start(e) => SessionError::Start(self.explain(e)),
            e => e,
        })
    }

    /// The user of a session's shell, if the supervisor must be told.
    pub(super) fn session_user(&self, record: &SessionRecord) -> Option<User> {
        // A session created by an engine without `run_as` keeps the engine's own user.
        record.user.clone().or_else(|| self.config.run_as.is_some().then(User::own))
    }

    /// Opens a session on a supervisor, and tries another one if its limits were lowered.
    async fn open_on_one(
        self: &Arc<Self>,
        record_on: impl Fn(&SupervisorLink) -> SessionRecord,
        snapshot: Option<Vec<u8>>,
        age: Option<Duration>,
    ) -> Result<(Arc<SupervisorLink>, SessionRecord, JournalSlot), StartError> {
        let mut given_up = 0;
        loop {
            let taken = self.supervisor().await?;
            let record = record_on(&taken.link);
            match self.open_on(&taken.link, &record, snapshot.clone(), age).await {
                Ok(claimed) => return Ok((Arc::clone(&taken.link), record, claimed)),
                Err(e) if self.goes_to_another(&taken.link, &e, &mut given_up) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Records a session and opens it on a supervisor.
    async fn open_on(
        self: &Arc<Self>,
        link: &Arc<SupervisorLink>,
        record: &SessionRecord,
        snapshot: Option<Vec<u8>>,
        age: Option<Duration>,
    ) -> Result<JournalSlot, StartError> {
        let first_record = Record::Session(record.clone());
        let (claimed, _) = self.making_room(|engine| engine.claim(&first_record, None))?;
        if let Some(snapshot) = &snapshot
            && let Err(e) = self.save_state(claimed, snapshot, age.unwrap_or_default())
        {
            self.retire_session(claimed);
            return Err(e);
        }
        let open = OpenSession {
            slot: claimed.slot.0,
            env: record.env.clone(),
            cwd: record.cwd.clone(),
            snapshot: snapshot.map(Bytes),
            snapshot_age: age,
            salt: Some(claimed.salt),
            user: self.session_user(record).filter(|user| Some(user) != self.config.run_as.as_ref()),
        };
        let cwd = || record.cwd.clone().map_or_else(PathBuf::new, |path| OsString::from(path).into());
        let (failed, living) = match link.call(&Request::OpenSession(Box::new(open))).await {
            Ok(Response::Done) => return Ok(claimed),
            Ok(Response::Refused(why)) => (StartError::refused(why, "bash", cwd()), Some(Arc::clone(link))),
            Err(LinkError::Busy) => (StartError::Lost, Some(Arc::clone(link))),
            // It may have become that session nevertheless, and write to the slot, which is released when it has
            // ended.
            Ok(_) | Err(LinkError::Gone) => {
                match Self::liveness_of(&Arc::downgrade(self), link.nonce).await {
                    Some(Liveness::Alive(living)) => {
                        drop(living.link.call(&Request::Quit).await);
                        (StartError::Lost, None)
                    }
                    Some(Liveness::Dead) => (StartError::Lost, None),
                    // The engine is closed; the next one finds the record and its supervisor.
                    None => return Err(StartError::Lost),
                }
            }
        };
        if let Some(link) = living {
            // It serves no session.
            drop(link.request(&Request::Quit));
        }
        self.retire_session(claimed);
        Err(failed)
    }

    /// Saves the first state of a session, so that it can be restored from the beginning. An earlier copy of the state
    /// may be dropped only after this.
    fn save_state(
        self: &Arc<Self>,
        session: JournalSlot,
        state: &[u8],
        age: Duration,
    ) -> Result<(), StartError> {
        self.making_room(|engine| {
            let mut file = SnapshotFile::new(session.slot.0, Some(session.salt));
            let saved = file.write(&engine.state.folders.snapshots, state, age);
            saved.map_err(|e| StartError::os("save the state of the session", e))
        })
    }

    /// Removes the record of a session, and its saved state.
    pub(super) fn retire_session(&self, session: JournalSlot) {
        self.retire_with(session, || SnapshotFile::remove(&self.state.folders.snapshots, session.slot.0));
    }

    /// Gives a session whose supervisor was killed a new one, with the last saved state.
    pub(super) async fn revive(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
    ) -> Result<Arc<SupervisorLink>, StartError> {
        let engine = Arc::clone(self);
        let state = Arc::clone(state);
        let revived = self.complete(async move {
            let _alone = state.reviving.lock().await;
            // It may have been deleted meanwhile.
            if state.deleted.load(Ordering::Acquire) {
                return Err(StartError::SessionGone(state.id.clone()));
            }
            let Place { record: old, link } = lock(&state.place).clone();
            if let Some(link) = link.filter(|link| !link.is_hung_up()) {
                return Ok(link);
            }
            // Perhaps only the connection ended. A session must never exist twice.
            if let Some(link) = engine.live_supervisor_of(&state).await {
                return Ok(link);
            }
            let folder = &engine.state.folders.snapshots;
            let saved = SnapshotFile::read(folder, old.slot.0, Some(old.salt), state.created_at);
            // The old copy is removed below, so a state that cannot be read now must not count as absent.
            let saved = saved.map_err(|e| StartError::os("read the saved state of the session", e))?;
            let (snapshot, age) = saved.unzip();
            // Without a saved state it starts from its initial state, which is as old as the session.
            let age = age.unwrap_or_else(|| state.created_at.elapsed().unwrap_or_default());
            let of = |link: &SupervisorLink| SessionRecord { nonce: link.nonce, ..state.record.clone() };
            let (link, _, new) = engine.open_on_one(of, snapshot, Some(age)).await?;
            *lock(&state.place) = Place { record: new, link: Some(Arc::clone(&link)) };
            engine.retire_session(old);
            engine.incidents.session_restored();
            tracing::info!(session = %state.id, "restored the session after its supervisor died");
            engine.events.publish(|| EngineEvent::SessionRestarted { id: state.id.clone() });
            Ok(link)
        });
        revived.await.unwrap_or(Err(StartError::Lost))
    }

    pub(super) async fn delete_session(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
    ) -> Result<KillReceipt, SessionError> {
        let engine = Arc::clone(self);
        let state = Arc::clone(state);
        let deleted = self.complete(async move {
            if state.deleted.swap(true, Ordering::AcqRel) {
                return Err(SessionError::NotFound(state.id.clone()));
            }
            let _alone = state.reviving.lock().await;
            let Place { record, mut link } = lock(&state.place).clone();
            if link.as_ref().is_none_or(|link| link.is_hung_up()) {
                link = engine.live_supervisor_of(&state).await;
            }
            let processes = engine.processes_of(&state.id);
            let mut receipt = KillReceipt::default();
            if let Some(link) = link
                && let Ok(Response::Receipt(own)) = link.call(&Request::Quit).await
            {
                receipt = own;
            }
            for process in processes {
                if process.tracked.fixed.on_session_end == SessionEndPolicy::Keep {
                    continue;
                }
                if let Ok(mut own) = process.kill(libc::SIGKILL, Duration::ZERO).await {
                    receipt.killed.append(&mut own.killed);
                    receipt.survivors.append(&mut own.survivors);
                }
            }
            let remove_state = || SnapshotFile::remove(&engine.state.folders.snapshots, record.slot.0);
            if let Err(e) = engine.try_retire(record, remove_state) {
                // The next engine would find it. Without a shell it is still there, and can be deleted again.
                state.deleted.store(false, Ordering::Release);
                return Err(StartError::os("remove the record of the session", cause_of(e)).into());
            }
            lock(&engine.registry).sessions.remove(&state.id);
            engine.events.publish(|| EngineEvent::SessionDeleted { id: state.id.clone() });
            Ok(receipt)
        });
        deleted.await.unwrap_or(Err(SessionError::Start(StartError::Lost)))
    }
}
