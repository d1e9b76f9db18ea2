//! The engine side: creates, finds, adopts after a restart.
//!
//! - [`Engine`]: this file; `start.rs`: how an execution comes to be.
//! - `execution.rs`, `session.rs`: the handles; `session_life.rs`: how a session is made, brought back and deleted; `output.rs`, `reader.rs`, `outcome.rs`: reading what
//!   was written.
//! - `link.rs`: a connection to a supervisor; `patience.rs`: answers that take long; `pool.rs`: supervisors kept ready; `zygote.rs`: where
//!   they come from.
//! - `adopt.rs`: taking over from an earlier engine; `recover.rs`: a supervisor whose connection is over; `sweep.rs`: cleaning up after a killed supervisor;
//!   `stop.rs`: ending everything.
//! - `life_cycle/`: the state of an execution from its claim to the end of its record; `events.rs`: telling watchers.
//! - `state_dir.rs`, `config.rs`, `error.rs`, `validate.rs`: what the names say.

mod adopt;
mod config;
mod error;
mod events;
mod execution;
mod health;
mod life_cycle;
mod link;
mod outcome;
mod output;
mod patience;
mod pool;
mod reader;
mod recover;
mod session;
mod session_life;
mod start;
mod state_dir;
mod stop;
mod sweep;
mod tasks;
mod validate;
mod zygote;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use config::{
    CgroupUse, DEFAULT_RETENTION_GRACE, EngineConfig, MAX_RECORDS_IN_GRACE, Retention, ShellDriver,
    SupervisorProgram,
};
pub use error::{ControlError, OpenError, ReadError, SessionError, StartError};
pub use events::{EngineEvent, EventStream, MAX_UNREAD_EVENTS};
pub use execution::{DEFAULT_GRACE, Execution, ExecutionInfo, Inspection, Status};
pub use health::{Health, LOW_DISK_BYTES, Problem};
pub use life_cycle::ReaderRole;
pub use outcome::{OUTCOME_BYTES, Outcome};
pub use output::{Entry, Event, Follower, MAX_ENTRY_BYTES, Output, ReadAt, Stream, StreamOutput};
pub use reader::{OutputReader, StreamPlan};
pub use session::{Session, SessionInfo, SessionSpec};
pub use stop::StopSummary;

use crate::command::{CommandSpec, MAX_SHOWN_COMMAND_BYTES};
use crate::id::{ExecutionId, SessionId};
use crate::journal::{Claimed, JournalReader, JournalStore};
use crate::process_tree::CgroupChoice;
use crate::protocol::{Bytes, Capabilities, CgroupSetting, DriverChoice, Request, Settings, variables};
use crate::record::ExecutionRecord;
use crate::user::{User, UserError};
use events::Events;
use health::Incidents;
use life_cycle::{Cleanup, Table, Tracked};
use link::lock;
use patience::Patience;
use pool::Pool;
use recover::Recoveries;
use session::SessionState;
use state_dir::StateDir;
use tasks::Tasks;
use zygote::Zygote;

/// What a task that is completed regardless gives back.
type TaskOf<T> = tokio::sync::oneshot::Receiver<T>;

/// The sessions of an engine.
#[derive(Debug, Default)]
struct Registry {
    sessions: HashMap<SessionId, Arc<SessionState>>,
    /// Ids of sessions that are being made.
    creating: HashSet<SessionId>,
}

/// The engine behind its handles.
struct Inner {
    // First, so that links and the supervisors' lifeline go before the lock of the state directory.
    tasks: Tasks,
    zygote: Arc<Zygote>,
    config: EngineConfig,
    store: Mutex<JournalStore>,
    executions: Mutex<Table>,
    registry: Mutex<Registry>,
    pool: Pool,
    recoveries: Recoveries,
    incidents: Incidents,
    patience: Arc<Patience>,
    events: Events,
    capabilities: Capabilities,
    /// The environment that commands start from, as it is now.
    env: Mutex<Vec<(OsString, OsString)>>,
    /// Held while it changes.
    env_change: tokio::sync::Mutex<()>,
    cleanup: Cleanup,
    state: StateDir,
}

