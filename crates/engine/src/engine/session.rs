//! [`Session`]: a handle on a persistent shell.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use super::Inner;
use super::error::{ControlError, SessionError, StartError};
use super::execution::{Execution, check_signal};
use super::link::{LinkError, SupervisorLink, lock};
use super::outcome::Outcome;
use super::start::StartContext;
use crate::command::{CommandSpec, SessionEndPolicy};
use crate::end::KillReceipt;
use crate::id::SessionId;
use crate::journal::JournalSlot;
use crate::layout::SnapshotFile;
use crate::protocol::{Bytes, Refusal, Request, Response, variables};
use crate::record::{SessionRecord, TerminalRecord};
use crate::user::User;

/// Options of a new session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionSpec {
    /// The id; generated if `None`.
    pub id: Option<SessionId>,
    /// A display name.
    pub name: Option<String>,
    /// Changes to the environment: set, or unset with `None`.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// The initial working directory.
    pub cwd: Option<PathBuf>,
    /// Bytes of the caller, at most [`MAX_NOTE_BYTES`](crate::MAX_NOTE_BYTES). The engine stores them with the
    /// session and its forks, returns them in [`SessionInfo::note`], and does not interpret them.
    pub note: Option<Vec<u8>>,
    /// User of its shell; [`EngineConfig::run_as`](crate::EngineConfig::run_as) if `None`.
    pub user: Option<User>,
}

impl SessionSpec {
    /// Options of a session with a generated id.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the id.
    #[must_use]
    pub fn id(mut self, id: SessionId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the note: bytes of the caller stored with the session.
    #[must_use]
    pub fn note(mut self, note: impl Into<Vec<u8>>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), Some(value.into())));
        self
    }
}

/// Information on a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// Its name.
    pub name: Option<String>,
    /// Time of its creation.
    pub created_at: SystemTime,
    /// Its working directory, if known.
    pub cwd: Option<PathBuf>,
    /// Whether a command is running.
    pub busy: bool,
    /// Number of queued commands.
    pub queued: usize,
    /// Number of restarts of its shell.
    pub restarts: u32,
    /// Whether its last command ended its shell (`exit`, `exec`, `kill -9 $$`), and no command has run in the
    /// restored one yet.
    pub shell_ended: bool,
    /// The note of the caller; see [`SessionSpec::note`].
    pub note: Option<Arc<[u8]>>,
}

/// The engine's state of a session.
#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) id: SessionId,
    pub(super) record: SessionRecord,
    pub(super) created_at: SystemTime,
    pub(super) place: Mutex<Place>,
    pub(super) deleted: AtomicBool,
    /// Held while a killed supervisor is replaced.
    pub(super) reviving: tokio::sync::Mutex<()>,
}

/// The location of a session's record, and its supervisor.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) record: JournalSlot,
    pub(super) link: Option<Arc<SupervisorLink>>,
}

/// A handle on a session: cheap to clone; dropping it has no effect on the session.
#[derive(Debug, Clone)]
pub struct Session {
    pub(super) state: Arc<SessionState>,
    pub(super) engine: Arc<Inner>,
}

