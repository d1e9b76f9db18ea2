//! Settings of an engine.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::journal::DEFAULT_JOURNAL_BYTES;
use crate::user::User;

/// The program that becomes the zygote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SupervisorProgram {
    /// This program, executed again; its `main` must call [`crate::init`] first.
    #[default]
    ThisProgram,
    /// Another program whose `main` calls it, such as `sandcrab-supervisor`.
    At(PathBuf),
}

/// The driver of sessions' shells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ShellDriver {
    /// The loaded driver if bash supports it, else the portable one.
    #[default]
    Auto,
    /// The loaded driver, without a probe.
    Loaded,
    /// The portable driver.
    Portable,
}

/// Use of cgroups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CgroupUse {
    /// Any cgroup that is writable.
    #[default]
    Auto,
    /// None.
    Off,
    /// Version 1 only.
    V1,
    /// Version 2 only.
    V2,
}

/// Retention of finished executions. The first limit that is reached applies; the oldest are removed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Maximum age of a finished execution.
    pub max_age: Duration,
    /// Maximum number of finished executions.
    pub max_count: usize,
    /// Maximum size of all journals of finished executions on disk, in bytes. An execution whose journal alone
    /// exceeds it is removed, and no other in its place.
    pub max_total_bytes: u64,
    /// Time for which a record is kept after it was last read or waited for, regardless of the other limits. At most
    /// [`MAX_RECORDS_IN_GRACE`] records over `max_count` are kept for this reason. It is 2 s for records beyond twice
    /// `max_total_bytes`, or beyond it by more than 64 MiB if that is larger.
    pub grace: Duration,
}

/// Default of [`Retention::grace`]. It is longer than the time for which a client tries to resume a stream
/// (`RESUME_WINDOW`, 30 s).
pub const DEFAULT_RETENTION_GRACE: Duration = Duration::from_secs(40);
/// Maximum number of records over `max_count` that are kept because they were just read or waited for.
pub const MAX_RECORDS_IN_GRACE: usize = 256;

impl Default for Retention {
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(24 * 3600),
            max_count: 1_000,
            max_total_bytes: 4 << 30,
            grace: DEFAULT_RETENTION_GRACE,
        }
    }
}

/// Settings of an engine. Created with [`EngineConfig::new`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineConfig {
    /// State directory. It is created with mode 0700 if it does not exist.
    pub state_dir: PathBuf,
    /// The program that becomes the zygote.
    pub supervisor: SupervisorProgram,
    /// Environment of commands. Default: that of the engine, without variables that begin with `SANDCRAB_`.
    pub env: Vec<(OsString, OsString)>,
    /// Default working directory of commands. Default: that of the engine.
    pub cwd: PathBuf,
    /// Default user of commands; `None` for the engine's own user. Only root can set another user.
    pub run_as: Option<User>,
    /// The driver of sessions' shells.
    pub shell_driver: ShellDriver,
    /// Use of cgroups.
    pub cgroups: CgroupUse,
    /// Number of supervisors with a ready shell.
    pub ready_shells: usize,
    /// Default of the maximum journal size on disk, in bytes.
    pub journal_bytes: u64,
    /// Retention of finished executions.
    pub retention: Retention,
    /// Maximum number of unfinished executions.
    pub max_executions: usize,
    /// Maximum number of sessions.
    pub max_sessions: usize,
    /// The directory to remove when the process of the engine has exited, if the state is temporary. It contains the
    /// state directory. Executions then end with the engine, also if its process is killed.
    pub temporary: Option<PathBuf>,
    /// Maximum number of unfinished terminals.
    pub max_terminals: usize,
}

impl EngineConfig {
    /// Creates settings with defaults and this state directory.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        let own = |(name, _): &(OsString, OsString)| !name.to_string_lossy().starts_with("SANDCRAB_");
        Self {
            state_dir: state_dir.into(),
            supervisor: SupervisorProgram::ThisProgram,
            env: std::env::vars_os().filter(own).collect(),
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            run_as: None,
            shell_driver: ShellDriver::Auto,
            cgroups: CgroupUse::Auto,
            ready_shells: 4,
            journal_bytes: DEFAULT_JOURNAL_BYTES,
            retention: Retention::default(),
            max_executions: 10_000,
            max_sessions: 20_000,
            temporary: None,
            max_terminals: 2_000,
        }
    }
    /// Sets the default user of commands, with its `HOME`, `USER`, `LOGNAME` and `SHELL`.
    pub fn run_as(&mut self, user: User) {
        for (name, value) in user.env() {
            self.env.retain(|(other, _)| *other != name);
            self.env.push((name, value));
        }
        self.run_as = Some(user);
    }
}
