//! How an engine is set up.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::journal::DEFAULT_JOURNAL_BYTES;
use crate::user::User;

/// Which program becomes the zygote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SupervisorProgram {
    /// This very program, executed again; its `main` must call [`crate::init`] first.
    #[default]
    ThisProgram,
    /// Another one whose `main` does, such as `sandcrab-supervisor`.
    At(PathBuf),
}

/// How sessions drive bash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ShellDriver {
    /// The loaded driver where bash allows it, else the portable one.
    #[default]
    Auto,
    /// The loaded driver, without trying it first.
    Loaded,
    /// The portable driver.
    Portable,
}

/// Which cgroups are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CgroupUse {
    /// Whatever is there and may be written.
    #[default]
    Auto,
    /// None.
    Off,
    /// Version 1 only.
    V1,
    /// Version 2 only.
    V2,
}

/// How long finished executions are kept. Whatever limit is reached first counts; the oldest go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The longest a finished execution is kept.
    pub max_age: Duration,
    /// The most finished executions that are kept.
    pub max_count: usize,
    /// The most bytes that the journals of finished executions have on disk together. An execution whose journal alone
    /// has more goes by itself, and no other in its place.
    pub max_total_bytes: u64,
    /// How long a record stays after it was last read or waited for, whatever the other limits say. At most
    /// [`MAX_RECORDS_IN_GRACE`] records over `max_count` stay for this.
    pub grace: Duration,
}

/// How long a record stays after it was last read or waited for, unless the configuration says otherwise. Longer than a
/// client tries to resume a stream that broke off (`RESUME_WINDOW`, 30 s).
pub const DEFAULT_RETENTION_GRACE: Duration = Duration::from_secs(40);
/// The most records over `max_count` that stay because they were just read or waited for.
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

/// How an engine is set up. Made with [`EngineConfig::new`], then refined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineConfig {
    /// Where everything is kept. It is made, for this user alone, if it is not there.
    pub state_dir: PathBuf,
    /// Which program becomes the zygote.
    pub supervisor: SupervisorProgram,
    /// The environment that every command starts from. By default the engine's own, without what
    /// starts with `SANDCRAB_`.
    pub env: Vec<(OsString, OsString)>,
    /// Where commands run that do not say. By default the engine's own working directory.
    pub cwd: PathBuf,
    /// As whom commands run that name no user; `None` for the engine's own user. Only root can name another.
    pub run_as: Option<User>,
    /// How sessions drive bash.
    pub shell_driver: ShellDriver,
    /// Which cgroups are used.
    pub cgroups: CgroupUse,
    /// How many supervisors with a shell are kept ready.
    pub ready_shells: usize,
    /// The most bytes a journal keeps on disk, unless the command says otherwise.
    pub journal_bytes: u64,
    /// How long finished executions are kept.
    pub retention: Retention,
    /// The most executions that may be unfinished at a time.
    pub max_executions: usize,
    /// The most sessions there may be at a time.
    pub max_sessions: usize,
}

impl EngineConfig {
    /// The defaults, with this state directory.
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
        }
    }
    /// Has commands run as this user, with its `HOME`, `USER`, `LOGNAME` and `SHELL`.
    pub fn run_as(&mut self, user: User) {
        for (name, value) in user.env() {
            self.env.retain(|(other, _)| *other != name);
            self.env.push((name, value));
        }
        self.run_as = Some(user);
    }
}