impl std::fmt::Debug for Inner {
    /// Not the environment, which may hold secrets, and not what others run.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("state_dir", &self.state.path).finish_non_exhaustive()
    }
}

/// Runs commands and keeps sessions. A handle: cheap to clone; the engine closes when the last handle
/// of it, of its executions and of its sessions is dropped. What it runs goes on, and the next engine
/// on the same state directory takes it over.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

fn settings(config: &EngineConfig, env: &[(OsString, OsString)], key: Option<&Bytes>) -> Settings {
    let env: Vec<_> = env.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
    Settings {
        env: variables(&env),
        cwd: config.cwd.as_os_str().into(),
        driver: match config.shell_driver {
            ShellDriver::Auto => DriverChoice::Auto,
            ShellDriver::Loaded => DriverChoice::Loaded,
            ShellDriver::Portable => DriverChoice::Portable,
        },
        cgroups: match config.cgroups {
            CgroupUse::Auto => CgroupSetting::Auto,
            CgroupUse::Off => CgroupSetting::Off,
            CgroupUse::V1 => CgroupSetting::V1,
            CgroupUse::V2 => CgroupSetting::V2,
        },
        open_files: raise_open_files(),
        user: config.run_as.clone(),
        key: key.cloned(),
    }
}

/// The most open files that an engine asks for. A hard limit may be many times as high, and the kernel's tables of
/// descriptors would be, too.
pub const MAX_OPEN_FILES: u64 = 1 << 20;

/// Raises this process's limit of open files, up to the hard limit and [`MAX_OPEN_FILES`]: a session costs a descriptor. Returns
/// what it was, which is what commands get.
fn raise_open_files() -> Option<u64> {
    use crate::sys::{Resource, limit, set_limit};
    static BEFORE: std::sync::OnceLock<Option<u64>> = std::sync::OnceLock::new();
    *BEFORE.get_or_init(|| {
        let (soft, hard) = limit(None, Resource::OpenFiles).ok()?;
        set_limit(None, Resource::OpenFiles, soft.max(hard.min(MAX_OPEN_FILES)), hard).ok()?;
        Some(soft)
    })
}

impl From<CgroupUse> for CgroupChoice {
    fn from(choice: CgroupUse) -> Self {
        match choice {
            CgroupUse::Auto => Self::Auto,
            CgroupUse::Off => Self::Off,
            CgroupUse::V1 => Self::V1,
            CgroupUse::V2 => Self::V2,
        }
    }
}

impl Engine {
    /// Opens a state directory: makes it if it is not there, adopts what lives in it if it is.
    pub async fn open(config: EngineConfig) -> Result<Self, OpenError> {
        validate::run_as(&config)?;
        let state = StateDir::open(&config.state_dir)?;
        let journals = state.path.join(crate::layout::JOURNALS);
        let (store, found) = JournalStore::open(&journals).map_err(|e| OpenError::Journals(e.to_string()))?;
        let settings = settings(&config, &config.env, state.key.as_ref());
        let (zygote, capabilities) = Zygote::start(&config.supervisor, &state.path, settings).await?;
        let inner = Arc::new(Inner {
            env: Mutex::new(config.env.clone()),
            env_change: tokio::sync::Mutex::default(),
            config,
            state,
            store: Mutex::new(store),
            executions: Mutex::default(),
            registry: Mutex::default(),
            pool: Pool::default(),
            recoveries: Recoveries::default(),
            incidents: Incidents::default(),
            patience: Arc::default(),
            events: Events::default(),
            capabilities,
            cleanup: Cleanup::default(),
            tasks: Tasks::default(),
            zygote: Arc::new(zygote),
        });
        inner.tasks.spawn(Arc::clone(&inner.patience).watch());
        inner.adopt(found).await;
        inner.refill();
        inner.start_retention();
        Ok(Self { inner })
    }

