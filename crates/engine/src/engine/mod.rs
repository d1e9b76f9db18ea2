//! The engine: starts, finds and adopts executions and sessions.
//!
//! - [`Engine`]: this file; `start.rs`: the start of an execution.
//! - `execution.rs`, `session.rs`, `terminal.rs`: the handles; `session_life.rs`: creation, restore and deletion of sessions;
//!   `output.rs`, `reader.rs`, `outcome.rs`: reading output.
//! - `link.rs`: the connection to a supervisor; `slow_replies.rs`: slow replies; `pool.rs`: ready supervisors;
//!   `zygote.rs`: the process that forks them.
//! - `adopt.rs`: adopting the work of an earlier engine; `recover.rs`: a supervisor whose connection broke;
//!   `sweep.rs`: ending the processes of a killed supervisor; `stop.rs`: ending everything.
//! - `life_cycle/`: the state of an execution from its claim to the removal of its record; `events.rs`: notifying
//!   watchers.
//! - `metrics.rs`, `ports.rs`: resource usage and ports of live processes.
//! - `state_dir.rs`, `config.rs`, `error.rs`, `validate.rs`: the state directory, settings, errors and validation.

mod adopt;
mod config;
mod error;
mod events;
mod execution;
mod follower;
mod health;
mod life_cycle;
mod link;
mod metrics;
mod outcome;
mod output;
mod pool;
mod ports;
mod reader;
mod recover;
mod saved_screen;
mod session;
mod session_life;
mod slow_replies;
mod start;
mod state_dir;
mod stop;
mod sweep;
mod tasks;
mod terminal;
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
pub use error::{ControlError, InputError, OpenError, ReadError, SessionError, StartError, TerminalError};
pub use events::{EngineEvent, EventStream, MAX_UNREAD_EVENTS};
pub use execution::{DEFAULT_GRACE, Execution, ExecutionInfo, Inspection, Status};
pub use follower::{Entry, Event, Follower, MAX_ENTRY_BYTES};
pub use health::{Health, LOW_DISK_BYTES, Problem};
pub use life_cycle::ReaderRole;
pub use metrics::TreeMetrics;
pub use outcome::{OUTCOME_BYTES, Outcome};
pub use output::{Output, ReadAt, Stream, StreamOutput};
pub use ports::ListeningPort;
pub use reader::{OutputReader, StreamPlan};
pub use saved_screen::{SavedScreen, ScreenSource};
pub use session::{Session, SessionInfo, SessionSpec};
pub use stop::StopSummary;
pub use terminal::{CreatedTerminal, DEFAULT_TERM, InputTurn, KeysGuard, Terminal, TerminalSpec};

use crate::command::{CommandSpec, MAX_SHOWN_COMMAND_BYTES};
use crate::id::{ExecutionId, SessionId};
use crate::journal::{JournalReader, JournalSlot, JournalStore};
use crate::process_tree::CgroupChoice;
use crate::protocol::{Bytes, Capabilities, CgroupSetting, DriverChoice, Request, Settings, variables};
use crate::record::ExecutionRecord;
use crate::user::{User, UserError};
use events::Events;
use health::Incidents;
use life_cycle::{Cleanup, Table, Tracked, Unretired};
use link::lock;
use pool::Pool;
use recover::Recoveries;
use session::SessionState;
use slow_replies::SlowReplies;
use start::StartContext;
use state_dir::StateDir;
use tasks::Tasks;
use terminal::TerminalCreations;
use zygote::Zygote;

/// The result of a task that runs to completion even if its caller stops waiting.
type TaskOf<T> = tokio::sync::oneshot::Receiver<T>;

/// The sessions of an engine.
#[derive(Debug, Default)]
struct Registry {
    sessions: HashMap<SessionId, Arc<SessionState>>,
    /// Ids of sessions that are being created.
    creating: HashSet<SessionId>,
}