impl Session {
    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.state.id
    }

    /// Its name.
    pub fn name(&self) -> Option<&str> {
        self.state.record.name.as_deref()
    }

    /// Time of its creation.
    pub fn created_at(&self) -> SystemTime {
        self.state.created_at
    }

    /// The note of the caller; see [`SessionSpec::note`].
    pub fn note(&self) -> Option<Arc<[u8]>> {
        self.state.record.note.as_ref().map(|note| Arc::clone(&note.0))
    }

    fn gone(&self) -> StartError {
        StartError::SessionGone(self.state.id.clone())
    }

    /// Its supervisor, if it is alive.
    fn live_link(&self) -> Result<Option<Arc<SupervisorLink>>, StartError> {
        if self.state.deleted.load(Ordering::Acquire) {
            return Err(self.gone());
        }
        Ok(lock(&self.state.place).link.clone().filter(|link| !link.is_hung_up()))
    }

    /// Its supervisor. If that was killed, a new one with the last saved state.
    async fn link(&self) -> Result<Arc<SupervisorLink>, StartError> {
        self.check_user()?;
        match self.live_link()? {
            Some(link) => Ok(link),
            None => self.engine.revive(&self.state).await,
        }
    }

    async fn call(&self, request: &Request) -> Result<Response, StartError> {
        let link = self.link().await?;
        let mut answer = link.call(request).await;
        if matches!(answer, Ok(Response::Refused(Refusal::LimitsLowered))) {
            self.replace(&link).await?;
            answer = self.link().await?.call(request).await;
        }
        let answer = match answer {
            Ok(Response::Refused(why)) => {
                Err(StartError::refused(why, "", self.state.cwd_or(&self.engine.config.cwd)))
            }
            Ok(answer) => Ok(answer),
            Err(LinkError::Gone) => Err(StartError::Lost),
            Err(LinkError::Busy) => Err(StartError::QueueFull),
        };
        answer.map_err(|e| self.unless_deleted(e))
    }

    /// Replaces an error with `SessionGone` if the session was deleted meanwhile.
    fn unless_deleted(&self, e: StartError) -> StartError {
        match e {
            StartError::Lost | StartError::NoShell(_) if self.state.deleted.load(Ordering::Acquire) => {
                self.gone()
            }
            e => e,
        }
    }

    /// Queues a command. The commands of a session run one at a time, in the order of these calls.
    pub async fn start(&self, spec: CommandSpec) -> Result<Execution, StartError> {
        self.user_of(&spec)?;
        // The shell already runs as that user.
        let spec = CommandSpec { user: None, ..spec };
        let context = StartContext { session: Some(&self.state.id), ..StartContext::default() };
        let mut is_replaced = false;
        loop {
            let link = self.link().await.map_err(|e| self.engine.explain(e))?;
            match self.engine.start_on(&link, &spec, context).await {
                Err(StartError::LimitsLowered) if !is_replaced => self.replace(&link).await?,
                started => return started.map_err(|e| self.engine.explain(self.unless_deleted(e))),
            }
            is_replaced = true;
        }
    }

    /// Ends a supervisor whose limits a command has lowered, so that the session gets another one, with its current
    /// state if possible. Not called while a command runs, which would end too.
    async fn replace(&self, link: &Arc<SupervisorLink>) -> Result<(), StartError> {
        let (engine, state, link) = (Arc::clone(&self.engine), Arc::clone(&self.state), Arc::clone(link));
        let replaced = self.engine.complete(async move {
            let _alone = state.reviving.lock().await;
            if link.is_hung_up() || state.deleted.load(Ordering::Acquire) {
                return Ok(());
            }
            let found = link.call(&Request::Inspect(u32::MAX)).await;
            if matches!(found, Ok(Response::Inspected(found)) if found.busy) {
                return Err(StartError::LimitsLowered);
            }
            engine.limits_lowered(link.nonce);
            if let Ok(Response::Snapshot(Some(Bytes(text)))) = link.call(&Request::Snapshot).await {
                let record = lock(&state.place).record;
                let folder = &engine.state.folders.snapshots;
                let mut file = SnapshotFile::resume(folder, record.slot.0, record.salt);
                // If this fails, the last saved state is used.
                drop(file.write(folder, &text, Duration::ZERO));
            }
            drop(link.call(&Request::Quit).await);
            // It does not reply any more; this returns when it has exited.
            drop(link.call(&Request::Inspect(u32::MAX)).await);
            Ok(())
        });
        replaced.await.unwrap_or(Err(StartError::Lost))
    }

    /// Runs a command and waits for its end. Its output is bounded as in [`crate::Engine::run`].
    pub async fn run(&self, spec: CommandSpec) -> Result<Outcome, StartError> {
        Outcome::of(self.start(spec).await?).await
    }

    /// Starts a process from the state that the session has when the request reaches the head of the queue. The
    /// session continues at once, and the process cannot change it.
    pub async fn start_process(&self, spec: CommandSpec) -> Result<Execution, StartError> {
        self.try_start_process(spec).await.map_err(|e| self.engine.explain(e))
    }

    async fn try_start_process(&self, spec: CommandSpec) -> Result<Execution, StartError> {
        let snapshot = self.snapshot().await?;
        let spec = spec.background();
        let context =
            StartContext { session: Some(&self.state.id), prelude: Some(&snapshot), terminal: None };
        self.start_from_state(spec, context).await
    }

    /// Starts a command with the state of this session, which ends with the session if that is its policy.
    async fn start_from_state(
        &self,
        spec: CommandSpec,
        context: StartContext<'_>,
    ) -> Result<Execution, StartError> {
        let spec = CommandSpec { user: self.user_of(&spec)?, ..spec };
        let execution = self.engine.start_alone(&spec, context).await?;
        let ends = execution.tracked.fixed.on_session_end == SessionEndPolicy::Kill;
        if ends && self.state.deleted.load(Ordering::Acquire) {
            // It did not exist yet when the others were ended.
            drop(execution.kill(libc::SIGKILL, Duration::ZERO).await);
            return Err(self.gone());
        }
        Ok(execution)
    }

    /// Starts a terminal from the state of this session.
    pub(super) async fn start_terminal(
        &self,
        spec: CommandSpec,
        terminal: &TerminalRecord,
    ) -> Result<Execution, StartError> {
        let snapshot = self.snapshot().await?;
        let context = StartContext {
            session: Some(&self.state.id),
            prelude: Some(&snapshot),
            terminal: Some(terminal),
        };
        self.start_from_state(spec, context).await
    }

    /// Refuses a session whose user this engine does not allow: a session of an earlier engine that ran commands as
    /// its own user, if this engine has a `run_as` user.
    fn check_user(&self) -> Result<(), StartError> {
        let Some(user) = self.engine.session_user(&self.state.record) else { return Ok(()) };
        self.engine.check_user(&user).map_err(|refused| match refused {
            StartError::UserNotAllowed(why) => StartError::UserNotAllowed(format!(
                "session {} was created by an earlier server: {why}; delete it and create another",
                self.state.id
            )),
            other => other,
        })
    }

    /// The user of its shell; `None` for the engine's own user.
    pub fn user(&self) -> Option<&User> {
        self.state.record.user.as_ref()
    }

    /// The user of one of its commands, which must be that of the session.
    fn user_of(&self, spec: &CommandSpec) -> Result<Option<User>, StartError> {
        let own = self.engine.session_user(&self.state.record);
        if spec.user.as_ref().is_some_and(|user| {
            own.as_ref().map_or(!user.is_own() || user.is_own_in_other_groups(), |own| own != user)
        }) {
            let why = "a session's commands run as the user of the session; create one with that user";
            return Err(StartError::InvalidCommand(why.into()));
        }
        Ok(own)
    }

    async fn snapshot(&self) -> Result<Vec<u8>, StartError> {
        match self.call(&Request::Snapshot).await? {
            Response::Snapshot(Some(Bytes(text))) => Ok(text),
            _ => Err(self.unless_deleted(StartError::NoShell("the shell did not send its state".into()))),
        }
    }

    /// Ends the running command and everything it started. The shell, its state and leftovers of earlier commands
    /// stay.
    pub async fn interrupt(&self, signal: i32, grace: Duration) -> Result<KillReceipt, ControlError> {
        check_signal(signal)?;
        let link = self.live_link().map_err(|_| ControlError::SessionGone(self.state.id.clone()))?;
        // Without a supervisor no command runs.
        let Some(link) = link else {
            return Ok(KillReceipt::default());
        };
        match link.call(&Request::Interrupt { signal, grace }).await {
            Ok(Response::Receipt(receipt)) => Ok(receipt),
            Ok(Response::Refused(why)) => Err(ControlError::refused(why)),
            Err(LinkError::Busy) => Err(ControlError::Busy),
            Ok(_) | Err(LinkError::Gone) => Err(ControlError::Ended),
        }
    }

    /// Creates a new session with the same state. A reset returns it to that state.
    pub async fn fork(&self, id: Option<SessionId>) -> Result<Self, SessionError> {
        let snapshot = self.snapshot().await?;
        let record = &self.state.record;
        let note = record.note.as_ref().map(|note| note.0.to_vec());
        let env =
            record.env.iter().map(|v| (v.name.clone().into(), v.value.clone().map(Into::into))).collect();
        // A directory that was removed since must not prevent the fork.
        let cwd =
            record.cwd.clone().map(|path| PathBuf::from(OsString::from(path))).filter(|path| path.is_dir());
        let user = record.user.clone();
        let spec = SessionSpec { id, name: record.name.clone(), env, cwd, note, user };
        self.engine.create_session(spec, Some(snapshot)).await
    }

    /// Starts a new shell, with or without the state of the old one. A running command ends.
    pub async fn reset(&self, restore: bool) -> Result<(), StartError> {
        self.call(&Request::Reset(restore)).await.map(drop)
    }

    /// Changes the environment of the session's shell, in queue order.
    pub async fn set_env(&self, changes: &[(OsString, Option<OsString>)]) -> Result<(), StartError> {
        super::validate::shell_variables(changes)?;
        self.call(&Request::SetEnv(variables(changes))).await.map(drop)
    }

    /// Its working directory. Restores a session whose supervisor was killed. `None` if its shell has ended.
    pub async fn cwd(&self) -> Result<Option<PathBuf>, StartError> {
        match self.call(&Request::Inspect(u32::MAX)).await? {
            Response::Inspected(found) => Ok(found.cwd.map(|path| PathBuf::from(OsString::from(path)))),
            _ => Ok(None),
        }
    }

    /// Returns information on it.
    pub async fn info(&self) -> Result<SessionInfo, SessionError> {
        let not_found = || SessionError::NotFound(self.state.id.clone());
        let mut info = SessionInfo {
            id: self.state.id.clone(),
            name: self.state.record.name.clone(),
            created_at: self.state.created_at,
            cwd: None,
            busy: false,
            queued: 0,
            restarts: 0,
            shell_ended: false,
            note: self.note(),
        };
        // A session whose supervisor was killed has no such information until the next command restores it.
        if let Some(link) = self.live_link().map_err(|_| not_found())?
            && let Ok(Response::Inspected(found)) = link.call(&Request::Inspect(u32::MAX)).await
        {
            info.cwd = found.cwd.map(|path| PathBuf::from(OsString::from(path)));
            info.busy = found.busy;
            info.queued = found.queued as usize;
            info.restarts = found.restarts;
            info.shell_ended = found.shell_ended == Some(true);
        }
        Ok(info)
    }

    /// Deletes the session and everything that runs in it. Its id is free when this returns.
    pub async fn delete(&self) -> Result<KillReceipt, SessionError> {
        self.engine.delete_session(&self.state).await
    }
}

impl SessionState {
    /// The nonce of its current or last supervisor.
    pub(super) fn supervisor_of(&self, place: &Place) -> u64 {
        place.link.as_ref().map_or(self.record.nonce, |link| link.nonce)
    }

    fn cwd_or(&self, default: &std::path::Path) -> PathBuf {
        let own = self.record.cwd.clone();
        own.map_or_else(|| default.to_owned(), |path| PathBuf::from(OsString::from(path)))
    }
}