    /// Starts a command without a session; returns when it runs, or with the reason why it does not.
    pub async fn start(&self, spec: CommandSpec) -> Result<Execution, StartError> {
        validate::command(&spec)?;
        if let Some(user) = &spec.user {
            self.inner.check_user(user)?;
        }
        if let Some(same) = self.inner.find_same(&spec)? {
            same.wait_started().await?;
            return Ok(same);
        }
        self.inner.start_alone(&spec, None, None).await.map_err(|e| self.inner.explain(e))
    }

    /// Runs a command without a session and waits for its end.
    pub async fn run(&self, spec: CommandSpec) -> Result<Outcome, StartError> {
        Outcome::of(self.start(spec).await?).await
    }

    /// The execution that a command with the same id and digest was started as, if its record is there. Starts nothing.
    pub fn find_started(&self, spec: &CommandSpec) -> Result<Option<Execution>, StartError> {
        self.inner.find_same(spec)
    }

    /// The execution with this id.
    pub fn execution(&self, id: &ExecutionId) -> Option<Execution> {
        let tracked = lock(&self.inner.executions).get(id).cloned()?;
        Some(Execution { tracked, engine: Arc::clone(&self.inner) })
    }

    /// Every execution there is a record of, oldest first.
    pub fn executions(&self) -> Vec<Execution> {
        self.inner.find(|_| true)
    }

    /// Every execution that has not ended, oldest first.
    pub fn running(&self) -> Vec<Execution> {
        self.inner.unfinished()
    }

    /// Removes the record of an execution that has ended.
    pub fn forget(&self, id: &ExecutionId) -> Result<(), ControlError> {
        self.inner.forget(id)
    }

    /// Removes the records of all background processes that have ended; on a state directory whose disk is nearly full,
    /// those of all other executions that have ended too. What a client reads or waits for stays. Returns how many went.
    pub fn remove_finished(&self) -> usize {
        self.inner.remove_finished()
    }

    /// Makes a session.
    pub async fn create_session(&self, spec: SessionSpec) -> Result<Session, SessionError> {
        self.inner.create_session(spec, None).await
    }

    /// The session with this id.
    pub fn session(&self, id: &SessionId) -> Option<Session> {
        let state = lock(&self.inner.registry).sessions.get(id).cloned()?;
        Some(Session { state, engine: Arc::clone(&self.inner) })
    }

    /// Every session, oldest first.
    pub fn sessions(&self) -> Vec<Session> {
        let states: Vec<_> = lock(&self.inner.registry).sessions.values().cloned().collect();
        let mut sessions: Vec<_> =
            states.into_iter().map(|state| Session { state, engine: Arc::clone(&self.inner) }).collect();
        sessions.sort_by_key(|session| session.state.created_at);
        sessions
    }

    /// Changes the environment that commands and sessions start from, from now on. All of it together may have
    /// [`MAX_ENV_BYTES`](crate::MAX_ENV_BYTES).
    pub async fn set_env(&self, changes: &[(OsString, Option<OsString>)]) -> Result<(), StartError> {
        validate::env(changes)?;
        let inner = Arc::clone(&self.inner);
        let changes = variables(changes);
        let done = self.inner.complete(async move {
            // Each change starts from the one before.
            let _alone = inner.env_change.lock().await;
            let env = crate::supervisor::context::apply(lock(&inner.env).clone(), &changes);
            validate::whole_env(&env)?;
            let set = inner.zygote.configure(settings(&inner.config, &env, inner.state.key.as_ref())).await;
            set.map_err(|e| StartError::os("change the environment", e))?;
            *lock(&inner.env) = env;
            for link in inner.pool.clear() {
                drop(link.request(&Request::Quit));
            }
            inner.refill();
            Ok(())
        });
        done.await.unwrap_or(Err(StartError::Lost))
    }

    /// Ends every execution and every session, all at once: `signal` for what runs, SIGKILL after `grace` for what
    /// is still there and for what ended commands have left. Sessions are deleted. When it returns, every execution has
    /// its end on disk; whatever is started meanwhile may not have been seen.
    pub async fn stop_all(&self, signal: i32, grace: Duration) -> StopSummary {
        self.inner.stop_all(signal, grace).await
    }