/// The shared state behind all handles of an engine.
struct Inner {
    // First, so that links and the supervisors' lifeline are dropped before the lock of the state directory.
    tasks: Tasks,
    zygote: Arc<Zygote>,
    config: EngineConfig,
    store: Mutex<JournalStore>,
    executions: Mutex<Table>,
    registry: Mutex<Registry>,
    terminal_creations: TerminalCreations,
    pool: Pool,
    recoveries: Recoveries,
    incidents: Incidents,
    slow_replies: Arc<SlowReplies>,
    events: Events,
    capabilities: Capabilities,
    /// The current environment that commands start from.
    env: Mutex<Vec<(OsString, OsString)>>,
    /// Held during a change of `env`.
    env_change: tokio::sync::Mutex<()>,
    cleanup: Cleanup,
    unretired: Unretired,
    state: StateDir,
}

impl std::fmt::Debug for Inner {
    /// Omits the environment, which may contain secrets, and the running commands.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("state_dir", &self.state.path).finish_non_exhaustive()
    }
}

/// Runs commands and sessions. This is a handle that is cheap to clone. The engine closes when the last handle of it,
/// its executions and its sessions is dropped. Its executions continue, and the next engine on the same state
/// directory adopts them.
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
        temporary: config.temporary.as_ref().map(|directory| directory.as_os_str().into()),
    }
}

/// Maximum number of open files that an engine requests. A hard limit may be much higher, and with it the kernel's
/// descriptor tables.
pub const MAX_OPEN_FILES: u64 = 1 << 20;