    /// What happens to executions and sessions from now on. Whoever wants to know all of them looks at what there
    /// is after this.
    pub fn events(&self) -> EventStream {
        self.inner.events.subscribe()
    }

    /// Finds a user by name, user id, or `UID:GID`, as [`User::find`] does, without blocking the caller.
    pub async fn find_user(&self, text: &str) -> Result<User, UserError> {
        let (text, found) = (text.to_owned(), Arc::new(Mutex::new(None)));
        let place = Arc::clone(&found);
        tasks::blocking({
            let text = text.clone();
            move || *lock(&place) = Some(User::find(&text))
        })
        .await;
        let found = lock(&found).take();
        found.unwrap_or(Err(UserError::NotFound(text)))
    }

    /// The environment that commands start from, as it is now. Values may be secrets.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        lock(&self.inner.env).clone()
    }

    /// The state directory.
    pub fn state_dir(&self) -> &Path {
        &self.inner.state.path
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // An execution and its link hold each other; without this the connections of what still runs would stay open.
        let executions = self.executions.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        for tracked in executions.all() {
            *lock(&tracked.link) = None;
        }
    }
}

impl Inner {
    /// Refuses a user as whom a request may not have commands run.
    fn check_user(&self, user: &User) -> Result<(), StartError> {
        validate::user(user, self.config.run_as.as_ref())
    }

    /// The executions for which this holds, oldest first.
    fn find(self: &Arc<Self>, holds: impl Fn(&Tracked) -> bool) -> Vec<Execution> {
        let mut found: Vec<_> = lock(&self.executions).all().filter(|t| holds(t)).cloned().collect();
        found.sort_by_key(|tracked| tracked.fixed.created_at);
        found.into_iter().map(|tracked| Execution { tracked, engine: Arc::clone(self) }).collect()
    }

    fn unfinished(self: &Arc<Self>) -> Vec<Execution> {
        self.find(|tracked| tracked.end().is_none())
    }

    /// Why a start failed: without its state directory all of them do.
    fn explain(&self, error: StartError) -> StartError {
        match error {
            StartError::Os { .. } | StartError::Lost | StartError::OutOf { .. }
                if !self.state.dir.facts().is_there =>
            {
                StartError::StateDirMissing
            }
            error => error,
        }
    }

    fn reader(&self, journal: Claimed) -> Result<JournalReader, ReadError> {
        Ok(lock(&self.store).reader(journal)?)
    }

    /// Gives up a journal, without keeping others from the store meanwhile.
    fn retire(&self, journal: Claimed) {
        let Some(retiring) = lock(&self.store).begin_retiring(journal) else {
            return;
        };
        // What cannot be retired now is found and retired by the next engine.
        let retired = retiring.work(&journal).ok().flatten();
        lock(&self.store).end_retiring(journal, retired);
    }
}

/// The program that a command starts, as people read it.
fn program_of(record: &ExecutionRecord) -> String {
    match record.command.first() {
        Some(word) if record.is_argv => shown(std::slice::from_ref(word)),
        _ => "bash".into(),
    }
}

/// A command as people read it.
fn display_of(record: &ExecutionRecord) -> String {
    shown(&record.command)
}

/// Words as people read them, cut where they become too long: this stays in memory as long as the record is there.
fn shown(words: &[Bytes]) -> String {
    const CUT: char = '…';
    let mut text = String::new();
    for (index, Bytes(word)) in words.iter().enumerate() {
        if index > 0 {
            text.push(' ');
        }
        // A character that this cuts in two lies beyond the limit.
        text.push_str(&String::from_utf8_lossy(&word[..word.len().min(MAX_SHOWN_COMMAND_BYTES + 4)]));
        if text.len() > MAX_SHOWN_COMMAND_BYTES {
            text.truncate(text.floor_char_boundary(MAX_SHOWN_COMMAND_BYTES - CUT.len_utf8()));
            text.push(CUT);
            break;
        }
    }
    text.shrink_to_fit();
    text
}