/// Raises this process's limit of open files, up to the hard limit and [`MAX_OPEN_FILES`], because a session needs a
/// descriptor. Returns the previous limit, which commands get.
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
    /// Opens a state directory. Creates it if it does not exist, and adopts the executions in it.
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
            terminal_creations: TerminalCreations::default(),
            pool: Pool::default(),
            recoveries: Recoveries::default(),
            incidents: Incidents::default(),
            slow_replies: Arc::default(),
            events: Events::default(),
            capabilities,
            cleanup: Cleanup::default(),
            unretired: Unretired::default(),
            tasks: Tasks::default(),
            zygote: Arc::new(zygote),
        });
        inner.tasks.spawn(Arc::clone(&inner.slow_replies).watch());
        inner.adopt(found).await?;
        inner.refill();
        inner.start_retention();
        Ok(Self { inner })
    }

    /// Starts a command without a session. Returns when it runs, or an error if it cannot.
    pub async fn start(&self, spec: CommandSpec) -> Result<Execution, StartError> {
        validate::command(&spec)?;
        if let Some(user) = &spec.user {
            self.inner.check_user(user)?;
        }
        if let Some(same) = self.inner.find_same(&spec)? {
            same.wait_started().await?;
            return Ok(same);
        }
        self.inner.start_alone(&spec, StartContext::default()).await.map_err(|e| self.inner.explain(e))
    }

    /// Runs a command without a session and waits for its end.
    pub async fn run(&self, spec: CommandSpec) -> Result<Outcome, StartError> {
        Outcome::of(self.start(spec).await?).await
    }

    /// Finds the execution that a command with the same id and digest was started as, if its record exists. Starts
    /// nothing.
    pub fn find_started(&self, spec: &CommandSpec) -> Result<Option<Execution>, StartError> {
        self.inner.find_same(spec)
    }

    /// The execution with this id.
    pub fn execution(&self, id: &ExecutionId) -> Option<Execution> {
        let tracked = lock(&self.inner.executions).get(id).cloned()?;
        Some(Execution { tracked, engine: Arc::clone(&self.inner) })
    }

    /// All executions that have a record, oldest first.
    pub fn executions(&self) -> Vec<Execution> {
        self.inner.find(|_| true)
    }

    /// All executions that have not ended, oldest first.
    pub fn running(&self) -> Vec<Execution> {
        self.inner.unfinished()
    }

    /// Removes the record of an execution that has ended, and its output from the disk.
    pub fn forget(&self, id: &ExecutionId) -> Result<(), ControlError> {
        self.inner.forget(id)
    }

    /// Removes the records of all finished background processes and ended terminals. If the disk of the state directory is nearly full,
    /// also removes those of all other finished executions. Keeps records that a client reads or waits for. Returns
    /// the number of removed records.
    pub fn remove_finished(&self) -> usize {
        self.inner.remove_finished()
    }

    /// Creates a session.
    pub async fn create_session(&self, spec: SessionSpec) -> Result<Session, SessionError> {
        self.inner.create_session(spec, None).await
    }

    /// The session with this id.
    pub fn session(&self, id: &SessionId) -> Option<Session> {
        let state = lock(&self.inner.registry).sessions.get(id).cloned()?;
        Some(Session { state, engine: Arc::clone(&self.inner) })
    }

    /// All sessions, oldest first.
    pub fn sessions(&self) -> Vec<Session> {
        let states: Vec<_> = lock(&self.inner.registry).sessions.values().cloned().collect();
        let mut sessions: Vec<_> =
            states.into_iter().map(|state| Session { state, engine: Arc::clone(&self.inner) }).collect();
        sessions.sort_by_key(|session| session.state.created_at);
        sessions
    }

    /// Changes the environment of later commands and sessions. Its total size is limited to
    /// [`MAX_ENV_BYTES`](crate::MAX_ENV_BYTES).
    pub async fn set_env(&self, changes: &[(OsString, Option<OsString>)]) -> Result<(), StartError> {
        validate::env(changes)?;
        let inner = Arc::clone(&self.inner);
        let changes = variables(changes);
        let done = self.inner.complete(async move {
            // Changes are serialized.
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

    /// Ends all executions and sessions concurrently: `signal` first, SIGKILL after `grace` for processes that still
    /// run and for leftovers. Deletes sessions. When it returns, every execution has its end on disk. Executions
    /// started meanwhile may be missed.
    pub async fn stop_all(&self, signal: i32, grace: Duration) -> StopSummary {
        self.inner.stop_all(signal, grace).await
    }

    /// A stream of events of executions and sessions from now on. To get a complete picture, list them after this
    /// call.
    pub fn events(&self) -> EventStream {
        self.inner.events.subscribe()
    }

    /// Finds a user like [`User::find`], without blocking the caller.
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

    /// The current environment that commands start from. Values may be secrets.
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
        // An execution and its link reference each other; this closes the connections of running executions.
        let executions = self.executions.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        for tracked in executions.all() {
            *lock(&tracked.link) = None;
        }
    }
}

impl Inner {
    /// Refuses a user that a request may not name.
    fn check_user(&self, user: &User) -> Result<(), StartError> {
        validate::user(user, self.config.run_as.as_ref())
    }

    /// The executions for which `holds` is true, oldest first.
    fn find(self: &Arc<Self>, holds: impl Fn(&Tracked) -> bool) -> Vec<Execution> {
        let mut found: Vec<_> = lock(&self.executions).all().filter(|t| holds(t)).cloned().collect();
        found.sort_by_key(|tracked| tracked.fixed.created_at);
        found.into_iter().map(|tracked| Execution { tracked, engine: Arc::clone(self) }).collect()
    }

    fn unfinished(self: &Arc<Self>) -> Vec<Execution> {
        self.find(|tracked| tracked.end().is_none())
    }

    /// Replaces an error with `StateDirMissing` if the state directory is missing, which is then the cause.
    fn explain(&self, error: StartError) -> StartError {
        match error {
            StartError::Os { .. } | StartError::Lost | StartError::OutOf { .. }
                if !self.state.dir.state().is_there =>
            {
                StartError::StateDirMissing
            }
            error => error,
        }
    }

    fn reader(&self, journal: JournalSlot) -> Result<JournalReader, ReadError> {
        Ok(lock(&self.store).reader(journal)?)
    }
}

/// The program of a command, for display.
fn program_of(record: &ExecutionRecord) -> String {
    match record.command.first() {
        Some(word) if record.is_argv => shown(std::slice::from_ref(word)),
        _ => "bash".into(),
    }
}

/// The command, for display.
fn display_of(record: &ExecutionRecord) -> String {
    shown(&record.command)
}

/// Words for display, truncated: the text stays in memory as long as the record exists.
fn shown(words: &[Bytes]) -> String {
    const CUT: char = '…';
    let mut text = String::new();
    for (index, Bytes(word)) in words.iter().enumerate() {
        if index > 0 {
            text.push(' ');
        }
        // A character that this splits is beyond the limit.
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
